//! The commit lock: how rules that span nodes commit although many workers decide at once.
//!
//! A node's entry is checked under its own lock; required (anti-)affinity, hard spreading, shared claims and uplinks
//! are about several nodes, which no entry's lock sees. So:
//!
//! * a pod that no such rule is about holds this lock for *reading* over [epoch check → reserve → append];
//! * a pod that such a rule is about holds it for *writing* over [replay the log to its end → check the chosen node
//!   again → reserve → append], and thus sees every commit before it;
//! * the *epoch* names the set of live rules. It moves under the write lock, when a distinct rule gets its first live
//!   pod or loses its last, before that pod may be popped. A reader whose evaluation is of an older epoch evaluates
//!   again, since it may now be one of those that must write.
//!
//! Does not: know rules or the log; both belong to the callers.
//!
//! Threads: any. It is taken before every table lock of the ledger and never under one; one thread takes it once at a
//! time. The lock is split into lanes: a reader takes its own thread's, so that readers share no cache line; a writer
//! takes all of them, in order. Memory order: a lane's lock orders a writer's changes before the readers that follow.

use std::array;
use std::fmt;
use std::sync::atomic::Ordering;

use crossbeam::utils::CachePadded;

use crate::sync::Native;
use crate::sync::primitives::{Primitives, SharedLock, Word};

/// Lanes: a writer pays about 10 ns for each, and readers of up to this many threads never meet.
const LANES: usize = 8;

type Read<'a, P> = <<P as Primitives>::Shared as SharedLock>::Read<'a>;
type Write<'a, P> = <<P as Primitives>::Shared as SharedLock>::Write<'a>;

/// The lock; this module's text says how it works.
pub struct CommitLock<P: Primitives = Native> {
    lanes: [CachePadded<P::Shared>; LANES],
    epoch: CachePadded<P::Word>,
}

/// Held by a pod that no rule across nodes is about.
pub struct ReadGuard<'a, P: Primitives = Native> {
    _lane: Read<'a, P>,
    epoch: u64,
}

/// Held by whoever must see all commits before its own.
pub struct WriteGuard<'a, P: Primitives = Native> {
    _lanes: [Write<'a, P>; LANES],
    epoch: &'a P::Word,
}

impl CommitLock {
    /// A free lock, at epoch 0.
    #[must_use]
    pub fn new() -> Self {
        Self::with_primitives()
    }
}

impl Default for CommitLock {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Primitives> CommitLock<P> {
    pub(crate) fn with_primitives() -> Self {
        Self {
            lanes: array::from_fn(|_| CachePadded::new(SharedLock::new())),
            epoch: CachePadded::new(Word::new(0)),
        }
    }

    /// Waits for it as one of many.
    pub fn read(&self) -> ReadGuard<'_, P> {
        let lane = self.lanes[P::lane() % LANES].read();
        ReadGuard {
            _lane: lane,
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Waits for it alone. O(lanes).
    pub fn write(&self) -> WriteGuard<'_, P> {
        WriteGuard {
            _lanes: array::from_fn(|lane| self.lanes[lane].write()),
            epoch: &self.epoch,
        }
    }

    /// The epoch of some moment; to be read before an evaluation and checked under a guard before its commit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}

impl<P: Primitives> ReadGuard<'_, P> {
    /// The epoch; it stands still while this is held.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl<P: Primitives> WriteGuard<'_, P> {
    /// The epoch; only the holder of this can move it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Moves to the next epoch and gives it.
    pub fn advance_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::Release) + 1
    }
}

impl<P: Primitives> fmt::Debug for CommitLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitLock")
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

impl<P: Primitives> fmt::Debug for ReadGuard<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<P: Primitives> fmt::Debug for WriteGuard<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard")
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}
