//! One decision: the engine where it can, the full evaluation where it must.

use std::sync::Arc;

use crate::cluster::{Cluster, PodInfo};
use crate::cycle::engine::Answer;
use crate::cycle::full::{self, Evaluation, Outcome};
use crate::cycle::{Engine, View};
use crate::framework::{CycleState, Profile, Status};
use crate::ids::NodeIdx;

/// What was decided about a pod.
#[derive(Debug)]
pub enum Decision {
    /// This node, and what the plugins remember for the points that follow.
    Node(NodeIdx, CycleState),
    /// No node fits; PostFilter has not run yet.
    NoFit(Box<Evaluation>),
    /// There are no nodes.
    NoNodes,
    /// A plugin failed.
    Failed(Status),
}

/// Decides about `pod` as of the view. `random` decides among nodes of equal total.
#[must_use]
pub fn decide(
    view: &View,
    engine: &mut Engine,
    cluster: &Cluster,
    profile: &Profile,
    pod: &Arc<PodInfo>,
    random: u64,
) -> Decision {
    if view.nodes().is_empty() {
        return Decision::NoNodes;
    }
    // A nominated node is tried first and alone, which no index knows of.
    if pod.nominated_node.is_none() {
        match engine.best(view, cluster, profile, pod, random) {
            Answer::Node(node, state) => return Decision::Node(node, state),
            Answer::Failed(status) => return Decision::Failed(status),
            // Only the full evaluation knows the reasons.
            Answer::NoFit | Answer::Unknown => {}
        }
    }
    engine.count_full();
    let cluster_view = view.cluster_view(cluster);
    let evaluation = full::evaluate(profile, &cluster_view, pod);
    match evaluation.outcome {
        Outcome::Best(winners) => {
            let count = u64::try_from(winners.len().max(1)).unwrap_or(1);
            let nth = usize::try_from(random % count).unwrap_or(0);
            match winners.get(nth) {
                Some(node) => Decision::Node(*node, evaluation.state),
                None => Decision::NoNodes,
            }
        }
        Outcome::NoFit(_) => Decision::NoFit(Box::new(evaluation)),
        Outcome::NoNodes => Decision::NoNodes,
        Outcome::Failed(status) => Decision::Failed(status),
    }
}
