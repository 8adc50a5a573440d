//! What becomes of a pod whose attempt failed.
//!
//! Source: `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`), Kubernetes 1.36.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::events::cut;
use crate::binding::{EventWriter, PodEvent, PodEventKind, StatusPatch, StatusWriter};
use crate::clock::{Clock, Nanos};
use crate::cluster::{Cluster, PodInfo};
use crate::cycle::full::NO_NODES;
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Diagnosis, EventObject, EventResource, FitError, NodeStatuses, NominatedNode,
    Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::queue::{Exit, QueuedPodInfo, Rejectors, Requeued, SchedulingQueue};
use crate::sync::Mutex;
use crate::telemetry::{AttemptResult, Metrics};

/// Bytes of a condition's message: as many as `metav1.Condition` takes. Extenders and plugins can have a text for every
/// node, which no API server would store.
const MAX_MESSAGE_BYTES: usize = 32 << 10;

/// Errors are logged this often at most; each is in its pod's condition and events besides.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// How an attempt failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// No node fits.
    Unschedulable(Box<FitError>),
    /// There are no nodes.
    NoNodes,
    /// PreBind or Bind says no: events do not help, time does.
    Refused(String),
    /// Something went wrong.
    Error(String),
}

impl Failure {
    /// A rejection by Reserve or Permit: one node, the chosen one, was refused.
    #[must_use]
    pub fn rejected_by_one(status: Status) -> Self {
        let mut diagnosis = Diagnosis::default();
        diagnosis.blame(&status);
        diagnosis.statuses = NodeStatuses {
            explicit: vec![(NodeIdx(0), status)],
            absent: Status::SUCCESS,
        };
        Self::Unschedulable(Box::new(FitError {
            node_count: 1,
            diagnosis,
            post_filter_message: String::new(),
        }))
    }

    /// The same failure with another word of PostFilter, if it is one that PostFilter is asked about.
    #[must_use]
    pub fn after_post_filter(self, message: String) -> Self {
        match self {
            Self::Unschedulable(error) => Self::Unschedulable(Box::new(FitError {
                post_filter_message: message,
                ..*error
            })),
            other => other,
        }
    }

    fn into_message(self) -> String {
        let message = match self {
            Self::Unschedulable(error) => error.message(),
            Self::NoNodes => NO_NODES.to_owned(),
            Self::Refused(text) | Self::Error(text) => text,
        };
        cut(message, MAX_MESSAGE_BYTES)
    }

    /// The reason of the pod's condition.
    const fn reason(&self) -> &'static str {
        match self {
            Self::Unschedulable(_) | Self::NoNodes | Self::Refused(_) => "Unschedulable",
            Self::Error(_) => "SchedulerError",
        }
    }

    /// Nobody is to blame for an error: the pod waits for time alone.
    fn rejectors(&self) -> Rejectors {
        match self {
            Self::Unschedulable(error) => Rejectors::of(&error.diagnosis),
            Self::NoNodes | Self::Refused(_) | Self::Error(_) => Rejectors::none(),
        }
    }

    const fn result(&self) -> AttemptResult {
        match self {
            Self::Unschedulable(_) | Self::NoNodes | Self::Refused(_) => AttemptResult::Unschedulable,
            Self::Error(_) => AttemptResult::Error,
        }
    }
}

/// Brings failed pods back into the queue and tells why they failed.
#[derive(Debug)]
pub struct FailureHandler {
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) events: Arc<EventWriter>,
    pub(super) status: Arc<StatusWriter>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Clock,
    pub(super) told: Mutex<ErrorsTold>,
}

/// Which errors were logged. There may be one for every pod of a large cluster at once.
#[derive(Debug, Default)]
pub(super) struct ErrorsTold {
    at: Option<Nanos>,
    untold: u64,
}

