//! The loop of one worker: take a place in the binding pool, take a pod, decide, reserve, hand over.
//!
//! A pod that fits nowhere may preempt others: it is nominated to the node that PostFilter chose if nothing happened there
//! since the dry run, and then the victims are evicted; otherwise it chooses again.
//!
//! A conflict (another worker took the room) is not a failure: the pod replays and chooses again, a few times; then, and
//! before a pod that met a conflict is called unschedulable, it is evaluated once under the commit lock, where nobody
//! else commits.
//!
//! Threads: one a worker. Locks: the commit lock for reading around a reserve or a nomination, for writing around a last
//! evaluation; never while pods are evicted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smallvec::SmallVec;

use super::extending::{Asking, Consulting, Entered, Extending, IntoParts as _, Parked};
use crate::binding::{BindTask, BindingPool, Failure, FailureHandler, Slot};
use crate::clock::{Clock, Nanos};
use crate::cluster::Cluster;
use crate::cycle::full::{self, Evaluation};
use crate::cycle::{Decision, Engine, View, decide};
use crate::extender::{Deciding, Ready, Step};
use crate::framework::{CycleState, Eviction, Handle, NominatedNode, PermitRun, Preemption, Status};
use crate::ids::{NodeIdx, PodUid};
use crate::ledger::{NominateError, PromiseState};
use crate::queue::{Exit, Next, QueuedPodInfo, SchedulingQueue};
use crate::scheduler::commit::{Committed, Ruled};
use crate::telemetry::Metrics;

/// Conflicts after which a pod is evaluated under the commit lock.
const MAX_CONFLICTS: u32 = 8;
/// Conflicts after which a pod that would preempt is given up for now: under the lock only what the watches deliver can
/// come between, and each such event is a reason to try the pod again.
const MAX_PREEMPTION_CONFLICTS: u32 = 2 * MAX_CONFLICTS;

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
    /// Who evicts.
    pub(super) handle: Arc<Handle>,
    /// Cycles that wait for extenders.
    pub(super) extending: Arc<Extending>,
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

