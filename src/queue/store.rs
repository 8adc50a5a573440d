//! Where every pod stands, and the one function that moves it.
//!
//! Stages: waiting in a pool, in flight (a worker has it), binding. A pod's record is made when it enters and goes when
//! it leaves: bound, deleted, or handed to another scheduler.
//!
//! Does not: lock, read a clock or ask plugins.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::heap::{Heap, Key, Order};
use super::in_flight::{Cursor, InFlight};
use super::parked::{GroupKey, Parked};
use super::plan::Plans;
use super::pod::QueuedPodInfo;
use crate::check_invariant;
use crate::clock::Nanos;
use crate::cluster::PodInfo;
use crate::ids::PodUid;
use crate::invariants::Invariant;
use crate::telemetry::{EventLabel, Metrics, QueueKind};

/// Where a waiting pod waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Pool {
    /// Ready, in the order of the queue's sort.
    Active,
    /// After a rejection, until its backoff ends.
    Backoff,
    /// After an error, until its backoff ends.
    ErrorBackoff,
    /// For an event.
    Unschedulable,
    /// For the PreEnqueue plugin that holds it back.
    Gated,
}

impl Pool {
    pub(super) const fn kind(self) -> QueueKind {
        match self {
            Self::Active => QueueKind::Active,
            Self::Backoff | Self::ErrorBackoff => QueueKind::Backoff,
            Self::Unschedulable => QueueKind::Unschedulable,
            Self::Gated => QueueKind::Gated,
        }
    }
}

/// A pod's life in the queue.
#[derive(Debug)]
pub(super) enum Stage {
    /// In a pool.
    Waiting(Pool, Box<QueuedPodInfo>),
    /// A worker tries it.
    InFlight {
        cursor: Cursor,
        /// The newest object.
        pod: Arc<PodInfo>,
    },
    /// A node was found; its attempt still can fail, without regard to events.
    Binding {
        /// The newest object.
        pod: Arc<PodInfo>,
    },
    /// Between two stages, only within a transition.
    Moving,
}

/// How a pod leaves the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It has a node.
    Bound,
    /// It was deleted, or its attempt found it to be on its way out.
    Deleted,
    /// No profile has its scheduler's name any more.
    HandedOver,
}

#[derive(Debug)]
struct Entry {
    uid: PodUid,
    stage: Stage,
    /// Order of entry among pods that the sort does not tell apart; new with each timestamp.
    seq: u64,
    /// Number of the last pop that gave it out.
    ticket: u64,
}

/// What a transition needs beside the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tools<'a> {
    pub(super) metrics: &'a Metrics,
    pub(super) plans: &'a Plans,
}

/// Totals since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Pods that entered.
    pub entered: u64,
    /// Pods that left because they have a node.
    pub bound: u64,
    /// Pods that left because they were deleted.
    pub deleted: u64,
    /// Pods that left because they are another scheduler's now.
    pub handed_over: u64,
}

/// All pods of the queue.
#[derive(Debug, Default)]
pub(super) struct Store {
    by_uid: FxHashMap<PodUid, u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    active: Heap,
    backoff: Heap,
    error_backoff: Heap,
    unschedulable: Parked,
    gated: Parked,
    pub(super) in_flight: InFlight,
    next_seq: u64,
    next_ticket: u64,
    pub(super) totals: Totals,
}

