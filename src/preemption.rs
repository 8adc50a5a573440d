//! Preemption: which pods of lower priority would have to go so that a pod that fits nowhere fits.
//!
//! The way: [`eligible`] says whether the pod may preempt at all, [`potential_nodes`] which nodes could be helped,
//! [`dry_run`] finds the victims on each of them, [`best_candidates`] chooses.
//!
//! Does not: evict, nominate, or change anything; read a clock (a pod without a start time counts as started now,
//! after all others); ask extenders.
//!
//! Threads: any; all is computed from what is passed in.
//!
//! Cost: for a potential node with pods of lower priority one run of the filters, and for each such pod one of those
//! filters that look at pods; a copy of the cycle's state only where a plugin counts pods in it. For any other potential
//! node, a look at its pods. Nodes beyond the [`CandidateLimits`] cost nothing once enough candidates are found.
//!
//! Source: `pkg/scheduler/framework/preemption` and `pkg/scheduler/framework/plugins/defaultpreemption`, Kubernetes
//! 1.36.
//!
//! Children in reading order: `victims` (one node), `budgets` (PodDisruptionBudgets), `advice` (who has a say about the
//! candidates beside us), `select` (the choice).

mod advice;
mod budgets;
mod select;
mod victims;

use std::sync::{Arc, LazyLock};

use crate::cluster::{Budget, ClusterView, NodeInfo, PodInfo};
use crate::framework::{Code, CycleState, Diagnosis, FitError, NodeStatuses, Profile, Status};
use crate::ids::{NodeIdx, Symbol};

pub use advice::{Advice, Advise, Adviser};
pub use select::best_candidates;

static NEVER: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("not eligible due to preemptionPolicy=Never."));
static TERMINATING: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("not eligible due to a terminating pod on the nominated node."));
static NOT_HELPFUL: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Preemption is not helpful for scheduling"));

/// How many candidates are enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CandidateLimits {
    /// This share of the potential nodes, in percent,
    pub percentage: u32,
    /// but no fewer than these.
    pub absolute: u32,
}

impl CandidateLimits {
    /// Every potential node is tried.
    pub const NONE: Self = Self {
        percentage: 100,
        absolute: u32::MAX,
    };

    fn wanted(self, potential: usize) -> usize {
        let share = potential.saturating_mul(self.percentage as usize) / 100;
        share.max(self.absolute as usize).min(potential)
    }
}

/// What is tried: a pod against nodes under a profile's filters.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The nodes and their pods.
    pub cluster: ClusterView<'a>,
    /// Whose filters decide.
    pub profile: &'a Profile,
    /// What the profile's PreFilter left for the pod.
    pub state: &'a CycleState,
    /// The pod that wants in.
    pub pod: &'a PodInfo,
    /// All PodDisruptionBudgets.
    pub budgets: &'a [Arc<Budget>],
}

/// A node that could take the pod, and what that costs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub node: NodeIdx,
    /// Its name.
    pub name: Symbol,
    /// The version of the node's use that this rests on.
    pub version: u64,
    /// The pods that would have to go, most important first; not empty.
    pub victims: Vec<Arc<PodInfo>>,
    /// How many of them their budgets protect.
    pub pdb_violations: usize,
}

/// What the trials found.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    /// Nodes that could take the pod: first those that break no budget.
    pub candidates: Vec<Candidate>,
    /// Nodes that were tried and could not, and why.
    pub rejections: Vec<(NodeIdx, Status)>,
}

/// Whether the pod may preempt others.
///
/// Upstream goes by what the pods' objects say of their eviction. Pods that this process has had evicted for the pod count
/// too before their objects say so.
///
/// # Errors
/// The reason why it may not: its policy, or that a pod it had evicted before is still on its way out.
pub fn eligible(cluster: &ClusterView<'_>, pod: &PodInfo, statuses: &NodeStatuses) -> Result<(), Symbol> {
    if pod.spec.never_preempts {
        return Err(*NEVER);
    }
    let own = cluster.pods.nominated_node(pod.uid);
    let said = || pod.nominated_node.and_then(|name| cluster.nodes.find(name));
    let Some(node) = own.or_else(said).filter(|node| cluster.nodes.get(*node).is_some()) else {
        return Ok(());
    };
    if statuses.get(node).code == Code::UnschedulableAndUnresolvable {
        return Ok(());
    }
    let leaving = |other: &Arc<PodInfo>| other.priority() < pod.priority() && other.terminating && other.preempted;
    let evicted = cluster.pods.awaited_node(pod.uid) == Some(node);
    if evicted || cluster.pods.on_node(node).iter().any(leaving) {
        return Err(*TERMINATING);
    }
    Ok(())
}

