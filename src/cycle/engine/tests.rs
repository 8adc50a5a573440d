//! Incremental = full: after any sequence of changes the engine finds the same feasible nodes, totals and winners as an
//! evaluation from scratch.

use std::sync::Arc;

use proptest::prelude::*;
use supercargo_config::{Loader, PluginCatalogue};

use super::*;
use crate::cluster::{
    Effect, Image, LabelVisibility, Labels, NodeSelectorTerm, NodeSpec, PodSpec, PreferredTerm, Publisher, Taint,
};
use crate::cycle::full::{self, Outcome};
use crate::framework::{Handle, Profiles};
use crate::ids::{PodUid, Symbol};
use crate::ledger::{Capacity, Charge, NonZero};
use crate::resources::{Protocol, Resources};

const NODES: u8 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// A node comes or changes: by number, CPU, taint, label, image.
    Node {
        number: u8,
        cpus: i64,
        tainted: bool,
        zone: u8,
        image: bool,
    },
    /// A node goes.
    RemoveNode(u8),
    /// A pod of a class is decided and, if it fits, reserved.
    Schedule { class: u8, random: u64 },
    /// The pod scheduled the longest ago goes.
    Retire,
    /// A pod that somebody else bound appears on a node.
    Foreign { number: u8, cpus: i64 },
    /// A snapshot is published; the view may start anew from it.
    Publish { renew: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..NODES;
    let step = prop_oneof![
        3 => (number.clone(), 1..9_i64, any::<bool>(), 0..3_u8, any::<bool>()).prop_map(
            |(number, cpus, tainted, zone, image)| Step::Node { number, cpus, tainted, zone, image }
        ),
        1 => number.clone().prop_map(Step::RemoveNode),
        8 => (0..5_u8, any::<u64>()).prop_map(|(class, random)| Step::Schedule { class, random }),
        2 => Just(Step::Retire),
        1 => (number, 1..4_i64).prop_map(|(number, cpus)| Step::Foreign { number, cpus }),
        1 => any::<bool>().prop_map(|renew| Step::Publish { renew }),
    ];
    proptest::collection::vec(step, 1..80)
}

struct World {
    cluster: Cluster,
    profile: Arc<Profile>,
    view: View,
    engine: Engine,
    publisher: Publisher,
    placed: Vec<PodUid>,
    next: u128,
    checked: u32,
}

impl World {
    fn new() -> Self {
        let loaded = Loader::new(&PluginCatalogue::in_tree()).defaults().unwrap();
        let registry = crate::plugins::registry();
        let profiles = Profiles::build(&loaded.configuration, &registry, &Arc::new(Handle::default())).unwrap();
        let cluster = Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All);
        let view = View::new(&cluster);
        Self {
            cluster,
            profile: Arc::clone(&profiles.all()[0]),
            view,
            engine: Engine::default(),
            publisher: Publisher::default(),
            placed: Vec::new(),
            next: 1,
            checked: 0,
        }
    }

    fn pod(&mut self, class: u8) -> Arc<PodInfo> {
        let uid = PodUid(self.next);
        self.next += 1;
        Arc::new(pod(&self.cluster, uid, spec(class)))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Node {
                number,
                cpus,
                tainted,
                zone,
                image,
            } => {
                self.cluster.apply_node(node(*number, *cpus, *tainted, *zone, *image));
            }
            Step::RemoveNode(number) => {
                self.cluster.remove_node(node_name(*number));
            }
            Step::Schedule { class, random } => self.schedule(*class, *random),
            Step::Retire if self.placed.is_empty() => {}
            Step::Retire => {
                let uid = self.placed.remove(0);
                self.cluster.ledger.remove(uid);
            }
            Step::Foreign { number, cpus } => {
                let mut foreign = spec(0);
                foreign.charged_request.milli_cpu = cpus * 1000;
                let uid = PodUid(self.next);
                self.next += 1;
                let mut pod = pod(&self.cluster, uid, foreign);
                pod.bound_to = Some(node_name(*number));
                self.cluster.apply_pod(pod);
            }
            Step::Publish { renew } => {
                self.cluster.publish(&mut self.publisher);
                if *renew {
                    self.view = View::new(&self.cluster);
                    self.engine.clear();
                }
            }
        }
    }

    fn schedule(&mut self, class: u8, random: u64) {
        let pod = self.pod(class);
        self.view.replay(&self.cluster);
        let answer = self.engine.best(
            &self.view,
            &self.cluster,
            &self.profile,
            &pod,
            random,
            &mut self.profile.stopwatch(),
        );
        let view = self.view.cluster_view(&self.cluster);
        let expected = full::evaluate(&self.profile, &view, &pod);
        let chosen = match (&answer, &expected.outcome) {
            (Answer::Unknown, Outcome::Best(winners)) => Some(winners[0]),
            (Answer::Unknown | Answer::NoFit, Outcome::NoFit(_) | Outcome::NoNodes) => None,
            (Answer::Node(node, _), Outcome::Best(winners)) => {
                assert!(winners.contains(node), "{node:?} is none of {winners:?}");
                Some(*node)
            }
            (answer, expected) => panic!("the engine says {answer:?}, the full evaluation {expected:?}"),
        };
        if self.engine.is_indexed(self.profile.index, pod.class) {
            self.compare_totals(&pod, &expected);
        }
        if let Some(node) = chosen {
            let incarnation = self.view.nodes().get(node).unwrap().incarnation;
            let checks = self.profile.reserve_checks(&pod);
            self.cluster
                .ledger
                .reserve(&pod.charge, &checks, node, incarnation)
                .unwrap();
            self.placed.push(pod.uid);
        }
    }

    fn compare_totals(&mut self, pod: &PodInfo, expected: &full::Evaluation) {
        let Some(Slot::Indexed { index, .. }) = self.engine.classes.get(&(self.profile.index, pod.class)) else {
            return;
        };
        let totals = index.totals();
        let feasible: Vec<_> = totals.iter().map(|(node, _)| *node).collect();
        assert_eq!(feasible, expected.feasible);
        if let Some(scores) = &expected.scores {
            let wanted: Vec<_> = scores
                .nodes
                .iter()
                .copied()
                .zip(scores.totals.iter().copied())
                .collect();
            assert_eq!(totals, wanted);
            self.checked += 1;
        }
    }
}