impl Store {
    pub(super) fn find(&self, uid: PodUid) -> Option<u32> {
        self.by_uid.get(&uid).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(super) fn stage(&self, slot: u32) -> Option<&Stage> {
        self.entries.get(slot as usize)?.as_ref().map(|entry| &entry.stage)
    }

    /// To note a newer object of a pod that is being tried, or what no order or group goes by.
    pub(super) fn stage_mut(&mut self, slot: u32) -> Option<&mut Stage> {
        self.entries
            .get_mut(slot as usize)?
            .as_mut()
            .map(|entry| &mut entry.stage)
    }

    /// The waiting pod in a slot.
    pub(super) fn waiting(&self, slot: u32) -> Option<(Pool, &QueuedPodInfo)> {
        match self.stage(slot)? {
            Stage::Waiting(pool, queued) => Some((*pool, queued)),
            _ => None,
        }
    }

    /// The slot of a pod that was given out with this ticket and has not come back.
    pub(super) fn given_out(&self, queued: &QueuedPodInfo) -> Option<u32> {
        let slot = self.find(queued.pod.uid)?;
        let entry = self.entries.get(slot as usize)?.as_ref()?;
        let out = matches!(entry.stage, Stage::InFlight { .. } | Stage::Binding { .. });
        (out && entry.ticket == queued.ticket).then_some(slot)
    }

    /// The record of a pod that enters; it must be put down with [`Self::transition`] before the lock is let go.
    pub(super) fn enter(&mut self, uid: PodUid) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // 2^32 pods are past any memory this runs in.
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let seq = self.renew_seq();
        self.entries[slot as usize] = Some(Entry {
            uid,
            stage: Stage::Moving,
            seq,
            ticket: 0,
        });
        let before = self.by_uid.insert(uid, slot);
        check_invariant!(Invariant::NoLostPod, before.is_none(), "pod {uid:?} entered twice");
        self.totals.entered += 1;
        slot
    }

    /// Ends a pod's record.
    pub(super) fn leave(&mut self, slot: u32, exit: Exit, tools: Tools<'_>) {
        let _ended = self.lift(slot, tools);
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.by_uid.remove(&entry.uid);
        self.free.push(slot);
        match exit {
            Exit::Bound => self.totals.bound += 1,
            Exit::Deleted => self.totals.deleted += 1,
            Exit::HandedOver => self.totals.handed_over += 1,
        }
        let left = self.totals.bound + self.totals.deleted + self.totals.handed_over;
        check_invariant!(
            Invariant::NoLostPod,
            self.totals.entered == left + self.by_uid.len() as u64,
            "{} pods entered, {left} left, {} are there",
            self.totals.entered,
            self.by_uid.len()
        );
    }

