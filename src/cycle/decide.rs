//! One decision: the engine where it can, the full evaluation where it must.

use std::sync::Arc;

use crate::cluster::{Cluster, ClusterView, NodeInfo, PodInfo};
use crate::cycle::engine::Answer;
use crate::cycle::full::{self, Evaluation, Outcome};
use crate::cycle::{Engine, View};
use crate::framework::{CycleState, Profile, Status};
use crate::ids::NodeIdx;
use crate::telemetry::{EngineMode, Metrics};

/// What was decided about a pod.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made a pod and moved at once; a box would allocate"
)]
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

/// Decides about `pod` as of the view. `random` decides among nodes of equal total, and whether the cycle's plugins are
/// timed one by one.
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
    let sampled = Metrics::samples_plugins(u32::try_from(random >> 32).unwrap_or(0));
    let mut watch = profile.stopwatch();
    let cluster_view = view.cluster_view(cluster);
    // A nominated node is tried first and alone, which no index knows of.
    let nominated = full::nominated_node(&cluster_view, pod);
    match engine.best(view, cluster, profile, pod, random, &mut watch) {
        Answer::Node(node, mut state) if nominated.is_none() => {
            state.sample(sampled);
            return Decision::Node(node, state);
        }
        Answer::Failed(status) if nominated.is_none() => return Decision::Failed(status),
        Answer::NoFit(Some(mut evaluation)) => {
            evaluation.state.sample(sampled);
            return match nominated {
                None => Decision::NoFit(evaluation),
                Some(node) => decide_nominated(&cluster_view, profile, pod, node, *evaluation),
            };
        }
        // Only the full evaluation knows the reasons, or the order.
        Answer::Node(..) | Answer::Failed(_) | Answer::NoFit(None) | Answer::Unknown => {}
    }
    engine.count_full();
    let mut state = CycleState::default();
    state.sample(sampled);
    let evaluation = full::evaluate_with(profile, &cluster_view, pod, state);
    watch.lap();
    watch.evaluation(EngineMode::Full);
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
        // Only extenders leave it open, and none is asked here.
        Outcome::Open => Decision::NoNodes,
    }
}

/// Decides about a pod that fits nowhere if its own nomination counts against it: on its node it does not.
fn decide_nominated(
    cluster: &ClusterView<'_>,
    profile: &Profile,
    pod: &PodInfo,
    node: &NodeInfo,
    evaluation: Evaluation,
) -> Decision {
    let Evaluation {
        mut statuses, state, ..
    } = evaluation;
    let status = profile.run_filter_with_nominated(cluster, &state, pod, node);
    if status.is_success() {
        return Decision::Node(node.idx, state);
    }
    if !status.is_rejected() {
        return Decision::Failed(status);
    }
    statuses.set(node.idx, status);
    Decision::NoFit(Box::new(Evaluation::without_room(statuses, state)))
}

#[cfg(test)]
mod tests {
    use supercargo_config::{FeatureGates, Loader, PluginCatalogue};

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::{LabelVisibility, NodeSpec};
    use crate::framework::{Handle, Observer, PermitRun, Profiles};
    use crate::ids::Symbol;
    use crate::scheduler::metrics_for;
    use crate::telemetry::Exposition;
    use crate::testing::{PodBuilder, node, pod};

    /// High halves of random numbers of cycles whose plugins are timed, and not.
    const SAMPLED: u64 = 0;
    const NOT_SAMPLED: u64 = 50 << 32;

    struct Scene {
        cluster: Cluster,
        view: View,
        engine: Engine,
        profile: Arc<Profile>,
        metrics: Arc<Metrics>,
    }

    impl Scene {
        fn new(nodes: u32) -> Self {
            let configuration = Loader::new(&PluginCatalogue::in_tree())
                .defaults()
                .unwrap()
                .configuration;
            let registry = crate::plugins::registry();
            let gates = FeatureGates::default();
            let metrics = metrics_for(&configuration, &registry, &gates, Exposition::default()).unwrap();
            let observer = Observer {
                metrics: Arc::clone(&metrics),
                clock: Clock::Real,
            };
            let handle = Arc::new(Handle::default());
            let profiles = Profiles::build_observed(&configuration, &registry, &handle, &observer).unwrap();
            let cluster = Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All);
            for number in 0..nodes {
                let node = node(&format!("n{number}")).cpu(4000).memory_gi(8).pods(110);
                cluster.apply_node(NodeSpec::clone(&node.build()));
            }
            Self {
                view: View::new(&cluster),
                engine: Engine::default(),
                profile: Arc::clone(&profiles.all()[0]),
                cluster,
                metrics,
            }
        }

