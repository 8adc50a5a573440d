//! `NodePorts`: a node gives each host port only once.
//!
//! Source: `pkg/scheduler/framework/plugins/nodeports`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, Plugin, PreFilter, PreFilterOutcome, Reads,
    Status,
};
use crate::ids::Symbol;
use crate::ledger::Checks;
use crate::plugins::hints::{deleted_pod, queue_if};
use crate::resources::HostPort;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodePorts"));
static REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't have free ports for the requested pod ports"));
static ANY_ADDRESS: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("0.0.0.0"));

/// The plugin.
pub(super) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(EventResource::Pod, ActionType::DELETE, |pod, event| {
                let deleted = deleted_pod(event)?;
                queue_if(deleted.is_assigned_or_nominated() && conflict(&pod.spec.ports, &deleted.spec.ports))
            })
            .by_class(),
            EventHint::always(EventResource::Node, ActionType::ADD),
        ])
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

fn conflict(wanted: &[HostPort], used: &[HostPort]) -> bool {
    let any = *ANY_ADDRESS;
    wanted
        .iter()
        .any(|port| used.iter().any(|other| port.conflicts(other, any)))
}

impl PreFilter for NodePorts {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if pod.spec.ports.is_empty() {
            Status::SKIP.into()
        } else {
            Status::SUCCESS.into()
        }
    }
}

impl Filter for NodePorts {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_USAGE
    }

    fn reserve_checks(&self, pod: &PodInfo, checks: &mut Checks) {
        checks.ports.extend_from_slice(&pod.spec.ports);
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if conflict(&pod.spec.ports, &node.used.ports) {
            Status::unschedulable(*REASON)
        } else {
            Status::SUCCESS
        }
    }
}
