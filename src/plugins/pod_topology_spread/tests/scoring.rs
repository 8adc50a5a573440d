//! Soft constraints.

use serde_json::json;
use supercargo_config::plugin_args::WhenUnsatisfiable;

use super::support::*;
use crate::cluster::OwnerKind;
use crate::plugins::check::world;
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};

fn hosts(names: &[&str]) -> Vec<NodeBuilder> {
    names.iter().map(|name| node(name)).collect()
}

const ABCD: [&str; 4] = ["a", "b", "c", "d"];

fn abcd(counts: [usize; 4]) -> World {
    let counts: Vec<_> = ABCD.into_iter().zip(counts).collect();
    world(&hosts(&ABCD), &placed(&counts))
}

#[test]
fn the_fewer_pods_on_a_host_the_better() {
    let by_host = |skew| own().spread_as(soft(skew, HOST));
    let table = [
        (1, [0, 0, 0, 0], [100, 100, 100, 100]),
        (1, [2, 2, 2, 2], [100, 100, 100, 100]),
        (1, [2, 1, 0, 3], [20, 60, 100, 0]),
        (2, [2, 1, 0, 3], [33, 66, 100, 16]),
        (3, [4, 3, 2, 1], [44, 66, 77, 100]),
    ];
    for (skew, counts, expected) in table {
        assert_eq!(
            scores(&by_host(skew), &abcd(counts), &ABCD),
            Some(expected.into()),
            "{skew} {counts:?}"
        );
    }
    assert_eq!(
        scores(&by_host(1), &abcd([2, 0, 0, 0]), &["a"]),
        Some(vec![100]),
        "a single candidate"
    );
    assert_eq!(
        scores(&by_host(1), &abcd([4, 2, 1, 3]), &["a", "b", "c"]),
        Some(vec![33, 83, 100])
    );
}

#[test]
fn a_node_without_the_label_takes_no_part() {
    let unlabelled = node("b").field(&["metadata", "labels"], json!({}));
    let nodes = [node("a"), unlabelled, node("c"), node("d")];
    let world = world(&nodes, &placed(&[("a", 4), ("b", 2), ("c", 1), ("d", 3)]));
    let pod = own().spread_as(soft(1, HOST));
    assert_eq!(scores(&pod, &world, &["a", "b", "c"]), Some(vec![16, 0, 100]));
}

#[test]
fn built_in_defaults_score_nodes_without_a_zone_too() {
    let world = abcd([4, 3, 2, 1]);
    assert_eq!(scores(&own(), &world, &ABCD), None, "no Service and no controller");
    put_service(&world, "web", Some(&[("app", "x")]));
    assert_eq!(scores(&own(), &world, &ABCD), Some(vec![44, 66, 77, 100]));
    assert_eq!(
        scores(&own().spread_as(hard(1, ZONE)), &world, &ABCD),
        None,
        "the pod's own constraints replace them"
    );
}

#[test]
fn listed_defaults_need_an_owner_and_all_labels() {
    let plugin = spread_by_default(&[HOST], WhenUnsatisfiable::ScheduleAnyway);
    let world = abcd([2, 1, 0, 3]);
    let says = |pod: &PodBuilder| scores_with(&*plugin, pod, &world, &ABCD);
    assert_eq!(says(&own()), None);
    put_owner(&world, OwnerKind::ReplicaSet, "rs", &[("app", "x")]);
    assert_eq!(
        says(&own().owned_by("apps/v1", "ReplicaSet", "rs")),
        Some(vec![20, 60, 100, 0])
    );
}

#[test]
fn infeasible_nodes_count_where_their_domain_is_a_candidate() {
    let world = world(&nodes(), &placed(&[("a", 4), ("b", 2), ("x", 1), ("y", 3)]));
    let pod = own().spread_as(soft(1, ZONE));
    assert_eq!(scores(&pod, &world, &["a", "b", "x"]), Some(vec![75, 75, 100]));
}

