//! `NodeUnschedulable`: keeps pods off cordoned nodes, unless they tolerate that.
//!
//! Source: `pkg/scheduler/framework/plugins/nodeunschedulable`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, Effect, NodeInfo, PodInfo, Taint};
use crate::framework::{
    ActionType, CycleState, EventHint, EventObject, EventResource, Filter, LabelsRead, Plugin, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{Hint, changed_node, changed_pod, queue_if};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeUnschedulable"));
static REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) were unschedulable"));
/// The taint that a cordoned node is taken to have.
static TAINT: LazyLock<Taint> = LazyLock::new(|| Taint {
    key: Symbol::new("node.kubernetes.io/unschedulable"),
    value: Symbol::new(""),
    effect: Effect::NoSchedule,
});

/// The plugin.
pub(super) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(
                EventResource::Node,
                ActionType::ADD.or(ActionType::UPDATE_NODE_TAINT),
                after_node_change,
            )
            .by_class(),
            EventHint::when(EventResource::Pod, ActionType::UPDATE_POD_TOLERATION, |pod, event| {
                let changed = changed_pod(event)?;
                queue_if(changed.uid == pod.uid && tolerates(changed))
            })
            .by_class(),
        ])
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

fn after_node_change(_: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_node(event)?;
    queue_if(!new.unschedulable && old.is_none_or(|old| old.unschedulable))
}

fn tolerates(pod: &PodInfo) -> bool {
    pod.spec
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&TAINT))
}

impl Filter for NodeUnschedulable {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if !node.spec.unschedulable || tolerates(pod) {
            Status::SUCCESS
        } else {
            Status::unresolvable(*REASON)
        }
    }
}
