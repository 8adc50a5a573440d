use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::ResourceSpec;

use super::*;
use crate::plugins::check::{self, asking, plugin, plugin_with, sized, world};
use crate::testing::{PodBuilder, pod};

const GPU: &str = "example.com/gpu";

/// The score of a pod on one node: what it offers, what is used, what the pod asks for.
fn score(offers: (i64, i64), used: (i64, i64), asks: (i64, i64)) -> i64 {
    let world = world(
        &[sized("n", offers.0, offers.1)],
        &[asking("used", used.0, used.1).on("n")],
    );
    let plugin = plugin("NodeResourcesBalancedAllocation");
    check::scores(&*plugin, &asking("p", asks.0, asks.1), &world).unwrap()[0]
}

#[test]
fn a_pod_that_evens_out_the_shares_scores_higher() {
    let table = [
        ((4000, 10_000), (0, 0), (3000, 5000), 68),
        ((6000, 10_000), (0, 0), (3000, 5000), 75),
        ((10_000, 20_000), (3000, 0), (3000, 5000), 73),
        ((10_000, 20_000), (3000, 5000), (3000, 5000), 74),
        ((10_000, 50_000), (3000, 5000), (3000, 5000), 70),
        ((1000, 1000), (1000, 0), (0, 1000), 100),
        ((1000, 1000), (0, 0), (0, 1000), 50),
        ((1000, 1000), (500, 0), (500, 0), 62),
        ((1000, 1000), (500, 500), (500, 0), 62),
    ];
    for (offers, used, asks, expected) in table {
        assert_eq!(score(offers, used, asks), expected, "{offers:?} {used:?} {asks:?}");
    }
}

fn with_gpu() -> Arc<dyn Plugin> {
    let resources = ["cpu", "memory", GPU].map(|name| ResourceSpec {
        name: name.to_owned(),
        weight: 1,
    });
    let args = NodeResourcesBalancedAllocationArgs {
        resources: resources.into(),
    };
    plugin_with(
        "NodeResourcesBalancedAllocation",
        &PluginArgs::NodeResourcesBalancedAllocation(args),
    )
}

fn scored(pod: &PodBuilder, gpus: &[&str], used: [&PodBuilder; 2]) -> Vec<i64> {
    let names = ["a", "b"];
    let nodes: Vec<_> = names
        .iter()
        .zip(gpus)
        .map(|(name, gpus)| sized(name, 3500, 40_000).allocatable(GPU, gpus))
        .collect();
    let uses: Vec<_> = names.iter().zip(used).map(|(name, pod)| pod.clone().on(name)).collect();
    check::scores(&*with_gpu(), pod, &world(&nodes, &uses)).unwrap()
}

#[test]
fn three_resources_are_balanced_by_their_deviation() {
    let has = |name: &str, gpus: &str| asking(name, 3000, 5000).request(GPU, gpus);
    let asks = asking("p", 0, 0).request(GPU, "1");
    assert_eq!(scored(&asks, &["8", "8"], [&has("x", "3"), &has("y", "0")]), [75, 76]);
}

#[test]
fn resources_that_the_pod_does_not_request_do_not_count() {
    let asks = asking("p", 3000, 5000);
    let empty = [&asking("x", 0, 0), &asking("y", 0, 0)];
    assert_eq!(scored(&asks, &["8", "0"], empty), [56, 56]);
}

#[test]
fn a_pod_that_requests_nothing_is_not_scored() {
    let world = world(&[sized("n", 10, 10)], &[]);
    let plugin = plugin("NodeResourcesBalancedAllocation");
    assert_eq!(check::scores(&*plugin, &pod("p"), &world).unwrap(), [] as [i64; 0]);
}
