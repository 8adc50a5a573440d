//! The life of a task, from hand-over to its one end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::attempt::Ending;
use super::slots::{Lanes, Slots};
use crate::binding::{BindTask, Failure, FailureHandler, Slot, StatusPatch, WaitOutcome, WaitingMap};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::framework::{
    ActionType, BindOutcome, ClusterEvent, EventObject, EventResource, NominatedNode, Status, WaitingPods,
};
use crate::ids::{PodUid, Symbol};
use crate::queue::{Exit, SchedulingQueue};
use crate::telemetry::{AttemptResult, Metrics, StatusLabel, bind_span};

/// Binds pods; see the [module](crate::binding).
pub struct BindingPool {
    pub(super) failures: Arc<FailureHandler>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    pub(super) deadline: Duration,
    pub(super) slots: Arc<Slots>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) waiting: Arc<WaitingMap>,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) tasks: TaskTracker,
    pub(super) writers: TaskTracker,
    /// Fires when the time to finish what is under way is over.
    pub(super) stopping: CancellationToken,
    pub(super) runtime: Handle,
}

impl std::fmt::Debug for BindingPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BindingPool")
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl BindingPool {
    /// Waits for a place for one more assumed pod; `None`: the pool takes no more. For threads, not for tasks.
    #[must_use]
    pub fn acquire_slot(&self) -> Option<Slot> {
        self.slots.acquire()
    }

    /// Takes a task over. Never blocks: its bound is the slot.
    pub fn submit(self: &Arc<Self>, task: BindTask, slot: Slot) {
        let pool = Arc::clone(self);
        self.tasks
            .spawn_on(async move { pool.guarded(task, slot).await }, &self.runtime);
    }

    /// A pod that may be on its way to a node was deleted or is being deleted: its room is free at once, and a wait at
    /// Permit ends.
    pub fn pod_removed(&self, uid: PodUid) {
        self.waiting.remove(uid);
        if self.cluster.ledger.unreserve(uid) {
            let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
            self.queue.on_event(
                event,
                &EventObject::Pod {
                    old: self.cluster.pod(uid),
                    new: None,
                },
                None,
            );
        }
    }

    /// Takes no more tasks; lets those under way finish, and the writers write, until `within` is over, then makes them
    /// give up: each ends bound or unreserved.
    pub async fn drain(&self, within: Duration) {
        self.slots.close();
        self.tasks.close();
        let end = tokio::time::Instant::now() + within;
        if tokio::time::timeout_at(end, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                tasks = self.tasks.len(),
                "binds are still under way at the end: giving them up"
            );
            self.stopping.cancel();
            self.tasks.wait().await;
        }
        self.failures.drain(end).await;
        self.writers.close();
    }

    /// A plugin that panics fails its pod alone.
    async fn guarded(self: Arc<Self>, task: BindTask, slot: Slot) {
        let copy = task.queued.clone();
        let started = task.started;
        let run = std::panic::AssertUnwindSafe(self.run(task, slot)).catch_unwind();
        if run.await.is_err() {
            tracing::error!(pod = copy.pod.full_name(), "binding panicked");
            self.metrics.panicked();
            self.failures.unreserve(&copy);
            let failure = Failure::Error("panic while binding".to_owned());
            self.failures.fail(copy, started, failure, NominatedNode::Clear);
        }
    }

    async fn run(&self, mut task: BindTask, slot: Slot) {
        let span = bind_span(
            &task.span,
            task.queued.pod.namespace.as_str(),
            &task.queued.pod.name,
            task.node.as_str(),
        );
        let flight = self.pre_flight(&task);
        if task.waits.is_empty() {
            self.queue.done(&task.queued);
            self.finish(task, flight, &span, Some(slot)).await;
            return;
        }
        // A waiting pod holds no slot.
        drop(slot);
        let begun = self.clock.now();
        let waits = std::mem::take(&mut task.waits);
        let outcome = self.waiting.wait(task.queued.pod.uid, waits, &self.stopping).await;
        let label = if outcome == WaitOutcome::Allowed {
            StatusLabel::Success
        } else {
            StatusLabel::Unschedulable
        };
        self.metrics.permit_wait(label, self.clock.now().since(begun));
        match outcome {
            WaitOutcome::Allowed => {
                self.queue.done(&task.queued);
                self.finish(task, flight, &span, None).await;
            }
            WaitOutcome::Rejected { plugin, message } => {
                let status = Status::unschedulable(message).by(plugin);
                self.give_back(task, Failure::rejected_by_one(status));
            }
            WaitOutcome::Removed => self.give_up(task),
        }
    }

    /// PreBind, bind, and the end.
    async fn finish(
        &self,
        mut task: BindTask,
        flight: Result<Vec<usize>, Status>,
        span: &tracing::Span,
        slot: Option<Slot>,
    ) {
        let ending = match self.prepare(&mut task, flight).await {
            Err(failure) => Ending::Failed(failure),
            Ok(()) => {
                let _lane = self.lanes.acquire(task.queued.pod.priority()).await;
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                self.metrics.bindings_in_flight_add(1);
                let ending = self.bind(&task).await;
                self.metrics.bindings_in_flight_add(-1);
                self.in_flight.fetch_sub(1, Ordering::Relaxed);
                ending
            }
        };
        span.record("result", ending.name());
        self.end(task, ending);
        drop(slot);
    }

    async fn bind(&self, task: &BindTask) -> Ending {
        for plugin in task.queued.profile.bind_plugins() {
            let Some(bind) = plugin.bind() else { continue };
            let name = plugin.name();
            return match bind.bind_pod(&task.state, &task.queued.pod, task.node) {
                BindOutcome::Skip => continue,
                BindOutcome::Request(crate::framework::ApiRequest::BindPod) => self.bind_by_api(task, name).await,
                BindOutcome::Future(future) => match future.await {
                    status if status.is_success() => Ending::Bound,
                    status => Ending::Failed(bind_failure(name, &status.message())),
                },
            };
        }
        Ending::Failed(Failure::Error("no Bind plugin took the pod".to_owned()))
    }

    fn end(&self, task: BindTask, ending: Ending) {
        let pod = &task.queued.pod;
        match ending {
            Ending::Bound => self.bound(&task),
            Ending::Gone => self.give_up(task),
            Ending::Elsewhere(node) => {
                tracing::debug!(pod = pod.full_name(), node, "the pod was bound by somebody else");
                self.release(task, Exit::Bound);
            }
            Ending::Failed(failure) => {
                // The watch may know better than a call that failed: then the reservation is a fact.
                let known = self.cluster.pod(pod.uid).and_then(|pod| pod.bound_to);
                match known {
                    Some(node) if node == task.node => self.bound(&task),
                    Some(_) => self.release(task, Exit::Bound),
                    None => self.give_back(task, failure),
                }
            }
        }
    }

    fn bound(&self, task: &BindTask) {
        let queued = &task.queued;
        let now = self.clock.now();
        self.metrics
            .schedule_attempt(queued.profile.index, AttemptResult::Scheduled, now.since(task.started));
        let since_first = now.since(queued.initial_attempt.unwrap_or(queued.timestamp));
        self.metrics.pod_scheduled(queued.attempts, since_first);
        if queued.flushed {
            self.metrics.pod_scheduled_after_flush();
        }
        self.failures.record_scheduled(queued, task.node);
        self.queue.leave(queued, Exit::Bound);
        for post_bind in queued
            .profile
            .post_bind_plugins()
            .iter()
            .filter_map(|plugin| plugin.post_bind())
        {
            post_bind.post_bind_pod(&task.state, &queued.pod, task.node);
        }
    }

    /// The pod is no more: nothing is written about it.
    fn give_up(&self, task: BindTask) {
        self.failures.forget(&task.queued.pod);
        self.release(task, Exit::Deleted);
    }

    /// Undoes the reservation of a pod that leaves the queue.
    fn release(&self, mut task: BindTask, exit: Exit) {
        task.queued
            .profile
            .run_unreserve(&mut task.state, &task.queued.pod, task.node);
        self.failures.unreserve(&task.queued);
        self.queue.leave(&task.queued, exit);
    }

    /// Undoes the reservation of a pod that goes back to the queue.
    fn give_back(&self, mut task: BindTask, failure: Failure) {
        task.queued
            .profile
            .run_unreserve(&mut task.state, &task.queued.pod, task.node);
        self.failures.unreserve(&task.queued);
        self.failures
            .fail(task.queued, task.started, failure, NominatedNode::Clear);
    }

    /// Says on the pod where it is headed, before something that takes time.
    pub(super) fn announce(&self, task: &BindTask) {
        self.failures.status.write(StatusPatch {
            pod: Arc::clone(&task.queued.pod),
            condition: None,
            nominated: NominatedNode::Set(task.node),
        });
    }
}

/// The failure of a Bind plugin.
pub(super) fn bind_failure(plugin: Symbol, text: &str) -> Failure {
    Failure::Error(format!("running Bind plugin {plugin:?}: {text}"))
}

impl WaitingPods for BindingPool {
    fn allow(&self, pod: PodUid, plugin: Symbol) -> bool {
        self.waiting.allow(pod, plugin)
    }

    fn reject(&self, pod: PodUid, plugin: Symbol, message: &str) -> bool {
        self.waiting.reject(pod, plugin, message)
    }

    fn list(&self) -> Vec<PodUid> {
        self.waiting.list()
    }
}
