//! Plugins that fail while pods are thought away.

use super::*;
use crate::cluster::NodeInfo;
use crate::framework::{PreFilter, PreFilterExtensions, PreFilterOutcome, Reads};

/// A plugin that cannot think a pod of this name away.
struct Stubborn(&'static str);

impl Plugin for Stubborn {
    fn name(&self) -> Symbol {
        Symbol::new("test-plugin")
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }
}

impl PreFilter for Stubborn {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, _: &PodInfo) -> PreFilterOutcome {
        PreFilterOutcome::default()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for Stubborn {
    fn add_pod(&self, _: &mut CycleState, _: &PodInfo, _: &PodInfo, _: &NodeInfo) -> Status {
        Status::SUCCESS
    }

    fn remove_pod(&self, _: &mut CycleState, pod: &PodInfo, other: &PodInfo, _: &NodeInfo) -> Status {
        if *other.name == *self.0 {
            Status::error(format!("failed to remove pod: {}", pod.name))
        } else {
            Status::SUCCESS
        }
    }
}

#[test]
fn a_failure_on_one_node_matters_only_without_candidates() {
    let attempt = |count| {
        let mut registry = crate::plugins::registry();
        registry
            .register("test-plugin", |_| Ok(Arc::new(Stubborn("v1"))))
            .unwrap();
        let profile = profile(&registry, &["test-plugin"]);
        let pods: Vec<_> = (1..=count)
            .map(|at| placed(&format!("v{at}"), LOW, LARGE, &format!("node{at}")))
            .collect();
        Attempt::with_profile(profile, &nodes(count), &pods, &wanting(HIGH, LARGE))
    };
    assert_eq!(attempt(2).all_candidates(), ["node2: v2"]);
    assert!(attempt(2).post_filter().status.is_success());
    let failed = attempt(1).post_filter();
    assert_eq!(failed.status.code, Code::Error);
    assert_eq!(
        failed.status.message(),
        "preemption: running RemovePod on PreFilter plugin \"test-plugin\": failed to remove pod: p"
    );
}
