//! What is known of one node: its object, compiled, and its use.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::{Labels, NodeNetwork, Taint};
use crate::ids::{DomainIdx, Incarnation, NodeIdx, Symbol};
use crate::ledger::{Capacity, NodeUse};

/// An image that a node has, under one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    /// The name as the node reports it.
    pub name: Symbol,
    /// Bytes.
    pub size: i64,
}

/// A node object, compiled. Immutable: a change of the object makes a new one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeSpec {
    /// The name; `None` never occurs for a node from the API server.
    pub name: Option<Symbol>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// All labels.
    pub labels: Labels,
    /// Taints in the object's order.
    pub taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`.
    pub allocatable: Capacity,
    /// Every name of every image on the node.
    pub images: Box<[Image]>,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Box<[Symbol]>,
    /// Type and status of each condition, sorted by type: only to see changes.
    pub conditions: SmallVec<[(Symbol, Symbol); 4]>,
    /// What it offers of the network.
    pub network: NodeNetwork,
    /// Hash of the annotations, to see changes.
    pub annotations_hash: u64,
}

/// A node as plugins see it.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its slot.
    pub idx: NodeIdx,
    /// Its name.
    pub name: Symbol,
    /// Which tenant of the slot it is.
    pub incarnation: Incarnation,
    /// Where it lies in the network.
    pub place: DomainIdx,
    /// The object.
    pub spec: Arc<NodeSpec>,
    /// What is in use, assumed pods included.
    pub used: NodeUse,
}

impl NodeInfo {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: Symbol) -> Option<Symbol> {
        self.spec.labels.get(key)
    }

    /// What it offers.
    #[must_use]
    pub fn allocatable(&self) -> &Capacity {
        &self.spec.allocatable
    }
}
