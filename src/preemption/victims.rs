//! Victims on one node: all pods of lower priority go, and as many as possible come back.
//!
//! A trial changes copies: of the node's use in one scratch node for all trials of a dry run, and of the cycle's state
//! only where a plugin counts pods in it.

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use crate::cluster::{NodeInfo, PodInfo};
use crate::framework::{CycleState, Status};
use crate::ids::Symbol;
use crate::preemption::{Trial, budgets};

static NO_VICTIMS: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("No preemption victims found for incoming pod"));

/// What the trials of one dry run use again and again.
pub(super) struct Scratch {
    node: NodeInfo,
    lower: Vec<Arc<PodInfo>>,
    /// Whether some plugin counts pods in the cycle's state.
    adjusts_state: bool,
}

impl Scratch {
    pub(super) fn new(trial: &Trial<'_>, node: &NodeInfo) -> Self {
        Self {
            node: node.clone(),
            lower: Vec::new(),
            adjusts_state: trial.profile.adjusts_state(trial.state),
        }
    }
}

/// A node as it would be without some of its pods.
struct Node<'t> {
    trial: &'t Trial<'t>,
    /// A copy of the cycle's state, if trials change it.
    state: Option<CycleState>,
    node: &'t mut NodeInfo,
}

impl Node<'_> {
    fn remove(&mut self, pod: &PodInfo) -> Result<(), Status> {
        self.node.used.remove(&pod.charge);
        let Some(state) = &mut self.state else { return Ok(()) };
        let profile = self.trial.profile;
        succeed(profile.run_remove_pod(state, self.trial.pod, pod, self.node))
    }

    fn add(&mut self, pod: &PodInfo) -> Result<(), Status> {
        self.node.used.add(&pod.charge);
        let Some(state) = &mut self.state else { return Ok(()) };
        let profile = self.trial.profile;
        succeed(profile.run_add_pod(state, self.trial.pod, pod, self.node))
    }

    fn state(&self) -> &CycleState {
        self.state.as_ref().unwrap_or(self.trial.state)
    }

    fn filter(&self) -> Status {
        let trial = self.trial;
        trial
            .profile
            .run_filter_with_nominated(&trial.cluster, self.state(), trial.pod, self.node)
    }

    /// Puts a pod back if the pod that wants in fits all the same. It fits without it.
    fn reprieve(&mut self, pod: &PodInfo) -> Result<bool, Status> {
        self.add(pod)?;
        let trial = self.trial;
        let status = trial
            .profile
            .run_filter_again(&trial.cluster, self.state(), trial.pod, self.node);
        if !status.is_success() {
            self.remove(pod)?;
        }
        Ok(status.is_success())
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
pub(super) fn on_node(
    trial: &Trial<'_>,
    node: &NodeInfo,
    scratch: &mut Scratch,
) -> Result<(Vec<Arc<PodInfo>>, usize), Status> {
    let Scratch {
        node: copy,
        lower,
        adjusts_state,
    } = scratch;
    trial.cluster.pods.below(node.idx, trial.pod.priority(), lower);
    if lower.is_empty() {
        return Err(Status::unresolvable(*NO_VICTIMS));
    }
    copy_into(node, copy);
    let mut tried = Node {
        trial,
        state: adjusts_state.then(|| trial.state.clone()),
        node: copy,
    };
    for pod in lower.iter() {
        tried.remove(pod)?;
    }
    succeed(tried.filter())?;
    sort_by_importance(lower);
    let protected = budgets::protected(lower, trial.budgets);
    let is_protected = |at: usize| protected.get(at) == Some(&true);
    let mut victims = Vec::with_capacity(lower.len());
    for (_, pod) in lower.iter().enumerate().filter(|(at, _)| is_protected(*at)) {
        if !tried.reprieve(pod)? {
            victims.push(Arc::clone(pod));
        }
    }
    let pdb_violations = victims.len();
    for (_, pod) in lower.iter().enumerate().filter(|(at, _)| !is_protected(*at)) {
        if !tried.reprieve(pod)? {
            victims.push(Arc::clone(pod));
        }
    }
    if pdb_violations > 0 {
        sort_by_importance(&mut victims);
    }
    Ok((victims, pdb_violations))
}

/// Copies without an allocation, as a rule.
fn copy_into(node: &NodeInfo, copy: &mut NodeInfo) {
    copy.idx = node.idx;
    copy.name = node.name;
    copy.incarnation = node.incarnation;
    copy.spec = Arc::clone(&node.spec);
    copy.used.clone_from(&node.used);
}

/// Higher priority first, then who started earlier; without a start time: now.
fn sort_by_importance(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), pod.start_time_micros.unwrap_or(i64::MAX)));
}
