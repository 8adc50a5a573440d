//! Attempts of whole profiles with all default plugins, up to what PostFilter answers.

mod budgets;
mod choice;
mod failures;

use supercargo_config::{Loader, PluginCatalogue};

use super::*;
use crate::cluster::{Budget, LabelSelector};
use crate::framework::{Handle, PreFilterRun, Registry};
use crate::ids::NodeIdx;
use crate::plugins::check::{asking, world};
use crate::testing::{NodeBuilder, PodBuilder, World, node};

const NEG: i32 = -100;
const LOW: i32 = 0;
const MID: i32 = 100;
const HIGH: i32 = 1000;
const SMALL: i64 = 100;
const MEDIUM: i64 = 200;
const LARGE: i64 = 300;

/// A profile with all default plugins.
fn profile(registry: &Registry, more: &[&str]) -> Profile {
    let in_tree = PluginCatalogue::in_tree();
    let lookup = more.iter().fold(in_tree, |lookup, name| {
        lookup.with(*name, &[supercargo_config::ExtensionPoint::PreFilter])
    });
    let list: String = more.iter().map(|name| format!("\n      - name: {name}")).collect();
    let enabled = if more.is_empty() { " []".to_owned() } else { list };
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter:
      enabled:{enabled}
"
    );
    let loaded = Loader::new(&lookup).load_str("test", &text).unwrap();
    let handle = Arc::new(Handle::default());
    Profile::build(&loaded.configuration.profiles[0], 0, registry, &handle).unwrap()
}

/// What one attempt to schedule a pod leaves for PostFilter.
struct Attempt {
    profile: Profile,
    world: World,
    pod: Arc<PodInfo>,
    state: CycleState,
    statuses: NodeStatuses,
    budgets: Vec<Arc<Budget>>,
}

impl Attempt {
    fn new(nodes: &[NodeBuilder], pods: &[PodBuilder], pod: &PodBuilder) -> Self {
        Self::with_profile(profile(&crate::plugins::registry(), &[]), nodes, pods, pod)
    }

    fn with_profile(profile: Profile, nodes: &[NodeBuilder], pods: &[PodBuilder], pod: &PodBuilder) -> Self {
        let (world, pod) = (world(nodes, pods), pod.build());
        let view = world.view();
        let mut state = CycleState::default();
        let mut statuses = NodeStatuses::default();
        match profile.run_pre_filter(&view, &mut state, &pod) {
            PreFilterRun::Proceed(None) => {}
            other => panic!("{other:?}"),
        }
        for node in view.nodes.iter() {
            let status = profile.run_filter(&view, &state, &pod, node);
            assert!(!status.is_success(), "{} takes the pod", node.name);
            statuses.explicit.push((node.idx, status));
        }
        Self {
            profile,
            world,
            pod,
            state,
            statuses,
            budgets: Vec::new(),
        }
    }

    fn trial(&self) -> Trial<'_> {
        Trial {
            cluster: self.world.view(),
            profile: &self.profile,
            state: &self.state,
            pod: &self.pod,
            budgets: &self.budgets,
        }
    }

    /// `node: victims` of every candidate, with the number of broken budgets where there are any.
    fn candidates(&self, limits: CandidateLimits, offset: usize) -> Vec<String> {
        let potential = preemption::potential_nodes(&self.world.view(), &self.statuses);
        let run = preemption::dry_run(&self.trial(), &potential, limits, offset);
        let told = run.candidates.iter().map(|candidate| {
            let victims: Vec<&str> = candidate.victims.iter().map(|pod| &*pod.name).collect();
            let broken = match candidate.pdb_violations {
                0 => String::new(),
                count => format!(" ({count} protected)"),
            };
            format!("{}: {}{broken}", candidate.name, victims.join(" "))
        });
        told.collect()
    }

    fn all_candidates(&self) -> Vec<String> {
        self.candidates(CandidateLimits::NONE, 0)
    }

    fn post_filter(&self) -> PostFilterResult {
        let view = self.world.view();
        self.profile
            .run_post_filter(&view, &self.state, &self.pod, &self.statuses)
    }

    fn message(&self) -> String {
        let result = self.post_filter();
        let message = result.status.message();
        let own = message.strip_prefix("no new claims to deallocate, ");
        own.unwrap_or(&message).to_owned()
    }
}

fn nodes(count: usize) -> Vec<NodeBuilder> {
    (1..=count).map(|at| node(&format!("node{at}")).cpu(500)).collect()
}

fn placed(name: &str, priority: i32, milli_cpu: i64, node: &str) -> PodBuilder {
    asking(name, milli_cpu, -1).priority(priority).on(node)
}

fn wanting(priority: i32, milli_cpu: i64) -> PodBuilder {
    asking("p", milli_cpu, -1).priority(priority)
}

