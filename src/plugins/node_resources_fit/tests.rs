use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::{
    NodeResourcesFitArgs, ResourceSpec, ScoringStrategy, ScoringStrategyKind, ShapePoint,
};

use super::*;
use crate::framework::QueueingHint::{self, Queue, QueueSkip};
use crate::plugins::check::{self, asking, deleted, node_event, plugin, plugin_with, sized, updated, world};
use crate::testing::{NodeBuilder, PodBuilder, pod};

const A: &str = "example.com/aaa";
const B: &str = "example.com/bbb";

fn fit() -> Arc<dyn Plugin> {
    plugin("NodeResourcesFit")
}

/// The pod on a node of 10 milli-CPU, 20 bytes of memory and of storage and 5 `aaa` that `used` is on already.
fn on_node_with(used: &[PodBuilder], pod: &PodBuilder) -> String {
    let node = sized("n", 10, 20)
        .allocatable("ephemeral-storage", "20")
        .allocatable(A, "5");
    let node = node.allocatable("hugepages-2Mi", "5");
    check::filter(&*fit(), pod, &world(&[node], used)).join("; ")
}

fn used(milli_cpu: i64, memory: i64) -> PodBuilder {
    asking("used", milli_cpu, memory).on("n")
}

#[test]
fn shortages_are_told_in_order_and_say_whether_an_empty_node_would_help() {
    let table = [
        (
            used(10, 20),
            asking("p", 1, 1),
            "U Insufficient cpu, Insufficient memory",
        ),
        (
            used(8, 19),
            asking("p", 1, 1).init_container(&[("cpu", "3m"), ("memory", "1")]),
            "U Insufficient cpu",
        ),
        (used(5, 19), asking("p", 5, 1), "fits"),
        (used(10, 20), pod("p"), "fits"),
        (
            used(5, 5),
            asking("p", 1, 1).overhead("cpu", "1m").overhead("memory", "15"),
            "U Insufficient memory",
        ),
        (
            used(5, 5),
            asking("p", 1, 1).pod_level("cpu", "7m").pod_level("memory", "2"),
            "U Insufficient cpu",
        ),
        (
            used(0, 0),
            pod("p").request("ephemeral-storage", "25"),
            "UU Insufficient ephemeral-storage",
        ),
        (
            used(0, 0),
            pod("p").pod_level("hugepages-2Mi", "10"),
            "UU Insufficient hugepages-2Mi",
        ),
        (
            used(0, 0),
            asking("p", 9, 0).sidecar(&[("cpu", "2m")]),
            "UU Insufficient cpu",
        ),
        (
            used(9, 0),
            asking("p", 5, 21),
            "UU Insufficient cpu, Insufficient memory",
        ),
    ];
    for (used, pod, told) in table {
        assert_eq!(on_node_with(&[used], &pod), told, "{}", pod.json());
    }
}

#[test]
fn extended_resources_are_checked_when_requested() {
    let has = |amount: &str| pod("used").request(A, amount).on("n");
    let asks = |amount: &str| pod("p").request(A, amount);
    let table = [
        (has("0"), asks("10"), "UU Insufficient example.com/aaa"),
        (has("5"), asks("1"), "U Insufficient example.com/aaa"),
        (
            has("2"),
            asks("3").container(&[(A, "3")]),
            "UU Insufficient example.com/aaa",
        ),
        (
            has("2"),
            pod("p").init_container(&[(A, "3")]).init_container(&[(A, "3")]),
            "fits",
        ),
        (has("0"), pod("p").request(B, "1"), "UU Insufficient example.com/bbb"),
        (has("6"), asks("0"), "fits"),
        (asking("used", 20, 30).on("n"), asks("1"), "fits"),
    ];
    for (used, pod, told) in table {
        assert_eq!(on_node_with(&[used], &pod), told, "{}", pod.json());
    }
}

#[test]
fn the_number_of_pods_is_checked_for_every_pod() {
    let node = sized("n", 10, 20).pods(1);
    let world = world(&[node], &[used(5, 19)]);
    for pod in [pod("p"), asking("p", 5, 1)] {
        assert_eq!(check::filter(&*fit(), &pod, &world), ["U Too many pods"]);
    }
}

#[test]
fn ignored_extended_resources_are_not_checked() {
    let with = |resources: &[&str], groups: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let args = NodeResourcesFitArgs {
            ignored_resources: texts(resources),
            ignored_resource_groups: texts(groups),
            ..Default::default()
        };
        plugin_with("NodeResourcesFit", &PluginArgs::NodeResourcesFit(args))
    };
    let world = world(&[sized("n", 10, 20)], &[]);
    let pod = pod("p").request(B, "1").request("kubernetes.io/something", "1");
    let only_native = "UU Insufficient kubernetes.io/something";
    assert_eq!(check::filter(&*with(&[B], &[]), &pod, &world), [only_native]);
    assert_eq!(
        check::filter(&*with(&[], &["example.com"]), &pod, &world),
        [only_native]
    );
    let mut checks = Checks::default();
    let ignoring = with(&[B], &[]);
    ignoring
        .filter()
        .unwrap()
        .reserve_checks(&check::built(&pod), &mut checks);
    let native = Resource::Scalar(Symbol::new("kubernetes.io/something"));
    assert_eq!(checks.resources.as_slice(), [(native, 1)]);
    assert!(checks.pod_slot);
}

