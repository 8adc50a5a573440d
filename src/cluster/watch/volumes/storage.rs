//! Compiles StorageClasses and CSI objects.

use serde_json::value::RawValue;

use crate::cluster::watch::affinity::requirements;
use crate::cluster::watch::error::Fault;
use crate::cluster::watch::text::{quantity, symbol_of, text_of};
use crate::cluster::watch::volumes::claim::selector;
use crate::cluster::watch::volumes::{Identity, value_of, wire};
use crate::cluster::watch::wire::items;
use crate::cluster::{
    BindingMode, CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, LabelSelector, Requirement, StorageClass,
    TopologyTerm, VolumeAttachment,
};
use crate::ids::Symbol;
use crate::resources::Quantity;

/// The in-tree plugins from which CSI drivers took over on the node.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

pub(super) fn storage_class(id: &Identity, _: &wire::Meta<'_>, class: &wire::Class<'_>) -> Result<StorageClass, Fault> {
    Ok(StorageClass {
        name: id.symbol(),
        resource_version: id.resource_version.clone(),
        provisioner: symbol_of(&class.provisioner),
        binding_mode: match text_of(&class.volume_binding_mode) {
            "" => None,
            "WaitForFirstConsumer" => Some(BindingMode::WaitForFirstConsumer),
            _ => Some(BindingMode::Immediate),
        },
        allowed_topologies: items(&class.allowed_topologies).iter().map(topology_term).collect(),
    })
}

fn topology_term(term: &wire::TopologyTerm<'_>) -> TopologyTerm {
    let raw = requirements(items(&term.match_label_expressions));
    let compiled = raw
        .iter()
        .map(|(key, _, values)| Requirement::compile(key, "In", values));
    let compiled: Option<Box<[Requirement]>> = compiled.collect::<Result<_, _>>().ok();
    TopologyTerm {
        requirements: compiled.filter(|requirements| !requirements.is_empty()),
    }
}

pub(super) fn csi_node(id: &Identity, meta: &wire::Meta<'_>, node: &wire::CsiNode<'_>) -> Result<CsiNode, Fault> {
    let drivers = node.spec.as_ref().map(|spec| items(&spec.drivers)).unwrap_or_default();
    let driver = |driver: &wire::NodeDriver<'_>| CsiNodeDriver {
        name: Symbol::new(text_of(&driver.name)),
        limit: driver.allocatable.as_ref().and_then(|allocatable| allocatable.count),
    };
    Ok(CsiNode {
        name: id.symbol(),
        resource_version: id.resource_version.clone(),
        migrated_plugins: value_of(meta.annotations.as_ref(), MIGRATED_PLUGINS)
            .unwrap_or_default()
            .into(),
        drivers: drivers.iter().map(driver).collect(),
    })
}

pub(super) fn csi_driver(id: &Identity, _: &wire::Meta<'_>, driver: &wire::CsiDriver<'_>) -> Result<CsiDriver, Fault> {
    let spec = driver.spec.as_ref();
    Ok(CsiDriver {
        name: id.symbol(),
        resource_version: id.resource_version.clone(),
        storage_capacity: spec.is_some_and(|spec| spec.storage_capacity == Some(true)),
        prevent_scheduling_if_missing: spec.is_some_and(|spec| spec.prevent_pod_scheduling_if_missing == Some(true)),
    })
}

pub(super) fn capacity(
    id: &Identity,
    _: &wire::Meta<'_>,
    capacity: &wire::Capacity<'_>,
) -> Result<CsiStorageCapacity, Fault> {
    let nodes = capacity.node_topology.as_ref().map(selector);
    Ok(CsiStorageCapacity {
        namespace: id.namespace,
        name: id.name.clone(),
        resource_version: id.resource_version.clone(),
        class: Symbol::new(text_of(&capacity.storage_class_name)),
        nodes: nodes.and_then(Result::ok).unwrap_or(LabelSelector::Nothing),
        capacity: amount(capacity.capacity, "capacity")?,
        maximum: amount(capacity.maximum_volume_size, "maximumVolumeSize")?,
    })
}

fn amount(raw: Option<&RawValue>, path: &str) -> Result<Option<Quantity>, Fault> {
    raw.map(|raw| quantity(raw).map_err(|message| Fault::new(path, message)))
        .transpose()
}

pub(super) fn attachment(
    id: &Identity,
    _: &wire::Meta<'_>,
    attachment: &wire::Attachment<'_>,
) -> Result<VolumeAttachment, Fault> {
    let none = wire::AttachmentSpec::default();
    let spec = attachment.spec.as_ref().unwrap_or(&none);
    let volume = spec
        .source
        .as_ref()
        .and_then(|source| source.persistent_volume_name.as_ref());
    Ok(VolumeAttachment {
        name: id.name.clone(),
        resource_version: id.resource_version.clone(),
        attacher: symbol_of(&spec.attacher),
        node: Symbol::new(text_of(&spec.node_name)),
        volume_name: volume.map(|name| name.as_str().into()),
    })
}
