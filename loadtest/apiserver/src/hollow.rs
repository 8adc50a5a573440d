//! Hollow nodes: a task that does what kubelets would, without running anything.
//!
//! A bound pod becomes Running and Ready after a delay (or never, in rate runs), a pod that is being deleted goes away, and
//! nodes may send heartbeats. It reads and writes the store directly; on a real API server kwok does this work.
//!
//! Does not: run containers, restart or complete pods, or update Services.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hashbrown::HashSet;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

use crate::error::ApiError;
use crate::meta;
use crate::store::{
    DeleteOptions, EventKind, FieldSelector, Object, PatchKind, Resource, Selectors, Store, WatchBatch, WatchItem,
    WatchStart, Watcher, WriteTarget,
};

/// Pods handled between two yields to the runtime: about 5 ms of work.
const PODS_A_TURN: usize = 128;

/// How hollow nodes behave.
#[derive(Debug, Clone, Copy)]
pub struct HollowConfig {
    /// Time from bound to Running.
    pub startup_delay: Duration,
    /// Whether pods become Running at all; rate runs leave it off.
    pub write_status: bool,
    /// Time from the deletion request until the pod is gone.
    pub stop_delay: Duration,
    /// Deletions that hang, as behind a finalizer that nobody takes off; `None`: none do.
    pub hangs: Option<Hangs>,
    /// Time between two heartbeats of each node; `None`: no heartbeats.
    pub heartbeat: Option<Duration>,
}

impl Default for HollowConfig {
    /// Pods run at once, deletions complete at once, no heartbeats.
    fn default() -> Self {
        Self {
            startup_delay: Duration::ZERO,
            write_status: true,
            stop_delay: Duration::ZERO,
            hangs: None,
            heartbeat: None,
        }
    }
}

/// Deletions that take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hangs {
    /// Every so-manieth deletion hangs.
    pub every: NonZeroU32,
    /// How long.
    pub delay: Duration,
}

