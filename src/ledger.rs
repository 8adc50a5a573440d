//! The ledger: what is used and promised on every node, and the only place where that changes.
//!
//! It answers one question under a node's lock: *is this room still free, and if so it is yours*. Views that the
//! workers evaluate on are made from it and may be old; a reserve is checked against the entry of that very moment.
//!
//! Tables: node entries by index, promises by pod UID (one a pod, see `promise`), where each nominated pod is nominated,
//! links and pools of addresses. A pod's node, links and addresses are one promise: all or nothing. The invariants of [`crate::invariants`] that it answers for: no reserve makes or enlarges an excess;
//! a pod has one promise; an assumed pod ends bound or unreserved.
//!
//! Does not: know nodes' or pods' objects, plugins or I/O; undo anything by time.
//!
//! Threads: any, all calls. Locks: a table's lock on one key at a time, never two at once, nothing waited for under
//! one; the change log is appended to under the lock of the node entry that changed, so that the log's order is that
//! of each node's states. Memory order: the tables' locks order everything; counters are relaxed, being statistics.
//!
//! Cost: a reserve is three table operations and one append, a few hundred nanoseconds; reading a node is one.
//!
//! Children in reading order: `charge` (the values), `change` (what is told to the log), `error` (the refusals),
//! `entry` (a node), `promise` (a pod), `transitions` (what happens to pods), `nodes` (what happens to nodes),
//! `commit_lock` (how rules that span nodes commit); `network` (values), `link` and `pool` (entries of links and of pools
//! of addresses), `paths` (what happens to these).

mod change;
mod charge;
mod commit_lock;
mod entry;
mod error;
mod link;
mod network;
mod nodes;
mod paths;
mod pool;
mod promise;
mod transitions;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use change::{Change, ChangeKind, ChangeSink};
pub use charge::{Capacity, Charge, Checks, NodeUse, Nomination, NonZero};
pub use commit_lock::{CommitLock, ReadGuard, WriteGuard};
pub use error::{Confirmed, Conflict, NominateError, ReserveError, Shortage};
pub use network::{AddressNeed, Excess, Flow, Flows, LinkUse, NetworkCharge, NetworkNeeds};
pub use paths::PoolUse;
pub(crate) use pool::number;
pub use pool::{AddressRange, Family, PoolSpec};
pub use promise::{Promise, PromiseState};

use smallvec::SmallVec;

use crate::ids::{ClassId, DomainIdx, NodeIdx, PodUid, PoolIdx, Symbol};
use crate::sync::Native;
use crate::sync::primitives::{After, Primitives, Table, Word};
use entry::NodeEntry;
use link::LinkEntry;
use nodes::NominatedTo;
use pool::PoolEntry;
use promise::Record;

/// How much the ledger holds, for metrics; not exact while others write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Node entries, those of nodes that are gone or not seen yet included.
    pub nodes: usize,
    /// Pods counted, or about to be.
    pub pods: usize,
    /// Of these, reserved and not seen bound.
    pub assumed: u64,
    /// Nominations.
    pub nominated: u64,
}

/// See the [module](self).
pub struct Ledger<P: Primitives = Native> {
    nodes: P::Table<NodeIdx, NodeEntry>,
    promises: P::Table<PodUid, Record>,
    nominated: P::Table<PodUid, NominatedTo>,
    links: P::Table<DomainIdx, LinkEntry>,
    pools: P::Table<PoolIdx, PoolEntry>,
    sink: Arc<dyn ChangeSink>,
    /// No entry made from now on may start at a lower version; at least that of every forgotten entry.
    version_floor: P::Word,
    tickets: P::Word,
    assumed_count: P::Word,
    nominated_count: P::Word,
    any_address: Symbol,
}

impl<P: Primitives> fmt::Debug for Ledger<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// An empty ledger that tells its changes to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn ChangeSink>) -> Self {
        Self::with_primitives(sink)
    }
}

