//! Volumes: what is known of PersistentVolumes, their claims, StorageClasses and the CSI objects.
//!
//! [`VolumeCatalogue`] holds the objects, live and readable from any worker. Over what the watches say of volumes and
//! claims lies an overlay of what this scheduler promised and the API server does not know yet; a newer object from the
//! watch takes the promise's place.
//!
//! Writers: the thread that applies what the watches deliver ([`VolumeCatalogue::apply`], [`VolumeCatalogue::remove`]);
//! workers and binding tasks for the overlay.
//!
//! Does not: match claims and volumes (see [`crate::plugins`]), or write to the API server.
//!
//! Children in reading order: `in_tree` (volume plugins that CSI drivers took over), `volume`, `claim`, `storage` (the
//! objects), `object` (any of them), `pod_volume` (what a pod says), `slot` (one object and what is promised of it), `catalogue`.

mod catalogue;
mod claim;
mod in_tree;
mod object;
mod pod_volume;
mod slot;
mod storage;
mod volume;

pub use catalogue::VolumeCatalogue;
pub use claim::PersistentVolumeClaim;
pub use in_tree::InTree;
pub use object::{VolumeCast, VolumeKey, VolumeKind, VolumeObject};
pub use pod_volume::{Disk, InlineDisk, PodVolume};
pub(in crate::cluster) use pod_volume::{UNSPECIFIED_PLACE, gce_handle};
pub use slot::AssumeError;
pub use storage::{
    BindingMode, CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, StorageClass, TopologyTerm, VolumeAttachment,
};
pub use volume::{ClaimRef, CsiVolume, InTreeVolume, PersistentVolume, Translation, reaches};
