//! Evictions: pods that have to go for a pod of higher priority.
//!
//! A victim that waits at Permit, or whose PreBind is under way, is stopped in memory. Any other is first marked with the
//! condition `DisruptionTarget`, then deleted with its UID as precondition, so that a pod that was created anew under its
//! name lives on. A victim that is gone is as good as evicted. All victims but the last are evicted side by side, then the
//! last one; until it is seen to go, the preemptor is held back at PreEnqueue, where a try would come too early.
//!
//! What an event would have done for a preemptor that was held back is done at the end. After an error the preemptor is
//! tried again at once, and its nomination counts on these victims no more.
//!
//! Does not: choose, nominate, or act when this process may not any more; then it ends without a word.
//!
//! Threads: [`Evict`]'s methods may be called from any thread, the one of a synchronous eviction must not be a task's.
//! Bounds: one preemption a queued pod, since a pod is held back while one is under way; calls by [`LANES`].
//!
//! Source: `pkg/scheduler/framework/preemption/executor.go` and KEP-4832, Kubernetes 1.36. We differ: the UID goes with
//! every call, a pod that two preemptors evict is asked to go once, and no preemptor is left waiting when all its victims
//! went before their evictions ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join_all;
use http::Method;
use kube::Client;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::pre_binding::PreBinding;
use super::write::{BRIEFLY, Write, Written, is_there, path, send_while};
use crate::binding::{EventWriter, PodEvent, PodEventKind, StatusPatch, StatusWriter, WaitingMap};
use crate::clock::Clock;
use crate::cluster::{Cluster, PodInfo};
use crate::framework::{Activate as _, Evict, Eviction, NominatedNode};
use crate::ids::PodUid;
use crate::queue::SchedulingQueue;
use crate::sync::Mutex;
use crate::telemetry::{Metrics, Outcome};

/// Evictions in flight, two calls each one after the other. As many as binds are by default, so that neither starves
/// the other.
const LANES: usize = 64;

/// What became of one victim, if nothing failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gone {
    /// Stopped in memory.
    InMemory,
    /// The API server has been asked to remove it.
    Asked,
    /// It was gone already, or somebody else has it evicted.
    Anyhow,
}

/// Why a victim could not be evicted.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Failed {
    /// This process may not act.
    Forbidden,
    /// The API server said so, or nothing.
    Error(String),
}

/// A preemption under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// The last victim, once it alone is left.
    last: Option<PodUid>,
}

/// What is under way.
#[derive(Debug, Default)]
struct UnderWay {
    /// By preemptor.
    running: FxHashMap<PodUid, Running>,
    /// Victims about which calls are being made: whoever holds the lock makes them; true: they are made.
    victims: FxHashMap<PodUid, Arc<AsyncMutex<bool>>>,
}

/// Evicts pods; how is said at the head of this module.
#[derive(Debug)]
pub struct Evictor(Arc<Work>);

/// All that evictions need.
struct Work {
    parts: EvictorParts,
    tasks: TaskTracker,
    stopping: CancellationToken,
    runtime: Handle,
    under_way: Mutex<UnderWay>,
    lanes: Semaphore,
}

/// What an evictor is made from.
pub(super) struct EvictorParts {
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) client: Client,
    pub(super) events: Arc<EventWriter>,
    pub(super) status: Arc<StatusWriter>,
    pub(super) waiting: Arc<WaitingMap>,
    pub(super) pre_binding: Arc<PreBinding>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether a preemptor waits for its evictions in the queue, and not the worker.
    pub(super) is_async: bool,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

impl Evictor {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(parts: EvictorParts) -> Self {
        Self(Arc::new(Work {
            parts,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            runtime: Handle::current(),
            under_way: Mutex::default(),
            lanes: Semaphore::new(LANES),
        }))
    }

    /// Lets what is under way end until `end`, then gives it up.
    pub(super) async fn drain(&self, end: tokio::time::Instant) {
        let Work { tasks, stopping, .. } = &*self.0;
        tasks.close();
        if tokio::time::timeout_at(end, tasks.wait()).await.is_err() {
            tracing::warn!(preemptions = tasks.len(), "evictions are still under way at the end");
        }
        stopping.cancel();
        tasks.wait().await;
    }

    /// Until no preemption is under way.
    #[cfg(test)]
    pub(super) async fn idle(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.tasks.reopen();
    }
}

