//! `NodeName`: a pod that names its node fits no other.
//!
//! Source: `pkg/scheduler/framework/plugins/nodename`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, Plugin, Reads, Status};
use crate::ids::Symbol;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeName"));
static REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) didn't match the requested node name"));

/// The plugin.
pub(super) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![EventHint::always(EventResource::Node, ActionType::ADD)])
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl Filter for NodeName {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if pod.spec.node_name.is_none_or(|name| name == node.name) {
            Status::SUCCESS
        } else {
            Status::unresolvable(*REASON)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plugins::check::{filter, plugin, world};
    use crate::testing::{node, pod};

    #[test]
    fn a_pod_that_names_a_node_fits_only_there() {
        let plugin = plugin("NodeName");
        let world = world(&[node("a"), node("b")], &[]);
        let other = "UU node(s) didn't match the requested node name";
        assert_eq!(filter(&*plugin, &pod("p"), &world), ["fits", "fits"]);
        assert_eq!(filter(&*plugin, &pod("p").asking_for("b"), &world), [other, "fits"]);
        assert_eq!(filter(&*plugin, &pod("p").asking_for("c"), &world), [other, other]);
    }
}
