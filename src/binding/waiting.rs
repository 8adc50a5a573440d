//! Pods that wait at Permit.
//!
//! Source: `pkg/scheduler/framework/runtime/waiting_pods_map.go`, Kubernetes 1.36. The first signal wins: the last plugin
//! allows, a plugin rejects, a plugin's time is over, or the pod is removed.

use std::time::Duration;

use rustc_hash::FxHashMap;
use supercargo_config::duration::GoDuration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::ids::{PodUid, Symbol};
use crate::sync::Mutex;

/// How a wait ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitOutcome {
    /// Every plugin allows the pod.
    Allowed,
    /// A plugin rejects it, or its time is over.
    Rejected {
        /// Which one.
        plugin: Symbol,
        /// Why.
        message: String,
    },
    /// Its place is wanted for a pod of higher priority.
    Preempted,
    /// The pod was deleted, or the process ends.
    Removed,
}

#[derive(Debug)]
struct Waiting {
    plugins: Vec<Symbol>,
    signal: oneshot::Sender<WaitOutcome>,
}

/// The pods that wait.
#[derive(Debug, Default)]
pub struct WaitingMap {
    pods: Mutex<FxHashMap<PodUid, Waiting>>,
}

/// A pod's wait, from the moment it is listed.
#[derive(Debug)]
pub struct Wait {
    pod: PodUid,
    waits: Vec<(Symbol, Duration)>,
    signalled: oneshot::Receiver<WaitOutcome>,
}

impl WaitingMap {
    /// Lists a pod as waiting for every plugin of `waits`. From now on it can be allowed, rejected and removed.
    #[must_use]
    pub fn register(&self, pod: PodUid, waits: Vec<(Symbol, Duration)>) -> Wait {
        let (signal, signalled) = oneshot::channel();
        let plugins = waits.iter().map(|(plugin, _)| *plugin).collect();
        self.pods.lock().insert(pod, Waiting { plugins, signal });
        Wait { pod, waits, signalled }
    }

    /// Waits until every plugin allows the pod, or the wait ends otherwise.
    ///
    /// # Cancel safety
    /// A dropped wait leaves the pod listed until its next signal.
    pub async fn wait(&self, wait: Wait, stopping: &CancellationToken) -> WaitOutcome {
        let Wait { pod, waits, signalled } = wait;
        let timers = futures::future::join_all(waits.into_iter().map(|(plugin, timeout)| async move {
            tokio::time::sleep(timeout).await;
            // Only a plugin that still holds the pod back rejects it.
            if self
                .pods
                .lock()
                .get(&pod)
                .is_some_and(|waiting| waiting.plugins.contains(&plugin))
            {
                let timeout = GoDuration::from(timeout);
                let message = format!("rejected due to timeout after waiting {timeout} at plugin {plugin}");
                self.end(pod, WaitOutcome::Rejected { plugin, message });
            }
        }));
        let deadlines = async {
            timers.await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            outcome = signalled => outcome.unwrap_or(WaitOutcome::Removed),
            // Whichever timer matters has signalled by then.
            () = deadlines => WaitOutcome::Removed,
            () = stopping.cancelled() => {
                self.pods.lock().remove(&pod);
                WaitOutcome::Removed
            }
        }
    }

    fn end(&self, pod: PodUid, outcome: WaitOutcome) -> bool {
        let waiting = self.pods.lock().remove(&pod);
        waiting.is_some_and(|waiting| waiting.signal.send(outcome).is_ok())
    }

    /// A plugin lets the pod pass; false: the pod does not wait.
    pub fn allow(&self, pod: PodUid, plugin: Symbol) -> bool {
        let last = {
            let mut pods = self.pods.lock();
            let Some(waiting) = pods.get_mut(&pod) else {
                return false;
            };
            waiting.plugins.retain(|held_by| *held_by != plugin);
            waiting.plugins.is_empty()
        };
        if last {
            self.end(pod, WaitOutcome::Allowed);
        }
        true
    }

    /// A plugin rejects the pod; false: the pod does not wait.
    pub fn reject(&self, pod: PodUid, plugin: Symbol, message: &str) -> bool {
        self.end(
            pod,
            WaitOutcome::Rejected {
                plugin,
                message: message.to_owned(),
            },
        )
    }

    /// The pod has to give way; false: it did not wait.
    pub fn preempt(&self, pod: PodUid) -> bool {
        self.end(pod, WaitOutcome::Preempted)
    }

    /// The pod is no more; false: it did not wait.
    pub fn remove(&self, pod: PodUid) -> bool {
        self.end(pod, WaitOutcome::Removed)
    }

    /// The pods that wait.
    #[must_use]
    pub fn list(&self) -> Vec<PodUid> {
        self.pods.lock().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const POD: PodUid = PodUid(7);

    async fn start(waits: &[(&str, u64)]) -> (Arc<WaitingMap>, tokio::task::JoinHandle<WaitOutcome>) {
        let map = Arc::new(WaitingMap::default());
        let waits = waits
            .iter()
            .map(|(name, secs)| (Symbol::new(name), Duration::from_secs(*secs)))
            .collect();
        let wait = map.register(POD, waits);
        assert_eq!(map.list(), [POD]);
        let task = tokio::spawn({
            let map = Arc::clone(&map);
            async move { map.wait(wait, &CancellationToken::new()).await }
        });
        tokio::task::yield_now().await;
        (map, task)
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_plugin_to_allow_ends_the_wait() {
        let (map, task) = start(&[("a", 60), ("b", 60)]).await;
        assert!(map.allow(POD, Symbol::new("a")));
        assert_eq!(map.list(), [POD]);
        assert!(map.allow(POD, Symbol::new("b")));
        assert_eq!(task.await.unwrap(), WaitOutcome::Allowed);
        assert!(!map.allow(POD, Symbol::new("b")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_shortest_time_that_still_counts_rejects() {
        let (map, task) = start(&[("a", 10), ("b", 20)]).await;
        map.allow(POD, Symbol::new("a"));
        let outcome = task.await.unwrap();
        let message = "rejected due to timeout after waiting 20s at plugin b".to_owned();
        assert_eq!(
            outcome,
            WaitOutcome::Rejected {
                plugin: Symbol::new("b"),
                message
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_wins() {
        let (map, task) = start(&[("a", 10)]).await;
        assert!(map.reject(POD, Symbol::new("a"), "no"));
        assert!(!map.remove(POD));
        assert!(matches!(task.await.unwrap(), WaitOutcome::Rejected { message, .. } if message == "no"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_pod_waits_no_more() {
        let (map, task) = start(&[("a", 10)]).await;
        assert!(map.remove(POD));
        assert_eq!(task.await.unwrap(), WaitOutcome::Removed);
    }
}
