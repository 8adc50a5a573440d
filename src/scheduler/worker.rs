//! The loop of one worker: take a place in the binding pool, take a pod, decide, reserve, hand over.
//!
//! A conflict (another worker took the room) is not a failure: the pod replays and chooses again, a few times; then, and
//! before a pod that met a conflict is called unschedulable, it is evaluated once under the commit lock, where nobody
//! else commits.
//!
//! Threads: one a worker. Locks: the commit lock for reading around a reserve, for writing around a last evaluation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::binding::{BindTask, BindingPool, Failure, FailureHandler, Slot};
use crate::clock::{Clock, Nanos};
use crate::cluster::Cluster;
use crate::cycle::full::{self, Evaluation};
use crate::cycle::{Decision, Engine, View, decide};
use crate::framework::{CycleState, NominatedNode, PermitRun, Status};
use crate::ids::NodeIdx;
use crate::queue::{Exit, QueuedPodInfo, SchedulingQueue};
use crate::scheduler::commit::{Committed, Ruled};
use crate::telemetry::Metrics;

/// Conflicts after which a pod is evaluated under the commit lock.
const MAX_CONFLICTS: u32 = 8;

/// What all workers share.
#[derive(Clone, Debug)]
pub(super) struct WorkerParts {
    /// Objects, ledger and change log.
    pub(super) cluster: Arc<Cluster>,
    /// Where pods come from and go back to.
    pub(super) queue: Arc<SchedulingQueue>,
    /// Where reserved pods go.
    pub(super) binding: Arc<BindingPool>,
    /// What becomes of pods that fit nowhere.
    pub(super) failures: Arc<FailureHandler>,
    /// Recorders.
    pub(super) metrics: Arc<Metrics>,
    /// Time.
    pub(super) clock: Clock,
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) parts: WorkerParts,
    pub(super) view: View,
    pub(super) engine: Engine,
    pub(super) ruled: Ruled,
    random: Pcg64Mcg,
}

impl Worker {
    /// A worker whose choices among equals follow from `seed`.
    pub(super) fn new(parts: WorkerParts, seed: u64) -> Self {
        let view = View::new(&parts.cluster);
        Self {
            view,
            engine: Engine::default(),
            ruled: Ruled::default(),
            random: Pcg64Mcg::seed_from_u64(seed),
            parts,
        }
    }

    /// Schedules pods until the queue or the binding pool is closed.
    pub(super) fn run(mut self) {
        loop {
            let Some(slot) = self.parts.binding.acquire_slot() else {
                return;
            };
            let Some(queued) = self.parts.queue.pop() else { return };
            self.schedule_guarded(queued, slot);
        }
    }

