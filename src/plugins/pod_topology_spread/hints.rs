//! Which changes are worth another try for a pod that the filter rejected.
//!
//! A hint knows nothing but the pod and the event. Where default constraints are hard, whose selector only the owners
//! tell, every change that could matter queues the pod.
//!
//! Source: `pkg/scheduler/framework/plugins/podtopologyspread/plugin.go`, Kubernetes 1.36.

use crate::cluster::{Labels, NodeSpec, PodInfo, SpreadConstraint};
use crate::framework::EventObject;
use crate::ids::Symbol;
use crate::plugins::hints::{Hint, queue_if};

use super::constraints::{Action, Defaults, own_constraints, selects};

/// A pod came, went or changed.
pub(super) fn after_pod_change(defaults: &Defaults, pod: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Pod { old, new } = event else {
        return Err("expected a pod that came, went or changed".to_owned());
    };
    let (old, new) = (old.as_deref(), new.as_deref());
    if old.is_none() && new.is_none() {
        return Err("expected a pod that came, went or changed".to_owned());
    }
    if [old, new].into_iter().flatten().any(|other| !is_involved(other, pod)) {
        return queue_if(false);
    }
    let hard = hard(pod)?;
    let unknown = pod.spec.spread.is_empty() && defaults.has_hard();
    let (Some(old), Some(new)) = (old, new) else {
        let labels = old.or(new).map(|other| &other.labels);
        let matches = |labels: &Labels| hard.iter().any(|constraint| selects(constraint, pod, labels));
        return queue_if(unknown || labels.is_some_and(matches));
    };
    if new.uid == pod.uid && new.spec.tolerations != old.spec.tolerations && honors_taints(defaults, pod, &hard) {
        return queue_if(true);
    }
    if new.labels == old.labels {
        return queue_if(false);
    }
    let flips =
        |constraint: &&SpreadConstraint| selects(constraint, pod, &old.labels) != selects(constraint, pod, &new.labels);
    queue_if(unknown || hard.iter().any(flips))
}

/// A node came, went or changed.
pub(super) fn after_node_change(defaults: &Defaults, pod: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Node { old, new } = event else {
        return Err("expected a node that came, went or changed".to_owned());
    };
    let keys: Vec<Symbol> = if pod.spec.spread.is_empty() {
        defaults.hard_keys().collect()
    } else {
        hard(pod)?.iter().map(|constraint| constraint.topology_key).collect()
    };
    let matches = |node: &NodeSpec| keys.iter().all(|key| node.labels.get(*key).is_some());
    match (old.as_deref(), new.as_deref()) {
        (None, None) => Err("expected a node that came, went or changed".to_owned()),
        (Some(node), None) | (None, Some(node)) => queue_if(matches(node)),
        (Some(old), Some(new)) => {
            let moved = |key: &Symbol| old.labels.get(*key) != new.labels.get(*key);
            let changed = old.taints != new.taints || keys.iter().any(moved);
            queue_if(matches(old) != matches(new) || matches(new) && changed)
        }
    }
}

/// The pod itself, or one of its namespace that has a node or is about to get one.
fn is_involved(other: &PodInfo, pod: &PodInfo) -> bool {
    other.uid == pod.uid || other.is_assigned_or_nominated() && other.namespace == pod.namespace
}

/// The pod's own hard constraints.
///
/// # Errors
/// One of their selectors is wrong.
fn hard(pod: &PodInfo) -> Result<Vec<&SpreadConstraint>, String> {
    let check = |constraint: &'_ SpreadConstraint| constraint.error.clone();
    match own_constraints(pod, Action::DoNotSchedule).find_map(check) {
        Some(error) => Err(error.into()),
        None => Ok(own_constraints(pod, Action::DoNotSchedule).collect()),
    }
}

fn honors_taints(defaults: &Defaults, pod: &PodInfo, hard: &[&SpreadConstraint]) -> bool {
    if pod.spec.spread.is_empty() {
        defaults.hard_honors_taints()
    } else {
        hard.iter().any(|constraint| constraint.honor_taints)
    }
}