        fn decide(&mut self, pod: &PodBuilder, random: u64) -> Decision {
            let pod = pod.build_in(&self.cluster.classes);
            self.view.replay(&self.cluster);
            decide(&self.view, &mut self.engine, &self.cluster, &self.profile, &pod, random)
        }

        /// The value of the one line of the page that begins with `name` and holds all of `labels`.
        fn value(&self, name: &str, labels: &[&str]) -> Option<String> {
            let page = self.metrics.exposition();
            let line = page.lines().find(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                    && labels.iter().all(|label| line.contains(label))
            });
            line.and_then(|line| line.rsplit_once(' '))
                .map(|(_, value)| value.to_owned())
        }

        fn count_of_point(&self, point: &str, status: &str) -> Option<String> {
            let labels = [format!("extension_point=\"{point}\""), format!("status=\"{status}\"")];
            let name = "scheduler_framework_extension_point_duration_seconds_count";
            self.value(name, &[labels[0].as_str(), labels[1].as_str()])
        }
    }

    #[test]
    fn decisions_are_recorded_by_how_they_were_made() {
        let mut scene = Scene::new(3);
        for (name, random) in [("a", SAMPLED), ("b", NOT_SAMPLED), ("c", NOT_SAMPLED)] {
            let decision = scene.decide(&pod(name).uid(name).cpu(100), random);
            assert!(matches!(decision, Decision::Node(..)), "{decision:?}");
        }
        let text = |value: u32| Some(value.to_string());
        // The second decision makes the index, with PreFilter and PreScore; the third rests on it.
        for (point, count) in [
            ("PreFilter", 2),
            ("Filter", 3),
            ("PreScore", 2),
            ("Score", 3),
            ("ScoreExtensionNormalize", 1),
        ] {
            assert_eq!(scene.count_of_point(point, "Success"), text(count), "{point}");
        }
        let mode = |mode: &str| scene.value("supercargo_engine_evaluations_total", &[mode]);
        assert_eq!((mode("full"), mode("incremental")), (text(2), text(1)));
        for point in ["PreFilter", "Filter", "Score"] {
            let labels = ["plugin=\"NodeResourcesFit\"", &format!("extension_point=\"{point}\"")];
            assert_eq!(
                scene.value("scheduler_plugin_evaluation_total", &labels),
                text(3),
                "{point}"
            );
            // Of the sampled cycle alone.
            let name = "scheduler_plugin_execution_duration_seconds_count";
            assert_eq!(scene.value(name, &labels), text(1), "{point}");
        }
        let gate = scene.value("kubernetes_feature_enabled", &["SchedulerQueueingHints"]);
        assert_eq!(gate, text(1));
    }

    #[test]
    fn a_pod_that_fits_nowhere_is_filtered_and_not_scored() {
        let mut scene = Scene::new(2);
        let decision = scene.decide(&pod("big").cpu(64_000), NOT_SAMPLED);
        assert!(matches!(decision, Decision::NoFit(_)), "{decision:?}");
        assert_eq!(scene.count_of_point("Filter", "Success").as_deref(), Some("1"));
        assert_eq!(scene.count_of_point("Score", "Success"), None);
        let labels = ["plugin=\"NodeResourcesFit\"", "extension_point=\"Score\""];
        assert_eq!(scene.value("scheduler_plugin_evaluation_total", &labels), None);
    }

    #[test]
    fn points_after_the_decision_are_recorded_without_plugins_too() {
        let scene = Scene::new(1);
        let pod = pod("a").build_in(&scene.cluster.classes);
        let (mut state, node) = (CycleState::default(), Symbol::new("n0"));
        let view = scene.view.cluster_view(&scene.cluster);
        let info = view.nodes.get(NodeIdx(0)).unwrap();
        scene.profile.run_reserve(&view, &mut state, &pod, info).unwrap();
        assert!(matches!(
            scene.profile.run_permit(&state, &pod, node),
            PermitRun::Proceed(_)
        ));
        scene.profile.run_unreserve(&mut state, &pod, node);
        for point in ["Reserve", "Permit", "Unreserve"] {
            assert_eq!(scene.count_of_point(point, "Success").as_deref(), Some("1"), "{point}");
        }
    }
}
