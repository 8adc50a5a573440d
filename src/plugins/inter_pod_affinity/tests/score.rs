use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::InterPodAffinityArgs;

use super::*;
use crate::plugins::check::{self, plugin_with, world};
use crate::testing::{NodeBuilder, node, pod};

fn scores(pod: &PodBuilder, nodes: &[NodeBuilder], placed: &[PodBuilder]) -> Vec<i64> {
    check::scores(&*affinity(), pod, &world(nodes, placed)).unwrap()
}

fn configured(hard_weight: u32, ignores: bool) -> Arc<dyn Plugin> {
    plugin_with(
        "InterPodAffinity",
        &PluginArgs::InterPodAffinity(InterPodAffinityArgs {
            hard_pod_affinity_weight: hard_weight,
            ignore_preferred_terms_of_existing_pods: ignores,
        }),
    )
}

fn hosts() -> Vec<NodeBuilder> {
    ["n1", "n2", "n3", "n4"]
        .map(|name| node(name).label("host", name))
        .to_vec()
}

const NONE: [i64; 0] = [];

#[test]
fn weights_add_up_by_domain_and_are_spread_over_the_scale() {
    let nodes = hosts();
    // Sums 2, 10, 0 and 0.
    let p = likes(
        pod("p"),
        &[
            weighted(2, &like("app", "x", "host")),
            weighted(5, &like("app", "y", "host")),
        ],
    );
    let y = |name: &str| pod(name).label("app", "y").on("n2");
    let placed = [pod("e1").label("app", "x").on("n1"), y("e2"), y("e3")];
    assert_eq!(scores(&p, &nodes, &placed), [20, 100, 0, 0]);
}

#[test]
fn all_pods_of_a_region_count_for_each_of_its_nodes() {
    let region = |name: &str, region: &str| node(name).label("region", region);
    let nodes = [
        region("n1", "c"),
        region("n2", "i"),
        region("n3", "c"),
        region("n4", "c"),
        region("n5", "i"),
    ];
    let p = likes(pod("p"), &[weighted(6, &like("app", "x", "region"))]);
    let on = ["n1", "n1", "n3", "n4", "n2", "n5"].into_iter().enumerate();
    let placed: Vec<_> = on
        .map(|(at, node)| pod(&format!("e{at}")).label("app", "x").on(node))
        .collect();
    assert_eq!(scores(&p, &nodes, &placed), [100, 0, 100, 100, 0]);
}

#[test]
fn a_node_without_the_key_scores_nothing() {
    let nodes = [
        node("n1").label("region", "a"),
        node("n2").label("region", "b"),
        node("n3"),
    ];
    let p = likes(pod("p"), &[weighted(1, &like("app", "x", "region"))]);
    let x = |name: &str, node: &str| pod(name).label("app", "x").on(node);
    assert_eq!(
        scores(&p, &nodes, &[x("e1", "n1"), x("e2", "n3"), x("e3", "n3")]),
        [100, 0, 0]
    );
}

#[test]
fn equal_sums_score_nothing() {
    let nodes = [node("n1").label("region", "a"), node("n2").label("region", "a")];
    let placed = [pod("e").label("app", "x").on("n1")];
    let terms = [weighted(3, &like("app", "x", "region"))];
    assert_eq!(scores(&likes(pod("p"), &terms), &nodes, &placed), [0, 0]);
    assert_eq!(scores(&dislikes(pod("p"), &terms), &nodes, &placed), [0, 0]);
}

#[test]
fn both_directions_and_both_signs_count() {
    let nodes = hosts();
    let p = dislikes(
        likes(pod("p").label("me", "1"), &[weighted(8, &like("app", "x", "host"))]),
        &[weighted(5, &like("app", "y", "host"))],
    );
    let me = |weight: i32| [weighted(weight, &like("me", "1", "host"))];
    let placed = [
        pod("e1").label("app", "x").on("n1"),
        pod("e2").label("app", "y").on("n2"),
        likes(pod("e3"), &me(8)).on("n3"),
        dislikes(pod("e4"), &me(5)).on("n4"),
    ];
    assert_eq!(scores(&p, &nodes, &placed), [100, 0, 100, 0]);
}

