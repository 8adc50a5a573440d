//! Zones `zone1` (nodes a and b) and `zone2` (x and y), and pods labelled `app=x` on them.

use std::sync::Arc;

use serde_json::{Value, json};
use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::{PodTopologySpreadArgs, SpreadConstraint, SpreadDefaulting, WhenUnsatisfiable};

use crate::cluster::{OwnerKind, OwnerRef, OwnerSelector, ServiceSelector};
use crate::framework::{CycleState, Plugin, PreFilter, Score};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::check::{plugin_with, world};
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};

pub(super) const ZONE: &str = "zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

pub(super) fn spread() -> Arc<dyn Plugin> {
    crate::plugins::check::plugin("PodTopologySpread")
}

/// The plugin with default constraints of skew 1 and this kind, by key.
pub(super) fn spread_by_default(keys: &[&str], when_unsatisfiable: WhenUnsatisfiable) -> Arc<dyn Plugin> {
    let constraint = |key: &&str| SpreadConstraint {
        max_skew: 1,
        topology_key: (*key).to_owned(),
        when_unsatisfiable,
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    };
    let defaulting = SpreadDefaulting::List(keys.iter().map(constraint).collect());
    let args = PluginArgs::PodTopologySpread(PodTopologySpreadArgs { defaulting });
    plugin_with("PodTopologySpread", &args)
}

pub(super) fn nodes() -> [NodeBuilder; 4] {
    [("a", "zone1"), ("b", "zone1"), ("x", "zone2"), ("y", "zone2")].map(|(name, zone)| node(name).label(ZONE, zone))
}

/// That many pods labelled `app=x` on each node.
pub(super) fn placed(counts: &[(&str, usize)]) -> Vec<PodBuilder> {
    labelled("app", "x", counts)
}

/// That many pods with this label on each node.
pub(super) fn labelled(key: &str, value: &str, counts: &[(&str, usize)]) -> Vec<PodBuilder> {
    let on = |(node, count): &(&str, usize)| {
        let (node, count) = ((*node).to_owned(), *count);
        (0..count).map(move |at| (node.clone(), at))
    };
    let pods = counts.iter().flat_map(on);
    pods.map(|(node, at)| pod(&format!("{key}-{value}-{node}-{at}")).label(key, value).on(&node))
        .collect()
}

/// A constraint on pods labelled `app=x`.
pub(super) fn constraint(when: &str, max_skew: i32, key: &str) -> Value {
    json!({
        "maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
    })
}

pub(super) fn hard(max_skew: i32, key: &str) -> Value {
    constraint("DoNotSchedule", max_skew, key)
}

pub(super) fn soft(max_skew: i32, key: &str) -> Value {
    constraint("ScheduleAnyway", max_skew, key)
}

/// The constraint with more fields.
pub(super) fn with(mut constraint: Value, fields: &[(&str, Value)]) -> Value {
    for (name, value) in fields {
        constraint[*name] = value.clone();
    }
    constraint
}

/// A pod labelled `app=x`.
pub(super) fn own() -> PodBuilder {
    pod("p").label("app", "x")
}

/// `fits`, `U` or `UU` for every node, in their order.
pub(super) fn codes(pod: &PodBuilder, nodes: &[NodeBuilder], pods: &[PodBuilder]) -> String {
    codes_in(&*spread(), pod, &world(nodes, pods))
}

pub(super) fn codes_in(plugin: &dyn Plugin, pod: &PodBuilder, world: &World) -> String {
    let told = crate::plugins::check::filter(plugin, pod, world);
    let codes = told.iter().map(|text| text.split(' ').next().unwrap_or_default());
    codes.collect::<Vec<_>>().join(" ")
}

/// Normalised scores of the nodes named in `feasible`; none: there is nothing to score.
pub(super) fn scores(pod: &PodBuilder, world: &World, feasible: &[&str]) -> Option<Vec<i64>> {
    scores_with(&*spread(), pod, world, feasible)
}

pub(super) fn scores_with(plugin: &dyn Plugin, pod: &PodBuilder, world: &World, feasible: &[&str]) -> Option<Vec<i64>> {
    let (pod, view) = (pod.build(), world.view());
    let mut state = CycleState::default();
    let feasible: Vec<NodeIdx> = feasible.iter().map(|name| world.idx(name).unwrap()).collect();
    let status = plugin
        .pre_score()
        .unwrap()
        .pre_score_pod(&view, &mut state, &pod, &feasible);
    if status.is_skip() {
        return None;
    }
    assert!(status.is_success(), "{status}");
    let score: &dyn Score = plugin.score().unwrap();
    let raw = feasible
        .iter()
        .map(|idx| score.score_node(&view, &state, &pod, view.nodes.get(*idx).unwrap()));
    let mut scores: Vec<i64> = raw.collect::<Result<_, _>>().unwrap();
    assert!(
        score
            .normalizer()
            .unwrap()
            .normalize(&state, &pod, &mut scores)
            .is_success()
    );
    Some(scores)
}

/// State after PreFilter.
pub(super) fn prepared(plugin: &dyn Plugin, pod: &PodBuilder, world: &World) -> CycleState {
    let pre_filter: &dyn PreFilter = plugin.pre_filter().unwrap();
    let mut state = CycleState::default();
    let outcome = pre_filter.pre_filter_pod(&world.view(), &mut state, &pod.build());
    assert!(outcome.status.is_success(), "{}", outcome.status);
    state
}

pub(super) fn put_service(world: &World, name: &str, selector: Option<&[(&str, &str)]>) {
    world.owners().put_service(ServiceSelector {
        namespace: Symbol::new("default"),
        name: name.into(),
        selector: selector.map(|pairs| pairs.iter().copied().collect()),
    });
}

pub(super) fn put_owner(world: &World, kind: OwnerKind, name: &str, labels: &[(&str, &str)]) {
    world.owners().put_controller(OwnerSelector {
        namespace: Symbol::new("default"),
        owner: OwnerRef {
            kind,
            name: Symbol::new(name),
        },
        selector: crate::cluster::LabelSelector::compile(labels, &[]).unwrap(),
    });
}