#[test]
fn messages_say_why_preemption_does_not_help() {
    let equal = Attempt::new(&nodes(1), &[placed("a", HIGH, LARGE, "node1")], &wanting(HIGH, LARGE));
    assert_eq!(
        equal.message(),
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    assert_eq!(equal.post_filter().nomination, NominatedNode::Clear);
    let too_large = Attempt::new(&nodes(2), &[], &wanting(HIGH, 600));
    assert_eq!(
        too_large.message(),
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let mixed = [
        node("a").cpu(500),
        node("b").cpu(500),
        node("c").cpu(500).taint("k", "v", "NoSchedule"),
    ];
    let pods = [
        placed("x", HIGH, LARGE, "a"),
        placed("y", LOW, SMALL, "b"),
        placed("z", HIGH, LARGE, "b"),
    ];
    let mixed = Attempt::new(&mixed, &pods, &wanting(HIGH, LARGE));
    assert_eq!(
        mixed.message(),
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
         1 Preemption is not helpful for scheduling."
    );
}

#[test]
fn the_whole_chain_speaks_in_order() {
    let attempt = Attempt::new(&nodes(1), &[], &wanting(HIGH, 600));
    assert_eq!(
        attempt.post_filter().status.message(),
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    // Another plugin turned the pod away before DynamicResources could prepare.
    let result = attempt.profile.run_post_filter(
        &attempt.world.view(),
        &CycleState::default(),
        &attempt.pod,
        &attempt.statuses,
    );
    assert_eq!(
        (result.status.code, result.status.message()),
        (Code::Error, "not found".to_owned())
    );
    assert_eq!(result.nomination, NominatedNode::Keep);
}

#[test]
fn the_least_important_pods_that_make_room_are_the_victims() {
    let table: [(usize, &[PodBuilder], PodBuilder, &[&str]); 4] = [
        (
            2,
            &[
                placed("low", LOW, SMALL, "node1"),
                placed("mid", MID, LARGE, "node1"),
                placed("mid2", MID, LARGE, "node2"),
            ],
            wanting(HIGH, LARGE),
            &["node1: mid", "node2: mid2"],
        ),
        (
            1,
            &[
                placed("mid-small", MID, SMALL, "node1"),
                placed("low-small", LOW, SMALL, "node1"),
                placed("mid-medium", MID, MEDIUM, "node1").started("2026-01-01T00:00:09Z"),
                placed("high-small", HIGH, SMALL, "node1"),
            ],
            wanting(HIGH, LARGE),
            &["node1: mid-medium low-small"],
        ),
        (
            1,
            &[
                placed("low5", LOW, SMALL, "node1").started("2026-01-01T00:00:05Z"),
                placed("low4", LOW, SMALL, "node1").started("2026-01-01T00:00:04Z"),
                placed("mid", MID, MEDIUM, "node1").started("2026-01-01T00:00:01Z"),
                placed("high", HIGH, SMALL, "node1"),
            ],
            wanting(HIGH, LARGE),
            &["node1: mid low5"],
        ),
        (
            1,
            &[
                placed("neg", NEG, LARGE, "node1").terminating(),
                placed("low", LOW, SMALL, "node1"),
            ],
            wanting(LOW, LARGE),
            &["node1: neg"],
        ),
    ];
    for (count, pods, pod, expected) in table {
        let attempt = Attempt::new(&nodes(count), pods, &pod);
        assert_eq!(attempt.all_candidates(), expected);
        let result = attempt.post_filter();
        assert!(result.status.is_success());
        let preemption = result.preemption.unwrap();
        assert_eq!(result.nomination, NominatedNode::Set(preemption.name));
        let victims: Vec<&str> = preemption.victims.iter().map(|pod| &*pod.name).collect();
        let chosen = format!("{}: {}", preemption.name, victims.join(" "));
        assert!(expected.contains(&chosen.as_str()), "{chosen}");
        let node = attempt.world.nodes().get(preemption.node).unwrap();
        assert_eq!((node.name, node.used.version), (preemption.name, preemption.version));
    }
}

fn budget(allowed: i32, disrupted: &[&str]) -> Arc<Budget> {
    Arc::new(Budget {
        namespace: Symbol::new("default"),
        name: "b".into(),
        selector: LabelSelector::compile(&[("app", "a")], &[]).unwrap(),
        allowed,
        disrupted: disrupted.iter().map(|name| (*name).into()).collect(),
    })
}

/// Five nodes full of one pod each; `high` of them with pods that cannot be evicted.
fn five(high: &[usize], protected: &[usize]) -> Attempt {
    let pods: Vec<_> = (1..=5)
        .map(|at| {
            let priority = if high.contains(&at) { HIGH } else { LOW };
            let pod = placed(&format!("v{at}"), priority, LARGE, &format!("node{at}"));
            if protected.contains(&at) {
                pod.label("app", "a")
            } else {
                pod
            }
        })
        .collect();
    Attempt::new(&nodes(5), &pods, &wanting(HIGH, LARGE))
}

#[test]
fn some_pods_may_not_preempt() {
    let low = placed("low", LOW, LARGE, "node1");
    let never = Attempt::new(
        &nodes(1),
        std::slice::from_ref(&low),
        &wanting(HIGH, LARGE).never_preempts(),
    );
    assert_eq!(
        never.message(),
        "preemption: not eligible due to preemptionPolicy=Never."
    );
    assert_eq!(never.post_filter().nomination, NominatedNode::Keep);
    let leaving = low.clone().terminating();
    let marked = leaving
        .clone()
        .condition("DisruptionTarget", "True", "PreemptionByScheduler", "");
    let message = |pod: &PodBuilder| {
        let nominated = wanting(HIGH, LARGE).nominated("node1");
        Attempt::new(&nodes(1), std::slice::from_ref(pod), &nominated).message()
    };
    let waits = "preemption: not eligible due to a terminating pod on the nominated node.";
    assert_eq!(message(&marked), waits);
    assert_eq!(message(&leaving), "");
    assert_eq!(message(&low), "");
}

#[test]
fn nodes_whose_status_is_absent_may_be_helped_too() {
    let mut attempt = five(&[1, 2, 3], &[]);
    attempt.statuses.explicit.retain(|(idx, _)| idx.0 == 3);
    attempt.statuses.explicit[0].1.code = Code::UnschedulableAndUnresolvable;
    assert_eq!(attempt.all_candidates(), [] as [&str; 0]);
    attempt.statuses.absent = Status::unschedulable(Symbol::new("why"));
    assert_eq!(attempt.all_candidates(), ["node5: v5"]);
}

/// The nodes that no criterion tells apart, when all are tried.
fn chosen(attempt: &Attempt) -> Vec<&'static str> {
    let potential = preemption::potential_nodes(&attempt.world.view(), &attempt.statuses);
    let run = preemption::dry_run(&attempt.trial(), &potential, CandidateLimits::NONE, 0);
    let best = preemption::best_candidates(&run.candidates);
    best.iter().map(|candidate| candidate.name.as_str()).collect()
}

#[test]
fn nodes_that_were_tried_say_why_they_cannot_be_helped() {
    let small = ["a", "b", "c", "d"].map(|name| node(name).cpu(500));
    let pods = ["a", "b", "c", "d"].map(|name| placed(&format!("v-{name}"), LOW, SMALL, name));
    // The pod fits nowhere even when a node is empty; whether evictions were thought to help is as given.
    let message = |count: usize, unresolvable: usize| {
        let mut attempt = Attempt::new(&small[..count], &pods[..count], &wanting(HIGH, 600));
        for (at, (_, status)) in attempt.statuses.explicit.iter_mut().enumerate() {
            status.code = if at < unresolvable {
                Code::UnschedulableAndUnresolvable
            } else {
                Code::Unschedulable
            };
        }
        assert_eq!(attempt.post_filter().nomination, NominatedNode::Clear);
        attempt.message()
    };
    let prefix = |count: usize| format!("preemption: 0/{count} nodes are available: ");
    assert_eq!(message(2, 0), prefix(2) + "2 Insufficient cpu.");
    assert_eq!(
        message(4, 2),
        prefix(4) + "2 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    );
    assert_eq!(message(1, 1), prefix(1) + "1 Preemption is not helpful for scheduling.");
}

#[test]
fn a_pod_is_held_back_while_others_are_evicted_for_it() {
    struct Evicting;
    impl crate::framework::Evict for Evicting {
        fn evict(&self, _: crate::framework::Eviction) -> Result<(), String> {
            Ok(())
        }
        fn is_evicting_for(&self, preemptor: crate::ids::PodUid) -> bool {
            preemptor == asking("p", 1, -1).build().uid
        }
    }
    let handle = Arc::new(Handle::default());
    let context = PluginContext {
        scheduler_name: "default-scheduler",
        args: None,
        handle: Arc::clone(&handle),
    };
    let plugin = make(&context).unwrap();
    let says = |name: &str| {
        let status = plugin
            .pre_enqueue()
            .unwrap()
            .pre_enqueue_pod(&asking(name, 1, -1).build());
        status.to_string()
    };
    assert_eq!(says("p"), "Success: ");
    handle.set_evict(Arc::new(Evicting));
    assert_eq!(
        (says("p"), says("q")),
        (
            "UnschedulableAndUnresolvable: waiting for the preemption for this pod to be finished".to_owned(),
            "Success: ".to_owned()
        )
    );
}
