//! The scheduler's own threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tokio::sync::{Notify, mpsc};

use super::ingest::{Ingest, Message};
use super::worker::{Worker, WorkerParts};
use crate::clock::Clock;
use crate::cluster::Publisher;
use crate::telemetry::CacheKind;

/// Deliveries applied between two looks at whether somebody waits for them.
const BATCH: usize = 1024;
/// Time between two snapshots. A quarter of the change log lasts longer than this below 300,000 changes a second.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Snapshots between two looks at sizes: a second, as upstream.
const SIZES_EVERY: u32 = 20;
/// Time between two looks for pods that waited too long for an event.
const SWEEP_EVERY: u64 = 30;

/// Threads and how to end them.
#[derive(Debug)]
pub(super) struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Dropping it ends the threads that listen to the other side.
    stop: Sender<()>,
    stopped: Receiver<()>,
}

impl Default for Threads {
    fn default() -> Self {
        let (stop, stopped) = bounded(0);
        Self {
            handles: Vec::new(),
            stop,
            stopped,
        }
    }
}

impl Threads {
    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.handles.push(Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Applies deliveries until the watches end.
    pub(super) fn ingest(
        &mut self,
        mut ingest: Ingest,
        mut messages: mpsc::Receiver<Message>,
        applied: Arc<Notify>,
        clock: Clock,
    ) -> std::io::Result<()> {
        self.spawn("ingest", move || {
            let mut batch = Vec::with_capacity(BATCH);
            while messages.blocking_recv_many(&mut batch, BATCH) > 0 {
                ingest.handling.begin(clock.now());
                for message in batch.drain(..) {
                    survive("a delivery", || ingest.apply(message));
                    ingest.handling.end(clock.now());
                }
                applied.notify_waiters();
            }
        })
    }

    /// Publishes snapshots and records sizes.
    pub(super) fn publisher(&mut self, parts: WorkerParts) -> std::io::Result<()> {
        let stopped = self.stopped.clone();
        self.spawn("publisher", move || {
            let mut publisher = Publisher::default();
            let mut rounds = 0_u32;
            while stopped.recv_timeout(PUBLISH_EVERY) == Err(RecvTimeoutError::Timeout) {
                if rounds.is_multiple_of(SIZES_EVERY) {
                    record_sizes(&parts);
                }
                rounds = rounds.wrapping_add(1);
                let begun = parts.clock.now();
                if parts.cluster.publish(&mut publisher) > 0 {
                    parts.metrics.snapshot_published(parts.clock.now().since(begun));
                }
            }
        })
    }

    /// Moves pods whose backoff is over at every full second, and sweeps.
    pub(super) fn timers(&mut self, parts: WorkerParts) -> std::io::Result<()> {
        let stopped = self.stopped.clone();
        self.spawn("queue-timers", move || {
            let mut seconds = 0_u64;
            loop {
                let now = parts.clock.now();
                let next = now.floor_to_second().after(Duration::from_secs(1));
                if stopped.recv_timeout(next.since(now)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                seconds += 1;
                survive("the queue's timers", || {
                    parts.queue.flush_backoff();
                    if seconds.is_multiple_of(SWEEP_EVERY) {
                        parts.queue.flush_unschedulable();
                    }
                });
            }
        })
    }

    /// Runs a worker.
    pub(super) fn worker(&mut self, number: usize, worker: Worker) -> std::io::Result<()> {
        self.spawn(&format!("worker-{number}"), move || worker.run())
    }

    /// Ends the threads and waits for them.
    pub(super) fn join(self) {
        drop((self.stop, self.stopped));
        for handle in self.handles {
            if handle.join().is_err() {
                tracing::error!("a thread ended with a panic");
            }
        }
    }
}

/// Does a piece of work that a fault in a plugin's comparison or hint may end: it costs this piece, not the thread.
fn survive(what: &str, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!(what, "a panic: this piece of work is left undone");
    }
}

fn record_sizes(parts: &WorkerParts) {
    let metrics = &parts.metrics;
    metrics.cache_size(CacheKind::Nodes, parts.cluster.node_count());
    let counts = parts.cluster.ledger.counts();
    metrics.cache_size(CacheKind::Pods, counts.pods);
    metrics.cache_size(
        CacheKind::AssumedPods,
        usize::try_from(counts.assumed).unwrap_or(usize::MAX),
    );
    let behind = parts
        .cluster
        .log
        .head()
        .saturating_sub(parts.cluster.snapshot().next_change);
    metrics.change_log_length(behind);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_one_piece_of_work() {
        let mut done = 0;
        survive("the first", || panic!("as a plugin's comparison may"));
        survive("the second", || done += 1);
        assert_eq!(done, 1);
    }
}
