//! `VolumeZone`: a pod runs in the zones and regions that the labels of its volumes name.
//!
//! Does not: look at the volumes' node affinity (that is VolumeBinding's), or at generic ephemeral volumes.
//!
//! Source: `pkg/scheduler/framework/plugins/volumezone` and `staging/src/k8s.io/cloud-provider/volume/helpers/zones.go`,
//! Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

use crate::cluster::{
    BindingMode, ClusterView, Labels, NodeInfo, PersistentVolume, PersistentVolumeClaim, PodInfo, StorageClass,
};
use crate::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, Plugin, PreFilter, PreFilterOutcome, Reads,
    Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{changed_volume_object, queue_if};
use crate::plugins::volume_use::{claims_named, missing};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("VolumeZone"));
static CONFLICT: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) had no available volume zone"));
static NO_CLAIM_NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("PersistentVolumeClaim had no name"));
static NO_CLASS_NAME: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("PersistentVolumeClaim had no pv name and storageClass name"));
static NO_VOLUME_NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("PersistentVolume had no name"));

/// The labels that count, in the order in which they are looked at, each with the one that a node may have instead.
static LABELS: LazyLock<[(Symbol, Symbol); 4]> = LazyLock::new(|| {
    let [zone, region] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"].map(Symbol::new);
    [
        (Symbol::new("failure-domain.beta.kubernetes.io/zone"), zone),
        (Symbol::new("failure-domain.beta.kubernetes.io/region"), region),
        (zone, zone),
        (region, region),
    ]
});

/// Stands between the zones of a volume that is in several.
const SEPARATOR: &str = "__";

/// The plugin.
pub(super) struct VolumeZone;

/// A label of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Topology {
    key: Symbol,
    /// Looked at where a node does not have `key`.
    instead: Symbol,
    values: SmallVec<[Symbol; 2]>,
}

/// The labels of all volumes of a pod.
#[derive(Clone, Debug)]
struct PodTopologies(Arc<[Topology]>);

/// The labels of a volume that count. One with an empty value between separators is left out.
fn topologies(volume: &PersistentVolume) -> impl Iterator<Item = Topology> {
    LABELS.iter().filter_map(|(key, instead)| {
        let text = volume.labels.get(*key)?.as_str();
        let mut values: SmallVec<[Symbol; 2]> = text.split(SEPARATOR).map(|value| Symbol::new(value.trim())).collect();
        values.sort_unstable();
        values.dedup();
        let is_valid = values.iter().all(|value| !value.as_str().is_empty());
        is_valid.then_some(Topology {
            key: *key,
            instead: *instead,
            values,
        })
    })
}

/// The labels of all volumes of the pod's claims.
fn topologies_of(cluster: &ClusterView<'_>, pod: &PodInfo) -> Result<Vec<Topology>, Status> {
    let mut found = Vec::new();
    for name in claims_named(&pod.spec) {
        if let Some(volume) = volume_of(cluster, pod.namespace, name)? {
            found.extend(topologies(&volume));
        }
    }
    Ok(found)
}

/// The volume that a claim is bound to; `None`: it will be bound once the pod has a node.
fn volume_of(
    cluster: &ClusterView<'_>,
    namespace: Symbol,
    name: &str,
) -> Result<Option<Arc<PersistentVolume>>, Status> {
    if name.is_empty() {
        return Err(Status::unresolvable(*NO_CLAIM_NAME));
    }
    let claim = cluster.volumes.seen_claim(namespace, name);
    let claim = claim.ok_or_else(|| missing("persistentvolumeclaim", name))?;
    if let Some(name) = &claim.volume_name {
        let volume = cluster.volumes.seen_volume(name);
        return volume.map(Some).ok_or_else(|| missing("persistentvolume", name));
    }
    let Some(class) = claim.class else {
        return Err(Status::unresolvable(*NO_CLASS_NAME));
    };
    let found = cluster.volumes.storage_class(class);
    let found = found.ok_or_else(|| missing("storageclass.storage.k8s.io", class.as_str()))?;
    match found.binding_mode {
        Some(BindingMode::WaitForFirstConsumer) => Ok(None),
        Some(BindingMode::Immediate) => Err(Status::unresolvable(*NO_VOLUME_NAME)),
        None => Err(Status::unresolvable(format!(
            "VolumeBindingMode not set for StorageClass {:?}",
            class.as_str()
        ))),
    }
}

fn check(topologies: &[Topology], labels: &Labels) -> Status {
    if LABELS.iter().all(|(key, _)| labels.get(*key).is_none()) {
        return Status::SUCCESS;
    }
    let suits = |wanted: &Topology| {
        let value = labels.get(wanted.key).or_else(|| labels.get(wanted.instead));
        value.is_some_and(|value| wanted.values.contains(&value))
    };
    if topologies.iter().all(suits) {
        Status::SUCCESS
    } else {
        Status::unresolvable(*CONFLICT)
    }
}

impl Plugin for VolumeZone {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let class_added = |_: &PodInfo, event: &_| {
            let (_, class): (_, &StorageClass) = changed_volume_object(event)?;
            queue_if(class.binding_mode == Some(BindingMode::WaitForFirstConsumer))
        };
        let claim_changed = |pod: &PodInfo, event: &_| {
            let (_, claim): (_, &PersistentVolumeClaim) = changed_volume_object(event)?;
            let is_named = claims_named(&pod.spec).any(|name| name == &*claim.name);
            queue_if(claim.namespace == pod.namespace && is_named)
        };
        let volume_changed = |_: &PodInfo, event: &_| {
            let (old, new) = changed_volume_object(event)?;
            queue_if(old.is_none_or(|old| !topologies(old).eq(topologies(new))))
        };
        let add_or_update = ActionType::ADD.or(ActionType::UPDATE);
        Some(vec![
            EventHint::when(EventResource::StorageClass, ActionType::ADD, class_added).by_class(),
            EventHint::always(EventResource::Node, ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL)),
            EventHint::when(EventResource::PersistentVolumeClaim, add_or_update, claim_changed).by_class(),
            EventHint::when(EventResource::PersistentVolume, add_or_update, volume_changed).by_class(),
        ])
    }

    fn applies_to(&self, pod: &PodInfo) -> bool {
        claims_named(&pod.spec).next().is_some()
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl PreFilter for VolumeZone {
    fn pre_filter_reads(&self) -> Reads {
        Reads::VOLUMES
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        match topologies_of(cluster, pod) {
            Err(status) => status.into(),
            Ok(none) if none.is_empty() => Status::SKIP.into(),
            Ok(found) => {
                state.write(PodTopologies(found.into()));
                Status::SUCCESS.into()
            }
        }
    }
}

impl Filter for VolumeZone {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::VOLUMES)
    }

    fn filter_node(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        match state.read::<PodTopologies>() {
            Some(wanted) => check(&wanted.0, &node.spec.labels),
            // A profile may leave this plugin's PreFilter out.
            None => match topologies_of(cluster, pod) {
                Ok(wanted) => check(&wanted, &node.spec.labels),
                Err(status) => status,
            },
        }
    }
}

#[cfg(test)]
mod tests;
