use std::sync::Arc;

use super::*;
use crate::cluster::{Cluster, LabelVisibility, NodeSpec};
use crate::ids::{DomainIdx, NodeIdx, Symbol};
use crate::ledger::{AddressNeed, Checks, Flow, Flows, NetworkNeeds, ReserveError};
use crate::testing::{node, pod};

fn cluster() -> Cluster {
    Cluster::new(
        [Symbol::new("default-scheduler")],
        LabelVisibility::Keys(Default::default()),
    )
}

fn add(cluster: &Cluster, name: &str, region: &str, zone: &str) -> NodeIdx {
    let spec = node(name)
        .cpu(4000)
        .pods(10)
        .label("topology.kubernetes.io/region", region)
        .zone(zone)
        .build();
    cluster.apply_node(NodeSpec::clone(&spec));
    cluster.find_node(Symbol::new(name)).unwrap()
}

#[test]
fn a_node_lies_where_its_labels_say_and_moves_with_them() {
    let cluster = cluster();
    let a = add(&cluster, "a", "r1", "z1");
    let b = add(&cluster, "b", "r1", "z2");
    let place = |idx| cluster.node_info(idx).unwrap().place;
    let region = cluster.network.topology().tree().common(place(a), place(b));
    assert_ne!(region, DomainIdx::ROOT);
    assert_ne!(place(a), place(b));
    add(&cluster, "b", "r1", "z1");
    assert_eq!(place(a), place(b));
}

#[test]
fn a_node_without_labels_lies_in_the_cluster_itself() {
    let cluster = cluster();
    cluster.apply_node(NodeSpec::clone(&node("a").build()));
    let idx = cluster.find_node(Symbol::new("a")).unwrap();
    assert_eq!(cluster.node_info(idx).unwrap().place, DomainIdx::ROOT);
}

#[test]
fn a_worker_sees_links_as_they_are_charged_and_given_back() {
    let cluster = cluster();
    let a = add(&cluster, "a", "r1", "z1");
    let info = cluster.node_info(a).unwrap();
    cluster.ledger.set_link(info.place, Some(100), None);
    let mut view = crate::cycle::View::new(&cluster);
    let used = |view: &crate::cycle::View| view.network().link(info.place).egress;
    let mut flows = Flows::default();
    flows.add(
        info.place,
        Flow {
            egress: 60,
            ingress: 60,
        },
    );
    let needs = NetworkNeeds {
        flows,
        ..NetworkNeeds::default()
    };
    let [first, second] = ["p1", "p2"].map(|name| pod(name).cpu(100).build_in(&cluster.classes));
    let reserve = |pod: &crate::cluster::PodInfo| {
        cluster
            .ledger
            .reserve_all(&pod.charge, &Checks::default(), &needs, a, info.incarnation)
    };
    assert!(reserve(&first).is_ok());
    assert!(matches!(reserve(&second), Err(ReserveError::Conflict(_))));
    assert!(cluster.ledger.promise(second.uid).is_none());
    let version = view.network().version();
    view.replay(&cluster);
    assert_eq!(used(&view), 60);
    assert!(view.network().version() > version);
    assert!(cluster.ledger.unreserve(first.uid));
    view.replay(&cluster);
    assert_eq!(used(&view), 0);
    assert!(reserve(&second).is_ok());
    let rebuilt = crate::cycle::View::new(&cluster);
    assert_eq!(used(&rebuilt), 60);
}

#[test]
fn a_place_that_is_new_reaches_the_workers() {
    let cluster = cluster();
    let mut view = crate::cycle::View::new(&cluster);
    let a = add(&cluster, "a", "r1", "z1");
    view.replay(&cluster);
    let place = view.nodes().get(a).unwrap().place;
    let zone = view
        .network()
        .tree()
        .name_at(place, Symbol::new("topology.kubernetes.io/zone"));
    assert_eq!(zone, Some(Symbol::new("z1")));
}

#[test]
fn what_a_pod_needs_is_all_or_nothing() {
    let cluster = cluster();
    let a = add(&cluster, "a", "r1", "z1");
    let info = cluster.node_info(a).unwrap();
    let nowhere = AddressNeed {
        pools: [crate::ids::PoolIdx(7)].into_iter().collect(),
        wanted: None,
    };
    let mut needs = NetworkNeeds::default();
    needs.flows.add(info.place, Flow { egress: 5, ingress: 0 });
    needs.addresses.push(nowhere);
    let pod = pod("p").cpu(100).build_in(&cluster.classes);
    let reserved = cluster
        .ledger
        .reserve_all(&pod.charge, &Checks::default(), &needs, a, info.incarnation);
    assert!(matches!(reserved, Err(ReserveError::Conflict(_))));
    assert_eq!(cluster.ledger.link_use(info.place).egress, 0);
    assert_eq!(cluster.ledger.read(a).unwrap().pods, 0);
    assert!(cluster.ledger.network(pod.uid).is_none());
}

#[test]
fn an_app_group_says_what_a_workload_calls() {
    let network = Network::new(NetworkLevels::default(), Arc::new(NoLog));
    let [ns, name, front, back] = ["ns", "shop", "front", "back"].map(Symbol::new);
    let group = AppGroup {
        workloads: Box::new([(
            front,
            Box::new([Dependency {
                callee: back,
                bandwidth: Bandwidth::default(),
                max_cost: 10,
            }]),
        )]),
        order: Box::new([(front, 1)]),
        ..AppGroup::default()
    };
    assert!(network.put_app(ns, name, group.clone()) && !network.put_app(ns, name, group));
    let known = network.app(ns, name).unwrap();
    assert_eq!(known.dependencies(front)[0].callee, back);
    assert!(known.dependencies(back).is_empty());
    assert_eq!((known.order_of(front), known.order_of(back)), (Some(1), None));
    assert!(network.remove_app(ns, name) && !network.remove_app(ns, name));
}

struct NoLog;

impl crate::ledger::ChangeSink for NoLog {
    fn append(&self, _: crate::ledger::Change) -> u64 {
        0
    }
}
