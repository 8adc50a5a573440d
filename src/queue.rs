//! The scheduling queue: pods that are to be scheduled, and when each is to be tried.
//!
//! A pod enters when it is seen without a node and leaves by exactly one way: bound, deleted, or handed to another
//! scheduler. Between, it waits in a pool (active, backoff, unschedulable, gated), is in flight (a worker has it) or is
//! binding (a node was found, the bind may still fail). Pools, backoff, the replay of events that came during an
//! attempt and queueing hints are kube-scheduler's.
//!
//! Source: `pkg/scheduler/backend/queue/scheduling_queue.go`, Kubernetes 1.36. We differ: pods are known by UID; a pod
//! stays known while it binds, so that a late update cannot queue it twice; an event costs the groups of alike pods and
//! not the pods.
//!
//! Does not: keep nominations (the ledger does), know nodes, or run a timer: whoever owns it calls the two flushes.
//!
//! Threads: any, all calls. One lock, held for a heap operation or, on an event, for the hints of the groups concerned;
//! hints, PreEnqueue plugins and the sort run under it and must not call the queue. Workers sleep on a condition.
//!
//! Cost a pod: add, pop, done and leave are one lock and one heap operation each, about a microsecond in all.
//!
//! Children in reading order: `pod` (a pod with its record), `backoff`, `heap` (and the order), `parked` (groups of
//! waiting pods), `in_flight` (events kept), `store` (stages and the transition), `plan` (who is asked about an event),
//! `requeue` (what the answers amount to), `moves` (events and flushes), `changes` (which events a change is).

mod backoff;
mod changes;
mod heap;
mod in_flight;
mod moves;
mod parked;
mod plan;
mod pod;
mod requeue;
mod store;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use changes::{Changes, node_changes, pod_changes};
pub use moves::Restrict;
pub use pod::{PluginSet, QueueConfig, QueuedPodInfo, Rejectors, Requeued};
pub use store::{Exit, PendingCounts, Totals};

use crate::clock::{Clock, Nanos};
use crate::cluster::PodInfo;
use crate::framework::{ActionType, ClusterEvent, EventObject, EventResource, Profiles};
use crate::ids::PodUid;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::telemetry::{EventLabel, Metrics};
use in_flight::Seen;
use plan::{Plan, Plans};
use requeue::{Asking, Happened, Worth, is_gated};
use store::{Pool, Stage, Store, Tools};

/// See the [module](self).
#[derive(Debug)]
pub struct SchedulingQueue {
    clock: Clock,
    config: QueueConfig,
    metrics: Arc<Metrics>,
    labels: Labels,
    inner: Mutex<Inner>,
    ready: Condvar,
}

/// What a worker does next.
#[derive(Debug)]
pub enum Next<T> {
    /// A pod from the queue.
    Popped(QueuedPodInfo),
    /// What was waiting elsewhere.
    Other(T),
}

#[derive(Debug)]
struct Inner {
    store: Store,
    plans: Arc<Plans>,
    closed: bool,
}

/// Labels of events that are the queue's own.
#[derive(Clone, Copy, Debug)]
struct Labels {
    add: EventLabel,
    attempt_failed: EventLabel,
    backoff_complete: EventLabel,
    pop_from_backoff: EventLabel,
    activate: EventLabel,
}

impl SchedulingQueue {
    /// An empty queue for the pods of `profiles`.
    #[must_use]
    pub fn new(profiles: Arc<Profiles>, clock: Clock, config: QueueConfig, metrics: Arc<Metrics>) -> Self {
        let label = |event: ClusterEvent| metrics.event(&event.label());
        let labels = Labels {
            add: label(ClusterEvent::new(EventResource::UnschedulablePod, ActionType::ADD)),
            attempt_failed: label(ClusterEvent::SCHEDULE_ATTEMPT_FAILURE),
            backoff_complete: label(ClusterEvent::BACKOFF_COMPLETE),
            pop_from_backoff: label(ClusterEvent::POP_FROM_BACKOFF),
            activate: label(ClusterEvent::FORCE_ACTIVATE),
        };
        let inner = Inner {
            store: Store::default(),
            plans: Arc::new(Plans::new(profiles, Arc::clone(&metrics))),
            closed: false,
        };
        Self {
            clock,
            config,
            metrics,
            labels,
            inner: Mutex::new(inner),
            ready: Condvar::new(),
        }
    }

