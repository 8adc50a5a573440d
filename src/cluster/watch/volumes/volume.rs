//! Compiles a PersistentVolume.

use crate::cluster::watch::affinity;
use crate::cluster::watch::error::Fault;
use crate::cluster::watch::pod::labels_of;
use crate::cluster::watch::text::{symbol_of, text_of};
use crate::cluster::watch::volumes::translation::in_tree;
use crate::cluster::watch::volumes::{Identity, class_of, storage_of, symbols, value_of, wire};
use crate::cluster::watch::wire::items;
use crate::cluster::{ClaimRef, CsiVolume, PersistentVolume};
use crate::ids::Symbol;

/// Says that a claim was bound to the volume by a controller or the scheduler, not by a person.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

pub(super) fn compile(
    id: &Identity,
    meta: &wire::Meta<'_>,
    volume: &wire::Volume<'_>,
) -> Result<PersistentVolume, Fault> {
    let none = wire::VolumeSpec::default();
    let spec = volume.spec.as_ref().unwrap_or(&none);
    let status = volume.status.as_ref();
    let required = spec
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|selector| items(&selector.node_selector_terms));
    Ok(PersistentVolume {
        name: id.name.clone(),
        uid: id.uid.clone(),
        resource_version: id.resource_version.clone(),
        labels: labels_of(meta.labels.as_ref()),
        class: class_of(meta, &spec.storage_class_name),
        capacity: storage_of(spec.capacity.as_ref(), "spec.capacity")?.unwrap_or_default(),
        access_modes: symbols(items(&spec.access_modes)),
        block: text_of(&spec.volume_mode) == "Block",
        attributes_class: symbol_of(&spec.volume_attributes_class_name),
        claim_ref: spec.claim_ref.as_ref().map(|to| ClaimRef {
            namespace: Symbol::new(text_of(&to.namespace)),
            name: text_of(&to.name).into(),
            uid: text_of(&to.uid).into(),
        }),
        available: status.is_some_and(|status| text_of(&status.phase) == "Available"),
        terminating: meta.deletion_timestamp.is_some(),
        bound_by_controller: value_of(meta.annotations.as_ref(), BOUND_BY_CONTROLLER).is_some(),
        node_affinity: terms.map(|terms| terms.iter().map(affinity::term).collect()),
        csi: spec.csi.as_ref().map(|csi| CsiVolume {
            driver: Symbol::new(text_of(&csi.driver)),
            handle: text_of(&csi.volume_handle).into(),
        }),
        in_tree: in_tree(meta, spec, terms),
    })
}
