//! A scheduler with many workers on an embedded API server, and a plugin that notes the order of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
use supercargo_config::plugins::EnabledPlugin;
use supercargo_config::{FeatureGates, Loader, PluginCatalogue, Settings};

use super::judge::{Shape, Want};
use crate::client::{ClientOptions, ClientSet, Source};
use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{CycleState, EventHint, LabelsRead, Permit, Plugin, Reserve, Status};
use crate::ids::Symbol;
use crate::queue::PendingCounts;
use crate::scheduler::{Scheduler, SchedulerOptions, metrics_for};
use crate::sync::Mutex;
use crate::telemetry::Exposition;
use crate::testing::{PodBuilder, node, pod};

/// The longest wait for one thing; a passing test waits for milliseconds.
const PATIENCE: Duration = Duration::from_secs(90);
const WORKERS: usize = 8;

/// Pods and the nodes that were reserved for them, in order.
type Commits = Arc<Mutex<Vec<(String, Symbol)>>>;

/// A pod whose first cycle panics at Permit.
pub(super) const PANICKY: &str = "panicky";

/// Notes commits; a pod that gives its node back is struck out.
struct Recorder {
    commits: Commits,
    panicked: AtomicBool,
}

impl Plugin for Recorder {
    fn name(&self) -> Symbol {
        Symbol::new("Recorder")
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(Vec::new())
    }

    fn reserve(&self) -> Option<&dyn Reserve> {
        Some(self)
    }

    fn permit(&self) -> Option<&dyn Permit> {
        Some(self)
    }
}

impl Permit for Recorder {
    fn permit_pod(&self, _: &CycleState, pod: &PodInfo, _: Symbol) -> (Status, Duration) {
        let panics = &*pod.name == PANICKY && !self.panicked.swap(true, Ordering::Relaxed);
        assert!(!panics, "as told");
        (Status::SUCCESS, Duration::ZERO)
    }
}

impl Reserve for Recorder {
    fn reserve_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        self.commits.lock().push((pod.name.to_string(), node.name));
        Status::SUCCESS
    }

    fn unreserve_pod(&self, _: &mut CycleState, pod: &PodInfo, _: Symbol) {
        self.commits.lock().retain(|(name, _)| *name != *pod.name);
    }
}

pub(super) struct Scene {
    server: ServerHandle,
    scheduler: Scheduler,
    commits: Commits,
    shape: Shape,
}

impl Scene {
    /// Nodes `n0` and on with room for all, in zones by turns; the workers do not run yet.
    pub(super) async fn new(zones: usize, nodes: usize) -> Self {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        for number in 0..nodes {
            let node = node(&format!("n{number}")).zone(&format!("z{}", number % zones));
            let node = node.cpu(200_000).memory_gi(64).pods(110);
            server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
        }
        let commits = Commits::default();
        let mut registry = crate::plugins::registry();
        let noted = Arc::clone(&commits);
        registry
            .register("Recorder", move |_| {
                Ok(Arc::new(Recorder {
                    commits: Arc::clone(&noted),
                    panicked: AtomicBool::new(false),
                }))
            })
            .unwrap();
        let mut configuration = Loader::new(&PluginCatalogue::in_tree())
            .defaults()
            .unwrap()
            .configuration;
        for profile in &mut configuration.profiles {
            profile
                .plugins
                .multi_point
                .enabled
                .push(EnabledPlugin::new("Recorder", 1));
        }
        let gates = FeatureGates::default();
        let metrics = metrics_for(&configuration, &registry, &gates, Exposition::default()).unwrap();
        let options = ClientOptions {
            source: Source::Address(server.url()),
            rate: None,
            binds_in_flight: 64,
        };
        let clients = ClientSet::new(&options, Some(&metrics)).unwrap();
        let options = SchedulerOptions {
            configuration,
            settings: Settings {
                workers: WORKERS,
                ..Settings::default()
            },
            registry,
            max_in_unschedulable: Duration::from_secs(300),
            may_act: Arc::new(|| true),
            async_preemption: gates.enabled("SchedulerAsyncPreemption"),
        };
        let scheduler = Scheduler::new(options, clients, metrics).unwrap();
        scheduler.start_caches().unwrap();
        scheduler.synced().await;
        let shape = Shape { zones, nodes };
        Self {
            server,
            scheduler,
            commits,
            shape,
        }
    }

