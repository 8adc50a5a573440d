//! What the ledger tells the change log, one fact at a time.
//!
//! Does not: keep changes; that is the change log's work ([`crate::cluster`]).

use crate::ids::{ClassId, DomainIdx, Incarnation, NodeIdx, PoolIdx};

/// What kind of thing changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeKind {
    /// A pod that stays on the node uses more or less than before (a resize).
    Usage,
    /// The node's object changed: capacity, labels, taints, conditions.
    Spec,
    /// A pod is counted on the node from now on (reserved or seen bound); its use came with it.
    PodAdded,
    /// A pod is no longer counted on the node; its use went with it.
    PodRemoved,
    /// The node exists from now on, as this incarnation. Pods seen before it may already be counted on it.
    NodeAdded(Incarnation),
    /// This incarnation of the node is gone. Its pods are still counted until each is removed.
    NodeRemoved(Incarnation),
    /// A nomination for the node came or went.
    Nomination,
    /// The labels of a namespace changed.
    NamespaceLabels,
    /// The selector of a Service, ReplicaSet, StatefulSet or ReplicationController changed.
    OwnerSelectors,
    /// A PersistentVolume, claim, StorageClass or CSI object changed.
    Volumes,
    /// On how many nodes an image is changed.
    ImageCounts,
    /// What is promised on a link, or what it carries, changed.
    Link(DomainIdx),
    /// What a pool of addresses has left changed.
    Pool(PoolIdx),
    /// The network's tree, the latencies in it, or who depends on whom changed.
    Network,
    /// The set of live rules that span nodes changed (see [`super::CommitLock`]).
    Rules,
}

/// One change. Of one node, versions rise along the log; a reader that has seen a version skips entries up to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    /// The node it is about; [`Change::NO_NODE`] when it is about none.
    pub node: NodeIdx,
    /// The version of the node's entry that it made; 0 when it is about no node.
    pub version: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The class of the pod concerned, if it is about one.
    pub class: Option<ClassId>,
}

impl Change {
    /// Stands for no node in a change that concerns the whole cluster. No node ever has this index.
    pub const NO_NODE: NodeIdx = NodeIdx(u32::MAX);

    /// A change that is about no single node.
    #[must_use]
    pub const fn global(kind: ChangeKind) -> Self {
        Self {
            node: Self::NO_NODE,
            version: 0,
            kind,
            class: None,
        }
    }

    /// Whether it is about one node.
    #[must_use]
    pub fn concerns_node(&self) -> bool {
        self.node != Self::NO_NODE
    }
}

/// Where changes go. Called under a ledger entry's lock, so it must neither wait long nor call the ledger.
pub trait ChangeSink: Send + Sync {
    /// Appends and gives the sequence number.
    fn append(&self, change: Change) -> u64;
}
