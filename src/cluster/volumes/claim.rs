//! A PersistentVolumeClaim, compiled.

use crate::cluster::volumes::slot::Versioned;
use crate::cluster::{LabelSelector, SelectorError};
use crate::ids::{PodUid, Symbol};
use crate::resources::Quantity;

/// A PersistentVolumeClaim. Immutable: a change of the object makes a new one.
#[derive(Clone, PartialEq, Debug)]
pub struct PersistentVolumeClaim {
    /// Its namespace.
    pub namespace: Symbol,
    /// Its name.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// The StorageClass, if it names one: by the annotation `volume.beta.kubernetes.io/storage-class` or by its spec.
    pub class: Option<Symbol>,
    /// `spec.resources.requests[storage]`; absent and zero differ.
    pub request: Option<Quantity>,
    /// As the object lists them.
    pub access_modes: Box<[Symbol]>,
    /// `Block`, or else a file system.
    pub block: bool,
    /// The VolumeAttributesClass.
    pub attributes_class: Option<Symbol>,
    /// Which volumes suit it; absent: any.
    pub selector: Option<Result<LabelSelector, SelectorError>>,
    /// `spec.volumeName`, if it is set.
    pub volume_name: Option<Box<str>>,
    /// Carries the annotation `pv.kubernetes.io/bind-completed`.
    pub bind_completed: bool,
    /// The annotation `volume.kubernetes.io/selected-node`; empty when its value is.
    pub selected_node: Option<Symbol>,
    /// Phase `Lost`: its volume is gone.
    pub lost: bool,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// The UID of the object that controls it.
    pub controller: Option<PodUid>,
}

impl Versioned for PersistentVolumeClaim {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl PersistentVolumeClaim {
    /// Whether the volume controller has bound it to a volume for good.
    #[must_use]
    pub const fn is_fully_bound(&self) -> bool {
        self.volume_name.is_some() && self.bind_completed
    }

    /// Whether only one pod may use it.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| mode.as_str() == "ReadWriteOncePod")
    }

    /// What it asks for; nothing when it does not say.
    #[must_use]
    pub fn requested(&self) -> Quantity {
        self.request.unwrap_or_default()
    }

    /// `namespace/name`, for messages.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
