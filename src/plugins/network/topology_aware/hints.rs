//! Which changes are worth another try for a pod that the filter rejected.

use crate::cluster::PodInfo;
use crate::framework::{ActionType, EventHint, EventObject, EventResource};
use crate::plugins::hints::{Hint, queue_if};

/// Pods of a partner that come or go may be nearer or may have been the furthest; a node may be near; figures and
/// AppGroups may have changed.
pub(super) fn events() -> Vec<EventHint> {
    let pods = ActionType::ADD.or(ActionType::DELETE).or(ActionType::UPDATE_POD_LABEL);
    let nodes = ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL);
    vec![
        EventHint::when(EventResource::AssignedPod, pods, after_pod_change).by_class(),
        EventHint::when(EventResource::Node, nodes, after_node_change).by_class(),
        EventHint::always(EventResource::Network, ActionType::ALL),
    ]
}

/// Pods of other namespaces may be partners too: only those who say nothing of the network and have no labels are none.
fn after_pod_change(_: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Pod { old, new } = event else {
        return Err("expected a pod that came, went or changed".to_owned());
    };
    let may_be_partner = |pod: &PodInfo| pod.spec.network.is_some() || pod.labels.iter().next().is_some();
    queue_if([old, new].into_iter().flatten().any(|pod| may_be_partner(pod)))
}

fn after_node_change(_: &PodInfo, event: &EventObject) -> Hint {
    let EventObject::Node { old, new: Some(new) } = event else {
        return Err("expected the node that was added or updated".to_owned());
    };
    queue_if(old.as_ref().is_none_or(|old| old.labels != new.labels))
}