fn after(pod: &PodBuilder, resource: EventResource, action: ActionType, object: &EventObject) -> Option<QueueingHint> {
    check::hint(&*fit(), pod, resource, action, object)
}

#[test]
fn pods_that_give_resources_back_are_worth_another_try() {
    let pending = asking("p", 1, -1);
    let other = asking("o", 1, 1);
    let gone = |pod: &PodBuilder| after(&pending, EventResource::AssignedPod, ActionType::DELETE, &deleted(pod));
    assert_eq!(gone(&other), Some(QueueSkip));
    assert_eq!(gone(&other.clone().nominated("n")), Some(Queue));
    assert_eq!(gone(&other.on("n")), Some(Queue));
    let shrank = |old: &PodBuilder, new: &PodBuilder| {
        let action = ActionType::UPDATE_POD_SCALE_DOWN;
        after(&pending, EventResource::AssignedPod, action, &updated(old, new))
    };
    let placed = |cpu, memory| asking("o", cpu, memory).on("n");
    assert_eq!(shrank(&placed(1, 2), &placed(1, 1)), Some(QueueSkip));
    assert_eq!(shrank(&placed(2, 1), &placed(1, 1)), Some(Queue));
    assert_eq!(shrank(&asking("o", 2, 1), &asking("o", 1, 1)), Some(QueueSkip));
    assert_eq!(shrank(&asking("p", 2, -1), &pending), Some(Queue));
}

#[test]
fn nodes_that_offer_more_are_worth_another_try() {
    let pending = asking("p", -1, 2).request(A, "1");
    let size = |memory, a: &str| sized("n", 0, memory).allocatable(A, a);
    let changed = |old: &NodeBuilder, new: &NodeBuilder| {
        let action = ActionType::UPDATE_NODE_ALLOCATABLE;
        after(&pending, EventResource::Node, action, &node_event(Some(old), new))
    };
    assert_eq!(
        changed(&size(2, "2"), &size(2, "1").allocatable(B, "1")),
        Some(QueueSkip)
    );
    assert_eq!(changed(&size(2, "1"), &size(2, "2")), Some(Queue));
    assert_eq!(changed(&size(4, "1"), &size(1, "2")), Some(QueueSkip));
    assert_eq!(changed(&size(2, "1"), &size(2, "1").pods(200)), Some(Queue));
    let added = |new: &NodeBuilder| after(&pending, EventResource::Node, ActionType::ADD, &node_event(None, new));
    assert_eq!(added(&size(2, "1")), Some(Queue));
    assert_eq!(added(&size(2, "0")), Some(QueueSkip));
}

fn strategy(kind: ScoringStrategyKind, resources: &[(&str, u32)]) -> Arc<dyn Plugin> {
    let resources = resources.iter().map(|(name, weight)| ResourceSpec {
        name: (*name).to_owned(),
        weight: *weight,
    });
    let args = NodeResourcesFitArgs {
        scoring_strategy: ScoringStrategy {
            kind,
            resources: resources.collect(),
        },
        ..Default::default()
    };
    plugin_with("NodeResourcesFit", &PluginArgs::NodeResourcesFit(args))
}

fn shape(points: &[(u32, u32)]) -> ScoringStrategyKind {
    let point = |(utilization, score): &(u32, u32)| ShapePoint {
        utilization: *utilization,
        score: *score,
    };
    ScoringStrategyKind::RequestedToCapacityRatio(points.iter().map(point).collect())
}

const BOTH: [(&str, u32); 2] = [("cpu", 1), ("memory", 1)];
const MEMORY_TWICE: [(&str, u32); 2] = [("cpu", 1), ("memory", 2)];

/// Scores of two nodes, each given as what it offers and what is used.
fn scored(plugin: &dyn Plugin, pod: &PodBuilder, nodes: [[i64; 4]; 2]) -> Vec<i64> {
    let names = ["a", "b"];
    let sizes = names.iter().zip(&nodes).map(|(name, n)| sized(name, n[0], n[1]));
    let uses = names
        .iter()
        .zip(&nodes)
        .map(|(name, n)| asking(&format!("on-{name}"), n[2], n[3]).on(name));
    let world = world(&sizes.collect::<Vec<_>>(), &uses.collect::<Vec<_>>());
    check::scores(plugin, pod, &world).unwrap()
}