impl Work {
    /// Everything that an eviction is, in the background.
    async fn run(&self, eviction: Eviction, going: Vec<Arc<PodInfo>>) {
        let (begun, preemptor) = (self.parts.clock.now(), eviction.preemptor.uid);
        let work = async {
            self.clear_displaced(&eviction);
            self.evict_all(&eviction, &going).await
        };
        // A panic must not hold the preemptor back for ever.
        let work = AssertUnwindSafe(work).catch_unwind();
        let result = tokio::select! {
            biased;
            result = work => result.unwrap_or_else(|_panic| {
                self.parts.metrics.panicked();
                Err(Failed::Error("evicting panicked".to_owned()))
            }),
            () = self.stopping.cancelled() => Err(Failed::Forbidden),
        };
        let took = self.parts.clock.now().since(begun);
        let outcome = if result.is_ok() {
            Outcome::Success
        } else {
            Outcome::Error
        };
        self.parts.metrics.preemption_evictions(outcome, took);
        if result.is_err() {
            self.parts.cluster.ledger.forget_victims(preemptor);
        }
        self.under_way.lock().running.remove(&preemptor);
        match result {
            // Victims that went while the preemptor was held back wake it no more.
            Ok(()) | Err(Failed::Forbidden) => self.parts.queue.ungate(preemptor),
            Err(Failed::Error(error)) => {
                let pod = eviction.preemptor.full_name();
                tracing::warn!(pod, node = %eviction.node, error, "pods could not be evicted");
                self.parts.queue.activate(&[preemptor]);
            }
        }
    }

    /// Side by side, and the last one when the others went well.
    async fn evict_all(&self, eviction: &Eviction, going: &[Arc<PodInfo>]) -> Result<(), Failed> {
        let Some((last, others)) = going.split_last() else {
            return Ok(());
        };
        let evicted = join_all(others.iter().map(|victim| self.evict_one(eviction, victim))).await;
        evicted.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let Some(running) = self.under_way.lock().running.get_mut(&eviction.preemptor.uid) {
            running.last = Some(last.uid);
        }
        self.evict_one(eviction, last).await.map(drop)
    }

    async fn evict_one(&self, eviction: &Eviction, victim: &Arc<PodInfo>) -> Result<Gone, Failed> {
        let turn = Arc::clone(self.under_way.lock().victims.entry(victim.uid).or_default());
        let result = {
            let mut is_done = turn.lock().await;
            let result = if *is_done {
                Ok(Gone::Anyhow)
            } else {
                self.ask(eviction, victim).await
            };
            *is_done = result.is_ok();
            result
        };
        self.forget_turn(victim.uid, turn);
        if let Ok(how @ (Gone::InMemory | Gone::Asked)) = result {
            self.tell(eviction, victim, how);
        }
        result
    }

    /// The last of those who have a victim evicted at the same time clears up.
    fn forget_turn(&self, victim: PodUid, turn: Arc<AsyncMutex<bool>>) {
        let mut under_way = self.under_way.lock();
        drop(turn);
        let is_last = |turn: &Arc<AsyncMutex<bool>>| Arc::strong_count(turn) == 1;
        if under_way.victims.get(&victim).is_some_and(is_last) {
            under_way.victims.remove(&victim);
        }
    }

    fn tell(&self, eviction: &Eviction, victim: &Arc<PodInfo>, how: Gone) {
        tracing::debug!(victim = victim.full_name(), node = %eviction.node, ?how, "evicted");
        self.parts.events.record(PodEvent {
            pod: Arc::clone(victim),
            reporter: eviction.scheduler,
            kind: PodEventKind::Preempted {
                by: Arc::clone(&eviction.preemptor),
                node: eviction.node,
                in_memory: how == Gone::InMemory,
            },
        });
    }

    async fn ask(&self, eviction: &Eviction, victim: &Arc<PodInfo>) -> Result<Gone, Failed> {
        if self.parts.waiting.preempt(victim.uid) || self.parts.pre_binding.cancel(victim.uid, eviction.plugin) {
            return Ok(Gone::InMemory);
        }
        // Closed never: then nobody waits for the answer any more.
        let _lane = self.lanes.acquire().await;
        if !victim.preempted && !self.write(victim, &self.condition(eviction, victim)).await? {
            return Ok(Gone::Anyhow);
        }
        let is_there = self.write(victim, &deletion(victim)).await?;
        Ok(if is_there { Gone::Asked } else { Gone::Anyhow })
    }

