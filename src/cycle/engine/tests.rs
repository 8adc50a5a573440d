//! Incremental = full: after any sequence of changes the engine finds the same feasible nodes, totals and winners as an
//! evaluation from scratch.

mod classes;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cluster::{Effect, Image, LabelVisibility, Labels, NodeSpec, Publisher, Taint};
use crate::cycle::full::{self, Outcome};
use crate::ids::{PodUid, Symbol};
use crate::ledger::{Capacity, Charge};
use crate::resources::Resources;
use crate::testing::{PodBuilder, pod, profile_of};
use crate::topology::{LatencyRow, LatencyTable, Source};

const NODES: u8 = 12;

/// Where a pod says whom it talks to.
const PEERS: [&str; 3] = ["metadata", "annotations", "network.supercargo.io/peers"];

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
    Foreign { number: u8, cpus: i64, class: u8 },
    /// A pod is nominated to a node, by number, for a while.
    Nominate { number: u8, cpus: i64, priority: i32 },
    /// The pod nominated the longest ago is not any more.
    Denominate,
    /// A latency between two zones changes.
    Latency { from: u8, to: u8, millis: u32 },
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
        8 => (0..CLASSES, any::<u64>()).prop_map(|(class, random)| Step::Schedule { class, random }),
        2 => Just(Step::Retire),
        2 => (number, 1..4_i64, 0..CLASSES).prop_map(|(number, cpus, class)| Step::Foreign { number, cpus, class }),
        2 => (0..NODES, 1..6_i64, -1..2_i32)
            .prop_map(|(number, cpus, priority)| Step::Nominate { number, cpus, priority }),
        1 => Just(Step::Denominate),
        1 => (0..3_u8, 0..3_u8, 0..100_u32).prop_map(|(from, to, millis)| Step::Latency { from, to, millis }),
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
    nominated: Vec<PodUid>,
    latencies: BTreeMap<(u8, u8), u32>,
    next: u32,
    checked: u32,
}

impl World {
    fn new() -> Self {
        Self::with(LabelVisibility::All)
    }

    fn with(visibility: LabelVisibility) -> Self {
        let cluster = Cluster::new([Symbol::new("default-scheduler")], visibility);
        let view = View::new(&cluster);
        Self {
            cluster,
            profile: profile_of(PROFILE),
            view,
            engine: Engine::default(),
            publisher: Publisher::default(),
            placed: Vec::new(),
            nominated: Vec::new(),
            latencies: BTreeMap::new(),
            next: 1,
            checked: 0,
        }
    }

