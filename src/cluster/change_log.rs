//! The change log: every change since some moment, in one order, for as many readers as there are workers.
//!
//! A ring of slots. An append takes the next sequence number and fills that slot; a reader follows with its own
//! [`Cursor`] and never passes a slot that is still being filled, so it sees a prefix of the log. Readers do not hold
//! writers up: one that is a whole ring behind is told so and starts anew from a snapshot.
//!
//! Does not: decide what is logged (see [`crate::ledger`]) or know how far readers are.
//!
//! Threads: any, all calls; a cursor belongs to one reader. No locks. An append is one atomic addition and five
//! stores; it waits only if the slot's previous tenant, a whole ring ago, is not finished.
//!
//! Memory order: a slot is a sequence lock whose fields are all atomic words, so that nothing here is unsafe. Its
//! stamp is odd while it is being filled and even when it holds a change; both name the sequence number. The stamp
//! that ends a filling is a release store which the reader's acquire load pairs with, so the fields read are at least
//! that new. Fields are release stores and acquire loads too: a reader that got a field of a later filling also sees,
//! at its second look at the stamp, that the later filling had begun, and discards what it read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::ids::{ClassId, DomainIdx, Incarnation, NodeIdx, PoolIdx};
use crate::ledger::{Change, ChangeKind, ChangeSink};
use crate::sync::primitives::Word;

/// Number of a change in the log; the first is 0.
pub type Seq = u64;

/// Slots of the default ring: 4 MiB. At 100,000 changes a second it lasts 0.65 s, and snapshots are published far more
/// often than that.
pub const DEFAULT_CAPACITY: usize = 1 << 16;

/// A reader's place: the next change that it wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    next: Seq,
}

impl Cursor {
    /// The place of a reader that has seen all changes before `next`.
    #[must_use]
    pub const fn at(next: Seq) -> Self {
        Self { next }
    }

    /// The next change that it wants; all before are seen.
    #[must_use]
    pub const fn position(self) -> Seq {
        self.next
    }
}

/// How a replay ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replay {
    /// All changes before this one were visited; this one is not finished or does not exist yet.
    UpTo(Seq),
    /// Changes that the reader had not seen are overwritten: it must start anew from a snapshot. Those visited by this
    /// call were right.
    FellBehind,
}

/// One cache line, so that neighbours filled by two threads do not disturb each other.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<W> {
    /// 0 at first; `2 × seq + 1` while change `seq` is filled in, `2 × seq + 2` when it is there.
    stamp: W,
    /// Node in the upper half, class in the lower.
    place: W,
    version: W,
    /// The kind's number; whether there is a class in bit 8.
    kind: W,
    incarnation: W,
}

const HAS_CLASS: u64 = 1 << 8;

/// The log; this module's text says how it works.
pub struct ChangeLog<W: Word = AtomicU64> {
    slots: Box<[Slot<W>]>,
    head: CachePadded<W>,
}

impl ChangeLog {
    /// An empty log of the default size.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::with_capacity(DEFAULT_CAPACITY))
    }
}

impl<W: Word> ChangeLog<W> {
    /// An empty log with this many slots, rounded up to a power of two.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let slot = |_| Slot {
            stamp: W::new(0),
            place: W::new(0),
            version: W::new(0),
            kind: W::new(0),
            incarnation: W::new(0),
        };
        Self {
            slots: (0..capacity.max(2).next_power_of_two()).map(slot).collect(),
            head: CachePadded::new(W::new(0)),
        }
    }

    /// How many changes it keeps.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The number that the next change will get.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.head.load(Ordering::Acquire)
    }

    /// The place of a reader that wants only what comes from now on.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::at(self.head())
    }

    /// How many changes the reader has before it.
    #[must_use]
    pub fn lag(&self, cursor: Cursor) -> u64 {
        self.head().saturating_sub(cursor.next)
    }

    /// Appends a change that is about no single node.
    pub fn append_global(&self, kind: ChangeKind) -> Seq {
        self.append_change(Change::global(kind))
    }

    /// Appends a change and gives its number.
    pub fn append_change(&self, change: Change) -> Seq {
        let seq = self.head.fetch_add(1, Ordering::AcqRel);
        let slot = self.slot(seq);
        let before = seq.checked_sub(self.capacity()).map_or(0, finished);
        let mut tries = 0;
        while slot.stamp.load(Ordering::Acquire) != before {
            W::pause(tries);
            tries = tries.saturating_add(1);
        }
        slot.stamp.store(finished(seq) - 1, Ordering::Relaxed);
        slot.fill(change);
        slot.stamp.store(finished(seq), Ordering::Release);
        seq
    }

    /// Visits the changes from the cursor on, in order, until the end or the first that is still being filled in, and
    /// moves the cursor past those visited. Never waits. O(changes).
    pub fn replay(&self, cursor: &mut Cursor, mut visit: impl FnMut(Seq, &Change)) -> Replay {
        loop {
            let slot = self.slot(cursor.next);
            let wanted = finished(cursor.next);
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp < wanted {
                return Replay::UpTo(cursor.next);
            }
            let change = slot.read();
            if stamp > wanted || slot.stamp.load(Ordering::Relaxed) != wanted {
                return Replay::FellBehind;
            }
            let Some(change) = change else {
                return Replay::FellBehind;
            };
            visit(cursor.next, &change);
            cursor.next += 1;
        }
    }

    /// As [`Self::replay`], but goes at least to the end that the log has when it is called, waiting for changes that
    /// other threads are filling in (a few stores each). What a writer under the commit lock needs: a log without
    /// gaps.
    pub fn replay_to_end(&self, cursor: &mut Cursor, mut visit: impl FnMut(Seq, &Change)) -> Replay {
        let end = self.head();
        let mut tries = 0;
        loop {
            match self.replay(cursor, &mut visit) {
                Replay::UpTo(next) if next < end => {
                    W::pause(tries);
                    tries = tries.saturating_add(1);
                }
                reached => return reached,
            }
        }
    }

    fn slot(&self, seq: Seq) -> &Slot<W> {
        // The remainder is below the number of slots, which is a usize; a power of two makes it a mask.
        #[expect(clippy::cast_possible_truncation, reason = "masked by a usize")]
        let at = seq as usize & (self.slots.len() - 1);
        &self.slots[at]
    }
}