    /// Sends a write about a victim; false: the victim is gone.
    async fn write(&self, victim: &PodInfo, write: &Write) -> Result<bool, Failed> {
        match send_while(&self.parts.client, write, BRIEFLY, &*self.parts.may_act).await {
            Written::Yes => Ok(true),
            Written::NotFound => Ok(false),
            Written::Forbidden => Err(Failed::Forbidden),
            Written::No(error) => Err(Failed::Error(error)),
            Written::Mismatch(error) => match is_there(&self.parts.client, victim).await {
                Ok(false) => Ok(false),
                Ok(true) => Err(Failed::Error(error)),
                Err(unread) => Err(Failed::Error(format!("{error}, and reading the pod back: {unread}"))),
            },
        }
    }

    fn condition(&self, eviction: &Eviction, victim: &PodInfo) -> Write {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{}: preempting to accommodate a higher priority pod", eviction.scheduler),
            "lastTransitionTime": format!("{:.0}", self.parts.clock.wall()),
            "observedGeneration": victim.generation,
        });
        // The UID makes the server refuse the patch for a pod that was created anew under the name.
        let body = json!({"metadata": {"uid": &*victim.uid_text}, "status": {"conditions": [condition]}});
        Write {
            method: Method::PATCH,
            path: format!("{}/status", path(victim)),
            content_type: "application/strategic-merge-patch+json",
            body: body.to_string().into_bytes(),
        }
    }

    /// Pods that were nominated to the node and are not any more: their status must not say so.
    fn clear_displaced(&self, eviction: &Eviction) {
        for pod in &eviction.displaced {
            self.parts.status.write(StatusPatch {
                pod: Arc::clone(pod),
                condition: None,
                nominated: NominatedNode::Clear,
            });
        }
    }

    /// In the worker's thread, to the end.
    fn evict_now(&self, eviction: &Eviction, going: &[Arc<PodInfo>]) -> Result<(), String> {
        let work = join_all(going.iter().map(|victim| self.evict_one(eviction, victim)));
        let stopped = self.stopping.cancelled();
        let evicted = self.runtime.block_on(async {
            tokio::select! {
                biased;
                evicted = work => evicted,
                () = stopped => vec![Err(Failed::Forbidden)],
            }
        });
        let failed = evicted.into_iter().find_map(Result::err);
        match failed {
            None => {
                self.clear_displaced(eviction);
                Ok(())
            }
            Some(Failed::Error(error)) => Err(error),
            Some(Failed::Forbidden) => Err(Written::Forbidden.why()),
        }
    }
}

impl Evict for Evictor {
    fn evict(&self, eviction: Eviction) -> Result<(), String> {
        let work = &self.0;
        let going = eviction.victims.iter().filter(|victim| !victim.terminating);
        let going: Vec<_> = going.map(Arc::clone).collect();
        let all = eviction.victims.len() as u64;
        if !work.parts.is_async {
            work.parts.metrics.preemption_victims(all);
            return work.evict_now(&eviction, &going);
        }
        if going.is_empty() {
            work.clear_displaced(&eviction);
            return Ok(());
        }
        work.parts.metrics.preemption_victims(all);
        let running = Running { last: None };
        work.under_way.lock().running.insert(eviction.preemptor.uid, running);
        let task = Arc::clone(work);
        work.tasks
            .spawn_on(async move { task.run(eviction, going).await }, &work.runtime);
        Ok(())
    }

    fn is_evicting_for(&self, preemptor: PodUid) -> bool {
        let running = self.0.under_way.lock().running.get(&preemptor).copied();
        match running {
            None => false,
            Some(Running { last: None }) => true,
            // The call about it may not have returned yet, but what it asks for is seen already.
            Some(Running { last: Some(last) }) => {
                let last = self.0.parts.cluster.pod(last);
                last.is_some_and(|victim| !victim.terminating)
            }
        }
    }
}

fn deletion(victim: &PodInfo) -> Write {
    let body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": &*victim.uid_text},
    });
    Write {
        method: Method::DELETE,
        path: path(victim),
        content_type: "application/json",
        body: body.to_string().into_bytes(),
    }
}
