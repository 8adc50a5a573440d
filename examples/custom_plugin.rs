//! A scheduler with a plugin of your own, which filters and scores nodes by how far away maintenance is.
//!
//! Nodes carry the label `example.com/maintenance-in-hours`. Pods in the namespaces listed in the plugin's args fit only
//! nodes whose maintenance is at least `leastHours` away, and prefer those where it is furthest. This is a whole
//! scheduler, with every flag and command of Supercargo:
//!
//! ```text
//! cargo run --example custom_plugin -- --help
//! cargo run --example custom_plugin -- config check examples/custom_plugin.yaml
//! cargo run --example custom_plugin -- demo --config examples/custom_plugin.yaml
//! cargo run --example custom_plugin -- --config FILE      # schedules on the cluster that the file names
//! ```
//!
//! What it takes:
//!
//! 1. a type that implements [`Plugin`] and the trait of each extension point it takes part in;
//! 2. [`Command::with_plugin`], which adds it under a name to the in-tree plugins;
//! 3. a configuration that enables the name and gives it args (`examples/custom_plugin.yaml`).
//!
//! A plugin says what its answers rest on ([`Reads`]), so that they are kept until that changes. Here that is the
//! node's object alone, so a placement on a node computes nothing again.

use std::process::ExitCode;
use std::sync::Arc;

use supercargo::cluster::{ClusterView, NodeInfo, PodInfo};
use supercargo::command::{Command, ExtensionPoint, PluginArgs};
use supercargo::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, NormalizeScore, Plugin, PluginContext, Reads,
    Score, Status,
};
use supercargo::ids::Symbol;

const NAME: &str = "MaintenanceWindow";

/// The allocator that the measured speed rests on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command().main()
}

/// Supercargo and our plugin.
fn command() -> Command {
    let points = [ExtensionPoint::Filter, ExtensionPoint::Score];
    Command::new().with_plugin(NAME, &points, |context: &PluginContext<'_>| {
        Ok(Arc::new(MaintenanceWindow::from_args(context.args)?))
    })
}

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

#[cfg(test)]
mod tests {
    use supercargo::cycle::full::{Evaluation, Outcome, evaluate};
    use supercargo::framework::{Handle, Profiles};
    use supercargo::testing::{World, node, pod};
    use supercargo_config::{Loaded, Loader};

    use super::*;

    const HOURS: [(&str, &str); 3] = [("node-a", "12"), ("node-b", "48"), ("node-c", "240")];

    fn configuration(command: &Command) -> Loaded {
        let loader = Loader::new(command.catalogue());
        loader
            .load_str("custom_plugin.yaml", include_str!("custom_plugin.yaml"))
            .unwrap()
    }

    fn world() -> World {
        let mut world = World::default();
        for (name, hours) in HOURS {
            let node = node(name).cpu(4000).memory_gi(8);
            world.add_node(node.label("example.com/maintenance-in-hours", hours).build());
        }
        world
    }

    /// Evaluates one pod.
    fn decide(world: &World, namespace: &str) -> Evaluation {
        let command = command();
        let configuration = configuration(&command).configuration;
        let profiles = Profiles::build(&configuration, command.registry(), &Arc::new(Handle::default())).unwrap();
        let pod = pod("db-0").namespace(namespace).cpu(500).memory_gi(1).build();
        let profile = pod.spec.scheduler_name.and_then(|name| profiles.get(name)).unwrap();
        evaluate(profile, &world.view(), &pod)
    }

