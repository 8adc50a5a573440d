//! Which changes may help a pod that was turned away because of its volumes.

use crate::cluster::{CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolumeClaim, PodInfo, PodVolume, StorageClass};
use crate::framework::{ActionType, EventHint, EventObject, EventResource};
use crate::plugins::hints::{Hint, changed_volume_object, deleted_pod, queue_if};

pub(super) fn events() -> Vec<EventHint> {
    let comes_or_changes = ActionType::ADD.or(ActionType::UPDATE);
    let node = ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL);
    vec![
        EventHint::when(EventResource::StorageClass, comes_or_changes, |_, event| class(event)).by_class(),
        EventHint::when(EventResource::PersistentVolumeClaim, comes_or_changes, claim),
        EventHint::always(EventResource::PersistentVolume, comes_or_changes),
        EventHint::always(EventResource::Node, node),
        EventHint::when(EventResource::AssignedPod, ActionType::DELETE, |_, event| {
            released(event)
        })
        .by_class(),
        EventHint::when(EventResource::CsiNode, comes_or_changes, |_, event| csi_node(event)).by_class(),
        EventHint::when(EventResource::CsiDriver, ActionType::UPDATE, csi_driver).by_class(),
        EventHint::when(EventResource::CsiStorageCapacity, comes_or_changes, |_, event| {
            capacity(event)
        })
        .by_class(),
    ]
}

fn class(event: &EventObject) -> Hint {
    let (old, new) = changed_volume_object::<StorageClass>(event)?;
    queue_if(old.is_none_or(|old| old.allowed_topologies != new.allowed_topologies))
}

fn claim(pod: &PodInfo, event: &EventObject) -> Hint {
    let (_, new) = changed_volume_object::<PersistentVolumeClaim>(event)?;
    let mut volumes = pod.spec.volumes.iter();
    queue_if(
        new.namespace == pod.namespace
            && volumes.any(|volume| volume.claim_name(&pod.name).as_deref() == Some(&*new.name)),
    )
}

/// Volumes that were promised to a pod are free again when it gives its node back. The API server knew nothing of the
/// promise, so no change of a volume tells. Not among upstream's events.
fn released(event: &EventObject) -> Hint {
    let mut volumes = deleted_pod(event)?.spec.volumes.iter();
    queue_if(volumes.any(|volume| matches!(volume, PodVolume::Claim(_) | PodVolume::Ephemeral(_))))
}

fn csi_node(event: &EventObject) -> Hint {
    let (old, new) = changed_volume_object::<CsiNode>(event)?;
    queue_if(old.is_none_or(|old| old.migrated_plugins != new.migrated_plugins))
}

fn csi_driver(pod: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_volume_object::<CsiDriver>(event)?;
    let mut volumes = pod.spec.volumes.iter();
    let uses_it = volumes.any(|volume| matches!(volume, PodVolume::Csi(driver) if *driver == new.name));
    queue_if(uses_it && old.is_some_and(|old| old.storage_capacity) && !new.storage_capacity)
}

fn capacity(event: &EventObject) -> Hint {
    let (old, new) = changed_volume_object::<CsiStorageCapacity>(event)?;
    let Some(old) = old else {
        return queue_if(true);
    };
    let grew = match (old.limit(), new.limit()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new.value() > old.value(),
    };
    queue_if(grew)
}