impl ErrorsTold {
    /// How many were left out since the last one that was logged, if this one is to be.
    fn take(&mut self, now: Nanos) -> Option<u64> {
        if self.at.is_some_and(|at| now.since(at) < TELL_AGAIN) {
            self.untold += 1;
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl FailureHandler {
    /// Requeues a pod whose attempt, begun at `started`, failed, unless it is gone or bound meanwhile; then writes the
    /// event and the condition. Never blocks on the API server.
    pub fn fail(&self, mut queued: QueuedPodInfo, started: Nanos, failure: Failure, nomination: NominatedNode) {
        let profile = Arc::clone(&queued.profile);
        self.metrics
            .schedule_attempt(profile.index, failure.result(), self.clock.now().since(started));
        let Some(current) = self.cluster.pod(queued.pod.uid) else {
            self.queue.leave(&queued, Exit::Deleted);
            self.forget(&queued.pod);
            // Whoever saw it go may have looked for a nomination of this attempt's too early.
            self.cluster.ledger.clear_nomination(queued.pod.uid);
            return;
        };
        if current.bound_to.is_some() {
            self.queue.leave(&queued, Exit::Bound);
            self.cluster.ledger.clear_nomination(current.uid);
            return;
        }
        queued.pod = Arc::clone(&current);
        // Before the pod can be tried, and nominated, again.
        let left = (nomination == NominatedNode::Clear)
            .then(|| self.cluster.ledger.clear_nomination(current.uid))
            .flatten();
        if self.queue.add_unschedulable_if_not_present(queued, failure.rejectors()) == Requeued::Gone {
            return;
        }
        // The watch tells of a nomination that the pod's status had.
        if let Some(node) = left.filter(|_| current.nominated_node.is_none()) {
            self.tell_claim_ended(&current, node);
        }
        let reason = failure.reason().to_owned();
        let is_error = matches!(failure, Failure::Error(_));
        let message = failure.into_message();
        match is_error.then(|| self.told.lock().take(self.clock.now())).flatten() {
            Some(untold) => tracing::error!(
                pod = current.full_name(),
                message,
                untold,
                "an attempt to schedule a pod failed; it is tried again"
            ),
            None => tracing::debug!(pod = current.full_name(), message, "not scheduled"),
        }
        self.record(&current, profile.name, message.clone());
        let condition = Some((reason, message));
        self.status.write(StatusPatch {
            pod: current,
            condition,
            nominated: nomination,
        });
    }

    /// A pod that is being deleted was popped: it is not tried.
    pub fn skip_deleting(&self, queued: &QueuedPodInfo) {
        let note = format!("skip schedule deleting pod: {}", queued.pod.full_name());
        self.record(&queued.pod, queued.profile.name, note);
        self.queue.leave(queued, Exit::Deleted);
    }

    /// The same for a pod that has a node reserved: gives the node back before the pod can be tried again, and tells
    /// those who wait for room after, so that the pod is not woken by its own failure.
    pub fn fail_reserved(&self, queued: QueuedPodInfo, started: Nanos, failure: Failure, nomination: NominatedNode) {
        let freed = self.give_back(&queued.pod);
        self.fail(queued, started, failure, nomination);
        if let Some(left) = freed {
            self.tell_freed(left);
        }
    }

    /// Runs Unreserve for a pod whose cycle or bind panicked. What the plugins remembered went with the panic; they bear
    /// to be called without it.
    pub fn unreserve_after_panic(&self, queued: &QueuedPodInfo, node: Symbol) {
        let unreserve = || {
            queued
                .profile
                .run_unreserve(&mut CycleState::default(), &queued.pod, node);
        };
        if catch_unwind(AssertUnwindSafe(unreserve)).is_err() {
            tracing::error!(pod = queued.pod.full_name(), "unreserve panicked too");
        }
    }

    /// Gives back the node that was reserved for a pod and tells those who wait for room.
    pub fn unreserve(&self, queued: &QueuedPodInfo) {
        self.free(&queued.pod);
    }

    pub(super) fn free(&self, pod: &Arc<PodInfo>) {
        if let Some(left) = self.give_back(pod) {
            self.tell_freed(left);
        }
    }

    /// Ends a pod's reservation; the pod as if it had been on the node, if there was one.
    fn give_back(&self, pod: &Arc<PodInfo>) -> Option<PodInfo> {
        let ledger = &self.cluster.ledger;
        let node = ledger
            .promise(pod.uid)
            .and_then(|promise| self.cluster.node(promise.node));
        ledger.unreserve(pod.uid).then(|| PodInfo {
            bound_to: pod.bound_to.or_else(|| node.map(|node| node.name)),
            ..PodInfo::clone(pod)
        })
    }

    /// Tells those who were held off by a nomination that only we knew of.
    fn tell_claim_ended(&self, pod: &Arc<PodInfo>, node: NodeIdx) {
        let Some(node) = self.cluster.node(node) else { return };
        self.queue.claim_ended(&Arc::new(PodInfo {
            nominated_node: Some(node.name),
            ..PodInfo::clone(pod)
        }));
    }

    fn tell_freed(&self, left: PodInfo) {
        let uid = left.uid;
        let others = move |pod: &PodInfo| pod.uid != uid;
        let object = EventObject::Pod {
            old: Some(Arc::new(left)),
            new: None,
        };
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        self.queue.on_event(event, &object, Some(&others));
    }

    /// Brings a pod back into the queue without a word to the API server.
    pub(super) fn requeue_quietly(&self, queued: QueuedPodInfo) {
        self.queue.add_unschedulable_if_not_present(queued, Rejectors::none());
    }

    /// Lets the writers write, until `end`.
    pub(super) async fn drain(&self, end: tokio::time::Instant) {
        tokio::join!(self.events.drain(end), self.status.drain(end));
    }

    /// Nothing is to be written about a pod that is gone.
    pub(super) fn forget(&self, pod: &PodInfo) {
        self.status.forget(pod.uid);
    }

    pub(super) fn record_scheduled(&self, queued: &QueuedPodInfo, node: Symbol) {
        self.events.record(PodEvent {
            pod: Arc::clone(&queued.pod),
            reporter: queued.profile.name,
            kind: PodEventKind::Scheduled { node },
        });
    }

    fn record(&self, pod: &Arc<PodInfo>, reporter: Symbol, note: String) {
        self.events.record(PodEvent {
            pod: Arc::clone(pod),
            reporter,
            kind: PodEventKind::FailedScheduling { note },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_once_a_second_with_how_many_were_not() {
        let mut told = ErrorsTold::default();
        let at = |millis| Nanos(0).after(Duration::from_millis(millis));
        let taken = [0, 1, 999, 1000, 1500, 3000].map(|millis| told.take(at(millis)));
        assert_eq!(taken, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn a_text_for_every_node_does_not_make_a_message_without_end() {
        let text = |node: u32| (NodeIdx(node), Status::unschedulable(format!("node n{node} says no")));
        let statuses = NodeStatuses {
            explicit: (0..5000).map(text).collect(),
            absent: Status::SUCCESS,
        };
        let diagnosis = Diagnosis {
            statuses,
            ..Diagnosis::default()
        };
        let error = FitError {
            node_count: 5000,
            diagnosis,
            post_filter_message: String::new(),
        };
        let message = Failure::Unschedulable(Box::new(error)).into_message();
        assert!(message.starts_with("0/5000 nodes are available: 1 node n0 says no, "));
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.ends_with(" ..."));
    }
}