impl<P: Primitives> Ledger<P> {
    pub(crate) fn with_primitives(sink: Arc<dyn ChangeSink>) -> Self {
        Self {
            nodes: Table::new(),
            promises: Table::new(),
            nominated: Table::new(),
            links: Table::new(),
            pools: Table::new(),
            sink,
            version_floor: Word::new(0),
            tickets: Word::new(0),
            assumed_count: Word::new(0),
            nominated_count: Word::new(0),
            any_address: Symbol::new("0.0.0.0"),
        }
    }

    /// A copy of a node's entry; `None` for a node of which nothing is known.
    #[must_use]
    pub fn read(&self, node: NodeIdx) -> Option<NodeUse> {
        self.nodes.read(node, |entry| entry.usage().clone())
    }

    /// The version of a node's entry; `None` for a node of which nothing is known.
    #[must_use]
    pub fn version(&self, node: NodeIdx) -> Option<u64> {
        self.nodes.read(node, |entry| entry.usage().version)
    }

    /// Copies a node's entry over `into`, reusing its memory; false, and `into` is untouched, when nothing is known.
    pub fn read_into(&self, node: NodeIdx, into: &mut NodeUse) -> bool {
        self.nodes.read(node, |entry| into.clone_from(entry.usage())).is_some()
    }

    /// What the node offers; all zero while it is not live.
    #[must_use]
    pub fn capacity(&self, node: NodeIdx) -> Option<Capacity> {
        self.nodes.read(node, |entry| entry.capacity().clone())
    }

    /// The pods counted on a node, in no order. O(pods).
    #[must_use]
    pub fn charges(&self, node: NodeIdx) -> Vec<Arc<Charge>> {
        self.nodes.read(node, NodeEntry::charges).unwrap_or_default()
    }

    /// The pods of lower priority than `priority` counted on a node, in no order. O(pods).
    #[must_use]
    pub fn pods_below(&self, node: NodeIdx, priority: i32) -> SmallVec<[PodUid; 16]> {
        let all = self.nodes.read(node, |entry| entry.below(priority).collect());
        all.unwrap_or_default()
    }

    /// The nominations for a node, oldest first. O(nominations).
    #[must_use]
    pub fn nominations(&self, node: NodeIdx) -> Vec<Nomination> {
        let all = |entry: &NodeEntry| {
            entry
                .nominations()
                .iter()
                .map(|found| found.nomination.clone())
                .collect()
        };
        self.nodes.read(node, all).unwrap_or_default()
    }

    /// Where a pod is counted and how firmly; `None` when it is not.
    #[must_use]
    pub fn promise(&self, uid: PodUid) -> Option<Promise> {
        self.promises
            .read(uid, |record| record.placed.as_ref().map(|placed| placed.promise))
            .flatten()
    }

    /// How many pods are reserved and not seen bound.
    #[must_use]
    pub fn assumed_count(&self) -> u64 {
        self.assumed_count.load(Ordering::Relaxed)
    }

    /// How much it holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            nodes: self.nodes.count(),
            pods: self.promises.count(),
            assumed: self.assumed_count(),
            nominated: self.nominated_count.load(Ordering::Relaxed),
        }
    }

    /// The pods counted or about to be, at some moment, in no order: what a relist is compared with. O(pods).
    #[must_use]
    pub fn pods(&self) -> Vec<PodUid> {
        self.promises.keys()
    }

    /// Gives the changed entry its next version and logs the change. Called under the entry's lock.
    fn log(&self, entry: &mut NodeEntry, node: NodeIdx, kind: ChangeKind, class: Option<ClassId>) -> u64 {
        let version = entry.next_version();
        self.sink.append(Change {
            node,
            version,
            kind,
            class,
        });
        version
    }

    /// The entry of a node that was not there. Called under its lock, so that it sees the floor that the entry before
    /// it has left.
    fn ghost(&self) -> NodeEntry {
        NodeEntry::ghost(self.version_floor.load(Ordering::Relaxed))
    }

    /// Whether the entry must be kept; if not, its version is remembered. Called under its lock.
    fn keep_or_forget(&self, entry: &NodeEntry) -> After {
        if !entry.is_forgettable() {
            return After::Keep;
        }
        self.version_floor.fetch_max(entry.usage().version, Ordering::Relaxed);
        After::Remove
    }
}
