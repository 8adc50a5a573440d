//! A PersistentVolume, compiled.

use crate::cluster::volumes::slot::Versioned;
use crate::cluster::volumes::{CsiNode, InTree, PersistentVolumeClaim};
use crate::cluster::{Labels, NodeSelectorTerm};
use crate::ids::Symbol;
use crate::resources::Quantity;

/// The claim that a volume is bound to, or reserved for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: Symbol,
    /// Its name.
    pub name: Box<str>,
    /// Its UID; empty: any claim of that name.
    pub uid: Box<str>,
}

/// A volume of a CSI driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsiVolume {
    /// The driver's name.
    pub driver: Symbol,
    /// What the driver calls the volume.
    pub handle: Box<str>,
}

/// An in-tree volume as its CSI driver sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// What the driver calls the volume.
    pub handle: Box<str>,
    /// As [`PersistentVolume::node_affinity`], with the driver's topology keys.
    pub node_affinity: Option<Box<[NodeSelectorTerm]>>,
}

/// The source of a volume of a plugin that a CSI driver took over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InTreeVolume {
    /// Which plugin.
    pub plugin: InTree,
    /// The driver's view of it, or why there is none. Only where [`InTree::is_migrated`] it is looked at.
    pub translation: Result<Translation, Box<str>>,
}

/// A PersistentVolume. Immutable: a change of the object makes a new one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PersistentVolume {
    /// Its name.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// All labels.
    pub labels: Labels,
    /// The StorageClass, if it has one.
    pub class: Option<Symbol>,
    /// `spec.capacity[storage]`.
    pub capacity: Quantity,
    /// As the object lists them.
    pub access_modes: Box<[Symbol]>,
    /// `Block`, or else a file system.
    pub block: bool,
    /// The VolumeAttributesClass.
    pub attributes_class: Option<Symbol>,
    /// The claim that it is bound to or reserved for.
    pub claim_ref: Option<ClaimRef>,
    /// Phase `Available`.
    pub available: bool,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// Carries the annotation `pv.kubernetes.io/bound-by-controller`.
    pub bound_by_controller: bool,
    /// The nodes that can reach it: any of the terms must hold; absent: all can.
    pub node_affinity: Option<Box<[NodeSelectorTerm]>>,
    /// Its source, if a CSI driver provides it.
    pub csi: Option<CsiVolume>,
    /// Its source, if it is one that a CSI driver took over.
    pub in_tree: Option<InTreeVolume>,
}

impl Versioned for PersistentVolume {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl PersistentVolume {
    /// Whether it is bound to this claim, or reserved for it.
    ///
    /// Source: `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go` (`IsVolumeBoundToClaim`), Kubernetes
    /// 1.36.
    #[must_use]
    pub fn is_bound_to(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim_ref.as_ref().is_some_and(|to| {
            to.name == claim.name && to.namespace == claim.namespace && (to.uid.is_empty() || to.uid == claim.uid)
        })
    }

    /// The nodes that can reach it, in the words of the node at hand: of the CSI driver where the node says that it
    /// took over.
    ///
    /// # Errors
    /// The driver has taken over and the volume cannot be put in its words.
    pub fn affinity_on(&self, node: Option<&CsiNode>) -> Result<Option<&[NodeSelectorTerm]>, &str> {
        let migrated = self.in_tree.as_ref().filter(|in_tree| {
            in_tree.plugin.is_migrated() && node.is_some_and(|node| node.has_migrated(in_tree.plugin))
        });
        match migrated {
            None => Ok(self.node_affinity.as_deref()),
            Some(in_tree) => match &in_tree.translation {
                Ok(translation) => Ok(translation.node_affinity.as_deref()),
                Err(error) => Err(error),
            },
        }
    }
}

/// Whether a node with these labels can reach a volume of this affinity. The node's name is not looked at.
///
/// Source: `staging/src/k8s.io/component-helpers/storage/volume/helpers.go` (`CheckNodeAffinity`), Kubernetes 1.36.
#[must_use]
pub fn reaches(affinity: Option<&[NodeSelectorTerm]>, labels: &Labels) -> bool {
    affinity.is_none_or(|terms| {
        let no_name = Symbol::new("");
        terms.iter().any(|term| term.matches(no_name, labels))
    })
}
