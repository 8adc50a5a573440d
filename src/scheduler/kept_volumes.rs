//! Volume objects as kept kinds: into the catalogue, and an event for pods that wait.

use super::kept::{Kept, ObjectKey, Told};
use crate::cluster::watch::VolumeResource;
use crate::cluster::{
    Cluster, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment, VolumeKey, VolumeKind, VolumeObject,
};
use crate::framework::{ActionType, ClusterEvent, EventObject, EventResource};
use crate::ids::Symbol;

macro_rules! kept {
    ($($type:ty),+ $(,)?) => {
        $(impl Kept for $type {
            fn put(self, cluster: &Cluster) -> Option<Told> {
                put(self.into_object(), cluster)
            }

            fn forget(cluster: &Cluster, key: &ObjectKey) -> Option<Told> {
                forget(<$type>::VOLUME_KIND, cluster, key)
            }

            fn keys(cluster: &Cluster) -> Vec<ObjectKey> {
                keys(<$type>::VOLUME_KIND, cluster)
            }
        })+
    };
}

kept!(
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
);

const fn resource(kind: VolumeKind) -> EventResource {
    match kind {
        VolumeKind::Volume => EventResource::PersistentVolume,
        VolumeKind::Claim => EventResource::PersistentVolumeClaim,
        VolumeKind::Class => EventResource::StorageClass,
        VolumeKind::CsiNode => EventResource::CsiNode,
        VolumeKind::CsiDriver => EventResource::CsiDriver,
        VolumeKind::Capacity => EventResource::CsiStorageCapacity,
        VolumeKind::Attachment => EventResource::VolumeAttachment,
    }
}

fn put(object: VolumeObject, cluster: &Cluster) -> Option<Told> {
    let kind = object.kind();
    let old = cluster.volumes.apply(object.clone());
    let action = match &old {
        None => ActionType::ADD,
        // A list shows what is known already.
        Some(old) if old.resource_version() == object.resource_version() => return None,
        Some(_) => ActionType::UPDATE,
    };
    let event = ClusterEvent::new(resource(kind), action);
    Some(Some((event, EventObject::Volume { old, new: Some(object) })))
}

fn forget(kind: VolumeKind, cluster: &Cluster, (namespace, name): &ObjectKey) -> Option<Told> {
    let key = VolumeKey {
        kind,
        namespace: (!namespace.as_str().is_empty()).then_some(*namespace),
        name: name.clone(),
    };
    let old = cluster.volumes.remove(&key)?;
    let event = ClusterEvent::new(resource(kind), ActionType::DELETE);
    Some(Some((
        event,
        EventObject::Volume {
            old: Some(old),
            new: None,
        },
    )))
}

fn keys(kind: VolumeKind, cluster: &Cluster) -> Vec<ObjectKey> {
    let keys = cluster.volumes.keys(kind).into_iter();
    keys.map(|key| (key.namespace.unwrap_or_else(|| Symbol::new("")), key.name))
        .collect()
}