    fn renew_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    /// Moves a pod from its stage to the one that `next` makes of it.
    pub(super) fn transition(
        &mut self,
        slot: u32,
        label: EventLabel,
        tools: Tools<'_>,
        next: impl FnOnce(Stage) -> Stage,
    ) {
        let from = match self.stage(slot) {
            Some(Stage::Waiting(pool, _)) => Some(*pool),
            _ => None,
        };
        let stage = self.lift(slot, tools);
        let was_out = matches!(stage, Stage::InFlight { .. } | Stage::Binding { .. });
        let stage = next(stage);
        if was_out && matches!(stage, Stage::Waiting(..)) {
            let seq = self.renew_seq();
            if let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) {
                entry.seq = seq;
            }
        }
        if let Stage::Waiting(pool, queued) = &stage {
            self.put(slot, *pool, queued, tools);
            if from != Some(*pool) {
                tools.metrics.queue_incoming(pool.kind(), label, 1);
            }
        }
        if let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) {
            entry.stage = stage;
        }
    }

    /// Takes a pod out of the structure that it is in.
    fn lift(&mut self, slot: u32, tools: Tools<'_>) -> Stage {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) else {
            check_invariant!(Invariant::NoLostPod, false, "slot {slot} is empty");
            return Stage::Moving;
        };
        let stage = std::mem::replace(&mut entry.stage, Stage::Moving);
        match &stage {
            Stage::Waiting(pool, queued) => {
                let order = &tools.plans.order;
                let found = match pool {
                    Pool::Active => self.active.remove(slot, order),
                    Pool::Backoff => self.backoff.remove(slot, order),
                    Pool::ErrorBackoff => self.error_backoff.remove(slot, order),
                    Pool::Unschedulable => self.unschedulable.remove(slot),
                    Pool::Gated => self.gated.remove(slot),
                };
                check_invariant!(
                    Invariant::NoLostPod,
                    found,
                    "pod {:?} is not in {pool:?}",
                    queued.pod.uid
                );
                tools.metrics.pending_pods_add(pool.kind(), -1);
                count_rejectors(queued, -1, tools.metrics);
            }
            Stage::InFlight { cursor, .. } => self.in_flight.end(*cursor, tools.metrics),
            Stage::Binding { .. } | Stage::Moving => {}
        }
        stage
    }

    fn put(&mut self, slot: u32, pool: Pool, queued: &QueuedPodInfo, tools: Tools<'_>) {
        let order = &tools.plans.order;
        let expiry = queued.backoff_expiry.unwrap_or_default();
        let seq = self
            .entries
            .get(slot as usize)
            .and_then(Option::as_ref)
            .map_or(0, |entry| entry.seq);
        match pool {
            Pool::Active => self.active.push(order.key(queued, Nanos(0), seq, slot), order),
            Pool::Backoff => self.backoff.push(order.key(queued, expiry, seq, slot), order),
            Pool::ErrorBackoff => self.error_backoff.push(Order::timed(expiry, seq, slot), order),
            Pool::Unschedulable => self.unschedulable.insert(slot, GroupKey::of(queued)),
            Pool::Gated => self.gated.insert(slot, GroupKey::of(queued)),
        }
        tools.metrics.pending_pods_add(pool.kind(), 1);
        count_rejectors(queued, 1, tools.metrics);
    }

    /// Gives out the first active pod, else the first in backoff; never one in error backoff.
    pub(super) fn take(&mut self, from_backoff: EventLabel, tools: Tools<'_>) -> Option<QueuedPodInfo> {
        let (slot, early) = match self.active.first() {
            Some(key) => (key.slot, false),
            None => (self.backoff.first()?.slot, true),
        };
        if early {
            tools.metrics.queue_incoming(QueueKind::Active, from_backoff, 1);
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let cursor = self.in_flight.begin();
        let mut taken = None;
        self.transition(slot, from_backoff, tools, |stage| {
            let Stage::Waiting(_, queued) = stage else { return stage };
            let pod = Arc::clone(&queued.pod);
            taken = Some(queued);
            Stage::InFlight { cursor, pod }
        });
        if let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) {
            entry.ticket = ticket;
        }
        let mut queued = *taken?;
        queued.ticket = ticket;
        queued.attempts = queued.attempts.saturating_add(1);
        queued.rejectors = super::pod::Rejectors::default();
        queued.gating_plugin = None;
        Some(queued)
    }

    /// The pods whose backoff may be over, by their expiry: those before `until`.
    pub(super) fn expired_before(&self, until: Nanos) -> Option<u32> {
        let expired = |key: Option<&Key>| key.filter(|key| key.expiry < until).map(|key| key.slot);
        expired(self.backoff.first()).or_else(|| expired(self.error_backoff.first()))
    }

    /// Groups of pods that wait for an event or are gated.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[u32]> {
        self.unschedulable.groups().chain(self.gated.groups())
    }

    /// Slots of pods that wait for an event.
    pub(super) fn unschedulable_slots(&self) -> impl Iterator<Item = u32> {
        self.unschedulable.slots()
    }

    /// Slots of all waiting pods.
    pub(super) fn waiting_slots(&self) -> Vec<u32> {
        let waiting = |(slot, entry): (u32, &Option<Entry>)| {
            let entry = entry.as_ref()?;
            matches!(entry.stage, Stage::Waiting(..)).then_some(slot)
        };
        (0_u32..).zip(&self.entries).filter_map(waiting).collect()
    }

    /// Pods in each pool.
    pub(super) const fn counts(&self) -> PendingCounts {
        PendingCounts {
            active: self.active.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len(),
            gated: self.gated.len(),
        }
    }
}

/// Pods that wait, by where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PendingCounts {
    /// Ready.
    pub active: usize,
    /// Until their backoff ends.
    pub backoff: usize,
    /// For an event.
    pub unschedulable: usize,
    /// For a PreEnqueue plugin.
    pub gated: usize,
}

fn count_rejectors(queued: &QueuedPodInfo, delta: i64, metrics: &Metrics) {
    let rejectors = &queued.rejectors;
    if rejectors.is_empty() {
        return;
    }
    let Some(profile) = metrics.profile_index(queued.profile.name.as_str()) else {
        return;
    };
    let pending_only = rejectors
        .pending
        .iter()
        .filter(|plugin| !rejectors.unschedulable.contains(plugin));
    for plugin in rejectors.unschedulable.iter().chain(pending_only) {
        if let Some(index) = metrics.plugin_index(plugin.as_str()) {
            metrics.unschedulable_pods_add(profile, index, delta);
        }
    }
}