    /// Names of the best nodes.
    fn best<'w>(world: &'w World, evaluation: &Evaluation) -> Vec<&'w str> {
        let Outcome::Best(nodes) = &evaluation.outcome else {
            return Vec::new();
        };
        let found = nodes.iter().filter_map(|idx| world.nodes().get(*idx));
        found.map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn databases_avoid_nodes_that_go_into_maintenance_soon() {
        let world = world();
        let evaluation = decide(&world, "databases");
        assert_eq!(best(&world, &evaluation), ["node-c"]);
        let rejected = evaluation.statuses.explicit.iter().map(|(_, s)| s.to_string());
        let rejected: Vec<String> = rejected.collect();
        assert_eq!(rejected, ["Unschedulable: node(s) go into maintenance too soon"]);
    }

    #[test]
    fn other_pods_fit_everywhere() {
        let world = world();
        let evaluation = decide(&world, "web");
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

    /// The whole scheduler on the embedded API server.
    #[cfg(feature = "demo")]
    mod running {
        use std::time::Duration;

        use serde_json::{Value, json};
        use supercargo::client::{ClientOptions, ClientSet, Source};
        use supercargo::scheduler::{Scheduler, SchedulerOptions, metrics_for};
        use supercargo::telemetry::Exposition;
        use supercargo_apiserver::store::{Store, WatchBatch, WatchStart};
        use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
        use supercargo_config::FeatureGates;

        use super::*;

        const PATIENCE: Duration = Duration::from_secs(60);

        async fn start(server: &ServerHandle) -> Scheduler {
            let command = command();
            let loaded = configuration(&command);
            let gates = FeatureGates::default();
            let registry = command.registry().clone();
            let metrics = metrics_for(&loaded.configuration, &registry, &gates, Exposition::default()).unwrap();
            let client_options = ClientOptions {
                source: Source::Address(server.url()),
                rate: None,
                binds_in_flight: 4,
            };
            let clients = ClientSet::new(&client_options, Some(&metrics)).unwrap();
            let options = SchedulerOptions {
                configuration: loaded.configuration,
                settings: loaded.settings.unwrap_or_default(),
                registry,
                max_in_unschedulable: Duration::from_secs(300),
                may_act: Arc::new(|| true),
                async_preemption: true,
            };
            let scheduler = Scheduler::new(options, clients, metrics).unwrap();
            scheduler.start_caches().unwrap();
            scheduler.synced().await;
            scheduler.start_scheduling().unwrap();
            scheduler
        }

        fn create_nodes(store: &Store) {
            let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
            for (name, hours) in HOURS {
                let labels = json!({"kubernetes.io/hostname": name, "example.com/maintenance-in-hours": hours});
                let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "status": {"capacity": room, "allocatable": room}});
                store.create_as("", "nodes", "", node).unwrap();
            }
        }

        fn create_pod(store: &Store, name: &str, node_selector: &Value) {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "databases"},
                "spec": {"containers": [{"name": "db", "image": "db"}], "nodeSelector": node_selector}});
            store.create_as("", "pods", "databases", pod).unwrap();
        }

        /// Follows the pod until `found` finds what it looks for.
        async fn until<T>(store: &Store, name: &str, found: impl Fn(&Value) -> Option<T>) -> T {
            let mut watcher = store.watch("", "pods", WatchStart::Existing).unwrap();
            let search = async {
                while let Some(batch) = watcher.next().await.unwrap() {
                    let WatchBatch::Events(items) = batch else { continue };
                    let pods = items.iter().map(|item| item.object.value());
                    if let Some(value) = pods
                        .filter(|pod| pod["metadata"]["name"] == name)
                        .find_map(|pod| found(&pod))
                    {
                        return value;
                    }
                }
                panic!("the watch has ended");
            };
            tokio::time::timeout(PATIENCE, search).await.unwrap()
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn the_plugin_decides_in_a_running_scheduler() {
            let server = Server::start(ServerConfig::default()).await.unwrap();
            server.store().create_namespace("databases").unwrap();
            create_nodes(server.store());
            let scheduler = start(&server).await;
            create_pod(server.store(), "anywhere", &json!({}));
            create_pod(server.store(), "tied", &json!({"kubernetes.io/hostname": "node-a"}));
            let node = until(server.store(), "anywhere", |pod| {
                pod["spec"]["nodeName"].as_str().map(str::to_owned)
            });
            assert_eq!(node.await, "node-c");
            let message = until(server.store(), "tied", |pod| {
                pod["status"]["conditions"][0]["message"].as_str().map(str::to_owned)
            });
            let message = message.await;
            assert!(message.contains("1 node(s) go into maintenance too soon"), "{message}");
            scheduler.stop(PATIENCE).await;
            server.stop().await;
        }
    }
}