fn node_name(number: u8) -> Symbol {
    Symbol::new(&format!("engine-node-{number}"))
}

fn node(number: u8, cpus: i64, tainted: bool, zone: u8, image: bool) -> NodeSpec {
    let taint = Taint {
        key: Symbol::new("soft"),
        value: Symbol::new(""),
        effect: Effect::PreferNoSchedule,
    };
    let hard = Taint {
        effect: Effect::NoSchedule,
        ..taint
    };
    let taints = if tainted {
        vec![if number.is_multiple_of(4) { hard } else { taint }]
    } else {
        Vec::new()
    };
    NodeSpec {
        name: Some(node_name(number)),
        uid: format!("{number}").into(),
        labels: Labels::from_iter([("zone", format!("z{zone}"))]),
        taints: taints.into(),
        allocatable: Capacity {
            resources: Resources {
                milli_cpu: cpus * 1000,
                memory: 16 << 30,
                ..Resources::default()
            },
            pods: 6,
        },
        images: if image {
            Box::new([Image {
                name: Symbol::new("app:v1"),
                size: 400 << 20,
            }])
        } else {
            Box::default()
        },
        ..NodeSpec::default()
    }
}

/// Classes: plain, with an image, preferring a zone, with a host port, large.
fn spec(class: u8) -> PodSpec {
    let cpu = if class == 4 { 2500 } else { 500 };
    let request = Resources {
        milli_cpu: cpu,
        memory: 1 << 30,
        ..Resources::default()
    };
    let term = NodeSelectorTerm::compile(&[("zone", "In", vec!["z1"])], &[]);
    let port = crate::resources::HostPort {
        ip: Symbol::new("0.0.0.0"),
        protocol: Protocol::Tcp,
        port: 80,
    };
    PodSpec {
        scheduler_name: Some(Symbol::new("default-scheduler")),
        request: request.clone(),
        fit_score_request: request.clone(),
        balanced_request: request.clone(),
        charged_request: request,
        charged_non_zero: NonZero {
            milli_cpu: cpu,
            memory: 1 << 30,
        },
        images: if class == 1 {
            Box::new([Symbol::new("app:v1")])
        } else {
            Box::default()
        },
        container_count: 1,
        preferred_node_affinity: (class == 2).then(|| vec![PreferredTerm { weight: 10, term }].into()),
        ports: if class == 3 {
            [port].into_iter().collect()
        } else {
            Default::default()
        },
        ..PodSpec::default()
    }
}

fn pod(cluster: &Cluster, uid: PodUid, spec: PodSpec) -> PodInfo {
    let namespace = Symbol::new("default");
    let (spec, class) = cluster.classes.classify(spec, namespace, &Labels::default());
    PodInfo {
        uid,
        uid_text: format!("{uid:?}").into(),
        resource_version: Box::default(),
        namespace,
        name: format!("p{}", uid.0).into(),
        labels: Labels::default(),
        charge: Arc::new(Charge {
            uid,
            class,
            priority: spec.priority,
            request: spec.charged_request.clone(),
            non_zero: spec.charged_non_zero,
            ports: spec.ports.clone(),
        }),
        spec,
        class,
        bound_to: None,
        nominated_node: None,
        gates: Box::default(),
        terminal: false,
        terminating: false,
        start_time_micros: None,
        created_micros: None,
        generation: 1,
        condition: None,
        preempted: false,
        claim_statuses: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_full(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
    }
}

#[test]
fn the_comparison_compares() {
    let mut world = World::new();
    for number in 0..NODES {
        world.step(&Step::Node {
            number,
            cpus: 8,
            tainted: number % 3 == 0,
            zone: number % 3,
            image: number % 2 == 0,
        });
    }
    for turn in 0..30_u8 {
        world.step(&Step::Schedule {
            class: turn % 5,
            random: u64::from(turn),
        });
    }
    assert!(world.checked > 20, "{}", world.checked);
    assert!(world.engine.stats().incremental > 20);
}