/// What a pod that fits nowhere came to.
enum NoFit {
    /// It waits; pods may have to be evicted for it first.
    Waits {
        failure: Failure,
        nomination: NominatedNode,
        eviction: Option<Box<Eviction>>,
    },
    /// Something happened on the node that was chosen for it.
    Conflict,
    /// Bound by somebody else or promised already.
    Settled,
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
            let extending = &self.parts.extending;
            match self.parts.queue.pop_or(|| extending.take()) {
                Some(Next::Popped(queued)) => self.guarded(queued.clone(), |worker| worker.schedule(queued, slot)),
                Some(Next::Other(ready)) => {
                    self.guarded(ready.value.queued.clone(), |worker| worker.take_up(ready, slot));
                }
                None => return,
            }
        }
    }

    /// A plugin that panics fails one pod; what it may have left half done in this worker is made anew.
    fn guarded(&mut self, copy: QueuedPodInfo, run: impl FnOnce(&mut Self)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self)));
        if let Err(panic) = outcome {
            let text = panic_text(&*panic);
            tracing::error!(pod = copy.pod.full_name(), panic = text, "a scheduling cycle panicked");
            self.engine.clear();
            self.view = View::new(&self.parts.cluster);
            self.undo(&copy);
            let started = self.parts.clock.now();
            self.parts.failures.fail(
                copy,
                started,
                Failure::Error(format!("panic: {text}")),
                NominatedNode::Clear,
            );
        }
    }

    /// Undoes what a cycle that panicked may have reserved.
    fn undo(&self, queued: &QueuedPodInfo) {
        let (cluster, failures) = (&self.parts.cluster, &self.parts.failures);
        self.parts.metrics.panicked();
        let promise = cluster.ledger.promise(queued.pod.uid);
        let ours = promise.filter(|promise| promise.state != PromiseState::Bound);
        if let Some(node) = ours.and_then(|promise| cluster.node(promise.node)) {
            failures.unreserve_after_panic(queued, node.name);
        }
        failures.unreserve(queued);
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
        if let Entered::Goes(queued, consulting) = self.parts.extending.enter(queued, started) {
            self.attempt(queued, slot, started, consulting);
        }
    }

    /// Goes on with a cycle that was put aside.
    fn take_up(&mut self, ready: Ready<Parked>, slot: Slot) {
        let (queued, started, consulting) = ready.into_parts();
        let span = crate::telemetry::cycle_span(
            queued.pod.namespace.as_str(),
            &queued.pod.name,
            queued.profile.name.as_str(),
        );
        let _entered = span.enter();
        match self.parts.cluster.pod(queued.pod.uid) {
            None => {
                self.parts.queue.leave(&queued, Exit::Deleted);
            }
            Some(pod) if pod.terminating => self.parts.failures.skip_deleting(&queued),
            Some(_) if self.parts.cluster.ledger.promise(queued.pod.uid).is_some() => {
                self.parts.queue.leave(&queued, Exit::Bound);
            }
            Some(_) => self.attempt(queued, slot, started, Some(consulting)),
        }
    }

    fn attempt(&mut self, mut queued: QueuedPodInfo, slot: Slot, started: Nanos, mut consulting: Option<Consulting>) {
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
            let decision = match self.decide(&queued, random, consulting.as_mut()) {
                Step::Decided(decision) => decision,
                Step::Ask(question) => {
                    drop(alone);
                    return self.ask(queued, started, consulting, Asking::Nodes(question));
                }
            };
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
                Decision::NoFit(mut evaluation) => {
                    self.parts
                        .metrics
                        .scheduling_algorithm(self.parts.clock.now().since(started));
                    if let Some(consulting) = &consulting {
                        consulting.consultation.prepare_post_filter(&mut evaluation.state);
                    }
                    let outcome = self.no_fit(&queued, &evaluation, (epoch, alone.is_some()), conflicts);
                    drop(alone);
                    let consultation = consulting.as_ref().map(|consulting| &consulting.consultation);
                    let open = consultation.and_then(|consultation| consultation.open_victims(&queued.pod));
                    if let Some(question) = open {
                        return self.ask(queued, started, consulting, Asking::Victims(question));
                    }
                    match outcome {
                        NoFit::Waits {
                            failure,
                            nomination,
                            eviction,
                        } => return self.wait(queued, started, failure, nomination, eviction),
                        NoFit::Conflict => {
                            self.parts.metrics.conflict();
                            conflicts += 1;
                        }
                        NoFit::Settled => {
                            self.parts.queue.leave(&queued, Exit::Bound);
                            return;
                        }
                    }
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

    fn decide(&mut self, queued: &QueuedPodInfo, random: u64, consulting: Option<&mut Consulting>) -> Step {
        let (profile, pod) = (&*queued.profile, &queued.pod);
        let consultation = consulting.map(|consulting| &mut consulting.consultation);
        match consultation.filter(|consultation| consultation.interest().decides()) {
            None => Step::Decided(decide(
                &self.view,
                &mut self.engine,
                &self.parts.cluster,
                profile,
                pod,
                random,
            )),
            Some(consultation) => {
                let cx = Deciding {
                    view: &self.view,
                    cluster: &self.parts.cluster,
                    profile,
                    pod,
                    random,
                };
                consultation.decide(&self.parts.extending.extenders, &cx)
            }
        }
    }

    /// Puts the cycle aside until extenders have answered. The slot is free meanwhile.
    fn ask(&self, queued: QueuedPodInfo, started: Nanos, consulting: Option<Consulting>, asking: Asking) {
        if let Some(consulting) = consulting {
            self.parts.extending.ask(queued, started, consulting, asking);
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

    /// PostFilter, and the nomination that it asks for, unless the rules that span nodes are others than those of `epoch`
    /// by then. `alone` says that the commit lock is held already.
    fn no_fit(
        &self,
        queued: &QueuedPodInfo,
        evaluation: &Evaluation,
        (epoch, alone): (u64, bool),
        conflicts: u32,
    ) -> NoFit {
        let cluster_view = self.view.cluster_view(&self.parts.cluster);
        let filtered = full::post_filter(&queued.profile, &cluster_view, evaluation, &queued.pod);
        if conflicts < MAX_PREEMPTION_CONFLICTS && self.claim_moved(queued.pod.uid) {
            return NoFit::Conflict;
        }
        let failure = Failure::Unschedulable(Box::new(filtered.error));
        let Some(preemption) = filtered.preemption else {
            return NoFit::Waits {
                failure,
                nomination: filtered.nomination,
                eviction: None,
            };
        };
        let reading = (!alone).then(|| self.parts.cluster.commit.read());
        if reading.as_ref().is_some_and(|guard| guard.epoch() != epoch) {
            return NoFit::Conflict;
        }
        match self.nominate(queued, *preemption) {
            Ok(eviction) => NoFit::Waits {
                failure,
                nomination: filtered.nomination,
                eviction: Some(Box::new(eviction)),
            },
            Err(NominateError::AlreadyPromised) => NoFit::Settled,
            Err(NominateError::Moved { .. } | NominateError::NodeGone) if conflicts < MAX_PREEMPTION_CONFLICTS => {
                NoFit::Conflict
            }
            Err(_) => NoFit::Waits {
                failure,
                nomination: NominatedNode::Keep,
                eviction: None,
            },
        }
    }

    /// Whether something happened on the node that the pod is nominated to since it was found not to fit there: its
    /// victims may just have gone, and others must not go in vain.
    fn claim_moved(&self, pod: PodUid) -> bool {
        let ledger = &self.parts.cluster.ledger;
        let Some(node) = ledger.nominated_node(pod) else {
            return false;
        };
        let seen = self.view.nodes().get(node).map(|node| node.used.version);
        ledger.version(node) != seen
    }

    /// Keeps the room for the pod that its victims will leave; weaker pods that were to have it lose their nomination.
    fn nominate(&self, queued: &QueuedPodInfo, preemption: Preemption) -> Result<Eviction, NominateError> {
        let (cluster, pod) = (&self.parts.cluster, &queued.pod);
        let going = preemption.victims.iter().filter(|victim| !victim.terminating);
        let going: SmallVec<[PodUid; 8]> = going.map(|victim| victim.uid).collect();
        let version = Some(preemption.version);
        cluster.ledger.nominate(&pod.charge, preemption.node, &going, version)?;
        let weaker = cluster.ledger.clear_lower_nominations(preemption.node, pod.priority());
        Ok(Eviction {
            preemptor: Arc::clone(pod),
            scheduler: queued.profile.name,
            plugin: preemption.plugin,
            node: preemption.name,
            victims: preemption.victims,
            displaced: weaker.into_iter().filter_map(|uid| cluster.pod(uid)).collect(),
        })
    }

    /// Has pods evicted, if that is to be, and brings the pod back into the queue.
    fn wait(
        &self,
        queued: QueuedPodInfo,
        started: Nanos,
        mut failure: Failure,
        mut nomination: NominatedNode,
        eviction: Option<Box<Eviction>>,
    ) {
        // Nobody goes for a pod that is gone itself; whoever saw it go may have looked for its nomination too early.
        let is_there = || self.parts.cluster.pod(queued.pod.uid).is_some();
        if let Some(eviction) = eviction.filter(|_| is_there())
            && let Err(error) = self.parts.handle.evict(*eviction)
        {
            self.parts.cluster.ledger.clear_nomination(queued.pod.uid);
            nomination = NominatedNode::Keep;
            failure = failure.after_post_filter(format!("preemption: {error}"));
        }
        self.fail(queued, started, failure, nomination);
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
