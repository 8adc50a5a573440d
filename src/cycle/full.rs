//! Evaluation of one pod from scratch: every filter on every node, every score on every feasible node.
//!
//! This is the reference that the incremental engine must equal, the path for what the engine cannot follow, and the
//! only one that knows why each node was rejected.
//!
//! Source: `pkg/scheduler/schedule_one.go` (`schedulePod`, `findNodesThatFitPod`, `prioritizeNodes`), Kubernetes 1.36,
//! with every node scored.

use crate::cluster::{ClusterView, NodeInfo, NodeTable, PodInfo};
use crate::framework::{
    Code, CycleState, Diagnosis, EXTENDER, FitError, Narrowed, NodeStatuses, NominatedNode, PreFilterRun, Preemption,
    Profile, Reached, ScoreRun, Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::telemetry::ExtensionPoint;

/// The text for a pod when there is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// How an evaluation ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// These nodes are best; never empty.
    Best(Vec<NodeIdx>),
    /// No node is feasible, and why.
    NoFit(Box<Diagnosis>),
    /// There are no nodes.
    NoNodes,
    /// A plugin failed.
    Failed(Status),
    /// Extenders have to be asked first. Does not occur without extenders.
    Open,
}

/// Who has a say beside the profile's plugins: extenders.
pub(crate) trait Beside {
    /// Whether the nominated node is tried alone at first.
    fn tries_nominated(&self) -> bool;

    /// Takes away nodes that passed all filters and says why in `statuses`. `first` is the nominated node, if it was
    /// tried alone at first.
    ///
    /// # Errors
    /// The evaluation fails.
    fn narrow(
        &mut self,
        cluster: &ClusterView<'_>,
        first: Option<NodeIdx>,
        feasible: &mut Vec<NodeIdx>,
        statuses: &mut NodeStatuses,
    ) -> Result<Verdict, Status>;

    /// The nodes as scores are to see them, if not as they are.
    fn nodes_to_score(&self, cluster: &ClusterView<'_>, feasible: &[NodeIdx]) -> Option<NodeTable>;

    /// Adds to the totals.
    fn add_scores(&self, run: &mut ScoreRun);
}

/// What became of the nodes that passed the filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// All stay.
    Kept,
    /// Some were taken away.
    Dropped,
    /// It is not known yet.
    Open,
}

/// All that was found out about a pod.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// How it ended.
    pub outcome: Outcome,
    /// How PreFilter ended.
    pub pre_filter: PreFilterRun,
    /// Rejections by node; feasible nodes have none.
    pub statuses: NodeStatuses,
    /// Feasible nodes in the order of their slots.
    pub feasible: Vec<NodeIdx>,
    /// Scores; absent with fewer than two feasible nodes.
    pub scores: Option<ScoreRun>,
    /// What the plugins remember.
    pub state: CycleState,
}

/// Evaluates `pod` on all nodes, or on its nominated node alone if that is feasible.
#[must_use]
pub fn evaluate(profile: &Profile, cluster: &ClusterView<'_>, pod: &PodInfo) -> Evaluation {
    evaluate_with(profile, cluster, pod, CycleState::default())
}

/// The same with a state that says whether the plugins are timed.
pub(crate) fn evaluate_with(
    profile: &Profile,
    cluster: &ClusterView<'_>,
    pod: &PodInfo,
    state: CycleState,
) -> Evaluation {
    evaluate_beside(profile, cluster, pod, state, None)
}

/// The same where somebody beside the profile has a say.
pub(crate) fn evaluate_beside(
    profile: &Profile,
    cluster: &ClusterView<'_>,
    pod: &PodInfo,
    state: CycleState,
    beside: Option<&mut dyn Beside>,
) -> Evaluation {
    let mut evaluation = Evaluation {
        outcome: Outcome::NoNodes,
        pre_filter: PreFilterRun::Proceed(None),
        statuses: NodeStatuses::default(),
        feasible: Vec::new(),
        scores: None,
        state,
    };
    if cluster.nodes.is_empty() {
        return evaluation;
    }
    evaluation.pre_filter = profile.run_pre_filter(cluster, &mut evaluation.state, pod);
    evaluation.outcome = match evaluation.pre_filter.clone() {
        PreFilterRun::Failed(status) => Outcome::Failed(status),
        PreFilterRun::Rejected { status, plugins } => evaluation.rejected(status, plugins),
        PreFilterRun::Proceed(narrowed) => {
            let first = beside
                .as_ref()
                .is_none_or(|beside| beside.tries_nominated())
                .then(|| nominated_node(cluster, pod))
                .flatten();
            match evaluation.filter_timed(profile, cluster, pod, (first, narrowed.as_ref())) {
                Err(status) => Outcome::Failed(status),
                Ok(()) => evaluation.conclude(profile, cluster, pod, (first, narrowed), beside),
            }
        }
    };
    profile.count_evaluation(profile.evaluation_set(&evaluation.state, evaluation.reached()));
    evaluation
}

