use std::sync::Arc;

use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::{Aggregation, FigureMeaning, TopologyAwareArgs};

use crate::cluster::{AppGroup, Bandwidth, Dependency};
use crate::framework::Plugin;
use crate::ids::Symbol;
use crate::plugins::check::{filter, plugin_with, scores, world};
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};
use crate::topology::{LatencyRow, LatencyTable, Source};

const REGION: &str = "topology.kubernetes.io/region";
const PEERS: &str = "network.supercargo.io/peers";

fn in_region(name: &str, region: &str) -> NodeBuilder {
    node(name).label(REGION, region)
}

/// West and east are 60 ms apart one way and 62 the other, middle is 20 from both, far is known by no table.
fn three_regions(pods: &[PodBuilder]) -> World {
    let nodes = [("w", "west"), ("m", "middle"), ("e", "east"), ("f", "far")];
    let mut world = world(&nodes.map(|(name, region)| in_region(name, region)), pods);
    let figures = [
        ("west", "east", 60.0),
        ("east", "west", 62.0),
        ("west", "middle", 20.0),
        ("middle", "west", 20.0),
        ("east", "middle", 20.0),
        ("middle", "east", 20.5),
    ];
    world.network().set_source(source("matrix", &figures));
    world.refresh_network();
    world
}

fn source(name: &str, figures: &[(&str, &str, f64)]) -> Source {
    let rows: Vec<LatencyRow> = figures
        .iter()
        .map(|(from, to, millis)| LatencyRow {
            from: Symbol::new(from),
            to: Symbol::new(to),
            millis: *millis,
        })
        .collect();
    Source {
        name: Symbol::new(name),
        rank: 0,
        tables: vec![(Symbol::new(REGION), Arc::new(LatencyTable::new(&rows, false).unwrap()))],
    }
}

fn talking_to(peers: &str) -> PodBuilder {
    pod("p").field(&["metadata", "annotations", PEERS], peers)
}

fn db(name: &str, node: &str) -> PodBuilder {
    pod(name).label("app", "db").on(node)
}

fn made(change: impl FnOnce(&mut TopologyAwareArgs)) -> Arc<dyn Plugin> {
    let mut args = TopologyAwareArgs::default();
    change(&mut args);
    plugin_with("TopologyAware", &PluginArgs::TopologyAware(args))
}

const DB: &str = r#"[{"selector":{"app":"db"}}]"#;

#[test]
fn nodes_that_are_too_far_or_not_to_be_reached_are_rejected() {
    let world = three_regions(&[db("d", "w")]);
    let plugin = made(|_| {});
    let told = filter(&*plugin, &talking_to(DB), &world);
    assert_eq!(
        told,
        [
            "fits",
            "fits",
            "U latency of 62 ms to pod's network zone is above the threshold of 50 ms",
            "U node not reachable from pod's network zone",
        ]
    );
    let all = made(|args| {
        args.latency_threshold_ms = 0;
        args.missing_figures = FigureMeaning::Neutral;
    });
    assert_eq!(filter(&*all, &talking_to(DB), &world), ["fits"; 4]);
}

#[test]
fn the_nearer_scores_higher_by_the_base_formula() {
    let world = three_regions(&[db("d", "w")]);
    let plugin = made(|_| {});
    assert_eq!(scores(&*plugin, &talking_to(DB), &world).unwrap(), [100, 98, 93, 50]);
    let finer = made(|args| args.score_divisor = 1);
    assert_eq!(scores(&*finer, &talking_to(DB), &world).unwrap(), [100, 80, 38, 50]);
    let stretched = made(|args| {
        args.stretch_scores = true;
        args.score_divisor = 1;
    });
    assert_eq!(scores(&*stretched, &talking_to(DB), &world).unwrap(), [100, 67, 0, 19]);
}

#[test]
fn several_partners_count_by_their_traffic_or_the_furthest_does() {
    let world = three_regions(&[db("d", "w"), pod("c").label("app", "cache").on("e")]);
    let peers = r#"[{"selector":{"app":"db"},"weight":3},{"selector":{"app":"cache"}}]"#;
    let mean = made(|args| args.score_divisor = 1);
    // From the west (0 × 3 + 60) / 4 = 15 ms, from the middle 20.125, from the east (62 × 3 + 0) / 4 = 46.5.
    assert_eq!(scores(&*mean, &talking_to(peers), &world).unwrap(), [85, 79, 53, 50]);
    let furthest = made(|args| {
        args.score_divisor = 1;
        args.aggregation = Aggregation::Max;
    });
    assert_eq!(
        scores(&*furthest, &talking_to(peers), &world).unwrap(),
        [40, 79, 38, 50]
    );
    let told = filter(&*furthest, &talking_to(peers), &world);
    assert_eq!(told[1], "fits");
    assert!(told[0].contains("60 ms") && told[2].contains("62 ms"), "{told:?}");
}

