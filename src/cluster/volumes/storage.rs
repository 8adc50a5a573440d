//! StorageClasses and CSI objects, compiled.

use crate::cluster::volumes::InTree;
use crate::cluster::{LabelSelector, Labels, Requirement};
use crate::ids::Symbol;
use crate::resources::Quantity;

/// When a claim is bound to a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingMode {
    /// As soon as it exists.
    Immediate,
    /// Once a pod that uses it is given a node.
    WaitForFirstConsumer,
}

/// One of a class's allowed topologies: all of its requirements must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyTerm {
    /// The requirements; absent: one of them is wrong, or there is none. Such a term matches nothing.
    pub requirements: Option<Box<[Requirement]>>,
}

/// A StorageClass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageClass {
    /// Its name.
    pub name: Symbol,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// Who makes its volumes; absent when empty.
    pub provisioner: Option<Symbol>,
    /// When claims are bound; absent: it does not say.
    pub binding_mode: Option<BindingMode>,
    /// Where volumes can be made: any of the terms must hold; none: everywhere.
    pub allowed_topologies: Box<[TopologyTerm]>,
}

impl StorageClass {
    /// Whether a volume can be made for a node with these labels.
    ///
    /// Source: `pkg/apis/core/v1/helper/helpers.go` (`MatchTopologySelectorTerms`), Kubernetes 1.36.
    #[must_use]
    pub fn allows(&self, labels: &Labels) -> bool {
        let matches = |term: &TopologyTerm| {
            let requirements = term.requirements.as_deref();
            requirements.is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
        };
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().any(matches)
    }
}

/// A CSI driver on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsiNodeDriver {
    /// Its name.
    pub name: Symbol,
    /// How many volumes it can attach to the node; absent: any number.
    pub limit: Option<i32>,
}

/// A CSINode: the CSI drivers on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsiNode {
    /// The node's name.
    pub name: Symbol,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// The annotation `storage.alpha.kubernetes.io/migrated-plugins`: names with commas between.
    pub migrated_plugins: Box<str>,
    /// Its drivers.
    pub drivers: Box<[CsiNodeDriver]>,
}

impl CsiNode {
    /// Whether the node says that a CSI driver took over from the plugin.
    #[must_use]
    pub fn has_migrated(&self, plugin: InTree) -> bool {
        self.migrated_plugins
            .split(',')
            .any(|name| name == plugin.plugin_name())
    }

    /// A driver's entry.
    #[must_use]
    pub fn driver(&self, name: Symbol) -> Option<&CsiNodeDriver> {
        self.drivers.iter().find(|driver| driver.name == name)
    }
}

/// A CSIDriver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsiDriver {
    /// Its name.
    pub name: Symbol,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// It publishes what capacity is left.
    pub storage_capacity: bool,
    /// Pods that need it must not go to nodes without it.
    pub prevent_scheduling_if_missing: bool,
}

/// A CSIStorageCapacity: what is left of a class in a part of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsiStorageCapacity {
    /// Its namespace.
    pub namespace: Symbol,
    /// Its name.
    pub name: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// The StorageClass.
    pub class: Symbol,
    /// Labels of the nodes that can reach it; nothing when absent or wrong.
    pub nodes: LabelSelector,
    /// What is left.
    pub capacity: Option<Quantity>,
    /// The largest volume that can be made.
    pub maximum: Option<Quantity>,
}

impl CsiStorageCapacity {
    /// The largest volume that can be made, as far as is known.
    #[must_use]
    pub const fn limit(&self) -> Option<Quantity> {
        match self.maximum {
            Some(maximum) => Some(maximum),
            None => self.capacity,
        }
    }
}

/// A VolumeAttachment: a volume that is, or is to be, attached to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeAttachment {
    /// Its name.
    pub name: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// The CSI driver that attaches it; absent when empty.
    pub attacher: Option<Symbol>,
    /// The node.
    pub node: Symbol,
    /// The PersistentVolume; absent: a volume that stands in the attachment itself.
    pub volume_name: Option<Box<str>>,
}