    pub(super) fn create(&self, want: &Want) {
        self.create_json(want.build().json());
    }

    pub(super) fn create_json(&self, pod: &Value) {
        self.server.store().insert_raw("", "pods", pod.clone()).unwrap();
    }

    pub(super) fn start(&self) {
        self.scheduler.start_scheduling().unwrap();
    }

    pub(super) fn counts(&self) -> PendingCounts {
        self.scheduler.queue().pending_counts()
    }

    pub(super) fn commits(&self) -> Vec<(String, Symbol)> {
        self.commits.lock().clone()
    }

    pub(super) fn is_bound(&self, name: &str) -> bool {
        let pod = self.server.store().get("", "pods", "default", name);
        pod.is_ok_and(|pod| pod.value()["spec"]["nodeName"].is_string())
    }

    /// What the condition of a refused pod says.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        let pod = self.server.store().get("", "pods", "default", name).ok()?.value();
        let conditions = pod["status"]["conditions"].as_array()?;
        let refused = conditions
            .iter()
            .find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
        refused["message"].as_str().map(str::to_owned)
    }

    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let (counts, commits) = (self.counts(), self.commits());
        assert!(
            waited.await.is_ok(),
            "{what} within {PATIENCE:?}: at first {counts:?}, {commits:?}"
        );
    }

    /// Waits until everybody who can be placed is, looks at each commit with those before it, and says who is where.
    pub(super) async fn settle(self, wants: &[Want]) -> Vec<(Want, Option<usize>)> {
        self.until("whoever fits is placed", |scene| scene.is_settled(wants))
            .await;
        let commits = self.commits();
        let mut placed: Vec<(&Want, usize)> = Vec::new();
        for (name, node) in &commits {
            let want = wants.iter().find(|want| want.name == *name).unwrap();
            let node = index(*node);
            let objection = self.shape.objection(want, node, &placed);
            assert_eq!(objection, None, "{want:?} on n{node} after {placed:?}");
            placed.push((want, node));
        }
        let place = |want: &Want| {
            commits
                .iter()
                .find(|(name, _)| *name == want.name)
                .map(|(_, node)| index(*node))
        };
        let outcome = wants.iter().map(|want| (want.clone(), place(want))).collect();
        self.stop().await;
        outcome
    }

    /// Whether all that are not placed wait for an event and fit nowhere.
    fn is_settled(&self, wants: &[Want]) -> bool {
        let (counts, commits) = (self.counts(), self.commits());
        if counts.active > 0 || commits.len() + counts.unschedulable + counts.backoff != wants.len() {
            return false;
        }
        let node_of = |want: &Want| {
            commits
                .iter()
                .find(|(name, _)| *name == want.name)
                .map(|(_, node)| index(*node))
        };
        let placed: Vec<_> = wants.iter().filter_map(|want| Some((want, node_of(want)?))).collect();
        let fits = |want: &Want| (0..self.shape.nodes).any(|node| self.shape.objection(want, node, &placed).is_none());
        wants.iter().all(|want| node_of(want).is_some() || !fits(want))
    }

    pub(super) async fn stop(self) {
        self.scheduler.stop(Duration::from_secs(10)).await;
    }
}

fn index(node: Symbol) -> usize {
    node.as_str().trim_start_matches('n').parse().unwrap()
}

/// A pod that is there already.
pub(super) fn resident(number: usize, on: &str) -> PodBuilder {
    pod(&format!("resident{number}")).on(on)
}
