//! Why the ledger refuses. These are outcomes of a race or of a full node, not faults.
//!
//! Does not: turn them into statuses; the cycle does.

use crate::ids::{DomainIdx, NodeIdx, PoolIdx};
use crate::resources::{HostPort, Resource};

/// What a node did not have enough of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shortage {
    /// An amount.
    Resource(Resource),
    /// A pod slot.
    PodSlot,
    /// A host port that is held already.
    Port(HostPort),
    /// Room on a link.
    Link(DomainIdx),
    /// An address of a pool: the one that was wanted, or any.
    Address(PoolIdx),
}

/// The node has no room: somebody else took it since it was evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conflict {
    /// What was short first.
    pub shortage: Shortage,
    /// The entry's version at that moment.
    pub version: u64,
}

/// Why a reserve was refused. Nothing is charged then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ReserveError {
    /// The room is taken: evaluate again.
    #[error("the node's room was taken")]
    Conflict(Conflict),
    /// The pod is reserved or bound already, or is being so by another worker.
    #[error("the pod is promised already")]
    AlreadyPromised,
    /// That incarnation of the node is gone, or was never seen.
    #[error("the node is gone")]
    NodeGone,
    /// While this call went on, the pod was deleted or seen bound: leave it alone.
    #[error("the pod was deleted or bound meanwhile")]
    Overtaken,
}

/// Why a nomination was refused. Nothing is recorded then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum NominateError {
    /// The node is gone or was never seen.
    #[error("the node is gone")]
    NodeGone,
    /// The node changed since the dry run.
    #[error("the node is at version {version} by now")]
    Moved {
        /// The entry's version.
        version: u64,
    },
    /// The pod is reserved or bound.
    #[error("the pod is promised already")]
    AlreadyPromised,
}

/// What a confirmation did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Confirmed {
    /// A pod that we did not know is counted now.
    Added,
    /// A pod that we had reserved there is bound now; the node's use is the same.
    Flipped,
    /// The pod is counted by its new use or class (perhaps bound with the same step).
    Replaced,
    /// The pod is counted on the new node, and no longer on this one.
    Moved {
        /// Where it was counted before.
        from: NodeIdx,
    },
    /// All was known.
    Unchanged,
    /// Another thread is changing this pod's promise and will do this before it returns.
    Deferred,
}
