//! Runs one plugin on a small cluster, for the plugins' tests.

use std::sync::Arc;

use supercargo_config::PluginArgs;

use crate::cluster::PodInfo;
use crate::framework::{
    ActionType, ClusterEvent, Code, CycleState, EventObject, EventResource, Handle, Plugin, PluginContext,
    QueueingHint, Status,
};
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};

/// The plugin with default args.
pub(super) fn plugin(name: &str) -> Arc<dyn Plugin> {
    make(name, None).unwrap()
}

/// The plugin with these args.
pub(super) fn plugin_with(name: &str, args: &PluginArgs) -> Arc<dyn Plugin> {
    make(name, Some(args)).unwrap()
}

/// The plugin, or what is wrong with its args.
pub(super) fn make(name: &str, args: Option<&PluginArgs>) -> Result<Arc<dyn Plugin>, String> {
    let context = PluginContext {
        scheduler_name: "default-scheduler",
        args,
        handle: Arc::new(Handle::default()),
    };
    let made = super::registry().make(name, &context).expect("a registered plugin");
    made.map_err(|error| error.to_string())
}

/// A node that offers milli-CPU and bytes of memory.
pub(super) fn sized(name: &str, milli_cpu: i64, memory: i64) -> NodeBuilder {
    node(name).cpu(milli_cpu).allocatable("memory", &memory.to_string())
}

/// A pod that requests milli-CPU and bytes of memory; -1 leaves one out.
pub(super) fn asking(name: &str, milli_cpu: i64, memory: i64) -> PodBuilder {
    let mut builder = pod(name);
    if milli_cpu >= 0 {
        builder = builder.cpu(milli_cpu);
    }
    if memory >= 0 {
        builder = builder.request("memory", &memory.to_string());
    }
    builder
}

/// Nodes with pods on them.
pub(super) fn world(nodes: &[NodeBuilder], pods: &[PodBuilder]) -> World {
    let mut world = World::default();
    for node in nodes {
        world.add_node(node.build());
    }
    for pod in pods {
        assert!(world.add_pod(&pod.build()), "the pod belongs to no node");
    }
    world
}

/// `fits`, or `U`, `UU` or `E` and the reasons.
pub(super) fn told(status: &Status) -> String {
    let code = match status.code {
        Code::Success => return "fits".to_owned(),
        Code::Skip => return "skip".to_owned(),
        Code::Unschedulable => "U",
        Code::UnschedulableAndUnresolvable => "UU",
        _ => "E",
    };
    format!("{code} {}", status.message())
}

/// What PreFilter says when it is not success, else what the filter says of every node.
pub(super) fn filter(plugin: &dyn Plugin, pod: &PodBuilder, world: &World) -> Vec<String> {
    let (pod, view) = (pod.build(), world.view());
    let mut state = CycleState::default();
    if let Some(pre_filter) = plugin.pre_filter() {
        let outcome = pre_filter.pre_filter_pod(&view, &mut state, &pod);
        if !outcome.status.is_success() {
            return vec![told(&outcome.status)];
        }
    }
    let filter = plugin.filter().expect("a filter");
    let nodes = view.nodes.iter();
    nodes
        .map(|node| told(&filter.filter_node(&view, &state, &pod, node)))
        .collect()
}

/// What PreFilter narrows the nodes to, sorted.
pub(super) fn narrowed(plugin: &dyn Plugin, pod: &PodBuilder) -> Option<Vec<&'static str>> {
    let world = World::default();
    let pre_filter = plugin.pre_filter().expect("a pre-filter");
    let outcome = pre_filter.pre_filter_pod(&world.view(), &mut CycleState::default(), &pod.build());
    let mut names: Vec<_> = outcome.nodes?.into_iter().map(crate::ids::Symbol::as_str).collect();
    names.sort_unstable();
    Some(names)
}

/// The normalised scores of all nodes; empty: PreScore skipped.
pub(super) fn scores(plugin: &dyn Plugin, pod: &PodBuilder, world: &World) -> Result<Vec<i64>, String> {
    let (pod, view) = (pod.build(), world.view());
    let mut state = CycleState::default();
    let all: Vec<_> = view.nodes.iter().map(|node| node.idx).collect();
    if let Some(pre_score) = plugin.pre_score() {
        let status = pre_score.pre_score_pod(&view, &mut state, &pod, &all);
        match status.code {
            Code::Success => {}
            Code::Skip => return Ok(Vec::new()),
            _ => return Err(told(&status)),
        }
    }
    let score = plugin.score().expect("a score");
    let raw = view
        .nodes
        .iter()
        .map(|node| score.score_node(&view, &state, &pod, node));
    let mut scores: Vec<i64> = raw.collect::<Result<_, _>>().map_err(|status| told(&status))?;
    if let Some(normalizer) = score.normalizer() {
        assert!(normalizer.normalize(&state, &pod, &mut scores).is_success());
    }
    Ok(scores)
}

/// What the plugin's hint says about an event; `None`: it is not registered for it.
pub(super) fn hint(
    plugin: &dyn Plugin,
    pod: &PodBuilder,
    resource: EventResource,
    action: ActionType,
    object: &EventObject,
) -> Option<QueueingHint> {
    let event = ClusterEvent::new(resource, action);
    let hints = plugin.events()?;
    let registered = hints.iter().find(|hint| hint.event.matches(event))?;
    match &registered.hint {
        None => Some(QueueingHint::Queue),
        Some(hint) => Some(hint(&pod.build(), object).expect("an object that suits the event")),
    }
}

/// The event's object for a pod that was deleted.
pub(super) fn deleted(pod: &PodBuilder) -> EventObject {
    EventObject::Pod {
        old: Some(pod.build()),
        new: None,
    }
}

/// The event's object for a pod that changed.
pub(super) fn updated(old: &PodBuilder, new: &PodBuilder) -> EventObject {
    EventObject::Pod {
        old: Some(old.build()),
        new: Some(new.build()),
    }
}

/// The event's object for a node that came or changed.
pub(super) fn node_event(old: Option<&NodeBuilder>, new: &NodeBuilder) -> EventObject {
    EventObject::Node {
        old: old.map(NodeBuilder::build),
        new: Some(new.build()),
    }
}

/// Nothing but the pod: what most plugins read of it beside its spec.
#[test]
fn no_plugin_of_this_release_reads_labels_of_pods() {
    use crate::framework::LabelsRead;
    let catalogue = supercargo_config::PluginCatalogue::in_tree();
    for name in supercargo_config::plugins::PluginLookup::names(&catalogue) {
        assert_eq!(plugin(&name).labels_read(), LabelsRead::Keys(Vec::new()), "{name}");
    }
}

/// A pod as plugins see it, for single calls.
pub(super) fn built(builder: &PodBuilder) -> Arc<PodInfo> {
    builder.build()
}
