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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::plugins::check::{built, deleted, filter, hint, plugin, world};
    use crate::testing::{PodBuilder, node, pod};

    const TAKEN: &str = "U node(s) didn't have free ports for the requested pod ports";

    fn told(used: &PodBuilder, wanted: &PodBuilder) -> String {
        let world = world(&[node("n")], &[used.clone().on("n")]);
        filter(&*plugin("NodePorts"), wanted, &world).join("; ")
    }

    #[test]
    fn a_port_is_given_once_for_each_protocol_and_address() {
        let on = |name: &str, ip, protocol, port| pod(name).host_port_on(ip, protocol, port);
        let used = on("u", "127.0.0.1", "TCP", 8080);
        let table = [
            (&used, on("p", "127.0.0.1", "UDP", 8080), "fits"),
            (&used, on("p", "127.0.0.2", "TCP", 8080), "fits"),
            (&used, on("p", "127.0.0.1", "TCP", 8081), "fits"),
            (&used, on("p", "127.0.0.1", "TCP", 8080), TAKEN),
            (&used, on("p", "0.0.0.0", "TCP", 8080), TAKEN),
            (&used, pod("p").host_port(8080), TAKEN),
            (&pod("u").host_port(8080), on("p", "127.0.0.1", "", 8080), TAKEN),
            (&pod("u").host_port(8080), on("p", "::", "TCP", 8080), TAKEN),
            (&used, on("p", "::", "TCP", 8080), "fits"),
            (&used, pod("p").host_port(8081).host_port(8081), "fits"),
            (&used, pod("p"), "skip"),
        ];
        for (used, wanted, expected) in table {
            assert_eq!(told(used, &wanted), expected, "{} {}", used.json(), wanted.json());
        }
    }

    #[test]
    fn ports_of_init_containers_count_only_for_sidecars() {
        let with = |policy: &str| {
            let mut init = json!({"name": "i", "ports": [{"containerPort": 8080, "hostPort": 8080}]});
            if !policy.is_empty() {
                init["restartPolicy"] = policy.into();
            }
            pod("p").field(&["spec", "initContainers"], json!([init]))
        };
        let used = pod("u").host_port(8080);
        assert_eq!(told(&used, &with("")), "skip");
        assert_eq!(told(&used, &with("Always")), TAKEN);
    }

    #[test]
    fn the_ledger_is_told_the_ports() {
        let mut checks = Checks::default();
        let pod = built(&pod("p").host_port(8080));
        plugin("NodePorts").filter().unwrap().reserve_checks(&pod, &mut checks);
        assert_eq!(checks.ports, pod.spec.ports);
    }

    #[test]
    fn a_freed_port_is_worth_another_try() {
        let pending = pod("p").host_port(8080);
        let after = |gone: &PodBuilder| {
            let plugin = plugin("NodePorts");
            hint(
                &*plugin,
                &pending,
                EventResource::AssignedPod,
                ActionType::DELETE,
                &deleted(gone),
            )
        };
        assert_eq!(after(&pod("u").host_port(8081).on("n")), Some(QueueSkip));
        assert_eq!(after(&pod("u").host_port(8080).on("n")), Some(Queue));
        assert_eq!(after(&pod("u").host_port(8080).nominated("n")), Some(Queue));
        assert_eq!(after(&pod("u").host_port(8080)), Some(QueueSkip));
    }
}
