//! The life of a task, from hand-over to its one end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::attempt::Ending;
use super::pre_binding::PreBinding;
use super::slots::{Lane, Lanes, Slots};
use super::waiting::Wait;
use crate::binding::{BindTask, Evictor, Failure, FailureHandler, Slot, StatusPatch, WaitOutcome, WaitingMap};
use crate::clock::Clock;
use crate::cluster::{Cluster, PodInfo};
use crate::extender::Extenders;
use crate::framework::{ApiRequest, BindOutcome, Code, NominatedNode, Status, WaitingPods};
use crate::ids::{PodUid, Symbol};
use crate::queue::{Exit, SchedulingQueue};
use crate::sync::Mutex;
use crate::telemetry::{AttemptResult, ExtensionPoint, Metrics, OperationLabel, StatusLabel, bind_span};

/// The writers get this long to write what they have when the binds took all the time there was.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// Between two looks for workers that are about to hand a task over; a cycle takes far less.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(1);

/// Binds pods; see the [module](crate::binding).
pub struct BindingPool {
    pub(super) failures: Arc<FailureHandler>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    /// What the tasks are called in metrics.
    pub(super) operation: OperationLabel,
    pub(super) clock: Clock,
    pub(super) may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    pub(super) deadline: Duration,
    pub(super) slots: Arc<Slots>,
    pub(super) lanes: Arc<Lanes>,
    /// Binds by extenders in flight: a slow one must not hold up those by the API server.
    pub(super) extender_lanes: Arc<Lanes>,
    pub(super) extenders: Arc<Extenders>,
    pub(super) waiting: Arc<WaitingMap>,
    /// Wakes those who wait for what comes of a volume request.
    pub(super) volumes: Arc<Notify>,
    pub(super) pre_binding: Arc<PreBinding>,
    pub(super) evictor: Arc<Evictor>,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) tasks: TaskTracker,
    pub(super) writers: TaskTracker,
    /// Fires when the pool takes no more tasks: waits in which nothing is under way are not worth the time.
    pub(super) closing: CancellationToken,
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

    /// Who evicts pods.
    #[must_use]
    pub fn evictor(&self) -> &Arc<Evictor> {
        &self.evictor
    }

    /// Takes a task over. Never blocks: its bound is the slot. A pod that has to wait at Permit can be allowed, rejected
    /// and removed as soon as this returns.
    pub fn submit(self: &Arc<Self>, mut task: BindTask, slot: Slot) {
        let uid = task.queued.pod.uid;
        let waits = std::mem::take(&mut task.waits);
        let wait = (!waits.is_empty()).then(|| self.waiting.register(uid, waits));
        // Removed before it was listed, so that its removal could not end the wait; see `pod_removed`.
        if wait.is_some() && self.cluster.ledger.promise(uid).is_none() {
            self.waiting.remove(uid);
        }
        let pool = Arc::clone(self);
        self.tasks
            .spawn_on(async move { pool.guarded(task, wait, slot).await }, &self.runtime);
    }

    /// A pod that may be on its way to a node was deleted or is being deleted: its room is free at once, and a wait at
    /// Permit ends. The room goes first: whoever lists the pod as waiting looks for it after.
    pub fn pod_removed(&self, pod: &Arc<PodInfo>) {
        self.failures.free(pod);
        self.waiting.remove(pod.uid);
        self.volumes.notify_waiters();
    }

    /// Volume objects changed: tasks that wait for what comes of their requests look again.
    pub fn volumes_changed(&self) {
        self.volumes.notify_waiters();
    }

    /// Takes no more tasks; those that wait, at Permit or for what comes of a volume request, give up at once and without a
    /// word: the next process tries their pods again. Lets calls under way finish until `within` is over, then makes their
    /// tasks give up too: each ends bound or unreserved. What the writers have is written until then, or for two seconds at least. Call it after the
    /// queue was closed, so that no worker waits there.
    pub async fn drain(&self, within: Duration) {
        self.slots.close();
        self.tasks.close();
        self.closing.cancel();
        let end = tokio::time::Instant::now() + within;
        if tokio::time::timeout_at(end, self.finished()).await.is_err() {
            tracing::warn!(
                tasks = self.tasks.len(),
                "binds are still under way at the end: giving them up"
            );
            self.stopping.cancel();
            self.tasks.wait().await;
        }
        self.evictor.drain(end).await;
        self.failures
            .drain(end.max(tokio::time::Instant::now() + LAST_WRITES))
            .await;
        self.writers.close();
    }

    /// Until no task is under way and no worker can hand one over: a worker in a cycle holds a place.
    async fn finished(&self) {
        loop {
            self.tasks.wait().await;
            if self.slots.held() == 0 {
                return;
            }
            tokio::time::sleep(HAND_OVER_PAUSE).await;
        }
    }

    /// A plugin that panics fails its pod alone.
    async fn guarded(self: Arc<Self>, task: BindTask, wait: Option<Wait>, slot: Slot) {
        let counted = (
            Counted::new(&self.metrics),
            self.metrics.start_operation(self.operation),
        );
        let (copy, started, node) = (task.queued.clone(), task.started, task.node);
        let run = AssertUnwindSafe(self.run(task, wait, slot)).catch_unwind();
        if run.await.is_err() {
            tracing::error!(pod = copy.pod.full_name(), "binding panicked");
            self.metrics.panicked();
            self.waiting.remove(copy.pod.uid);
            self.failures.unreserve_after_panic(&copy, node);
            let failure = Failure::Error("panic while binding".to_owned());
            self.failures
                .fail_reserved(copy, started, failure, NominatedNode::Clear);
        }
        drop(counted);
    }

    async fn run(&self, task: BindTask, wait: Option<Wait>, slot: Slot) {
        let span = bind_span(
            &task.span,
            task.queued.pod.namespace.as_str(),
            &task.queued.pod.name,
            task.node.as_str(),
        );
        let acting = match self.pre_flight(&task) {
            Ok(acting) => acting,
            Err(status) => {
                self.waiting.remove(task.queued.pod.uid);
                return self.give_back(task, Failure::Error(status.message()));
            }
        };
        if wait.is_some() || !acting.is_empty() {
            self.announce(&task);
        }
        let Some(wait) = wait else {
            return self.finish(task, acting, &span, Some(slot)).await;
        };
        // A waiting pod holds no slot.
        drop(slot);
        let begun = self.clock.now();
        let outcome = self.waiting.wait(wait, &self.closing).await;
        let label = if outcome == WaitOutcome::Allowed {
            StatusLabel::Success
        } else {
            StatusLabel::Unschedulable
        };
        self.metrics.permit_wait(label, self.clock.now().since(begun));
        match outcome {
            WaitOutcome::Allowed => self.finish(task, acting, &span, None).await,
            WaitOutcome::Rejected { plugin, message } => {
                let status = Status::unschedulable(message).by(plugin);
                self.give_back(task, Failure::rejected_by_one(status));
            }
            WaitOutcome::Preempted => {
                let failure = Failure::Error("waiting on permit for pod: preempted".to_owned());
                self.give_back(task, failure);
            }
            WaitOutcome::Removed => self.give_up(task),
        }
    }

    /// PreBind, bind, and the end.
    async fn finish(&self, task: BindTask, acting: Vec<usize>, span: &tracing::Span, slot: Option<Slot>) {
        self.queue.done(&task.queued);
        let slot = Mutex::new(slot);
        let prepared = self.prepare_or_stop(&task, &acting, &slot).await;
        // A pod that an extender binds holds no slot meanwhile.
        let slot = slot.into_inner().filter(|_| !self.extenders.bind(&task.queued.pod));
        let ending = match prepared {
            Ok(()) => self.bind(&task).await,
            Err(_) if !(self.may_act)() || self.closing.is_cancelled() => Ending::Fenced,
            Err(failure) => Ending::Failed(failure),
        };
        span.record("result", ending.name());
        self.end(task, ending);
        drop(slot);
    }

    /// PreBind, until somebody stops it.
    async fn prepare_or_stop(
        &self,
        task: &BindTask,
        acting: &[usize],
        slot: &Mutex<Option<Slot>>,
    ) -> Result<(), Failure> {
        if acting.is_empty() {
            return self.prepare(task, acting, slot).await;
        }
        let entered = self.pre_binding.enter(task.queued.pod.uid);
        let prepared = tokio::select! {
            biased;
            prepared = self.prepare(task, acting, slot) => prepared,
            () = entered.cancelled() => Ok(()),
            () = self.stopping.cancelled() => Err(shutting_down()),
        };
        match entered.leave() {
            Some(plugin) => Err(Failure::Error(format!("preempted by {plugin}"))),
            None => prepared,
        }
    }

    async fn bind(&self, task: &BindTask) -> Ending {
        let mut watch = task.queued.profile.stopwatch();
        let ending = self.run_bind(task).await;
        watch.point(ExtensionPoint::Bind, ending.code());
        ending
    }

    async fn run_bind(&self, task: &BindTask) -> Ending {
        if let Some(ending) = self.bind_by_extender(task).await {
            return ending;
        }
        let profile = &task.queued.profile;
        let mut laps = profile.plugin_stopwatch(&task.state);
        for plugin in profile.bind_plugins() {
            let Some(bind) = plugin.bind() else { continue };
            let name = plugin.name();
            let ending = match bind.bind_pod(&task.state, &task.queued.pod, task.node) {
                BindOutcome::Skip => {
                    laps.plugin(name, ExtensionPoint::Bind, Code::Skip);
                    continue;
                }
                BindOutcome::Request(ApiRequest::BindPod) => self.bind_by_api(task, name).await,
                BindOutcome::Future(future) => self.bind_by_plugin(task, name, future).await,
            };
            laps.plugin(name, ExtensionPoint::Bind, ending.code());
            return ending;
        }
        Ending::Failed(Failure::Error("no Bind plugin took the pod".to_owned()))
    }

    async fn bind_by_plugin(&self, task: &BindTask, plugin: Symbol, future: BoxFuture<'static, Status>) -> Ending {
        if let Some(ending) = self.forbidden(task, plugin).await {
            return ending;
        }
        let _lane = self.lane(task).await;
        let status = tokio::select! {
            biased;
            status = future => status,
            () = self.stopping.cancelled() => return Ending::Failed(shutting_down()),
        };
        if status.is_success() {
            return Ending::Bound;
        }
        Ending::Failed(if status.is_rejected() {
            Failure::Refused(status.message())
        } else {
            bind_failure(plugin, &status.message())
        })
    }

    /// The right to call the API server once.
    pub(super) async fn lane(&self, task: &BindTask) -> (Lane, Counted<AtomicUsize>) {
        let lane = self.lanes.acquire(task.queued.pod.priority()).await;
        (lane, Counted::new(&self.in_flight))
    }

    fn end(&self, task: BindTask, ending: Ending) {
        let pod = &task.queued.pod;
        match ending {
            Ending::Bound => self.bound(&task),
            Ending::Gone => self.give_up(task),
            Ending::Fenced => self.give_back_quietly(task),
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
        let plugins = queued.profile.post_bind_plugins().len();
        let tell = || self.post_bind(task);
        queued
            .profile
            .timed(ExtensionPoint::PostBind, plugins, tell, |()| Code::Success);
    }

    /// The pod is bound, whatever these do: a panic here must not give its room back.
    fn post_bind(&self, task: &BindTask) {
        let queued = &task.queued;
        let mut laps = queued.profile.plugin_stopwatch(&task.state);
        for plugin in queued.profile.post_bind_plugins() {
            let Some(post_bind) = plugin.post_bind() else { continue };
            let tell = || post_bind.post_bind_pod(&task.state, &queued.pod, task.node);
            if catch_unwind(AssertUnwindSafe(tell)).is_err() {
                self.metrics.panicked();
                tracing::error!(plugin = %plugin.name(), pod = queued.pod.full_name(), "PostBind panicked");
            }
            laps.plugin(plugin.name(), ExtensionPoint::PostBind, Code::Success);
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
        self.failures
            .fail_reserved(task.queued, task.started, failure, NominatedNode::Clear);
    }

    /// The same without a word to the API server, which is another process's to write to by now.
    fn give_back_quietly(&self, mut task: BindTask) {
        task.queued
            .profile
            .run_unreserve(&mut task.state, &task.queued.pod, task.node);
        self.failures.unreserve(&task.queued);
        self.failures.requeue_quietly(task.queued);
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

pub(super) fn shutting_down() -> Failure {
    Failure::Error("the scheduler is shutting down".to_owned())
}

/// Counts one more for as long as it lives.
#[derive(Debug)]
pub(super) struct Counted<T: Count>(Arc<T>);

/// What can be counted up and down.
pub(super) trait Count {
    fn add(&self, delta: i64);
}

impl Count for AtomicUsize {
    fn add(&self, delta: i64) {
        if delta > 0 {
            self.fetch_add(1, Ordering::Relaxed);
        } else {
            self.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Count for Metrics {
    fn add(&self, delta: i64) {
        self.bindings_in_flight_add(delta);
    }
}

impl<T: Count> Counted<T> {
    fn new(counter: &Arc<T>) -> Self {
        counter.add(1);
        Self(Arc::clone(counter))
    }
}

impl<T: Count> Drop for Counted<T> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
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
