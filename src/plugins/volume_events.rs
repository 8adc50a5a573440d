//! Volume objects in events, for queueing hints.

use std::sync::Arc;

use crate::cluster::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, VolumeObject};
use crate::framework::EventObject;

/// An object before its change, if it was there, and after.
type Change<'a, T> = (Option<&'a T>, &'a T);

/// A volume object of the kind that `of` picks, before its change and after.
fn changed_object<'a, T>(
    event: &'a EventObject,
    kind: &str,
    of: fn(&'a VolumeObject) -> Option<&'a Arc<T>>,
) -> Result<Change<'a, T>, String> {
    match event {
        EventObject::Volume { old, new: Some(new) } => {
            let before = old.as_ref().and_then(of).map(|old| &**old);
            of(new).map(|new| (before, &**new))
        }
        _ => None,
    }
    .ok_or_else(|| format!("expected the {kind} that was added or updated"))
}

/// A claim before its change, if it was there, and after.
///
/// # Errors
/// The event is not about a claim that is there.
pub(super) fn changed_claim(event: &EventObject) -> Result<Change<'_, PersistentVolumeClaim>, String> {
    changed_object(event, "claim", |object| match object {
        VolumeObject::Claim(claim) => Some(claim),
        _ => None,
    })
}

/// A volume before its change, if it was there, and after.
///
/// # Errors
/// The event is not about a volume that is there.
pub(super) fn changed_volume(event: &EventObject) -> Result<Change<'_, PersistentVolume>, String> {
    changed_object(event, "volume", |object| match object {
        VolumeObject::Volume(volume) => Some(volume),
        _ => None,
    })
}

/// A StorageClass before its change, if it was there, and after.
///
/// # Errors
/// The event is not about a StorageClass that is there.
pub(super) fn changed_class(event: &EventObject) -> Result<Change<'_, StorageClass>, String> {
    changed_object(event, "StorageClass", |object| match object {
        VolumeObject::Class(class) => Some(class),
        _ => None,
    })
}

/// A CSINode before its change, if it was there, and after.
///
/// # Errors
/// The event is not about a CSINode that is there.
pub(super) fn changed_csi_node(event: &EventObject) -> Result<Change<'_, CsiNode>, String> {
    changed_object(event, "CSINode", |object| match object {
        VolumeObject::CsiNode(node) => Some(node),
        _ => None,
    })
}

/// The VolumeAttachment that went.
///
/// # Errors
/// The event is not about one that went.
pub(super) fn deleted_attachment(event: &EventObject) -> Result<&VolumeAttachment, String> {
    match event {
        EventObject::Volume {
            old: Some(VolumeObject::Attachment(attachment)),
            ..
        } => Ok(attachment),
        _ => Err("expected the VolumeAttachment that was deleted".to_owned()),
    }
}
