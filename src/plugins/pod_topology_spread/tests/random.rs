//! Counts that follow single changes are those of a count from scratch; trials find the domain that upstream finds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::hard::HardState;
use super::super::soft::SoftState;
use super::support::*;
use crate::cluster::{PodClass, PodInfo};
use crate::framework::{CycleState, DomainKey, Plugin};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::check::built;
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};

const KEYS: [&str; 3] = [ZONE, "rack", HOST];

/// Zone, rack (0: no label), tainted.
type RandomNode = (u8, u8, bool);

fn make_node(at: usize, (zone, rack, tainted): RandomNode) -> NodeBuilder {
    let mut made = node(&format!("n{at}"));
    for (key, value) in [(ZONE, zone), ("rack", rack)] {
        if value > 0 {
            made = made.label(key, &value.to_string());
        }
    }
    if tainted {
        made.taint("k", "v", "NoSchedule")
    } else {
        made
    }
}

/// Key, hard, skew, selector, honours affinity, honours taints.
type RandomConstraint = (usize, bool, i32, usize, bool, bool);

fn make_constraint((key, is_hard, skew, selector, affinity, taints): RandomConstraint) -> Value {
    let when = if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" };
    let policy = |honor| if honor { "Honor" } else { "Ignore" };
    let selectors = [
        json!({"matchLabels": {"app": "x"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        json!({}),
    ];
    json!({
        "maxSkew": skew, "topologyKey": KEYS[key], "whenUnsatisfiable": when, "labelSelector": selectors[selector],
        "nodeAffinityPolicy": policy(affinity), "nodeTaintsPolicy": policy(taints), "minDomains": if is_hard { json!(2) } else { Value::Null },
    })
}

/// What comes or goes: of six kinds, which differ in label, namespace and whether they terminate.
fn make_pod(kind: usize, serial: usize) -> PodBuilder {
    let made = pod(&format!("q{serial}"));
    match kind {
        0 => made.label("app", "x"),
        1 => made.label("app", "y"),
        2 => made,
        3 => made.label("app", "x").namespace("other"),
        4 => made.label("app", "x").terminating(),
        _ => made.label("app", "x").priority(5),
    }
}

fn class_of(pod: &PodInfo) -> PodClass {
    PodClass {
        id: pod.class,
        namespace: pod.namespace,
        labels: pod.labels.clone(),
        spec: std::sync::Arc::clone(&pod.spec),
        terminating: pod.terminating,
    }
}

fn from_scratch(plugin: &dyn Plugin, pod: &PodInfo, world: &World) -> CycleState {
    let view = world.view();
    let mut state = CycleState::default();
    let outcome = plugin.pre_filter().unwrap().pre_filter_pod(&view, &mut state, pod);
    assert!(outcome.status.is_success() || outcome.status.is_skip());
    let filter = plugin.filter().unwrap();
    let feasible = view
        .nodes
        .iter()
        .filter(|node| filter.filter_node(&view, &state, pod, node).is_success());
    let feasible: Vec<NodeIdx> = feasible.map(|node| node.idx).collect();
    let status = plugin
        .pre_score()
        .unwrap()
        .pre_score_pod(&view, &mut state, pod, &feasible);
    assert!(status.is_success() || status.is_skip());
    state
}

/// All that the plugin says of every node, and the counts behind it.
fn picture(
    plugin: &dyn Plugin,
    pod: &PodInfo,
    world: &World,
    state: &CycleState,
) -> impl PartialEq + std::fmt::Debug + use<> {
    let view = world.view();
    let says = |node| {
        let status = plugin.filter().unwrap().filter_node(&view, state, pod, node);
        let score = plugin.score().unwrap().score_node(&view, state, pod, node).unwrap();
        (status, score)
    };
    let nodes: Vec<_> = view.nodes.iter().map(says).collect();
    let hard = state.read::<HardState>().map(HardState::picture);
    (nodes, hard, state.read::<SoftState>().map(SoftState::picture))
}

/// Weighs by groups of nodes with equal keys, which must get equal answers.
fn weigh_groups(plugin: &dyn Plugin, pod: &PodInfo, world: &World, state: &mut CycleState) {
    let (view, counts) = (world.view(), plugin.domain_counts().unwrap());
    let key_of = |state: &CycleState, node| {
        let mut key = DomainKey::new();
        counts.domains(state, pod, node, &mut key);
        key
    };
    let filter = plugin.filter().unwrap();
    let mut groups: BTreeMap<DomainKey, (NodeIdx, usize)> = BTreeMap::new();
    for node in view.nodes.iter() {
        let group = groups.entry(key_of(state, node)).or_insert((node.idx, 0));
        group.1 += 1;
        let first = view.nodes.get(group.0).unwrap();
        let verdict = |node| filter.filter_node(&view, state, pod, node);
        assert_eq!(verdict(first), verdict(node), "nodes of one key");
    }
    let fits = |(node, _): &(NodeIdx, usize)| {
        let node = view.nodes.get(*node).unwrap();
        filter.filter_node(&view, state, pod, node).is_success()
    };
    let open: Vec<_> = groups.values().copied().filter(fits).collect();
    assert!(counts.weigh(&view, state, pod, &open));
    for node in view.nodes.iter() {
        let first = view.nodes.get(groups[&key_of(state, node)].0).unwrap();
        let score = |node| plugin.score().unwrap().score_node(&view, state, pod, node);
        assert_eq!(score(first), score(node), "nodes of one key");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn counting_change_by_change_is_counting_from_scratch(
        nodes in prop::collection::vec((0..3_u8, 0..4_u8, any::<bool>()), 1..8),
        constraints in prop::collection::vec((0..3_usize, any::<bool>(), 1..3_i32, 0..3_usize, any::<bool>(), any::<bool>()), 1..4),
        selects_rack in any::<bool>(),
        steps in prop::collection::vec((0..6_usize, 0..8_usize, any::<bool>()), 1..40),
    ) {
        let plugin = spread();
        let mut world = World::default();
        for (at, random) in nodes.iter().enumerate() {
            world.add_node(make_node(at, *random).build());
        }
        let mut waiting = constraints.iter().fold(own(), |pod, random| pod.spread_as(make_constraint(*random)));
        if selects_rack {
            waiting = waiting.require_node("rack", "In", &["1", "2"]);
        }
        let waiting = built(&waiting);
        let mut state = from_scratch(&*plugin, &waiting, &world);
        let counts = plugin.domain_counts().unwrap();
        let mut there: Vec<(std::sync::Arc<PodInfo>, Symbol)> = Vec::new();
        for (serial, (kind, on, comes)) in steps.into_iter().enumerate() {
            let (moved, name, by) = if comes || there.is_empty() {
                let name = Symbol::new(&format!("n{}", on % nodes.len()));
                let coming = built(&make_pod(kind, serial));
                assert!(world.assume(&coming, name));
                there.push((std::sync::Arc::clone(&coming), name));
                (coming, name, 1)
            } else {
                let (going, name) = there.swap_remove(on % there.len());
                assert!(world.remove(&going, name));
                (going, name, -1)
            };
            let view = world.view();
            let node = view.nodes.get(view.nodes.find(name).unwrap()).unwrap();
            let class = class_of(&moved);
            if counts.concerns(&view, &waiting, &class) {
                prop_assert!(counts.count(&view, &mut state, &waiting, &class, node, by));
            }
            weigh_groups(&*plugin, &waiting, &world, &mut state);
            let fresh = from_scratch(&*plugin, &waiting, &world);
            prop_assert_eq!(picture(&*plugin, &waiting, &world, &state), picture(&*plugin, &waiting, &world, &fresh));
        }
    }

    #[test]
    fn a_trial_on_one_node_finds_the_lowest_domain_that_upstream_finds(
        counts in prop::collection::vec(0..4_usize, 1..6),
        changed in 0..6_usize,
        steps in prop::collection::vec(any::<bool>(), 1..12),
    ) {
        let plugin = spread();
        let names: Vec<String> = (0..counts.len()).map(|at| format!("n{at}")).collect();
        let nodes: Vec<NodeBuilder> = names.iter().map(|name| node(name)).collect();
        let on: Vec<(&str, usize)> = names.iter().map(String::as_str).zip(counts.iter().copied()).collect();
        let world = crate::plugins::check::world(&nodes, &placed(&on));
        let waiting = own().spread_as(hard(1, HOST));
        let mut state = prepared(&*plugin, &waiting, &world);
        let changed = changed % counts.len();
        let mut upstream = TwoLowest::default();
        for (at, count) in counts.iter().enumerate() {
            upstream.update(at, i64::try_from(*count).unwrap());
        }
        let mut here = i64::try_from(counts[changed]).unwrap();
        let target = world.nodes().get(world.idx(&names[changed]).unwrap()).unwrap();
        let extensions = plugin.pre_filter().unwrap().extensions().unwrap();
        let moved = built(&own());
        for comes in steps {
            let status = if comes {
                extensions.add_pod(&mut state, &built(&waiting), &moved, target)
            } else {
                extensions.remove_pod(&mut state, &built(&waiting), &moved, target)
            };
            prop_assert!(status.is_success());
            here += if comes { 1 } else { -1 };
            upstream.update(changed, here);
            let pictures = state.read::<HardState>().unwrap().picture();
            let (by_domain, lowest) = &pictures[0];
            prop_assert_eq!(by_domain[names[changed].as_str()], here);
            prop_assert_eq!(*lowest, upstream.lowest());
        }
    }
}

/// How upstream follows the lowest domain: two domains with their counts, the lower one first.
#[derive(Default)]
struct TwoLowest(Vec<(usize, i64)>);

impl TwoLowest {
    fn update(&mut self, domain: usize, count: i64) {
        match self.0.iter_mut().find(|(have, _)| *have == domain) {
            Some(have) => have.1 = count,
            None => {
                let at = self
                    .0
                    .iter()
                    .position(|(_, have)| count < *have)
                    .unwrap_or(self.0.len());
                self.0.insert(at, (domain, count));
                self.0.truncate(2);
            }
        }
        self.0.sort_by_key(|(_, count)| *count);
    }

    fn lowest(&self) -> i64 {
        self.0[0].1
    }
}
