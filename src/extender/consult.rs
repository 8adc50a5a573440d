//! One attempt to schedule a pod that extenders have a say about: what was asked, what was said, and what follows.
//!
//! Threads: it belongs to the worker that has the pod, or to the task that asks.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use super::advise::Preempting;
use super::ask::AskedNode;
use super::victims::{VictimsAnswer, VictimsQuestion};
use super::{Answer, Extenders, Interest, Question};
use crate::cluster::{Cluster, ClusterView, NodeInfo, NodeTable, PodInfo};
use crate::cycle::full::{self, Beside, Evaluation, Outcome, Verdict};
use crate::cycle::{Decision, View};
use crate::framework::{CycleState, NodeStatuses, Profile, ScoreRun, Status};
use crate::ids::{NodeIdx, Symbol};
use crate::ledger::NodeUse;
use crate::preemption::Adviser;
use crate::telemetry::{EngineMode, Metrics};

/// Questions about nodes in one attempt. A further one is asked only when all nodes that passed are taken and others
/// became feasible meanwhile.
const MAX_QUESTIONS: u32 = 3;

static NOT_ASKED: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) became feasible after extenders were asked"));

/// An attempt in which extenders have a say. See the [module](super).
#[derive(Debug)]
pub struct Consultation {
    interest: Interest,
    /// The nominated node is still to be tried alone.
    tries_nominated: bool,
    /// The last question was about the nominated node alone.
    asked_alone: bool,
    questions: u32,
    answer: Option<Answer>,
    /// What is to be asked about.
    open: Vec<NodeIdx>,
    preempting: Arc<Preempting>,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Deciding<'a> {
    /// Nodes as of now.
    pub view: &'a View,
    /// Objects and ledger.
    pub cluster: &'a Cluster,
    /// Whose plugins decide.
    pub profile: &'a Profile,
    /// About whom.
    pub pod: &'a Arc<PodInfo>,
    /// Decides among equals, and whether plugins are timed.
    pub random: u64,
}

/// How far a decision came.
#[derive(Debug)]
pub enum Step {
    /// To its end.
    Decided(Decision),
    /// Extenders have to be asked; then it is made anew.
    Ask(Question),
}

impl Consultation {
    /// Begins an attempt.
    #[must_use]
    pub fn new(interest: Interest) -> Self {
        Self {
            interest,
            tries_nominated: true,
            asked_alone: false,
            questions: 0,
            answer: None,
            open: Vec::new(),
            preempting: Arc::default(),
        }
    }

    /// Who has a say.
    #[must_use]
    pub const fn interest(&self) -> &Interest {
        &self.interest
    }

    /// Takes in what was said of nodes.
    pub fn answered(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// Takes in what was said of victims.
    pub fn victims_answered(&self, answer: VictimsAnswer) {
        self.preempting.answered(answer);
    }

    /// Decides with what was said so far, or says what is to be asked.
    pub fn decide(&mut self, extenders: &Extenders, cx: &Deciding<'_>) -> Step {
        loop {
            let evaluation = self.evaluate(cx);
            match evaluation.outcome {
                Outcome::Best(winners) => {
                    let count = u64::try_from(winners.len().max(1)).unwrap_or(1);
                    let nth = usize::try_from(cx.random % count).unwrap_or(0);
                    let chosen = winners.get(nth).copied();
                    return Step::Decided(
                        chosen.map_or(Decision::NoNodes, |node| Decision::Node(node, evaluation.state)),
                    );
                }
                Outcome::NoFit(_) => return Step::Decided(Decision::NoFit(Box::new(evaluation))),
                Outcome::NoNodes => return Step::Decided(Decision::NoNodes),
                Outcome::Failed(status) => return Step::Decided(Decision::Failed(status)),
                // The nominated node is out: now all are looked at.
                Outcome::Open if self.open.is_empty() => {}
                Outcome::Open => return Step::Ask(self.question(extenders, cx)),
            }
        }
    }

    fn evaluate(&mut self, cx: &Deciding<'_>) -> Evaluation {
        let mut watch = cx.profile.stopwatch();
        let mut state = CycleState::default();
        state.sample(Metrics::samples_plugins(u32::try_from(cx.random >> 32).unwrap_or(0)));
        let view = cx.view.cluster_view(cx.cluster);
        let evaluation = full::evaluate_beside(cx.profile, &view, cx.pod, state, Some(self));
        watch.lap();
        watch.evaluation(EngineMode::Full);
        evaluation
    }

    fn question(&mut self, extenders: &Extenders, cx: &Deciding<'_>) -> Question {
        let wants_text = extenders.want_nodes();
        let nodes = self.open.drain(..).filter_map(|idx| cx.view.nodes().get(idx));
        let asked = |node: &NodeInfo| AskedNode {
            idx: node.idx,
            incarnation: node.incarnation,
            name: node.name,
            text: wants_text.then(|| cx.cluster.node_text(node.name)).flatten(),
        };
        Question {
            pod: Arc::clone(cx.pod),
            interest: self.interest.clone(),
            nodes: nodes.map(asked).collect(),
        }
    }

    /// Before PostFilter: lets those who have a say about victims have it.
    pub fn prepare_post_filter(&self, state: &mut CycleState) {
        if self.interest.preempts() {
            let adviser: Arc<Preempting> = Arc::clone(&self.preempting);
            state.write(Adviser(adviser));
        }
    }

    /// After PostFilter: what is to be asked before it can come to an end; then its result counts for nothing.
    #[must_use]
    pub fn open_victims(&self, pod: &Arc<PodInfo>) -> Option<VictimsQuestion> {
        let candidates = self.preempting.take_open()?;
        Some(VictimsQuestion {
            pod: Arc::clone(pod),
            interest: self.interest.clone(),
            candidates,
        })
    }

    /// Whether there is anything to ask about so many feasible nodes.
    fn must_ask(&self, count: usize) -> bool {
        count > 0 && !self.interest.filters.is_empty() || count > 1 && !self.interest.prioritizers.is_empty()
    }

    fn ask(&mut self, feasible: &[NodeIdx]) -> Verdict {
        self.questions += 1;
        self.answer = None;
        self.open = feasible.to_vec();
        Verdict::Open
    }
}

impl Beside for Consultation {
    fn tries_nominated(&self) -> bool {
        self.tries_nominated
    }

