//! Compiles a PersistentVolumeClaim.

use crate::cluster::watch::affinity::requirements;
use crate::cluster::watch::error::Fault;
use crate::cluster::watch::text::{symbol_of, text_of};
use crate::cluster::watch::volumes::{Identity, class_of, storage_of, symbols, value_of, wire};
use crate::cluster::watch::wire::{self as pod_wire, items};
use crate::cluster::{LabelSelector, PersistentVolumeClaim, SelectorError};
use crate::ids::{PodUid, Symbol};

/// Says that the volume controller has bound the claim for good.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The node for which the claim's volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub(super) fn compile(
    id: &Identity,
    meta: &wire::Meta<'_>,
    claim: &wire::Claim<'_>,
) -> Result<PersistentVolumeClaim, Fault> {
    let none = wire::ClaimSpec::default();
    let spec = claim.spec.as_ref().unwrap_or(&none);
    let requests = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let annotation = |key| value_of(meta.annotations.as_ref(), key);
    let phase = claim.status.as_ref().map_or("", |status| text_of(&status.phase));
    let volume_name = text_of(&spec.volume_name);
    Ok(PersistentVolumeClaim {
        namespace: id.namespace,
        name: id.name.clone(),
        uid: id.uid.clone(),
        resource_version: id.resource_version.clone(),
        class: class_of(meta, &spec.storage_class_name),
        request: storage_of(requests, "spec.resources.requests")?,
        access_modes: symbols(items(&spec.access_modes)),
        block: text_of(&spec.volume_mode) == "Block",
        attributes_class: symbol_of(&spec.volume_attributes_class_name),
        selector: spec.selector.as_ref().map(selector),
        volume_name: (!volume_name.is_empty()).then(|| volume_name.into()),
        bind_completed: annotation(BIND_COMPLETED).is_some(),
        selected_node: annotation(SELECTED_NODE).map(Symbol::new),
        lost: phase == "Lost",
        terminating: meta.deletion_timestamp.is_some(),
        controller: meta.controller().map(|owner| PodUid::parse(text_of(&owner.uid))),
    })
}

/// A selector that is there.
pub(super) fn selector(raw: &pod_wire::LabelSelector<'_>) -> Result<LabelSelector, SelectorError> {
    let pairs = raw.match_labels.as_ref().map(|pairs| pairs.0.as_slice());
    let labels: Vec<_> = pairs
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    LabelSelector::compile(&labels, &requirements(items(&raw.match_expressions)))
}