    fn pod(&mut self, class: u8) -> Arc<PodInfo> {
        let name = format!("p{}", self.next);
        self.next += 1;
        template(class)
            .field(&["metadata", "name"], name.as_str())
            .uid(&name)
            .build_in(&self.cluster.classes)
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
                self.cluster.remove_pod(uid);
            }
            Step::Foreign { number, cpus, class } => {
                let pod = self.pod(*class);
                let charge = Charge {
                    request: Resources {
                        milli_cpu: cpus * 1000,
                        ..pod.charge.request.clone()
                    },
                    ..Charge::clone(&pod.charge)
                };
                self.cluster.apply_pod(PodInfo {
                    bound_to: Some(node_name(*number)),
                    charge: Arc::new(charge),
                    ..PodInfo::clone(&pod)
                });
            }
            Step::Nominate { number, cpus, priority } => self.nominate(*number, *cpus, *priority),
            Step::Denominate => {
                if !self.nominated.is_empty() {
                    self.cluster.remove_pod(self.nominated.remove(0));
                }
            }
            Step::Latency { from, to, millis } => {
                self.latencies.insert((*from, *to), *millis);
                self.cluster.network.set_source(source(&self.latencies));
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

    fn nominate(&mut self, number: u8, cpus: i64, priority: i32) {
        let name = format!("p{}", self.next);
        self.next += 1;
        let pod = template(0).field(&["metadata", "name"], name.as_str()).uid(&name);
        let pod = pod
            .cpu(cpus * 1000)
            .priority(priority)
            .nominated(node_name(number).as_str());
        let pod = pod.build_in(&self.cluster.classes);
        self.nominated.push(pod.uid);
        self.cluster.apply_pod(PodInfo::clone(&pod));
    }

    /// As the watch has it: the labels that the pod's own rules look at become visible, and pods classified before may
    /// get another class by that.
    fn schedule(&mut self, class: u8, random: u64) {
        let pod = self.pod(class);
        self.cluster.apply_pod(PodInfo::clone(&pod));
        let known = self.cluster.pod(pod.uid).unwrap();
        self.decide(&self.cluster.current(&known), random);
        if self.placed.last() != Some(&pod.uid) {
            self.cluster.remove_pod(pod.uid);
        }
    }

    fn decide(&mut self, pod: &Arc<PodInfo>, random: u64) {
        self.view.replay(&self.cluster);
        let answer = self.engine.best(
            &self.view,
            &self.cluster,
            &self.profile,
            pod,
            random,
            &mut self.profile.stopwatch(),
        );
        let view = self.view.cluster_view(&self.cluster);
        let expected = full::evaluate(&self.profile, &view, pod);
        let chosen = match (&answer, &expected.outcome) {
            (Answer::Unknown, Outcome::Best(winners)) => Some(winners[0]),
            (Answer::NoFit(Some(known)), Outcome::NoFit(diagnosis)) => {
                compare_reasons(&view, known, &expected, diagnosis);
                None
            }
            (Answer::Unknown | Answer::NoFit(None), Outcome::NoFit(_) | Outcome::NoNodes) => None,
            (Answer::Node(node, _), Outcome::Best(winners)) => {
                assert!(winners.contains(node), "{node:?} is none of {winners:?}");
                Some(*node)
            }
            (answer, expected) => panic!("the engine says {answer:?}, the full evaluation {expected:?}"),
        };
        if self.engine.is_indexed(self.profile.index, pod.class) {
            self.compare_totals(pod, &expected);
        }
        if let Some(node) = chosen {
            let incarnation = self.view.nodes().get(node).unwrap().incarnation;
            let checks = self.profile.reserve_checks(pod);
            self.cluster
                .ledger
                .reserve(&pod.charge, &checks, node, incarnation)
                .unwrap();
            self.placed.push(pod.uid);
        }
    }

    fn compare_totals(&mut self, pod: &PodInfo, expected: &Evaluation) {
        let class = self.engine.classes.get(&(self.profile.index, pod.class));
        let Some(Slot::Indexed(index)) = class.map(|class| &class.slot) else {
            return;
        };
        // What is counted for nominated pods is no part of the index.
        if index.grouped_by != 0 && !self.view.nominated_nodes().is_empty() {
            return;
        }
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

/// Every fifth node is in no zone.
fn labels(number: u8, zone: u8) -> Labels {
    let host = format!("h{number}");
    let zones = ["zone", "topology.kubernetes.io/zone"].map(|key| (key, format!("z{zone}")));
    let zones = zones.into_iter().filter(|_| !number.is_multiple_of(5));
    let hosts = [("host", host.clone()), ("kubernetes.io/hostname", host)];
    hosts.into_iter().chain(zones).collect()
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
        labels: labels(number, zone),
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

/// Every node has the same status, and the same plugins are to blame.
fn compare_reasons(
    view: &crate::cluster::ClusterView<'_>,
    known: &Evaluation,
    expected: &Evaluation,
    diagnosis: &crate::framework::Diagnosis,
) {
    for node in view.nodes.iter() {
        let (known, expected) = (known.statuses.get(node.idx), expected.statuses.get(node.idx));
        assert_eq!(known, expected, "{}", node.name);
    }
    let Outcome::NoFit(found) = &known.outcome else {
        panic!("{known:?}")
    };
    let blamed = |diagnosis: &crate::framework::Diagnosis| {
        let mut plugins = diagnosis.unschedulable_plugins.clone();
        plugins.sort_unstable();
        plugins
    };
    assert_eq!(blamed(found), blamed(diagnosis));
    let text = |diagnosis: &crate::framework::Diagnosis| {
        let error = crate::framework::FitError {
            node_count: view.nodes.len(),
            diagnosis: diagnosis.clone(),
            ..Default::default()
        };
        error.message()
    };
    assert_eq!(text(found), text(diagnosis));
}

/// All plugins of the default list and the one that counts latencies.
const PROFILE: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: TopologyAware
        weight: 3
  pluginConfig:
  - name: TopologyAware
    args: {scoreDivisor: 1}
";

/// What is known of the ways between zones.
fn source(latencies: &BTreeMap<(u8, u8), u32>) -> Source {
    let rows: Vec<LatencyRow> = latencies
        .iter()
        .map(|((from, to), millis)| LatencyRow {
            from: Symbol::new(&format!("z{from}")),
            to: Symbol::new(&format!("z{to}")),
            millis: f64::from(*millis),
        })
        .collect();
    let table = LatencyTable::new(&rows, true).unwrap();
    Source {
        name: Symbol::new("test"),
        rank: 0,
        tables: vec![(Symbol::new("topology.kubernetes.io/zone"), Arc::new(table))],
    }
}

/// Number of classes that [`template`] knows.
const CLASSES: u8 = 15;

/// Classes: plain, with an image, preferring a zone, with a host port, large; then those that look at other pods: apart
/// by zone, together by zone, spread over zones and nodes (hard), over zones, nodes and both (soft), near others, away
/// from others; then those that talk to others, by selector and by place.
fn template(class: u8) -> PodBuilder {
    let plain = pod("template").cpu(if class == 4 { 2500 } else { 500 }).memory_gi(1);
    let (a, b, c) = ([("app", "a")], [("app", "b")], [("app", "c")]);
    match class {
        1 => plain.image("app:v1"),
        2 => plain.prefer_node(10, "zone", "In", &["z1"]),
        3 => plain.host_port(80),
        5 => plain.label("app", "a").anti_affinity("zone", &a),
        6 => plain.label("app", "b").pod_affinity("zone", &b),
        7 => plain.label("app", "c").spread(1, "zone", "DoNotSchedule", &c),
        8 => plain.label("app", "c").spread(2, "host", "DoNotSchedule", &c),
        9 => plain.label("app", "c").spread(1, "zone", "ScheduleAnyway", &c),
        10 => plain
            .label("app", "b")
            .spread(1, "kubernetes.io/hostname", "ScheduleAnyway", &b),
        11 => plain.prefer_pods("podAffinity", 7, "zone", &c),
        12 => plain.label("app", "a").prefer_pods("podAntiAffinity", 9, "host", &b),
        13 => plain.label("app", "b").field(
            &PEERS,
            r#"[{"selector":{"app":"c"},"weight":2},{"selector":{"app":"a"}}]"#,
        ),
        14 => plain
            .label("app", "c")
            .field(&PEERS, r#"[{"selector":{"app":"b"},"maxLatencyMs":40},{"zone":"z1"}]"#),
        _ => plain,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_full(steps in steps(), shows_all in any::<bool>()) {
        let visibility = if shows_all {
            LabelVisibility::All
        } else {
            LabelVisibility::Keys(rustc_hash::FxHashSet::default())
        };
        let mut world = World::with(visibility);
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
    for turn in 0..60_u8 {
        world.step(&Step::Schedule {
            class: turn % CLASSES,
            random: u64::from(turn),
        });
    }
    assert!(world.checked > 20, "{}", world.checked);
    assert!(world.engine.stats().incremental > 20);
}
