//! Pieces that queueing hints share.

use crate::cluster::{NodeSpec, PodInfo, VolumeCast};
use crate::framework::{EventObject, QueueingHint};

/// What a hint returns.
pub(super) type Hint = Result<QueueingHint, String>;

/// Queue if `helpful`.
pub(super) fn queue_if(helpful: bool) -> Hint {
    Ok(if helpful {
        QueueingHint::Queue
    } else {
        QueueingHint::QueueSkip
    })
}

/// The pod that went.
///
/// # Errors
/// The event is not about a pod that went.
pub(super) fn deleted_pod(event: &EventObject) -> Result<&PodInfo, String> {
    match event {
        EventObject::Pod { old: Some(old), .. } => Ok(old),
        _ => Err("expected the pod that was deleted".to_owned()),
    }
}

/// A pod after its change.
///
/// # Errors
/// The event is not about a pod that is there.
pub(super) fn changed_pod(event: &EventObject) -> Result<&PodInfo, String> {
    match event {
        EventObject::Pod { new: Some(new), .. } => Ok(new),
        _ => Err("expected the pod that was updated".to_owned()),
    }
}

/// Queue the pod if it is the one that changed.
///
/// # Errors
/// The event is not about a pod that is there.
pub(super) fn after_own_change(pod: &PodInfo, event: &EventObject) -> Hint {
    queue_if(changed_pod(event)?.uid == pod.uid)
}

/// A node before its change, if it was there, and after.
///
/// # Errors
/// The event is not about a node that is there.
pub(super) fn changed_node(event: &EventObject) -> Result<(Option<&NodeSpec>, &NodeSpec), String> {
    match event {
        EventObject::Node { old, new: Some(new) } => Ok((old.as_deref(), new)),
        _ => Err("expected the node that was added or updated".to_owned()),
    }
}

/// A volume object before its change, if it was there, and after.
///
/// # Errors
/// The event is not about an object of this kind that is there.
pub(super) fn changed_volume_object<T: VolumeCast>(event: &EventObject) -> Result<(Option<&T>, &T), String> {
    let EventObject::Volume { old, new: Some(new) } = event else {
        return Err("expected the volume object that was added or updated".to_owned());
    };
    let new = T::cast(new).ok_or_else(|| "expected a volume object of another kind".to_owned())?;
    Ok((old.as_ref().and_then(T::cast), new))
}

/// The volume object that went.
///
/// # Errors
/// The event is not about an object of this kind that went.
pub(super) fn deleted_volume_object<T: VolumeCast>(event: &EventObject) -> Result<&T, String> {
    let EventObject::Volume { old: Some(old), .. } = event else {
        return Err("expected the volume object that was deleted".to_owned());
    };
    T::cast(old).ok_or_else(|| "expected a volume object of another kind".to_owned())
}
