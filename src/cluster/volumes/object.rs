//! A volume object of any kind, as events and the catalogue carry it.

use std::sync::Arc;

use crate::cluster::volumes::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::ids::Symbol;

/// Kinds of volume objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VolumeKind {
    /// PersistentVolume.
    Volume,
    /// PersistentVolumeClaim.
    Claim,
    /// StorageClass.
    Class,
    /// CSINode.
    CsiNode,
    /// CSIDriver.
    CsiDriver,
    /// CSIStorageCapacity.
    Capacity,
    /// VolumeAttachment.
    Attachment,
}

/// An object's kind and name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VolumeKey {
    /// The kind.
    pub kind: VolumeKind,
    /// The namespace, of kinds that have one.
    pub namespace: Option<Symbol>,
    /// The name.
    pub name: Box<str>,
}

/// A volume object of any kind.
#[derive(Clone, Debug)]
pub enum VolumeObject {
    /// PersistentVolume.
    Volume(Arc<PersistentVolume>),
    /// PersistentVolumeClaim.
    Claim(Arc<PersistentVolumeClaim>),
    /// StorageClass.
    Class(Arc<StorageClass>),
    /// CSINode.
    CsiNode(Arc<CsiNode>),
    /// CSIDriver.
    CsiDriver(Arc<CsiDriver>),
    /// CSIStorageCapacity.
    Capacity(Arc<CsiStorageCapacity>),
    /// VolumeAttachment.
    Attachment(Arc<VolumeAttachment>),
}

impl VolumeObject {
    /// Its kind and name.
    #[must_use]
    pub fn key(&self) -> VolumeKey {
        let (namespace, name) = match self {
            Self::Volume(it) => (None, &*it.name),
            Self::Claim(it) => (Some(it.namespace), &*it.name),
            Self::Class(it) => (None, it.name.as_str()),
            Self::CsiNode(it) => (None, it.name.as_str()),
            Self::CsiDriver(it) => (None, it.name.as_str()),
            Self::Capacity(it) => (Some(it.namespace), &*it.name),
            Self::Attachment(it) => (None, &*it.name),
        };
        VolumeKey {
            kind: self.kind(),
            namespace,
            name: name.into(),
        }
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> VolumeKind {
        match self {
            Self::Volume(_) => VolumeKind::Volume,
            Self::Claim(_) => VolumeKind::Claim,
            Self::Class(_) => VolumeKind::Class,
            Self::CsiNode(_) => VolumeKind::CsiNode,
            Self::CsiDriver(_) => VolumeKind::CsiDriver,
            Self::Capacity(_) => VolumeKind::Capacity,
            Self::Attachment(_) => VolumeKind::Attachment,
        }
    }

    /// `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        match self {
            Self::Volume(it) => &it.resource_version,
            Self::Claim(it) => &it.resource_version,
            Self::Class(it) => &it.resource_version,
            Self::CsiNode(it) => &it.resource_version,
            Self::CsiDriver(it) => &it.resource_version,
            Self::Capacity(it) => &it.resource_version,
            Self::Attachment(it) => &it.resource_version,
        }
    }
}

/// A kind of object in a [`VolumeObject`].
pub trait VolumeCast: Sized {
    /// The object, if it is of this kind.
    fn cast(object: &VolumeObject) -> Option<&Self>;
}

macro_rules! cast {
    ($($variant:ident => $type:ty),+ $(,)?) => {
        $(impl VolumeCast for $type {
            fn cast(object: &VolumeObject) -> Option<&Self> {
                match object {
                    VolumeObject::$variant(it) => Some(it),
                    _ => None,
                }
            }
        })+
    };
}

cast!(
    Volume => PersistentVolume,
    Claim => PersistentVolumeClaim,
    Class => StorageClass,
    CsiNode => CsiNode,
    CsiDriver => CsiDriver,
    Capacity => CsiStorageCapacity,
    Attachment => VolumeAttachment,
);
