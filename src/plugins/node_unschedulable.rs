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
    TAINT.is_tolerated_by(&pod.spec.tolerations)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::plugins::check::{filter, hint, node_event, plugin, updated, world};
    use crate::testing::{NodeBuilder, PodBuilder, node, pod};

    const KEY: &str = "node.kubernetes.io/unschedulable";

    #[test]
    fn cordoned_nodes_take_only_pods_that_tolerate_it() {
        let plugin = plugin("NodeUnschedulable");
        let world = world(&[node("a").unschedulable(), node("b")], &[]);
        let told = |pod: &PodBuilder| filter(&*plugin, pod, &world);
        assert_eq!(told(&pod("p")), ["UU node(s) were unschedulable", "fits"]);
        assert_eq!(told(&pod("p").toleration(KEY, "", "", "NoSchedule")), ["fits", "fits"]);
        assert_eq!(told(&pod("p").toleration("", "Exists", "", "")), ["fits", "fits"]);
        let otherwise = pod("p").toleration(KEY, "", "x", "NoSchedule");
        assert_eq!(told(&otherwise), ["UU node(s) were unschedulable", "fits"]);
    }

    #[test]
    fn a_node_that_becomes_schedulable_is_worth_another_try() {
        let plugin = plugin("NodeUnschedulable");
        let cordoned = node("a").unschedulable();
        let after = |old: Option<&NodeBuilder>, new: &NodeBuilder| {
            let action = old.map_or(ActionType::ADD, |_| ActionType::UPDATE_NODE_TAINT);
            hint(&*plugin, &pod("p"), EventResource::Node, action, &node_event(old, new))
        };
        assert_eq!(
            after(Some(&cordoned), &cordoned.clone().taint("k", "v", "NoSchedule")),
            Some(QueueSkip)
        );
        assert_eq!(after(Some(&cordoned), &node("a")), Some(Queue));
        assert_eq!(after(Some(&node("a")), &node("a")), Some(QueueSkip));
        assert_eq!(after(None, &node("a")), Some(Queue));
        assert_eq!(after(None, &cordoned), Some(QueueSkip));
    }

    #[test]
    fn only_a_toleration_that_helps_is_worth_another_try() {
        let plugin = plugin("NodeUnschedulable");
        let after = |new: &PodBuilder| {
            let action = ActionType::UPDATE_POD_TOLERATION;
            hint(
                &*plugin,
                &pod("p"),
                EventResource::Pod,
                action,
                &updated(&pod("p"), new),
            )
        };
        assert_eq!(after(&pod("p").toleration("k", "", "v", "")), Some(QueueSkip));
        assert_eq!(after(&pod("p").toleration(KEY, "Exists", "", "")), Some(Queue));
        assert_eq!(after(&pod("q").toleration(KEY, "Exists", "", "")), Some(QueueSkip));
    }
}