#[test]
fn placed_pods_that_require_affinity_draw_the_pod() {
    let nodes = [
        node("n1").label("region", "china"),
        node("n2").label("region", "india"),
        node("n3").label("az", "az1"),
    ];
    let requiring = |name: &str| near(pod(name), &[like("app", "x", "region")]);
    let world = world(&nodes, &[requiring("e1").on("n1"), requiring("e2").on("n2")]);
    let p = pod("p").label("app", "x");
    let told = |plugin: &dyn Plugin| check::scores(plugin, &p, &world).unwrap();
    assert_eq!(told(&*affinity()), [100, 100, 0]);
    assert_eq!(told(&*configured(0, false)), NONE);
    assert_eq!(told(&*configured(7, true)), NONE);
}

#[test]
fn preferences_of_placed_pods_can_be_ignored_for_pods_without_their_own() {
    let placed = [likes(pod("e"), &[weighted(4, &like("app", "x", "host"))]).on("n2")];
    let world = world(&hosts(), &placed);
    let plain = pod("p").label("app", "x");
    let told = |plugin: &dyn Plugin, pod: &PodBuilder| check::scores(plugin, pod, &world).unwrap();
    assert_eq!(told(&*affinity(), &plain), [0, 100, 0, 0]);
    assert_eq!(told(&*configured(1, true), &plain), NONE);
    let with_own = likes(plain, &[weighted(1, &like("app", "nobody", "host"))]);
    assert_eq!(told(&*configured(1, true), &with_own), [0, 100, 0, 0]);
}

#[test]
fn what_cancels_out_still_counts_as_recorded() {
    let p = dislikes(
        likes(pod("p"), &[weighted(5, &like("app", "x", "host"))]),
        &[weighted(5, &like("app", "x", "host"))],
    );
    assert_eq!(
        scores(&p, &hosts(), &[pod("e").label("app", "x").on("n1")]),
        [0, 0, 0, 0]
    );
    assert_eq!(scores(&p, &hosts(), &[pod("e").label("app", "y").on("n1")]), NONE);
}

#[test]
fn without_anything_to_count_there_is_no_score() {
    assert_eq!(scores(&pod("p"), &hosts(), &[pod("e").on("n1")]), NONE);
    // Nobody can count on a node without labels.
    let bare = [node("n1").field(&["metadata", "labels"], json!({}))];
    let p = likes(pod("p"), &[weighted(5, &like("app", "x", "kubernetes.io/hostname"))]);
    assert_eq!(scores(&p, &bare, &[pod("e").label("app", "x").on("n1")]), NONE);
}

#[test]
fn the_division_goes_before_the_multiplication() {
    // 100 * (29/100) is 28.999999999999996.
    let p = likes(
        pod("p"),
        &[
            weighted(29, &like("app", "x", "host")),
            weighted(100, &like("app", "y", "host")),
        ],
    );
    let placed = [
        pod("e1").label("app", "x").on("n1"),
        pod("e2").label("app", "y").on("n2"),
    ];
    assert_eq!(scores(&p, &hosts(), &placed), [28, 100, 0, 0]);
}

#[test]
fn preferred_terms_reach_namespaces_by_label() {
    let term = with(
        like("app", "x", "host"),
        "namespaceSelector",
        json!({"matchLabels": {"team": "red"}}),
    );
    let placed = [
        pod("e1").namespace("a").label("app", "x").on("n1"),
        pod("e2").namespace("b").label("app", "x").on("n2"),
    ];
    let world = world(&hosts(), &placed);
    put_namespace(&world, "a", &[("team", "red")]);
    put_namespace(&world, "b", &[]);
    let p = likes(pod("p"), &[weighted(1, &term)]);
    assert_eq!(check::scores(&*affinity(), &p, &world).unwrap(), [100, 0, 0, 0]);
}

#[test]
fn a_wrong_selector_fails_the_score() {
    let wrong = likes(pod("p"), &[weighted(1, &one_of("a", &["{bad}"], "host"))]);
    let failed = check::scores(&*affinity(), &wrong, &world(&hosts(), &[])).unwrap_err();
    assert!(
        failed.starts_with("E failed to parse pod: preferredAffinityTerms: "),
        "{failed}"
    );
}