#[test]
fn the_least_allocated_node_scores_highest() {
    use ScoringStrategyKind::LeastAllocated;
    let empty = [[4000, 10_000, 0, 0], [6000, 10_000, 0, 0]];
    let least = |weights: &[(&str, u32)]| strategy(LeastAllocated, weights);
    let pod = asking("p", 3000, 5000);
    assert_eq!(scored(&*fit(), &pod, empty), [37, 50]);
    assert_eq!(scored(&*least(&MEMORY_TWICE), &pod, empty), [41, 50]);
    let table = [
        (
            &pod,
            [[10_000, 20_000, 3000, 0], [10_000, 20_000, 3000, 5000]],
            [57, 45],
        ),
        (
            &pod,
            [[10_000, 20_000, 3000, 0], [10_000, 50_000, 3000, 5000]],
            [57, 60],
        ),
        (
            &asking("p", 3000, 0),
            [[4000, 10_000, 3000, 0], [4000, 10_000, 3000, 5000]],
            [50, 25],
        ),
        (&pod, [[0, 0, 0, 0], [6000, 10_000, 0, 0]], [0, 50]),
    ];
    for (pod, nodes, expected) in table {
        assert_eq!(scored(&*least(&BOTH), pod, nodes), expected);
    }
}

#[test]
fn extended_resources_count_when_requested_and_offered() {
    let plugin = strategy(
        ScoringStrategyKind::LeastAllocated,
        &[("cpu", 1), ("memory", 1), (A, 1)],
    );
    let nodes = |a: [&str; 2]| {
        let sizes = [("a", a[0]), ("b", a[1])].map(|(name, a)| sized(name, 6000, 10_000).allocatable(A, a));
        world(&sizes, &[])
    };
    let pod = asking("p", 3000, 5000);
    assert_eq!(check::scores(&*plugin, &pod, &nodes(["4", "0"])).unwrap(), [50, 50]);
    let asks = pod.request(A, "2");
    assert_eq!(check::scores(&*plugin, &asks, &nodes(["4", "10"])).unwrap(), [50, 60]);
}

#[test]
fn the_most_allocated_node_scores_highest() {
    use ScoringStrategyKind::MostAllocated;
    let most = |weights: &[(&str, u32)]| strategy(MostAllocated, weights);
    let empty = [[4000, 10_000, 0, 0], [6000, 10_000, 0, 0]];
    let pod = asking("p", 3000, 5000);
    assert_eq!(scored(&*most(&BOTH), &pod, empty), [62, 50]);
    assert_eq!(scored(&*most(&MEMORY_TWICE), &pod, empty), [58, 50]);
    let full = [[5000, 10_000, 0, 0], [10_000, 9000, 0, 0]];
    assert_eq!(scored(&*most(&BOTH), &asking("p", 5000, 9000), full), [95, 75]);
}

#[test]
fn containers_without_requests_count_with_defaults() {
    let most = strategy(ScoringStrategyKind::MostAllocated, &BOTH);
    let node = |name| sized(name, 250, 1000 << 20);
    let on_a = ["x", "y"].map(|name| pod(name).on("a"));
    let world = world(&[node("a"), node("b")], &on_a);
    // Values at pod level do not count for the pod that comes.
    for pod in [pod("p"), pod("p").pod_level("cpu", "2")] {
        assert_eq!(check::scores(&*most, &pod, &world).unwrap(), [80, 30]);
    }
}

#[test]
fn a_shape_scores_by_utilisation_and_leaves_zeros_out() {
    let falling = strategy(shape(&[(0, 10), (100, 0)]), &BOTH);
    let rising = strategy(shape(&[(0, 0), (100, 10)]), &BOTH);
    let pod = asking("p", 3000, 5000);
    let empty = [[4000, 10_000, 0, 0], [6000, 10_000, 0, 0]];
    let in_use = [[4000, 10_000, 2000, 4000], [6000, 10_000, 1000, 2000]];
    assert_eq!(scored(&*falling, &pod, empty), [38, 50]);
    assert_eq!(scored(&*falling, &pod, in_use), [10, 32]);
    assert_eq!(scored(&*rising, &pod, in_use), [95, 68]);
    let one = strategy(shape(&[(0, 0), (100, 1)]), &[(A, 1)]);
    let nodes = world(
        &[
            sized("a", 0, 0).allocatable(A, "8"),
            sized("b", 0, 0).allocatable(A, "4"),
        ],
        &[],
    );
    let asks = crate::testing::pod("p").request(A, "2");
    assert_eq!(check::scores(&*one, &asks, &nodes).unwrap(), [2, 5]);
    assert_eq!(check::scores(&*one, &pod, &nodes).unwrap(), [0, 0]);
}

#[test]
fn args_of_another_plugin_are_refused() {
    let args = PluginArgs::default_for("NodeAffinity").unwrap();
    assert_eq!(
        check::make("NodeResourcesFit", Some(&args)).err().unwrap(),
        "initializing plugin \"NodeResourcesFit\": want args to be of type NodeResourcesFitArgs"
    );
}