    fn narrow(
        &mut self,
        cluster: &ClusterView<'_>,
        first: Option<NodeIdx>,
        feasible: &mut Vec<NodeIdx>,
        statuses: &mut NodeStatuses,
    ) -> Result<Verdict, Status> {
        let Some(answer) = self.answer.take() else {
            if !self.must_ask(feasible.len()) {
                return Ok(Verdict::Kept);
            }
            self.asked_alone = first.is_some_and(|idx| *feasible == [idx]);
            return Ok(self.ask(feasible));
        };
        let split = Split::of(&answer, cluster, feasible);
        if self.asked_alone && split.passed.is_empty() {
            // What was said of the nominated node alone, be it an error, leaves the others open.
            (self.tries_nominated, self.asked_alone) = (false, false);
            return Ok(Verdict::Open);
        }
        if let Some(failure) = &answer.failure {
            return Err(failure.clone());
        }
        if split.passed.is_empty() && !split.fresh.is_empty() {
            if !self.must_ask(feasible.len()) {
                return Ok(Verdict::Kept);
            }
            if self.questions < MAX_QUESTIONS {
                return Ok(self.ask(feasible));
            }
            let status = Status::unschedulable(*NOT_ASKED);
            statuses
                .explicit
                .extend(split.fresh.iter().map(|idx| (*idx, status.clone())));
        }
        let dropped = answer.turned_away() || split.passed.is_empty() && !split.fresh.is_empty();
        *feasible = split.passed;
        overlay(statuses, cluster, &answer);
        self.answer = Some(answer);
        Ok(if dropped { Verdict::Dropped } else { Verdict::Kept })
    }

    /// Upstream makes the nodes anew from the objects that are sent back, without the pods on them; what scores read of
    /// a node's use follows from that. What they count over all nodes does not.
    fn nodes_to_score(&self, cluster: &ClusterView<'_>, feasible: &[NodeIdx]) -> Option<NodeTable> {
        let answer = self.answer.as_ref()?;
        let mut table = None;
        for idx in feasible {
            let Some(object) = answer.nodes.get(idx).and_then(|node| node.object.as_ref()) else {
                continue;
            };
            let nodes = table.get_or_insert_with(|| cluster.nodes.clone());
            if let Some(node) = nodes.get_mut(*idx) {
                node.spec = Arc::clone(object);
                let empty = NodeUse::default();
                node.used.requested = empty.requested;
                node.used.non_zero = empty.non_zero;
                node.used.pods = empty.pods;
                node.used.ports = empty.ports;
            }
        }
        table
    }

    fn add_scores(&self, run: &mut ScoreRun) {
        let Some(answer) = &self.answer else { return };
        for (idx, total) in run.nodes.iter().zip(&mut run.totals) {
            if let Some(node) = answer.nodes.get(idx) {
                *total = total.saturating_add(node.score);
            }
        }
    }
}

/// Feasible nodes by what was said of them; those that were turned away are in neither list.
struct Split {
    passed: Vec<NodeIdx>,
    /// Not asked about, or re-created since.
    fresh: Vec<NodeIdx>,
}

impl Split {
    fn of(answer: &Answer, cluster: &ClusterView<'_>, feasible: &[NodeIdx]) -> Self {
        let (mut passed, mut fresh) = (Vec::new(), Vec::new());
        for idx in feasible {
            let known = answer.nodes.get(idx).filter(|said| {
                let node = cluster.nodes.get(*idx);
                node.is_some_and(|node| node.incarnation == said.incarnation)
            });
            match known {
                Some(said) if said.passed => passed.push(*idx),
                Some(_) => {}
                None if answer.failure.is_some() => {}
                None => fresh.push(*idx),
            }
        }
        Self { passed, fresh }
    }
}

/// Puts what was said of nodes in the place of what the filters said.
fn overlay(statuses: &mut NodeStatuses, cluster: &ClusterView<'_>, answer: &Answer) {
    if answer.rejections.is_empty() {
        return;
    }
    let explicit = statuses.explicit.iter().map(|(idx, _)| *idx);
    let mut at: FxHashMap<NodeIdx, usize> = explicit.zip(0..).collect();
    for (name, status) in &answer.rejections {
        let Some(idx) = cluster.nodes.find(*name) else { continue };
        match at.get(&idx).and_then(|at| statuses.explicit.get_mut(*at)) {
            Some(entry) => entry.1 = status.clone(),
            None => {
                at.insert(idx, statuses.explicit.len());
                statuses.explicit.push((idx, status.clone()));
            }
        }
    }
}
