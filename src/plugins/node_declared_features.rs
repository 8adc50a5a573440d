//! `NodeDeclaredFeatures`: pods that need a feature of the kubelet fit only nodes that declare it.
//!
//! What a pod needs is inferred when it is decoded (`PodSpec::required_features`).
//!
//! Source: `pkg/scheduler/framework/plugins/nodedeclaredfeatures`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{
    ActionType, CycleState, EventHint, EventObject, EventResource, Filter, LabelsRead, Plugin, PreFilter,
    PreFilterOutcome, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{Hint, changed_node, changed_pod, queue_if};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeDeclaredFeatures"));
static REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) didn't match Pod's required features"));

/// The plugin.
pub(super) struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
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
                ActionType::ADD.or(ActionType::UPDATE_NODE_DECLARED_FEATURE),
                |_, event| {
                    let (old, new) = changed_node(event)?;
                    queue_if(old.is_none_or(|old| old.declared_features != new.declared_features))
                },
            )
            .by_class(),
            EventHint::when(EventResource::Pod, ActionType::UPDATE, after_pod_change).by_class(),
        ])
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

fn after_pod_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let changed = changed_pod(event)?;
    let before = match event {
        EventObject::Pod { old: Some(old), .. } => &old.spec.required_features,
        _ => &pod.spec.required_features,
    };
    queue_if(changed.uid == pod.uid && changed.spec.required_features != *before)
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if pod.spec.required_features.is_empty() {
            Status::SKIP.into()
        } else {
            Status::SUCCESS.into()
        }
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        let declared = &node.spec.declared_features;
        if pod
            .spec
            .required_features
            .iter()
            .all(|feature| declared.contains(feature))
        {
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

    const FEATURE: &str = "UserNamespacesHostNetworkSupport";

    fn needing() -> PodBuilder {
        pod("p")
            .field(&["spec", "hostNetwork"], true)
            .field(&["spec", "hostUsers"], false)
    }

    #[test]
    fn a_needed_feature_must_be_declared() {
        let plugin = plugin("NodeDeclaredFeatures");
        let nodes = [node("a").declared_feature(FEATURE), node("b").declared_feature("Other")];
        let world = world(&nodes, &[]);
        let rejected = "UU node(s) didn't match Pod's required features";
        assert_eq!(filter(&*plugin, &needing(), &world), ["fits", rejected]);
        assert_eq!(filter(&*plugin, &pod("p"), &world), ["skip"]);
    }

    #[test]
    fn a_changed_list_is_worth_another_try() {
        let plugin = plugin("NodeDeclaredFeatures");
        let with = node("a").declared_feature(FEATURE);
        let action = ActionType::UPDATE_NODE_DECLARED_FEATURE;
        let after = |old: &NodeBuilder, new: &NodeBuilder| {
            hint(
                &*plugin,
                &needing(),
                EventResource::Node,
                action,
                &node_event(Some(old), new),
            )
        };
        assert_eq!(after(&node("a"), &with), Some(Queue));
        assert_eq!(after(&with, &with), Some(QueueSkip));
        let changed = |old: &PodBuilder, new: &PodBuilder| {
            hint(
                &*plugin,
                &needing(),
                EventResource::Pod,
                ActionType::UPDATE_POD_LABEL,
                &updated(old, new),
            )
        };
        assert_eq!(changed(&needing(), &pod("p")), Some(Queue));
        assert_eq!(changed(&needing(), &needing()), Some(QueueSkip));
        assert_eq!(changed(&needing(), &pod("q")), Some(QueueSkip));
    }
}
