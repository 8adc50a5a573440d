//! Events kept for pods that are being tried, so that none that came meanwhile is missed when an attempt fails.
//!
//! An event is kept once, for as long as some pod was given out before it and has not ended its attempt. The list is
//! bounded: when it is full the oldest go, and a pod that would have needed them is tried again after its backoff.
//!
//! Does not: decide; see `requeue`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::plan::Plan;
use crate::framework::EventObject;
use crate::ids::PodUid;
use crate::telemetry::Metrics;

/// Most events kept. One takes about 100 bytes beside the objects, so the list stays under 10 MB; at 5,000 events a
/// second it covers attempts of 20 s, far beyond any but a wait at Permit.
const MAX_EVENTS: usize = 100_000;

/// An event that came while pods were being tried.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) plan: Arc<Plan>,
    pub(super) object: EventObject,
    /// Only this pod is concerned.
    pub(super) only: Option<PodUid>,
}

/// From which event on a pod has missed them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Cursor(u64);

/// The list.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    events: VecDeque<Seen>,
    /// Number of the first event in the list.
    first: u64,
    /// Number of pods being tried, by their cursor.
    cursors: BTreeMap<Cursor, u32>,
    /// A cursor below this has lost events.
    lost_below: u64,
}

impl InFlight {
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// A pod's attempt begins.
    pub(super) fn begin(&mut self) -> Cursor {
        let cursor = Cursor(self.next());
        *self.cursors.entry(cursor).or_default() += 1;
        cursor
    }

    /// A pod's attempt ends; events that nobody needs any more go.
    pub(super) fn end(&mut self, cursor: Cursor, metrics: &Metrics) {
        if let Some(count) = self.cursors.get_mut(&cursor) {
            *count -= 1;
            if *count == 0 {
                self.cursors.remove(&cursor);
            }
        }
        let needed = self
            .cursors
            .keys()
            .next()
            .map_or_else(|| self.next(), |oldest| oldest.0);
        while self.first < needed && self.drop_first(metrics) {}
    }

    fn drop_first(&mut self, metrics: &Metrics) -> bool {
        let Some(seen) = self.events.pop_front() else {
            return false;
        };
        self.first += 1;
        metrics.inflight_events_add(seen.plan.label, -1);
        true
    }

    /// Keeps an event if any pod is being tried.
    pub(super) fn record(&mut self, seen: Seen, metrics: &Metrics) {
        if self.cursors.is_empty() {
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.drop_first(metrics);
            self.lost_below = self.first;
        }
        metrics.inflight_events_add(seen.plan.label, 1);
        self.events.push_back(seen);
    }

    /// Forgets all events, as if they had been too many.
    pub(super) fn lose_all(&mut self, metrics: &Metrics) {
        while self.drop_first(metrics) {}
        self.lost_below = self.first;
    }

    /// What came since `cursor`, oldest first; `None`: some of it is lost.
    pub(super) fn since(&self, cursor: Cursor) -> Option<impl Iterator<Item = &Seen>> {
        if cursor.0 < self.lost_below {
            return None;
        }
        let skip = usize::try_from(cursor.0.saturating_sub(self.first)).unwrap_or(usize::MAX);
        Some(self.events.iter().skip(skip))
    }

    /// Whether no pod is being tried.
    pub(super) fn is_idle(&self) -> bool {
        self.cursors.is_empty()
    }

    /// Number of events kept.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}