impl Evaluation {
    /// Of a pod that passed PreFilter and fits nowhere, for these reasons.
    pub(crate) fn without_room(statuses: NodeStatuses, state: CycleState) -> Self {
        let mut diagnosis = Diagnosis::default();
        diagnosis.blame(&statuses.absent);
        for (_, status) in &statuses.explicit {
            diagnosis.blame(status);
        }
        diagnosis.statuses = statuses.clone();
        Self {
            outcome: Outcome::NoFit(Box::new(diagnosis)),
            pre_filter: PreFilterRun::Proceed(None),
            statuses,
            feasible: Vec::new(),
            scores: None,
            state,
        }
    }

    const fn reached(&self) -> Reached {
        match (&self.pre_filter, &self.scores) {
            (PreFilterRun::Proceed(_), Some(_)) => Reached::Score,
            (PreFilterRun::Proceed(_), None) => Reached::Filter,
            (PreFilterRun::Rejected { .. } | PreFilterRun::Failed(_), _) => Reached::PreFilter,
        }
    }

    fn rejected(&mut self, status: Status, plugins: Vec<Symbol>) -> Outcome {
        let mut diagnosis = Diagnosis {
            pre_filter_message: Some(status.message()),
            ..Diagnosis::default()
        };
        for plugin in plugins {
            diagnosis.blame(&Status {
                code: status.code,
                plugin: Some(plugin),
                ..Status::default()
            });
        }
        self.statuses.absent = status;
        diagnosis.statuses = self.statuses.clone();
        Outcome::NoFit(Box::new(diagnosis))
    }

    /// Filters; a rejection of every node is a success of the point, as upstream.
    fn filter_timed(
        &mut self,
        profile: &Profile,
        cluster: &ClusterView<'_>,
        pod: &PodInfo,
        which: (Option<&NodeInfo>, Option<&Narrowed>),
    ) -> Result<(), Status> {
        if let Some(first) = cluster.nodes.iter().next().filter(|_| self.state.is_sampled()) {
            profile.sample_filters(cluster, &self.state, pod, first);
        }
        let mut watch = profile.stopwatch();
        let filtered = self.filter(profile, cluster, pod, which);
        let code = filtered.as_ref().map_or_else(|status| status.code, |()| Code::Success);
        watch.point(ExtensionPoint::Filter, code);
        filtered
    }

    fn filter(
        &mut self,
        profile: &Profile,
        cluster: &ClusterView<'_>,
        pod: &PodInfo,
        (nominated, narrowed): (Option<&NodeInfo>, Option<&Narrowed>),
    ) -> Result<(), Status> {
        if let Some(node) = nominated {
            let status = profile.run_filter_with_nominated(cluster, &self.state, pod, node);
            if status.is_success() {
                self.feasible.push(node.idx);
                return Ok(());
            }
        }
        let mut visit = |node: &NodeInfo| {
            let status = profile.run_filter_with_nominated(cluster, &self.state, pod, node);
            if status.is_success() {
                self.feasible.push(node.idx);
            } else if status.is_rejected() {
                self.statuses.explicit.push((node.idx, status));
            } else {
                return Err(status);
            }
            Ok(())
        };
        match narrowed {
            None => cluster.nodes.iter().try_for_each(&mut visit),
            Some(narrowed) => {
                let named = narrowed.nodes.iter().filter_map(|name| cluster.nodes.find(*name));
                named.filter_map(|idx| cluster.nodes.get(idx)).try_for_each(&mut visit)
            }
        }
    }

