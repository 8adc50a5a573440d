//! What may help a pod that the plugin rejected.
//!
//! Hints know no namespaces. Where a term selects namespaces by labels, upstream's hint takes none of them to be
//! selected, so that such a pod waits for the sweep of the unschedulable (5 minutes); here any of them may be. A change
//! of a namespace's labels, which upstream does not look at, is an event of its own.
//!
//! Source: `pkg/scheduler/framework/plugins/interpodaffinity/plugin.go` (`isSchedulableAfterPodChange`,
//! `isSchedulableAfterNodeChange`), Kubernetes 1.36.

use super::terms::Seen;
use crate::cluster::{LabelSelector, Labels, NodeSpec, PodAffinityTerm, PodInfo};
use crate::framework::{ActionType, EventHint, EventObject, EventResource, QueueingHint};
use crate::plugins::hints::{Hint, changed_node, queue_if};

/// All of them. Only the hint on pods looks at a UID, and pods that wait are told of their own changes one by one.
pub(super) fn events() -> Vec<EventHint> {
    let pod = ActionType::ADD.or(ActionType::UPDATE_POD_LABEL).or(ActionType::DELETE);
    let node = ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL);
    vec![
        EventHint::when(EventResource::Pod, pod, after_pod_change).by_class(),
        EventHint::when(EventResource::Node, node, after_node_change).by_class(),
        EventHint::when(EventResource::Namespace, ActionType::ALL, after_namespace_change).by_class(),
    ]
}

fn may_mean(term: &PodAffinityTerm, other: Seen<'_>) -> bool {
    let in_namespace = term.namespaces.contains(&other.namespace) || term.namespace_selector != LabelSelector::Nothing;
    in_namespace && term.selector.matches(other.labels)
}

fn all_may_mean(terms: &[PodAffinityTerm], other: Seen<'_>) -> bool {
    !terms.is_empty() && terms.iter().all(|term| may_mean(term, other))
}

fn after_pod_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Pod { old, new } = event else {
        return Err("expected a pod that was added, updated or deleted".to_owned());
    };
    let (old, new) = (old.as_deref(), new.as_deref());
    if old.is_some() && new.is_some_and(|new| new.uid == pod.uid) {
        return Ok(QueueingHint::Queue);
    }
    let mut sides = old.into_iter().chain(new);
    if !sides.all(PodInfo::is_assigned_or_nominated) {
        return Ok(QueueingHint::QueueSkip);
    }
    let pod = Seen::from(pod);
    let (affinity, anti) = (pod.required_affinity(), pod.required_anti_affinity());
    let attracts = |other: &PodInfo| all_may_mean(affinity, other.into());
    let repels = |other: &PodInfo| all_may_mean(anti, other.into());
    queue_if(match (old, new) {
        (Some(old), Some(new)) => (!attracts(old) && attracts(new)) || (repels(old) && !repels(new)),
        (None, Some(new)) => attracts(new),
        (Some(old), None) => repels(old) || all_may_mean(Seen::from(old).required_anti_affinity(), pod),
        (None, None) => true,
    })
}

fn after_node_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_node(event)?;
    let pod = Seen::from(pod);
    let mut affinity = pod.required_affinity().iter();
    let mut anti = pod.required_anti_affinity().iter();
    queue_if(affinity.any(|term| gained(term, old, new)) || anti.any(|term| lost(term, old, new)))
}

/// The node came to a domain of the term, or changed it.
fn gained(term: &PodAffinityTerm, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let after = new.labels.get(term.topology_key);
    after.is_some() && old.is_none_or(|old| old.labels.get(term.topology_key) != after)
}

/// The node is new, left a domain of the term, or changed it.
fn lost(term: &PodAffinityTerm, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let Some(old) = old else { return true };
    let before = old.labels.get(term.topology_key);
    before.is_some() && new.labels.get(term.topology_key) != before
}

/// A namespace came into the reach of a term or left it, or the pod's own changed, so that terms of placed pods may no
/// longer mean it.
fn after_namespace_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Namespace { name, old, new } = event else {
        return Err("expected a namespace".to_owned());
    };
    let moved = |term: &PodAffinityTerm| {
        let is_selected =
            |labels: Option<&Labels>| labels.is_some_and(|labels| term.namespace_selector.matches(labels));
        is_selected(old.as_deref()) != is_selected(new.as_deref())
    };
    let seen = Seen::from(pod);
    let mut terms = seen.required_affinity().iter().chain(seen.required_anti_affinity());
    queue_if(*name == pod.namespace || terms.any(moved))
}