/// The stamp of a slot that holds change `seq`.
const fn finished(seq: Seq) -> u64 {
    2 * seq + 2
}

impl<W: Word> Slot<W> {
    fn fill(&self, change: Change) {
        let class = change.class.map_or(0, |class| u64::from(class.0));
        let (kind, incarnation) = number_of(change.kind);
        let has_class = if change.class.is_some() { HAS_CLASS } else { 0 };
        self.place
            .store(u64::from(change.node.0) << 32 | class, Ordering::Release);
        self.version.store(change.version, Ordering::Release);
        self.kind.store(kind | has_class, Ordering::Release);
        self.incarnation.store(incarnation.0, Ordering::Release);
    }

    fn read(&self) -> Option<Change> {
        let place = self.place.load(Ordering::Acquire);
        let version = self.version.load(Ordering::Acquire);
        let kind = self.kind.load(Ordering::Acquire);
        let incarnation = Incarnation(self.incarnation.load(Ordering::Acquire));
        let class = (kind & HAS_CLASS != 0).then(|| ClassId(low_half(place)));
        let kind = kind_of(kind & (HAS_CLASS - 1), incarnation)?;
        Some(Change {
            node: NodeIdx(low_half(place >> 32)),
            version,
            kind,
            class,
        })
    }
}

fn low_half(word: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    let half = word as u32;
    half
}

fn number_of(kind: ChangeKind) -> (u64, Incarnation) {
    let plain = |number| (number, Incarnation(0));
    match kind {
        ChangeKind::Usage => plain(0),
        ChangeKind::Spec => plain(1),
        ChangeKind::PodAdded => plain(2),
        ChangeKind::PodRemoved => plain(3),
        ChangeKind::NodeAdded(incarnation) => (4, incarnation),
        ChangeKind::NodeRemoved(incarnation) => (5, incarnation),
        ChangeKind::Nomination => plain(6),
        ChangeKind::NamespaceLabels => plain(7),
        ChangeKind::OwnerSelectors => plain(8),
        ChangeKind::Volumes => plain(9),
        ChangeKind::ImageCounts => plain(10),
        ChangeKind::Link(link) => (11, Incarnation(u64::from(link.0))),
        ChangeKind::Rules => plain(12),
        ChangeKind::Pool(pool) => (13, Incarnation(u64::from(pool.0))),
        ChangeKind::Network => plain(14),
    }
}

fn kind_of(number: u64, incarnation: Incarnation) -> Option<ChangeKind> {
    Some(match number {
        0 => ChangeKind::Usage,
        1 => ChangeKind::Spec,
        2 => ChangeKind::PodAdded,
        3 => ChangeKind::PodRemoved,
        4 => ChangeKind::NodeAdded(incarnation),
        5 => ChangeKind::NodeRemoved(incarnation),
        6 => ChangeKind::Nomination,
        7 => ChangeKind::NamespaceLabels,
        8 => ChangeKind::OwnerSelectors,
        9 => ChangeKind::Volumes,
        10 => ChangeKind::ImageCounts,
        11 => ChangeKind::Link(DomainIdx(low_half(incarnation.0))),
        12 => ChangeKind::Rules,
        13 => ChangeKind::Pool(PoolIdx(low_half(incarnation.0))),
        14 => ChangeKind::Network,
        _ => return None,
    })
}

impl<W: Word> ChangeSink for ChangeLog<W> {
    fn append(&self, change: Change) -> u64 {
        self.append_change(change)
    }
}

impl<W: Word> fmt::Debug for ChangeLog<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeLog")
            .field("head", &self.head())
            .field("capacity", &self.capacity())
            .finish()
    }
}

#[cfg(test)]
mod tests;