    /// What follows from the filters.
    fn conclude(
        &mut self,
        profile: &Profile,
        cluster: &ClusterView<'_>,
        pod: &PodInfo,
        (first, narrowed): (Option<&NodeInfo>, Option<Narrowed>),
        mut beside: Option<&mut dyn Beside>,
    ) -> Outcome {
        let verdict = match &mut beside {
            None => Ok(Verdict::Kept),
            Some(beside) => {
                let first = first.map(|node| node.idx);
                beside.narrow(cluster, first, &mut self.feasible, &mut self.statuses)
            }
        };
        match verdict {
            Err(status) => Outcome::Failed(status),
            Ok(Verdict::Open) => Outcome::Open,
            Ok(verdict) if self.feasible.is_empty() => {
                let mut diagnosis = self.diagnose(narrowed);
                if verdict == Verdict::Dropped {
                    diagnosis.blame(&Status::default().by(*EXTENDER));
                }
                Outcome::NoFit(Box::new(diagnosis))
            }
            Ok(_) => self.score(profile, cluster, pod, beside.as_deref()),
        }
    }

    fn diagnose(&mut self, narrowed: Option<Narrowed>) -> Diagnosis {
        let mut diagnosis = Diagnosis::default();
        for (_, status) in &self.statuses.explicit {
            diagnosis.blame(status);
        }
        if let Some(narrowed) = narrowed {
            self.statuses.absent = narrowed.absent_status();
            for plugin in narrowed.plugins {
                diagnosis.blame(&self.statuses.absent.clone().by(plugin));
            }
        }
        diagnosis.statuses = self.statuses.clone();
        diagnosis
    }

    fn score(
        &mut self,
        profile: &Profile,
        cluster: &ClusterView<'_>,
        pod: &PodInfo,
        beside: Option<&dyn Beside>,
    ) -> Outcome {
        if let [only] = self.feasible.as_slice() {
            return Outcome::Best(vec![*only]);
        }
        let nodes = beside.and_then(|beside| beside.nodes_to_score(cluster, &self.feasible));
        let cluster = &ClusterView {
            nodes: nodes.as_ref().unwrap_or(cluster.nodes),
            ..*cluster
        };
        let scored = profile
            .run_pre_score(cluster, &mut self.state, pod, &self.feasible)
            .and_then(|()| profile.run_score(cluster, &self.state, pod, &self.feasible));
        match scored {
            Err(status) => Outcome::Failed(status),
            Ok(mut run) => {
                if let Some(beside) = beside {
                    beside.add_scores(&mut run);
                }
                let best = run.totals.iter().max().copied().unwrap_or(0);
                let winners = run.nodes.iter().zip(&run.totals).filter(|(_, total)| **total == best);
                let winners = winners.map(|(node, _)| *node).collect();
                self.scores = Some(run);
                Outcome::Best(winners)
            }
        }
    }
}

/// The node to which the pod is nominated, if it is there: by us, else as its status says.
pub(crate) fn nominated_node<'c>(cluster: &ClusterView<'c>, pod: &PodInfo) -> Option<&'c NodeInfo> {
    let own = cluster.pods.nominated_node(pod.uid);
    let said = || pod.nominated_node.and_then(|name| cluster.nodes.find(name));
    own.or_else(said).and_then(|node| cluster.nodes.get(node))
}

/// What PostFilter came to for a pod that fits nowhere.
#[derive(Debug)]
pub struct PostFiltered {
    /// The complete failure.
    pub error: FitError,
    /// What becomes of the pod's nomination.
    pub nomination: NominatedNode,
    /// The pods that must go for it.
    pub preemption: Option<Box<Preemption>>,
}

/// Runs PostFilter for a pod that fits nowhere.
#[must_use]
pub fn post_filter(
    profile: &Profile,
    cluster: &ClusterView<'_>,
    evaluation: &Evaluation,
    pod: &PodInfo,
) -> PostFiltered {
    let diagnosis = match &evaluation.outcome {
        Outcome::NoFit(diagnosis) => Diagnosis::clone(diagnosis),
        Outcome::Best(_) | Outcome::NoNodes | Outcome::Failed(_) | Outcome::Open => Diagnosis::default(),
    };
    let mut error = FitError {
        node_count: cluster.nodes.len(),
        diagnosis,
        post_filter_message: String::new(),
    };
    if !profile.has_post_filter() {
        return PostFiltered {
            error,
            nomination: NominatedNode::Keep,
            preemption: None,
        };
    }
    let result = profile.run_post_filter(cluster, &evaluation.state, pod, &evaluation.statuses);
    if !result.status.is_success() {
        error.post_filter_message = result.status.message();
    }
    PostFiltered {
        error,
        nomination: result.nomination,
        preemption: result.preemption.filter(|_| result.status.is_success()),
    }
}