/// Why hollow nodes stopped.
#[derive(Debug, thiserror::Error)]
pub enum HollowError {
    /// The store refused the watch.
    #[error("hollow nodes cannot watch pods")]
    Watch(#[source] ApiError),
}

#[derive(Debug)]
enum Job {
    Start {
        namespace: String,
        name: String,
        uid: String,
    },
    Stop {
        namespace: String,
        name: String,
        uid: String,
    },
    Heartbeat,
}

struct Hollow {
    store: Store,
    pods: Arc<Resource>,
    config: HollowConfig,
    jobs: DelayQueue<Job>,
    addresses: u32,
    /// Deletions that were seen.
    deletions: u32,
    /// UIDs of pods whose deletion hangs.
    hanging: HashSet<String>,
}

/// Runs hollow nodes until `stop` is cancelled.
///
/// # Errors
/// When the pods cannot be watched, for example because a fault hides them.
///
/// # Cancel safety
/// Dropping the future stops the hollow nodes; pods stay as they are.
pub async fn run(store: Store, config: HollowConfig, stop: CancellationToken) -> Result<(), HollowError> {
    let pods = store.pods().map_err(HollowError::Watch)?;
    let mut hollow = Hollow {
        store,
        pods,
        config,
        jobs: DelayQueue::new(),
        addresses: 0,
        deletions: 0,
        hanging: HashSet::new(),
    };
    if let Some(interval) = config.heartbeat {
        hollow.jobs.insert(Job::Heartbeat, interval);
    }
    loop {
        // The outer loop starts the watch anew after it ended or fell behind.
        let mut watcher = hollow.open().map_err(HollowError::Watch)?;
        loop {
            let batch = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                batch = watcher.next() => batch,
                Some(job) = hollow.jobs.next(), if !hollow.jobs.is_empty() => {
                    hollow.run_job(job.into_inner()).await;
                    continue;
                }
            };
            match batch {
                Ok(Some(WatchBatch::Events(items))) => hollow.on_events(&items).await,
                Ok(Some(WatchBatch::InitialEventsEnd(_))) => {}
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "hollow nodes list the pods again");
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Hollow {
    fn open(&self) -> Result<Watcher, ApiError> {
        let fields = FieldSelector::parse("spec.nodeName!=", &self.pods.kind)?;
        Watcher::open(
            &self.pods,
            None,
            Selectors {
                fields,
                ..Selectors::default()
            },
            WatchStart::Existing,
        )
    }

    async fn on_events(&mut self, items: &[WatchItem]) {
        for (position, item) in items.iter().enumerate() {
            if position % PODS_A_TURN == PODS_A_TURN - 1 {
                tokio::task::yield_now().await;
            }
            if item.kind == EventKind::Deleted {
                self.hanging.remove(item.object.uid());
            } else {
                self.on_pod(&item.object);
            }
        }
    }

    fn on_pod(&mut self, pod: &Object) {
        let (namespace, name, uid) = (pod.namespace().to_owned(), pod.name().to_owned(), pod.uid().to_owned());
        if pod.index.deleting {
            if let Some(delay) = self.stop_delay(pod) {
                self.start_job(Job::Stop { namespace, name, uid }, delay);
            }
        } else if self.config.write_status && pod.index.phase == "Pending" {
            self.start_job(Job::Start { namespace, name, uid }, self.config.startup_delay);
        }
    }

    /// How long the pod takes to go; `None`: it hangs already.
    fn stop_delay(&mut self, pod: &Object) -> Option<Duration> {
        let Some(hangs) = self.config.hangs else {
            return Some(self.config.stop_delay);
        };
        if self.hanging.contains(pod.uid()) {
            return None;
        }
        self.deletions = self.deletions.wrapping_add(1);
        if self.deletions.is_multiple_of(hangs.every.get()) {
            self.hanging.insert(pod.uid().to_owned());
            Some(hangs.delay)
        } else {
            Some(self.config.stop_delay)
        }
    }

    fn start_job(&mut self, job: Job, delay: Duration) {
        if delay.is_zero() {
            self.pod_job(&job);
        } else {
            self.jobs.insert(job, delay);
        }
    }

    async fn run_job(&mut self, job: Job) {
        match job {
            Job::Heartbeat => {
                self.heartbeat().await;
                if let Some(interval) = self.config.heartbeat {
                    self.jobs.insert(Job::Heartbeat, interval);
                }
            }
            other => self.pod_job(&other),
        }
    }

    fn pod_job(&mut self, job: &Job) {
        let outcome = match job {
            Job::Stop { namespace, name, uid } => {
                let target = WriteTarget::object(&self.pods, namespace, name);
                self.store.delete(&target, &DeleteOptions::now(uid)).map(|_| ())
            }
            Job::Start { namespace, name, uid } => self.start(namespace, name, uid),
            Job::Heartbeat => Ok(()),
        };
        // Gone or replaced meanwhile: nothing to do.
        if let Err(error) = outcome.map_err(|error| (error.code, error))
            && !matches!(error.0, 404 | 409 | 422)
        {
            tracing::warn!(error = %error.1, "a hollow node could not write a pod");
        }
    }

    fn start(&mut self, namespace: &str, name: &str, uid: &str) -> Result<(), ApiError> {
        let key = crate::store::key_of(namespace, name);
        let Some(pod) = self
            .pods
            .get(&key)
            .filter(|pod| pod.uid() == uid && !pod.index.deleting)
        else {
            return Ok(());
        };
        if pod.index.phase != "Pending" {
            return Ok(());
        }
        self.addresses = self.addresses.wrapping_add(1);
        let status = running(&pod.value(), self.addresses);
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        let target = WriteTarget::status(&self.pods, namespace, name);
        self.store.patch(&target, PatchKind::Strategic, &patch).map(|_| ())
    }

    async fn heartbeat(&self) {
        let Ok(nodes) = self.store.resource("", "nodes") else {
            return;
        };
        let (all, _) = nodes.snapshot();
        for (position, node) in all.iter().enumerate() {
            if position % PODS_A_TURN == PODS_A_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "hollow node is ready", "lastHeartbeatTime": meta::now_seconds()});
            let patch = json!({"status": {"conditions": [condition]}});
            let target = WriteTarget::status(&nodes, "", node.name());
            if let Err(error) = self.store.patch(&target, PatchKind::Strategic, &patch) {
                tracing::debug!(%error, node = node.name(), "no heartbeat");
            }
        }
    }
}

/// The status of a running pod.
fn running(pod: &Value, number: u32) -> Value {
    let now = meta::now_seconds();
    let [_, high, middle, low] = number.to_be_bytes();
    let address = format!("10.{high}.{middle}.{low}");
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let containers = meta::get(pod, &["spec", "containers"]).and_then(Value::as_array);
    let statuses: Vec<Value> = containers
        .into_iter()
        .flatten()
        .map(|container| {
            json!({
                "name": container.get("name"), "image": container.get("image"), "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": {"running": {"startedAt": now}}, "lastState": {},
            })
        })
        .collect();
    json!({
        "phase": "Running", "startTime": now, "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": statuses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::HistoryLimits;

    fn bound_pod(store: &Store, name: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        store.create_as("", "pods", "default", pod).unwrap();
        store.bind_to("default", name, "n").unwrap();
    }

    #[tokio::test]
    async fn some_deletions_hang_and_the_pods_stay_until_they_are_through() {
        for (every, delay, left) in [(10, Duration::from_secs(3600), 5), (1, Duration::from_millis(20), 0)] {
            let store = Store::new(HistoryLimits::default()).unwrap();
            let stop = CancellationToken::new();
            let config = HollowConfig {
                hangs: NonZeroU32::new(every).map(|every| Hangs { every, delay }),
                ..HollowConfig::default()
            };
            let task = tokio::spawn(run(store.clone(), config, stop.clone()));
            for round in 1..=3 {
                let names: Vec<String> = (0..50).map(|number| format!("p{round}-{number}")).collect();
                names.iter().for_each(|name| bound_pod(&store, name));
                for name in &names {
                    let target = WriteTarget::object(&store.pods().unwrap(), "default", name);
                    store.delete(&target, &DeleteOptions::default()).unwrap();
                }
                let stay = |store: &Store| store.pods().unwrap().snapshot().0;
                wait_for(&store, |store| stay(store).len() == round * left).await;
                assert!(stay(&store).iter().all(|pod| pod.index.deleting));
            }
            stop.cancel();
            task.await.unwrap().unwrap();
        }
    }

    async fn wait_for(store: &Store, done: impl Fn(&Store) -> bool) {
        let mut watcher = store.watch("", "pods", WatchStart::Existing).unwrap();
        while !done(store) {
            tokio::time::timeout(Duration::from_secs(10), watcher.next())
                .await
                .unwrap()
                .unwrap();
        }
    }

    #[tokio::test]
    async fn bound_pods_run_and_deleted_pods_go() {
        let store = Store::new(HistoryLimits::default()).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(store.clone(), HollowConfig::default(), stop.clone()));
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        store.create_as("", "pods", "default", pod).unwrap();
        store.bind_to("default", "a", "n").unwrap();
        wait_for(&store, |store| {
            store.get("", "pods", "default", "a").unwrap().index.phase == "Running"
        })
        .await;
        let pod = store.get("", "pods", "default", "a").unwrap().value();
        assert_eq!(pod["status"]["podIP"], "10.0.0.1");
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|condition| condition["type"] == "PodScheduled"));
        let target = WriteTarget::object(&store.pods().unwrap(), "default", "a");
        store.delete(&target, &DeleteOptions::default()).unwrap();
        wait_for(&store, |store| store.pods().unwrap().is_empty()).await;
        stop.cancel();
        task.await.unwrap().unwrap();
    }
}