    /// A plugin that panics fails one pod; what it may have left half done in this worker is made anew.
    fn schedule_guarded(&mut self, queued: QueuedPodInfo, slot: Slot) {
        let copy = queued.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.schedule(queued, slot)));
        if let Err(panic) = outcome {
            let text = panic_text(&*panic);
            tracing::error!(pod = copy.pod.full_name(), panic = text, "a scheduling cycle panicked");
            self.parts.metrics.panicked();
            self.engine.clear();
            self.view = View::new(&self.parts.cluster);
            self.parts.failures.unreserve(&copy);
            let started = self.parts.clock.now();
            self.parts.failures.fail(
                copy,
                started,
                Failure::Error(format!("panic: {text}")),
                NominatedNode::Clear,
            );
        }
    }

    fn schedule(&mut self, queued: QueuedPodInfo, slot: Slot) {
        let started = self.parts.clock.now();
        let span = crate::telemetry::cycle_span(
            queued.pod.namespace.as_str(),
            &queued.pod.name,
            queued.profile.name.as_str(),
        );
        let _entered = span.enter();
        if queued.pod.terminating {
            self.parts.failures.skip_deleting(&queued);
            return;
        }
        if self.parts.cluster.ledger.promise(queued.pod.uid).is_some() {
            self.parts.queue.leave(&queued, Exit::Bound);
            return;
        }
        self.attempt(queued, slot, started);
    }

    fn attempt(&mut self, mut queued: QueuedPodInfo, slot: Slot, started: Nanos) {
        let mut conflicts = 0;
        loop {
            let commit = Arc::clone(&self.parts.cluster.commit);
            // Under this lock no other worker commits: what is found out stands.
            let alone = (conflicts >= MAX_CONFLICTS).then(|| {
                self.parts.metrics.commit_evaluation();
                commit.write()
            });
            let epoch = commit.epoch();
            queued.pod = self.parts.cluster.current(&queued.pod);
            self.view.replay(&self.parts.cluster);
            let random = self.random.random();
            let decision = decide(
                &self.view,
                &mut self.engine,
                &self.parts.cluster,
                &queued.profile,
                &queued.pod,
                random,
            );
            match decision {
                Decision::Node(node, mut state) => {
                    match self.commit(&queued, node, &mut state, epoch, alone.is_some()) {
                        Committed::Reserved(kept) => {
                            drop(alone);
                            self.parts
                                .metrics
                                .scheduling_algorithm(self.parts.clock.now().since(started));
                            return self.hand_over(queued, slot, (node, state, kept), started);
                        }
                        Committed::Stale => {}
                        Committed::Conflict => {
                            self.parts.metrics.conflict();
                            conflicts += 1;
                        }
                        Committed::Settled => {
                            self.parts.queue.leave(&queued, Exit::Bound);
                            return;
                        }
                    }
                }
                // Somebody else's unfinished reserve may be why: look once more when there is none.
                Decision::NoFit(_) if conflicts > 0 && alone.is_none() => conflicts = MAX_CONFLICTS,
                Decision::NoFit(evaluation) => {
                    drop(alone);
                    self.parts
                        .metrics
                        .scheduling_algorithm(self.parts.clock.now().since(started));
                    return self.no_fit(queued, &evaluation, started);
                }
                Decision::NoNodes => {
                    return self.fail(queued, started, Failure::NoNodes, NominatedNode::Clear);
                }
                Decision::Failed(status) => {
                    return self.fail(queued, started, Failure::Error(status.message()), NominatedNode::Clear);
                }
            }
        }
    }

    /// Permit, and on to the binding pool.
    fn hand_over(
        &mut self,
        queued: QueuedPodInfo,
        slot: Slot,
        (node, mut state, kept): (NodeIdx, CycleState, Result<(), Status>),
        started: Nanos,
    ) {
        let Some(info) = self.view.nodes().get(node) else {
            return;
        };
        let (name, incarnation) = (info.name, info.incarnation);
        let profile = Arc::clone(&queued.profile);
        let permitted = kept
            .map(|()| profile.run_permit(&state, &queued.pod, name))
            .unwrap_or_else(PermitRun::Ended);
        match permitted {
            PermitRun::Proceed(waits) => {
                let span = tracing::Span::current();
                let task = BindTask {
                    queued,
                    state,
                    node: name,
                    node_idx: node,
                    incarnation,
                    started,
                    waits,
                    span,
                };
                self.parts.binding.submit(task, slot);
            }
            PermitRun::Ended(status) => {
                profile.run_unreserve(&mut state, &queued.pod, name);
                self.parts
                    .failures
                    .fail_reserved(queued, started, rejection(status), NominatedNode::Clear);
            }
        }
    }

    fn no_fit(&self, queued: QueuedPodInfo, evaluation: &Evaluation, started: Nanos) {
        let cluster_view = self.view.cluster_view(&self.parts.cluster);
        let (error, nomination) = full::post_filter(&queued.profile, &cluster_view, evaluation, &queued.pod);
        self.fail(queued, started, Failure::Unschedulable(Box::new(error)), nomination)
    }

    fn fail(&self, queued: QueuedPodInfo, started: Nanos, failure: Failure, nomination: NominatedNode) {
        self.parts.failures.fail(queued, started, failure, nomination);
    }
}

/// A rejection by Reserve or Permit counts as one of a single node; anything else is an error.
fn rejection(status: Status) -> Failure {
    if status.is_rejected() {
        Failure::rejected_by_one(status)
    } else {
        Failure::Error(status.message())
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