#[test]
fn pods_of_one_partner_count_alike_and_those_that_cannot_be_reached_do_not() {
    let world = three_regions(&[db("d1", "w"), db("d2", "w"), db("d3", "e"), db("d4", "f")]);
    let plugin = made(|args| {
        args.score_divisor = 1;
        args.latency_threshold_ms = 0;
    });
    // From the west (0 + 0 + 60) / 3 ms; far reaches its own pod.
    assert_eq!(scores(&*plugin, &talking_to(DB), &world).unwrap(), [80, 79, 58, 100]);
    assert_eq!(filter(&*plugin, &talking_to(DB), &world), ["fits"; 4]);
}

#[test]
fn a_place_may_be_named_and_a_partner_may_say_how_far_it_may_be() {
    let world = three_regions(&[]);
    let plugin = made(|_| {});
    let told = filter(
        &*plugin,
        &talking_to(r#"[{"region":"east","maxLatencyMs":20.4}]"#),
        &world,
    );
    assert_eq!(
        told,
        [
            "U latency of 60 ms to pod's network zone is above the threshold of 20.4 ms",
            "U latency of 20.5 ms to pod's network zone is above the threshold of 20.4 ms",
            "fits",
            "U node not reachable from pod's network zone",
        ]
    );
}

#[test]
fn a_pod_without_placed_partners_goes_anywhere() {
    let world = three_regions(&[pod("x").label("app", "other").on("w")]);
    let plugin = made(|_| {});
    assert_eq!(filter(&*plugin, &talking_to(DB), &world), ["skip"]);
    assert_eq!(scores(&*plugin, &talking_to(DB), &world).unwrap(), [0_i64; 0]);
    assert_eq!(filter(&*plugin, &pod("plain"), &world), ["skip"]);
}

#[test]
fn those_who_call_the_pod_draw_it_near_but_reject_nothing() {
    let caller = talking_to(DB).field(&["metadata", "name"], "caller").on("e");
    let world = three_regions(&[caller]);
    let called = pod("new").label("app", "db");
    let plugin = made(|args| args.score_divisor = 1);
    assert_eq!(filter(&*plugin, &called, &world), ["skip"]);
    assert_eq!(scores(&*plugin, &called, &world).unwrap(), [40, 79, 100, 50]);
    let deaf = made(|args| args.count_callers = false);
    assert_eq!(scores(&*deaf, &called, &world).unwrap(), [0_i64; 0]);
}

#[test]
fn an_app_group_says_who_calls_whom() {
    let member = |name: &str, workload: &str| {
        pod(name)
            .label("appgroup.diktyo.x-k8s.io", "shop")
            .label("appgroup.diktyo.x-k8s.io.workload", workload)
    };
    let mut world = three_regions(&[member("b", "back").on("w")]);
    let front = member("f", "front");
    let plugin = made(|_| {});
    assert_eq!(filter(&*plugin, &front, &world), ["skip"]);
    let dependencies = [Dependency {
        callee: Symbol::new("back"),
        bandwidth: Bandwidth::default(),
        max_cost: 0,
    }];
    let group = AppGroup {
        workloads: Box::new([(Symbol::new("front"), Box::new(dependencies))]),
        ..AppGroup::default()
    };
    world
        .network()
        .put_app(Symbol::new("default"), Symbol::new("shop"), group);
    world.refresh_network();
    assert_eq!(filter(&*plugin, &front, &world)[0], "fits");
    assert_eq!(scores(&*plugin, &front, &world).unwrap(), [100, 98, 93, 50]);
    // And the other way round: the back is drawn to the front.
    assert_eq!(scores(&*plugin, &member("b2", "back"), &world).unwrap(), [0_i64; 0]);
    assert!(world.add_pod(&member("f2", "front").on("e").build()));
    assert_eq!(
        scores(&*plugin, &member("b2", "back"), &world).unwrap(),
        [94, 97, 100, 50]
    );
}

#[test]
fn an_annotation_that_cannot_be_read_keeps_the_pod_waiting_and_says_why() {
    let world = three_regions(&[db("d", "w")]);
    let told = filter(&*made(|_| {}), &talking_to("[{}]"), &world);
    assert_eq!(
        told,
        ["UU annotation network.supercargo.io/peers: [0]: name exactly one of selector, region and zone"]
    );
}
