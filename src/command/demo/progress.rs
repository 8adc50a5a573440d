//! What happens to the pods of a demo: seen on a watch of the store, shown while it goes on.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Nanos};
use crate::sync::Mutex;
use crate::telemetry::LatencyRecorder;
use supercargo_apiserver::store::{EventKind, Store, WatchBatch, WatchItem, WatchStart};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::PlanSize;

/// How often the line on the terminal is renewed.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    created: HashMap<Box<str>, Nanos>,
    pub(super) bound: usize,
    unschedulable: usize,
    first_bound: Option<Nanos>,
    last_bound: Option<Nanos>,
    pub(super) latency: LatencyRecorder,
}

impl Seen {
    fn take(&mut self, item: &WatchItem, now: Nanos) {
        let pod = &item.object;
        if item.kind == EventKind::Deleted {
            self.created.remove(pod.uid());
        } else if pod.index.node_name.is_empty() {
            match self.created.entry(pod.uid().into()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(now);
                }
                // A pending pod changes only when its condition is written.
                std::collections::hash_map::Entry::Occupied(_) => self.unschedulable += 1,
            }
        } else if let Some(created) = self.created.remove(pod.uid()) {
            self.bound += 1;
            self.first_bound.get_or_insert(now);
            self.last_bound = Some(now);
            self.latency.record(now.since(created));
        }
    }

    /// Pods bound a second, from the first bind to the last.
    pub(super) fn rate(&self) -> f64 {
        match (self.first_bound, self.last_bound) {
            (Some(first), Some(last)) if last > first => {
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
                let intervals = (self.bound - 1) as f64;
                intervals / last.since(first).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

/// The observer of a demo.
pub(super) struct Progress {
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<usize>,
    pods: usize,
    task: JoinHandle<()>,
}

impl Progress {
    /// Watches the pods of `store`; shows them on standard error if `show`.
    pub(super) fn start(store: &Store, size: PlanSize, show: bool) -> anyhow::Result<Self> {
        let mut watcher = store.watch("", "pods", WatchStart::Existing)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (sender, changed) = watch::channel(0);
        let ours = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let clock = Clock::Real;
            let mut shown = clock.now();
            while let Ok(Some(batch)) = watcher.next().await {
                let WatchBatch::Events(items) = batch else { continue };
                let now = clock.now();
                let bound = {
                    let mut seen = ours.lock();
                    items.iter().for_each(|item| seen.take(item, now));
                    seen.bound
                };
                if show && (now.since(shown) > SHOW_EVERY || bound == size.pods) {
                    shown = now;
                    show_line(&ours.lock(), &size);
                }
                if sender.send(bound).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            seen,
            changed,
            pods: size.pods,
            task,
        })
    }

    /// Waits until every pod is bound, or nothing has been bound for `quiet`.
    pub(super) async fn settled(&self, quiet: Duration) {
        let mut changed = self.changed.clone();
        let mut before = 0;
        loop {
            let bound = *changed.borrow_and_update();
            if bound == self.pods {
                return;
            }
            let moved = async {
                while *changed.borrow_and_update() == bound {
                    if changed.changed().await.is_err() {
                        return;
                    }
                }
            };
            if tokio::time::timeout(quiet, moved).await.is_err() && bound == before {
                return;
            }
            before = bound;
        }
    }

    /// Ends the watch.
    pub(super) fn finish(self) -> Seen {
        self.task.abort();
        std::mem::take(&mut *self.seen.lock())
    }
}

fn show_line(seen: &Seen, size: &PlanSize) {
    // Nobody has to look.
    drop(writeln!(
        std::io::stderr(),
        "{:>7} of {} pods bound on {} nodes, {:.0} pods/s",
        seen.bound,
        size.pods,
        size.nodes,
        seen.rate()
    ));
}
