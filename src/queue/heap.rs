//! A binary heap of slots from which any slot can be taken out, and the order that the queue's sort gives.
//!
//! Membership never depends on the comparison: a plugin whose `less` contradicts itself, or panics, spoils the order
//! and loses nothing.
//!
//! Does not: know where pods are; a slot is in at most one place of a heap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::pod::QueuedPodInfo;
use crate::clock::Nanos;
use crate::cluster::PodInfo;
use crate::framework::{Plugin, Profiles, SortKey};

/// What a slot is ordered by.
#[derive(Debug)]
pub(super) struct Key {
    /// End of the backoff; zero where it plays no part. The earlier goes first.
    pub(super) expiry: Nanos,
    /// The sort's number for the pod, if it gives one; the lower goes first.
    rank: u128,
    /// The pod, if the sort must be asked about each pair.
    compared: Option<(Arc<PodInfo>, Nanos)>,
    /// Breaks ties: the earlier goes first.
    seq: u64,
    pub(super) slot: u32,
}

/// The order of pods that the profiles' common QueueSort plugin gives.
#[derive(Clone, Default)]
pub(super) struct Order {
    sort: Option<Arc<dyn Plugin>>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Order")
            .field(&self.sort.as_ref().map(|sort| sort.name()))
            .finish()
    }
}

impl Order {
    /// The order of the first profile; the configuration makes sure that all have the same.
    pub(super) fn of(profiles: &Profiles) -> Self {
        let sort = profiles.all().iter().find_map(|profile| profile.queue_sort_plugin());
        Self { sort: sort.cloned() }
    }

    /// The key of a pod that waits until `expiry`.
    pub(super) fn key(&self, queued: &QueuedPodInfo, expiry: Nanos, seq: u64, slot: u32) -> Key {
        let sort = self.sort.as_ref().and_then(|plugin| plugin.queue_sort());
        let asked = SortKey {
            pod: &queued.pod,
            timestamp: queued.timestamp,
        };
        let rank = sort.and_then(|sort| catch_unwind(AssertUnwindSafe(|| sort.rank(asked))).unwrap_or_default());
        let compared = (sort.is_some() && rank.is_none()).then(|| (Arc::clone(&queued.pod), queued.timestamp));
        Key {
            expiry,
            rank: rank.unwrap_or_default(),
            compared,
            seq,
            slot,
        }
    }

    /// A key that is ordered by time alone.
    pub(super) const fn timed(expiry: Nanos, seq: u64, slot: u32) -> Key {
        Key {
            expiry,
            rank: 0,
            compared: None,
            seq,
            slot,
        }
    }

    fn before(&self, a: &Key, b: &Key) -> bool {
        if a.expiry != b.expiry {
            return a.expiry < b.expiry;
        }
        if let (Some(a_pod), Some(b_pod)) = (&a.compared, &b.compared) {
            if self.less(a_pod, b_pod) {
                return true;
            }
            if self.less(b_pod, a_pod) {
                return false;
            }
        }
        (a.rank, a.seq) < (b.rank, b.seq)
    }

    fn less(&self, a: &(Arc<PodInfo>, Nanos), b: &(Arc<PodInfo>, Nanos)) -> bool {
        let Some(sort) = self.sort.as_ref().and_then(|plugin| plugin.queue_sort()) else {
            return false;
        };
        catch_unwind(AssertUnwindSafe(|| sort.less(sort_key(a), sort_key(b)))).unwrap_or(false)
    }
}

fn sort_key((pod, timestamp): &(Arc<PodInfo>, Nanos)) -> SortKey<'_> {
    SortKey {
        pod,
        timestamp: *timestamp,
    }
}

const ABSENT: u32 = u32::MAX;

/// The heap. All operations but the look-ups are O(log n).
#[derive(Debug, Default)]
pub(super) struct Heap {
    items: Vec<Key>,
    /// Where a slot's key stands, by slot.
    positions: Vec<u32>,
}

impl Heap {
    pub(super) const fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn first(&self) -> Option<&Key> {
        self.items.first()
    }

    /// Adds a slot that is not there.
    pub(super) fn push(&mut self, key: Key, order: &Order) {
        let slot = key.slot as usize;
        if self.positions.len() <= slot {
            self.positions.resize(slot + 1, ABSENT);
        }
        let at = self.items.len();
        self.items.push(key);
        self.place(at);
        self.sift_up(at, order);
    }

    /// Takes a slot out; false: it is not there.
    pub(super) fn remove(&mut self, slot: u32, order: &Order) -> bool {
        let Some(at) = self
            .positions
            .get(slot as usize)
            .copied()
            .filter(|found| *found != ABSENT)
        else {
            return false;
        };
        let at = at as usize;
        self.positions[slot as usize] = ABSENT;
        self.items.swap_remove(at);
        if at < self.items.len() {
            self.place(at);
            let settled = self.sift_up(at, order);
            self.sift_down(settled, order);
        }
        true
    }

    /// Writes down where the key at `at` stands.
    fn place(&mut self, at: usize) {
        let slot = self.items[at].slot as usize;
        // Slots are u32, and a heap holds each at most once.
        self.positions[slot] = u32::try_from(at).unwrap_or(ABSENT);
    }

    fn sift_up(&mut self, mut at: usize, order: &Order) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !order.before(&self.items[at], &self.items[parent]) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at
    }

    fn sift_down(&mut self, mut at: usize, order: &Order) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut best = at;
            for child in [left, right] {
                if child < self.items.len() && order.before(&self.items[child], &self.items[best]) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.swap(at, best);
            at = best;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.place(a);
        self.place(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_slots_in_order_whatever_was_taken_out(
            expiries in proptest::collection::vec(0_u64..8, 0..60),
            removed in proptest::collection::vec(0_usize..60, 0..20),
        ) {
            let (mut heap, order) = (Heap::default(), Order::default());
            let mut oracle = std::collections::BTreeSet::new();
            for (slot, expiry) in (0_u32..).zip(&expiries) {
                heap.push(Order::timed(Nanos(*expiry), u64::from(slot), slot), &order);
                oracle.insert((*expiry, slot));
            }
            for slot in removed {
                let known = expiries.get(slot).map(|expiry| (*expiry, u32::try_from(slot).unwrap()));
                let was_there = known.is_some_and(|key| oracle.remove(&key));
                prop_assert_eq!(heap.remove(u32::try_from(slot).unwrap(), &order), was_there);
            }
            let mut left = Vec::new();
            while let Some(slot) = heap.first().map(|key| key.slot) {
                prop_assert!(heap.remove(slot, &order));
                left.push(slot);
            }
            prop_assert_eq!(left, oracle.into_iter().map(|(_, slot)| slot).collect::<Vec<_>>());
        }
    }
}