#[test]
fn several_constraints_add_up() {
    let both = own().spread_as(soft(1, ZONE)).spread_as(soft(1, HOST));
    let cluster = world(&nodes(), &placed(&[("a", 2), ("b", 1), ("x", 2), ("y", 4)]));
    assert_eq!(scores(&both, &cluster, &["a", "x"]), Some(vec![100, 63]));
    let by = |constraint, label: &str| {
        let selector = json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
        with(constraint, &[("labelSelector", selector)])
    };
    let mixed = pod("p")
        .label("foo", "")
        .label("bar", "")
        .spread_as(by(soft(1, ZONE), "foo"))
        .spread_as(by(soft(1, HOST), "bar"));
    let cluster = |foo: &[(&str, usize)], bar: &[(&str, usize)]| {
        let mut pods = labelled("foo", "", foo);
        pods.extend(labelled("bar", "", bar));
        world(&nodes(), &pods)
    };
    let all = ["a", "b", "x", "y"];
    let first = cluster(&[("a", 1), ("b", 1), ("y", 1)], &[("b", 1), ("y", 1)]);
    assert_eq!(scores(&mixed, &first, &all), Some(vec![60, 20, 100, 60]));
    let second = cluster(&[("x", 1), ("y", 1)], &[("b", 1), ("y", 1)]);
    assert_eq!(scores(&mixed, &second, &all), Some(vec![100, 60, 40, 0]));
    let two_zones = pod("p")
        .label("foo", "")
        .label("bar", "")
        .spread_as(by(soft(1, ZONE), "foo"))
        .spread_as(by(soft(1, ZONE), "bar"));
    let third = cluster(
        &[("a", 2), ("b", 1), ("x", 2), ("y", 1)],
        &[("b", 1), ("a", 1), ("y", 1)],
    );
    assert_eq!(scores(&two_zones, &third, &["a", "x"]), Some(vec![85, 100]));
}

#[test]
fn min_domains_does_not_matter_here() {
    let nodes = ["a", "b", "c"].map(|name| node(name).label("rack", name));
    let world = world(&nodes, &placed(&[("a", 2), ("b", 2), ("c", 1)]));
    let pod = own().spread_as(with(soft(2, "rack"), &[("minDomains", json!(10))]));
    assert_eq!(scores(&pod, &world, &["a", "b", "c"]), Some(vec![75, 75, 100]));
}

#[test]
fn pods_on_excluded_nodes_do_not_count_unless_ignored() {
    let labelled = |name: &str| node(name).label("rack", name).label("disk", "ssd");
    let nodes = [labelled("a"), labelled("b"), node("c").label("rack", "c")];
    let world = world(&nodes, &placed(&[("a", 2), ("b", 1), ("c", 1)]));
    let pod = |policy: &str| {
        let constraint = with(soft(1, "rack"), &[("nodeAffinityPolicy", json!(policy))]);
        own().node_selector("disk", "ssd").spread_as(constraint)
    };
    assert_eq!(scores(&pod("Honor"), &world, &["a", "b", "c"]), Some(vec![0, 33, 100]));
    assert_eq!(
        scores(&pod("Ignore"), &world, &["a", "b", "c"]),
        Some(vec![66, 100, 100])
    );
}

#[test]
fn only_live_pods_of_the_namespace_count() {
    let by_host = || own().spread_as(soft(1, HOST));
    let nothing = json!({"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"});
    let two = |pods: &[PodBuilder]| world(&hosts(&["a", "b"]), pods);
    let says = |pod: &PodBuilder, pods: &[PodBuilder]| scores(pod, &two(pods), &["a", "b"]).unwrap();
    assert_eq!(
        says(&own().spread_as(nothing), &placed(&[("a", 2)])),
        [100, 100],
        "an absent selector"
    );
    let mut pods = placed(&[("a", 1), ("b", 1)]);
    pods[0] = pods[0].clone().terminating();
    assert_eq!(says(&by_host(), &pods), [100, 0]);
    let mut pods = placed(&[("a", 1), ("b", 2)]);
    pods.push(own().namespace("other").on("a"));
    assert_eq!(says(&by_host(), &pods), [100, 33]);
}

#[test]
fn match_label_keys_make_a_selector_of_an_empty_one() {
    let empty = json!({
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}, "matchLabelKeys": ["app"],
    });
    assert_eq!(
        scores(&own().spread_as(empty), &abcd([2, 1, 0, 3]), &ABCD),
        Some(vec![20, 60, 100, 0])
    );
}

#[test]
fn an_empty_value_is_the_domain_of_nodes_without_the_label_under_built_in_defaults() {
    let zone = "topology.kubernetes.io/zone";
    let nodes = [node("a").label(zone, ""), node("b"), node("c").label(zone, "z")];
    let world = world(&nodes, &placed(&[("b", 3), ("c", 3)]));
    put_service(&world, "web", Some(&[("app", "x")]));
    // a: 0·ln 5 + 2 + 3·ln 4 + 4 = 10.16; b: 3·ln 5 + 2 = 6.83; c: 3·ln 5 + 2 + 3·ln 4 + 4 = 14.99.
    assert_eq!(scores(&own(), &world, &["a", "b", "c"]), Some(vec![80, 100, 46]));
}