    /// A pod was seen that has no node; false: it is not ours (no profile of its scheduler's name, has a node, has
    /// ended). One that is known already is updated.
    pub fn add(&self, pod: &Arc<PodInfo>) -> bool {
        let mut inner = self.inner.lock();
        if inner.store.find(pod.uid).is_some() {
            self.update_known(&mut inner, None, pod);
            return true;
        }
        self.enter(&mut inner, pod)
    }

    fn enter(&self, inner: &mut Inner, pod: &Arc<PodInfo>) -> bool {
        let profile = pod.spec.scheduler_name.and_then(|name| inner.plans.profiles.get(name));
        let Some(profile) = profile.filter(|_| pod.bound_to.is_none() && !pod.terminal) else {
            return false;
        };
        let queued = QueuedPodInfo::new(Arc::clone(pod), Arc::clone(profile), self.clock.now());
        let slot = inner.store.enter(pod.uid);
        self.place(inner, slot, self.labels.add, Box::new(queued), Pool::Active);
        true
    }

    /// The pod's object changed; a pod that is not known enters. `old` is what it was as far as the caller knows;
    /// an object of the same version changes nothing.
    pub fn update(&self, old: Option<&Arc<PodInfo>>, new: &Arc<PodInfo>) {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.store.find(new.uid) else {
            self.enter(&mut inner, new);
            return;
        };
        if old.is_some_and(|old| !old.resource_version.is_empty() && old.resource_version == new.resource_version) {
            return;
        }
        let is_binding = matches!(inner.store.stage(slot), Some(Stage::Binding { .. }));
        self.update_known(&mut inner, old, new);
        // Pods of its priority and below were held off by the nomination as if the pod were there.
        if let Some(old) = old.filter(|old| old.nominated_node.is_some() && old.nominated_node != new.nominated_node)
            && !is_binding
        {
            self.nomination_ended(&mut inner, old);
        }
    }

    /// The same for a pod that may have left the queue already because it is bound: then it does not enter.
    pub fn update_if_known(&self, old: Option<&Arc<PodInfo>>, new: &Arc<PodInfo>) {
        let mut inner = self.inner.lock();
        self.update_known(&mut inner, old, new);
    }

    /// The pod is no more, or is another scheduler's.
    pub fn delete(&self, uid: PodUid) {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.store.find(uid) else { return };
        let pod = match inner.store.stage(slot) {
            Some(Stage::Waiting(_, queued)) => Some(Arc::clone(&queued.pod)),
            Some(Stage::InFlight { pod, .. }) => Some(Arc::clone(pod)),
            _ => None,
        };
        inner.leave(slot, Exit::Deleted, &self.metrics);
        if let Some(pod) = pod.filter(|pod| pod.nominated_node.is_some()) {
            self.nomination_ended(&mut inner, &pod);
        }
    }

    /// The pod was seen to have a node.
    pub fn assigned(&self, uid: PodUid) {
        let mut inner = self.inner.lock();
        if let Some(slot) = inner.store.find(uid) {
            inner.leave(slot, Exit::Bound, &self.metrics);
        }
    }

    /// The next pod; waits for one. `None`: the queue was closed.
    #[must_use]
    pub fn pop(&self) -> Option<QueuedPodInfo> {
        let mut inner = self.inner.lock();
        loop {
            if inner.closed {
                return None;
            }
            if let Some(queued) = self.take(&mut inner) {
                return Some(queued);
            }
            self.ready.wait(&mut inner);
        }
    }

    /// What `other` has, or else the next pod; waits for one of them. `other` is asked under the queue's lock; whoever
    /// gives it something calls [`Self::wake_one`] after. `None`: the queue was closed.
    #[must_use]
    pub fn pop_or<T>(&self, other: impl Fn() -> Option<T>) -> Option<Next<T>> {
        let mut inner = self.inner.lock();
        loop {
            if inner.closed {
                return None;
            }
            if let Some(other) = other() {
                return Some(Next::Other(other));
            }
            if let Some(queued) = self.take(&mut inner) {
                return Some(Next::Popped(queued));
            }
            self.ready.wait(&mut inner);
        }
    }

    /// Wakes a worker that waits in [`Self::pop_or`].
    pub fn wake_one(&self) {
        let _inner = self.inner.lock();
        self.ready.notify_one();
    }

