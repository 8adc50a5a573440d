//! A plugin of your own: filters and scores nodes by how far away maintenance is.
//!
//! Nodes carry the label `example.com/maintenance-in-hours`. Pods in the namespaces listed in the plugin's args fit only
//! nodes whose maintenance is at least `leastHours` away, and prefer those where it is furthest. Run it with
//!
//! ```text
//! cargo run --example custom_plugin
//! ```
//!
//! What it takes:
//!
//! 1. a type that implements [`Plugin`] and the trait of each extension point it takes part in;
//! 2. a registration under a name in a [`Registry`], next to the in-tree plugins;
//! 3. a configuration that enables the name and gives it args.
//!
//! A plugin says what its answers rest on ([`Reads`]), so that they are kept until that changes. Here that is the
//! node's object alone, so a placement on a node computes nothing again.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use supercargo::cluster::{ClusterView, NodeInfo, PodInfo};
use supercargo::cycle::full::{Evaluation, Outcome, evaluate};
use supercargo::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, Handle, LabelsRead, NormalizeScore, Plugin,
    PluginContext, Profiles, Reads, Registry, Score, Status,
};
use supercargo::ids::Symbol;
use supercargo::plugins;
use supercargo::testing::{World, node, pod};
use supercargo_config::{ExtensionPoint, Loader, PluginArgs, PluginCatalogue};

const NAME: &str = "MaintenanceWindow";

const CONFIGURATION: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: MaintenanceWindow
        weight: 5
  pluginConfig:
  - name: MaintenanceWindow
    args:
      leastHours: 24
      namespaces: [databases]
";

/// The plugin: everything that it needs on the way of a pod is prepared when it is made.
struct MaintenanceWindow {
    name: Symbol,
    label: Symbol,
    too_soon: Symbol,
    least_hours: i64,
    namespaces: Vec<Symbol>,
}

impl MaintenanceWindow {
    /// Makes it from its args; an error ends the start of the scheduler with its text.
    fn from_args(args: Option<&PluginArgs>) -> Result<Self, String> {
        let Some(PluginArgs::Raw(args)) = args else {
            return Err("args are required".to_owned());
        };
        let least_hours = args["leastHours"]
            .as_i64()
            .ok_or("leastHours: expected a whole number")?;
        let namespaces = args["namespaces"].as_array().ok_or("namespaces: expected a list")?;
        let namespaces = namespaces.iter().map(|name| name.as_str().map(Symbol::new));
        Ok(Self {
            name: Symbol::new(NAME),
            label: Symbol::new("example.com/maintenance-in-hours"),
            too_soon: Symbol::new("node(s) go into maintenance too soon"),
            least_hours,
            namespaces: namespaces.collect::<Option<_>>().ok_or("namespaces: expected texts")?,
        })
    }

    /// Hours until the node's maintenance; a node without the label has none ahead.
    fn hours(&self, node: &NodeInfo) -> i64 {
        let label = node.label(self.label);
        label.and_then(|hours| hours.as_str().parse().ok()).unwrap_or(i64::MAX)
    }
}

impl Plugin for MaintenanceWindow {
    fn name(&self) -> Symbol {
        self.name
    }

    /// It looks at no labels of pods, so that pods which differ in their labels alone share its answers.
    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    /// A pod that it rejected is worth another try when a node comes or gets other labels.
    fn events(&self) -> Option<Vec<EventHint>> {
        let action = ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL);
        Some(vec![EventHint::always(EventResource::Node, action)])
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl Filter for MaintenanceWindow {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if self.namespaces.contains(&pod.namespace) && self.hours(node) < self.least_hours {
            Status::unschedulable(self.too_soon)
        } else {
            Status::SUCCESS
        }
    }
}

impl Score for MaintenanceWindow {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    /// Days until maintenance, at most 100.
    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        Ok((self.hours(node) / 24).min(100))
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(self)
    }
}