/// The nodes on which evictions may help: those whose status is plainly unschedulable. In the order of their slots.
#[must_use]
pub fn potential_nodes(cluster: &ClusterView<'_>, statuses: &NodeStatuses) -> Vec<NodeIdx> {
    let helps = |status: &Status| status.code == Code::Unschedulable;
    let mut named: Vec<NodeIdx> = Vec::new();
    if !helps(&statuses.absent) {
        let explicit = statuses.explicit.iter().filter(|(_, status)| helps(status));
        named.extend(explicit.map(|(node, _)| *node));
        named.retain(|node| cluster.nodes.get(*node).is_some());
        named.sort_unstable();
        return named;
    }
    let others = statuses.explicit.iter().filter(|(_, status)| !helps(status));
    named.extend(others.map(|(node, _)| *node));
    named.sort_unstable();
    let all = cluster.nodes.iter().map(|node| node.idx);
    all.filter(|node| named.binary_search(node).is_err()).collect()
}

/// Tries potential nodes, beginning with the one at `offset` (any number) and going round, until enough candidates
/// are found, at least one of which breaks no budget.
#[must_use]
pub fn dry_run(trial: &Trial<'_>, potential: &[NodeIdx], limits: CandidateLimits, offset: usize) -> DryRun {
    let mut rejections = Vec::new();
    let (mut clean, mut violating) = (Vec::new(), Vec::new());
    let wanted = limits.wanted(potential.len());
    let start = offset.checked_rem(potential.len()).unwrap_or(0);
    let (before, after) = potential.split_at(start);
    let mut scratch = None;
    for idx in after.iter().chain(before) {
        let Some(node) = trial.cluster.nodes.get(*idx) else {
            continue;
        };
        let scratch = scratch.get_or_insert_with(|| victims::Scratch::new(trial, node));
        match try_node(trial, node, scratch) {
            Ok(candidate) if candidate.pdb_violations == 0 => clean.push(candidate),
            // The list is as long as candidates are wanted, so that a search for a clean one stays bounded.
            Ok(candidate) if violating.len() < wanted => violating.push(candidate),
            Ok(_) => {}
            Err(status) => rejections.push((*idx, status)),
        }
        if !clean.is_empty() && clean.len() + violating.len() >= wanted {
            break;
        }
    }
    clean.append(&mut violating);
    DryRun {
        candidates: clean,
        rejections,
    }
}

fn try_node(trial: &Trial<'_>, node: &NodeInfo, scratch: &mut victims::Scratch) -> Result<Candidate, Status> {
    let (victims, pdb_violations) = victims::on_node(trial, node, scratch)?;
    if victims.is_empty() {
        let name = node.name;
        return Err(Status::error(format!(
            "expected at least one victim pod on node \"{name}\""
        )));
    }
    Ok(Candidate {
        node: node.idx,
        name: node.name,
        version: node.used.version,
        victims,
        pdb_violations,
    })
}

impl DryRun {
    /// The text of what failed inside the trials, if something did.
    #[must_use]
    pub fn errors(&self) -> Option<String> {
        let mut texts: Vec<String> = Vec::new();
        for (_, status) in self.rejections.iter().filter(|(_, status)| status.code == Code::Error) {
            let text = status.message();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }

    /// Why there is no candidate: what the nodes that were tried said, all others being beyond help.
    #[must_use]
    pub fn message(&self, cluster: &ClusterView<'_>) -> String {
        let statuses = NodeStatuses {
            explicit: self.rejections.clone(),
            absent: Status::unresolvable(*NOT_HELPFUL),
        };
        let error = FitError {
            node_count: cluster.nodes.len(),
            diagnosis: Diagnosis {
                statuses,
                ..Default::default()
            },
            post_filter_message: String::new(),
        };
        error.message()
    }
}
