//! Victims on one node: all pods of lower priority go, and as many as possible come back.

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use crate::cluster::{NodeInfo, PodInfo};
use crate::framework::{CycleState, Status};
use crate::ids::Symbol;
use crate::preemption::{Trial, budgets};

static NO_VICTIMS: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("No preemption victims found for incoming pod"));

/// A node as it would be without some of its pods.
struct Node<'t> {
    trial: &'t Trial<'t>,
    state: CycleState,
    node: NodeInfo,
}

impl Node<'_> {
    fn remove(&mut self, pod: &PodInfo) -> Result<(), Status> {
        self.node.used.remove(&pod.charge);
        let profile = self.trial.profile;
        succeed(profile.run_remove_pod(&mut self.state, self.trial.pod, pod, &self.node))
    }

    fn add(&mut self, pod: &PodInfo) -> Result<(), Status> {
        self.node.used.add(&pod.charge);
        let profile = self.trial.profile;
        succeed(profile.run_add_pod(&mut self.state, self.trial.pod, pod, &self.node))
    }

    fn filter(&self) -> Status {
        let trial = self.trial;
        let profile = trial.profile;
        profile.run_filter_with_nominated(&trial.cluster, &self.state, trial.pod, &self.node)
    }

    /// Puts a pod back if the pod that wants in fits all the same.
    fn reprieve(&mut self, pod: &PodInfo) -> Result<bool, Status> {
        self.add(pod)?;
        let fits = self.filter().is_success();
        if !fits {
            self.remove(pod)?;
        }
        Ok(fits)
    }
}

fn succeed(status: Status) -> Result<(), Status> {
    if status.is_success() { Ok(()) } else { Err(status) }
}

/// The victims on `node`, most important first, and how many of them a budget protects.
///
/// # Errors
/// The status that says why evictions do not help: there is no pod of lower priority, or the pod does not fit even
/// without them.
pub(super) fn on_node(trial: &Trial<'_>, node: &NodeInfo) -> Result<(Vec<Arc<PodInfo>>, usize), Status> {
    let priority = trial.pod.priority();
    if !trial.cluster.pods.any_below(node.idx, priority) {
        return Err(Status::unresolvable(*NO_VICTIMS));
    }
    let mut lower = trial.cluster.pods.on_node(node.idx);
    lower.retain(|pod| pod.priority() < priority);
    if lower.is_empty() {
        return Err(Status::unresolvable(*NO_VICTIMS));
    }
    let mut tried = Node {
        trial,
        state: trial.state.clone(),
        node: node.clone(),
    };
    for pod in &lower {
        tried.remove(pod)?;
    }
    succeed(tried.filter())?;
    sort_by_importance(&mut lower);
    let (violating, clean) = budgets::split(lower, trial.budgets);
    let both = !violating.is_empty() && !clean.is_empty();
    let mut victims = Vec::new();
    for pod in violating {
        if !tried.reprieve(&pod)? {
            victims.push(pod);
        }
    }
    let pdb_violations = victims.len();
    for pod in clean {
        if !tried.reprieve(&pod)? {
            victims.push(pod);
        }
    }
    if both {
        sort_by_importance(&mut victims);
    }
    Ok((victims, pdb_violations))
}

/// Higher priority first, then who started earlier; without a start time: now.
fn sort_by_importance(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), pod.start_time_micros.unwrap_or(i64::MAX)));
}
