//! Which events a change of a pod or node amounts to.
//!
//! Source: `pkg/scheduler/framework/events.go` (`PodSchedulingPropertiesChange`, `NodeSchedulingPropertiesChange`),
//! Kubernetes 1.36.

use smallvec::SmallVec;

use crate::cluster::{NodeSpec, PodInfo};
use crate::framework::{ActionType, ClusterEvent, EventResource};
use crate::resources::Resources;

/// The few events of one change.
pub type Changes = SmallVec<[ClusterEvent; 2]>;

/// The events of an update of a pod; `resource` says whether it is on a node. Never empty.
#[must_use]
pub fn pod_changes(old: &PodInfo, new: &PodInfo, resource: EventResource) -> Changes {
    let kinds = [
        (ActionType::UPDATE_POD_LABEL, old.labels != new.labels),
        (
            ActionType::UPDATE_POD_SCALE_DOWN,
            is_lowered(&old.spec.charged_request, &new.spec.charged_request),
        ),
        (
            ActionType::UPDATE_POD_GATES_ELIMINATED,
            !old.gates.is_empty() && new.gates.is_empty(),
        ),
        (
            ActionType::UPDATE_POD_TOLERATION,
            old.spec.tolerations.len() != new.spec.tolerations.len(),
        ),
        (
            ActionType::UPDATE_POD_GENERATED_CLAIM,
            old.claim_statuses != new.claim_statuses,
        ),
    ];
    let mut changes = collect(resource, &kinds);
    if changes.is_empty() {
        changes.push(ClusterEvent::new(resource, ActionType::UPDATE));
    }
    changes
}

/// The events of an update of a node; empty when nothing changed that scheduling can see, a heartbeat for example.
#[must_use]
pub fn node_changes(old: &NodeSpec, new: &NodeSpec) -> Changes {
    let kinds = [
        (
            ActionType::UPDATE_NODE_TAINT,
            (old.unschedulable && !new.unschedulable) || old.taints != new.taints,
        ),
        (ActionType::UPDATE_NODE_ALLOCATABLE, old.allocatable != new.allocatable),
        (ActionType::UPDATE_NODE_LABEL, old.labels != new.labels),
        (ActionType::UPDATE_NODE_CONDITION, old.conditions != new.conditions),
        (
            ActionType::UPDATE_NODE_ANNOTATION,
            old.annotations_hash != new.annotations_hash,
        ),
        (
            ActionType::UPDATE_NODE_DECLARED_FEATURE,
            old.declared_features != new.declared_features,
        ),
    ];
    collect(EventResource::Node, &kinds)
}

fn collect(resource: EventResource, kinds: &[(ActionType, bool)]) -> Changes {
    let happened = kinds.iter().filter(|(_, happened)| *happened);
    happened
        .map(|(action, _)| ClusterEvent::new(resource, *action))
        .collect()
}

fn is_lowered(old: &Resources, new: &Resources) -> bool {
    let scalar_lowered = |(name, amount): &(crate::ids::Symbol, i64)| {
        let now = new.scalars.iter().find(|(have, _)| have == name);
        now.is_none_or(|(_, now)| now < amount)
    };
    new.milli_cpu < old.milli_cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old.scalars.iter().any(scalar_lowered)
}
