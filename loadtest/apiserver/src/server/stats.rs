//! Counters of what was served.
//!
//! Does not: keep time series; a harness reads the counters twice and subtracts.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::store::Store;

/// Counters; each only grows, except `open_watches`.
#[derive(Debug, Default)]
pub struct Stats {
    pub(super) requests: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bindings: AtomicU64,
    pub(super) events_written: AtomicU64,
    pub(super) status_writes: AtomicU64,
    pub(super) open_watches: AtomicU64,
    pub(super) watch_events: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsSnapshot {
    /// Requests answered.
    pub requests: u64,
    /// Of those, with a code of 400 or more.
    pub errors: u64,
    /// Bindings that succeeded.
    pub bindings: u64,
    /// Event objects created or changed.
    pub events_written: u64,
    /// Status subresources written.
    pub status_writes: u64,
    /// Watches open now.
    pub open_watches: u64,
    /// Events sent on watches.
    pub watch_events: u64,
    /// The store's newest resource version.
    pub resource_version: u64,
}

impl Stats {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, store: &Store) -> StatsSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatsSnapshot {
            requests: get(&self.requests),
            errors: get(&self.errors),
            bindings: get(&self.bindings),
            events_written: get(&self.events_written),
            status_writes: get(&self.status_writes),
            open_watches: get(&self.open_watches),
            watch_events: get(&self.watch_events),
            resource_version: store.version(),
        }
    }
}
