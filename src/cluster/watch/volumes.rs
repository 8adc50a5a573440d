//! Decodes and compiles volume objects: PersistentVolumes, claims, StorageClasses and CSI objects.
//!
//! Source of the fields: `staging/src/k8s.io/api/core/v1/types.go` and `storage/v1/types.go`, Kubernetes 1.36.
//!
//! Children in reading order: `wire` (the objects as JSON has them), `volume` and `translation`, `claim`, `storage`.
//!
//! Does not: keep the objects; see [`crate::cluster::VolumeCatalogue`].

mod claim;
mod storage;
#[cfg(test)]
mod tests;
mod translation;
mod volume;
mod wire;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::Deserialize;

use crate::cluster::watch::error::{DecodeError, Fault};
use crate::cluster::watch::object::{Served, Watched};
use crate::cluster::watch::parse::{identity, parse};
use crate::cluster::watch::text::{Pairs, RawAmounts, Text, quantity, text_of};
use crate::cluster::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
    VolumeKind, VolumeObject,
};
use crate::ids::Symbol;
use crate::resources::Quantity;

/// A kind of volume object that can be watched and kept in the catalogue.
pub trait VolumeResource: Watched + Clone + std::fmt::Debug {
    /// Which kind.
    const VOLUME_KIND: VolumeKind;
    /// As the catalogue keeps it.
    fn into_object(self) -> VolumeObject;
}

/// Declares where a kind is served and how it is compiled.
macro_rules! volume_resource {
    ($type:ty, $variant:ident, $scope:ty, $served:expr, $compile:path) => {
        impl Watched for $type {
            type Scope = $scope;
            const SERVED: Served = $served;

            fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
                decode(Self::SERVED.kind, json, $compile)
            }
        }

        impl VolumeResource for $type {
            const VOLUME_KIND: VolumeKind = VolumeKind::$variant;

            fn into_object(self) -> VolumeObject {
                VolumeObject::$variant(Arc::new(self))
            }
        }
    };
}

volume_resource!(
    PersistentVolume,
    Volume,
    ClusterResourceScope,
    Served::v1("", "persistentvolumes", "PersistentVolume"),
    volume::compile
);
volume_resource!(
    PersistentVolumeClaim,
    Claim,
    NamespaceResourceScope,
    Served::v1("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    claim::compile
);
volume_resource!(
    StorageClass,
    Class,
    ClusterResourceScope,
    Served::v1("storage.k8s.io", "storageclasses", "StorageClass"),
    storage::storage_class
);
volume_resource!(
    CsiNode,
    CsiNode,
    ClusterResourceScope,
    Served::v1("storage.k8s.io", "csinodes", "CSINode"),
    storage::csi_node
);
volume_resource!(
    CsiDriver,
    CsiDriver,
    ClusterResourceScope,
    Served::v1("storage.k8s.io", "csidrivers", "CSIDriver"),
    storage::csi_driver
);
volume_resource!(
    CsiStorageCapacity,
    Capacity,
    NamespaceResourceScope,
    Served::v1("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"),
    storage::capacity
);
volume_resource!(
    VolumeAttachment,
    Attachment,
    ClusterResourceScope,
    Served::v1("storage.k8s.io", "volumeattachments", "VolumeAttachment"),
    storage::attachment
);

/// Decodes a volume object of a known kind from JSON.
///
/// # Errors
/// The JSON has not the shape of the kind, or a field that scheduling reads is wrong.
pub fn decode_volume_object(kind: VolumeKind, json: &str) -> Result<VolumeObject, DecodeError> {
    fn object<T: VolumeResource>(json: &str) -> Result<VolumeObject, DecodeError> {
        T::decode(json).map(|(it, _)| it.into_object())
    }
    match kind {
        VolumeKind::Volume => object::<PersistentVolume>(json),
        VolumeKind::Claim => object::<PersistentVolumeClaim>(json),
        VolumeKind::Class => object::<StorageClass>(json),
        VolumeKind::CsiNode => object::<CsiNode>(json),
        VolumeKind::CsiDriver => object::<CsiDriver>(json),
        VolumeKind::Capacity => object::<CsiStorageCapacity>(json),
        VolumeKind::Attachment => object::<VolumeAttachment>(json),
    }
}

/// The metadata that every kind has.
struct Identity {
    namespace: Symbol,
    name: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
}

impl Identity {
    fn symbol(&self) -> Symbol {
        Symbol::new(&self.name)
    }
}

fn decode<'a, W, T>(
    kind: &'static str,
    json: &'a str,
    compile: fn(&Identity, &wire::Meta<'a>, &W) -> Result<T, Fault>,
) -> Result<(T, ObjectMeta), DecodeError>
where
    W: Deserialize<'a> + wire::Object<'a>,
{
    let object: W = parse(kind, json)?;
    let none = wire::Meta::default();
    let meta = object.metadata().unwrap_or(&none);
    let object_meta = identity(kind, meta)?;
    let (namespace, name) = (text_of(&meta.namespace), text_of(&meta.name));
    let identity = Identity {
        namespace: Symbol::new(namespace),
        name: name.into(),
        uid: text_of(&meta.uid).into(),
        resource_version: text_of(&meta.resource_version).into(),
    };
    let compiled = compile(&identity, meta, &object).map_err(|fault| fault.of(kind, namespace, name))?;
    Ok((compiled, object_meta))
}

/// The storage among some amounts.
fn storage_of(amounts: Option<&RawAmounts<'_>>, path: &str) -> Result<Option<Quantity>, Fault> {
    let pairs = amounts.map(|pairs| pairs.0.as_slice()).unwrap_or_default();
    let Some((_, raw)) = pairs.iter().find(|(name, _)| name.as_str() == "storage") else {
        return Ok(None);
    };
    let amount = quantity(raw).map_err(|message| Fault::new(format!("{path}[storage]"), message))?;
    Ok(Some(amount))
}

/// The text under a key.
fn value_of<'p>(pairs: Option<&'p Pairs<'_, Text<'_>>>, key: &str) -> Option<&'p str> {
    let pairs = pairs.map(|pairs| pairs.0.as_slice()).unwrap_or_default();
    pairs
        .iter()
        .find(|(have, _)| have.as_str() == key)
        .map(|(_, value)| value.as_str())
}

/// The annotation that named a StorageClass before there was a field for it; it still goes before the field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The StorageClass that a volume or a claim names.
fn class_of(meta: &wire::Meta<'_>, field: &Option<Text<'_>>) -> Option<Symbol> {
    let name = value_of(meta.annotations.as_ref(), CLASS_ANNOTATION).unwrap_or_else(|| text_of(field));
    (!name.is_empty()).then(|| Symbol::new(name))
}

fn symbols(list: &[Text<'_>]) -> Box<[Symbol]> {
    list.iter().map(Text::symbol).collect()
}