    /// The next pods, at most `max` and at least one; waits for one. Pods in backoff come alone. Empty: the queue was
    /// closed.
    #[must_use]
    pub fn pop_batch(&self, max: usize) -> Vec<QueuedPodInfo> {
        let mut inner = self.inner.lock();
        loop {
            if inner.closed {
                return Vec::new();
            }
            let count = inner.store.counts().active.min(max).max(1);
            let batch: Vec<_> = (0..count).map_while(|_| self.take(&mut inner)).collect();
            if !batch.is_empty() {
                return batch;
            }
            self.ready.wait(&mut inner);
        }
    }

    /// The next pod, if one is ready.
    #[must_use]
    pub fn try_pop(&self) -> Option<QueuedPodInfo> {
        let mut inner = self.inner.lock();
        if inner.closed { None } else { self.take(&mut inner) }
    }

    fn take(&self, inner: &mut Inner) -> Option<QueuedPodInfo> {
        let tools = Tools {
            metrics: &self.metrics,
            plans: &inner.plans,
        };
        inner.store.take(self.labels.pop_from_backoff, tools)
    }

    /// Ends every wait for a pod, now and from now on.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.ready.notify_all();
    }

    /// The pod's decision stands (its wait at Permit included) and events do not matter to it any more; it is about to
    /// be bound. False: it has left the queue meanwhile.
    pub fn done(&self, queued: &QueuedPodInfo) -> bool {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.store.given_out(queued) else {
            return false;
        };
        inner.transition(slot, self.labels.attempt_failed, &self.metrics, |stage| match stage {
            Stage::InFlight { pod, .. } => Stage::Binding { pod },
            other => other,
        });
        true
    }

    /// A pod that was given out leaves. False: it has left already.
    pub fn leave(&self, queued: &QueuedPodInfo, exit: Exit) -> bool {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.store.given_out(queued) else {
            return false;
        };
        inner.leave(slot, exit, &self.metrics);
        true
    }

    /// A pod comes back after a failed attempt; `rejectors` says who is to blame, nobody stands for an error. Events
    /// that came during the attempt are taken into account.
    pub fn add_unschedulable_if_not_present(&self, mut queued: QueuedPodInfo, rejectors: Rejectors) -> Requeued {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.store.given_out(&queued) else {
            let known = inner.store.find(queued.pod.uid).is_some();
            return if known { Requeued::AlreadyQueued } else { Requeued::Gone };
        };
        if rejectors.is_empty() {
            queued.consecutive_errors = queued.consecutive_errors.saturating_add(1);
        } else {
            queued.unschedulable_count = queued.unschedulable_count.saturating_add(1);
            queued.consecutive_errors = 0;
        }
        let now = self.clock.now();
        queued.rejectors = rejectors;
        queued.timestamp = now;
        queued.backoff_expiry = None;
        queued.flushed = false;
        inner.refresh(slot, &mut queued);
        let worth = self.replay(&inner, slot, &queued);
        let pool = self.pool_for(&mut queued, worth, now);
        let queued = Box::new(queued);
        match self.place(&mut inner, slot, self.labels.attempt_failed, queued, pool) {
            Pool::Active => Requeued::Active,
            Pool::Backoff | Pool::ErrorBackoff => Requeued::Backoff,
            Pool::Unschedulable => Requeued::Unschedulable,
            Pool::Gated => Requeued::Gated,
        }
    }

    /// What the events since the pod was given out say about it.
    fn replay(&self, inner: &Inner, slot: u32, queued: &QueuedPodInfo) -> Worth {
        if queued.rejectors.is_empty() {
            return Worth::AfterBackoff;
        }
        let Some(Stage::InFlight { cursor, .. }) = inner.store.stage(slot) else {
            return Worth::AfterBackoff;
        };
        let Some(events) = inner.store.in_flight.since(*cursor) else {
            return Worth::AfterBackoff;
        };
        let mut worth = Worth::Skip;
        for Seen { plan, object, only } in events {
            let happened = Happened {
                plan,
                object,
                only: *only,
            };
            worth = worth.max(happened.worth(queued, self.asking()));
            if worth == Worth::Immediately {
                break;
            }
        }
        worth
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            clock: &self.clock,
            metrics: &self.metrics,
        }
    }

    /// Where a pod goes that is worth another try, or not.
    fn pool_for(&self, queued: &mut QueuedPodInfo, worth: Worth, now: Nanos) -> Pool {
        match worth {
            Worth::Skip => Pool::Unschedulable,
            Worth::AfterBackoff if backoff::is_backing_off(queued, now, &self.config) => {
                if queued.rejectors.is_empty() {
                    Pool::ErrorBackoff
                } else {
                    Pool::Backoff
                }
            }
            Worth::AfterBackoff | Worth::Immediately => Pool::Active,
        }
    }

    /// Puts a pod that enters or comes back into `pool`, or where [`Self::admit`] says, and says where it is now.
    fn place(
        &self,
        inner: &mut Inner,
        slot: u32,
        label: EventLabel,
        mut queued: Box<QueuedPodInfo>,
        pool: Pool,
    ) -> Pool {
        let landed = self.admit(&mut queued, pool);
        inner.transition(slot, label, &self.metrics, |_| Stage::Waiting(landed, queued));
        self.wake(landed);
        landed
    }

    /// Moves a waiting pod to `pool`, or where [`Self::admit`] says.
    fn relocate(&self, inner: &mut Inner, slot: u32, label: EventLabel, pool: Pool) {
        inner.transition(slot, label, &self.metrics, |stage| match stage {
            Stage::Waiting(_, mut queued) => Stage::Waiting(self.admit(&mut queued, pool), queued),
            other => other,
        });
        self.wake(pool);
    }

    /// Where a pod goes that is bound for `pool`: there, unless a PreEnqueue plugin holds it back.
    fn admit(&self, queued: &mut QueuedPodInfo, pool: Pool) -> Pool {
        if pool == Pool::Unschedulable {
            return pool;
        }
        if is_gated(queued, &self.metrics) {
            return Pool::Gated;
        }
        if pool == Pool::Active {
            queued.initial_attempt.get_or_insert_with(|| self.clock.now());
        }
        pool
    }

    /// Wakes a worker if a pod went to where workers take from.
    fn wake(&self, pool: Pool) {
        if matches!(pool, Pool::Active | Pool::Backoff) {
            self.ready.notify_one();
        }
    }

    /// Pods that wait, by where.
    #[must_use]
    pub fn pending_counts(&self) -> PendingCounts {
        self.inner.lock().store.counts()
    }

    /// Pods that a worker has or that are being bound.
    #[must_use]
    pub fn pods_out(&self) -> usize {
        let inner = self.inner.lock();
        let counts = inner.store.counts();
        inner.store.len() - counts.active - counts.backoff - counts.unschedulable - counts.gated
    }

    /// Events kept for pods that are being tried.
    #[must_use]
    pub fn events_kept(&self) -> usize {
        self.inner.lock().store.in_flight.len()
    }

    /// Pods that entered and left since the start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.lock().store.totals
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn transition(&mut self, slot: u32, label: EventLabel, metrics: &Metrics, next: impl FnOnce(Stage) -> Stage) {
        let tools = Tools {
            metrics,
            plans: &self.plans,
        };
        self.store.transition(slot, label, tools, next);
    }

    fn leave(&mut self, slot: u32, exit: Exit, metrics: &Metrics) {
        let tools = Tools {
            metrics,
            plans: &self.plans,
        };
        self.store.leave(slot, exit, tools);
    }

    /// Brings a returning pod's object and profile up to date. Of one object the class stays that was found last: waiting
    /// pods of one class are told of events together.
    fn refresh(&self, slot: u32, queued: &mut QueuedPodInfo) {
        if let Some(Stage::InFlight { pod, .. } | Stage::Binding { pod }) = self.store.stage(slot)
            && (pod.resource_version != queued.pod.resource_version || pod.class_epoch >= queued.pod.class_epoch)
        {
            queued.pod = Arc::clone(pod);
        }
        if let Some(profile) = self.plans.profiles.get(queued.profile.name) {
            queued.profile = Arc::clone(profile);
        }
    }

    fn plan(&self, event: ClusterEvent) -> Arc<Plan> {
        self.plans.get(event)
    }

    fn keep_for_in_flight(&mut self, plan: &Arc<Plan>, object: &EventObject, only: Option<PodUid>, metrics: &Metrics) {
        if self.store.in_flight.is_idle() {
            return;
        }
        let seen = Seen {
            plan: Arc::clone(plan),
            object: object.clone(),
            only,
        };
        self.store.in_flight.record(seen, metrics);
    }
}