impl NormalizeScore for MaintenanceWindow {
    /// A score's normalised value depends on nothing but the scores that occur.
    fn by_value(&self) -> bool {
        true
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [i64]) -> Status {
        let longest = scores.iter().copied().max().unwrap_or(0).max(1);
        for score in scores {
            *score = *score * 100 / longest;
        }
        Status::SUCCESS
    }
}

/// The in-tree plugins and ours.
fn registry() -> anyhow::Result<Registry> {
    let mut registry = plugins::registry();
    registry.register(NAME, |context: &PluginContext<'_>| {
        Ok(Arc::new(MaintenanceWindow::from_args(context.args)?))
    })?;
    Ok(registry)
}

/// Evaluates one pod on a cluster of three nodes.
fn decide(world: &World, namespace: &str) -> anyhow::Result<Evaluation> {
    let catalogue = PluginCatalogue::in_tree().with(NAME, &[ExtensionPoint::Filter, ExtensionPoint::Score]);
    let loaded = Loader::new(&catalogue).load_str("configuration", CONFIGURATION)?;
    let profiles = Profiles::build(&loaded.configuration, &registry()?, &Arc::new(Handle::default()))?;
    let pod = pod("db-0").namespace(namespace).cpu(500).memory_gi(1).build();
    let profile = pod.spec.scheduler_name.and_then(|name| profiles.get(name));
    let profile = profile.context("the pod belongs to no profile")?;
    Ok(evaluate(profile, &world.view(), &pod))
}

fn world() -> World {
    let mut world = World::default();
    for (name, hours) in [("node-a", "12"), ("node-b", "48"), ("node-c", "240")] {
        let node = node(name).cpu(4000).memory_gi(8);
        world.add_node(node.label("example.com/maintenance-in-hours", hours).build());
    }
    world
}

/// Names of the best nodes.
fn best<'w>(world: &'w World, evaluation: &Evaluation) -> Vec<&'w str> {
    let Outcome::Best(nodes) = &evaluation.outcome else {
        return Vec::new();
    };
    let found = nodes.iter().filter_map(|idx| world.nodes().get(*idx));
    found.map(|node| node.name.as_str()).collect()
}

fn main() -> anyhow::Result<()> {
    let world = world();
    let evaluation = decide(&world, "databases")?;
    let mut out = std::io::stdout().lock();
    for node in world.nodes().iter() {
        let status = evaluation.statuses.explicit.iter().find(|(idx, _)| *idx == node.idx);
        let said = status.map_or_else(|| "fits".to_owned(), |(_, status)| status.to_string());
        writeln!(out, "{}: {said}", node.name)?;
    }
    let best = best(&world, &evaluation);
    if best.is_empty() {
        bail!("the pod fits nowhere: {:?}", evaluation.outcome);
    }
    writeln!(out, "the pod goes to {}", best.join(" or "))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_avoid_nodes_that_go_into_maintenance_soon() {
        let world = world();
        let evaluation = decide(&world, "databases").unwrap();
        assert_eq!(best(&world, &evaluation), ["node-c"]);
        let rejected: Vec<String> = evaluation
            .statuses
            .explicit
            .iter()
            .map(|(_, s)| s.to_string())
            .collect();
        assert_eq!(rejected, ["Unschedulable: node(s) go into maintenance too soon"]);
    }

    #[test]
    fn other_pods_fit_everywhere() {
        let world = world();
        let evaluation = decide(&world, "web").unwrap();
        assert!(evaluation.statuses.explicit.is_empty());
        assert_eq!(best(&world, &evaluation), ["node-c"]);
    }

    #[test]
    fn args_are_checked() {
        let args = PluginArgs::Raw(serde_json::json!({"leastHours": "many"}));
        let error = MaintenanceWindow::from_args(Some(&args)).err();
        assert_eq!(error.as_deref(), Some("leastHours: expected a whole number"));
        assert!(MaintenanceWindow::from_args(None).is_err());
    }
}
