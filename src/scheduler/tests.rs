//! The whole scheduler with several workers on the embedded API server: pods that preempt others at the same time.

mod books;
mod churn;
mod conditions;
mod leaving;
mod network;
mod rounds;
mod starved;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::store::{PatchKind, WriteTarget};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
use supercargo_config::{FeatureGates, Loader, PluginCatalogue, Settings};

use super::*;
use crate::client::{ClientOptions, RateLimit, Source};
use crate::framework::Activate as _;
use crate::ids::PodUid;
use crate::telemetry::Exposition;
use crate::testing::{PodBuilder, node, pod};

/// The longest wait for one thing; a passing test waits for milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Scene {
    server: ServerHandle,
    scheduler: Scheduler,
}

/// What is special about a scheduler.
#[derive(Default)]
struct Special {
    gates: &'static str,
    /// Names of further profiles like the default one.
    profiles: &'static [&'static str],
    rate: Option<RateLimit>,
    /// A configuration file; empty: the defaults.
    configuration: &'static str,
}

impl Scene {
    /// Nodes of 1 CPU, each full with a pod of 800m and priority 0 that holds on to it when it is deleted, or not.
    async fn new(nodes: usize, holds: bool, gates: &'static str) -> Self {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        for number in 0..nodes {
            let name = format!("n{number}");
            let node = node(&name).cpu(1000).memory_gi(8).pods(110);
            server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
            let mut low = low(number).on(&name);
            if holds {
                low = low.field(&["metadata", "finalizers"], json!(["example.com/hold"]));
            }
            create(&server, &low);
        }
        let special = Special {
            gates,
            ..Special::default()
        };
        Self::over(server, &special).await
    }

    /// A scheduler that knows what there is and has not begun.
    async fn over(server: ServerHandle, special: &Special) -> Self {
        let scheduler = scheduler_on(server.url(), special);
        scheduler.start_caches().unwrap();
        scheduler.synced().await;
        Self { server, scheduler }
    }

    fn get(&self, name: &str) -> Option<Value> {
        let pod = self.server.store().get("", "pods", "default", name).ok()?;
        Some(pod.value())
    }

    fn node_of(&self, name: &str) -> Option<String> {
        self.get(name)?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    fn nominated(&self, name: &str) -> Option<String> {
        self.get(name)?["status"]["nominatedNodeName"]
            .as_str()
            .map(str::to_owned)
    }

    fn message(&self, name: &str) -> String {
        let pod = self.get(name).unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
        found
            .map(|found| found["message"].as_str().unwrap_or_default().to_owned())
            .unwrap_or_default()
    }

    /// Names of the low pods that are gone or on their way out.
    fn evicted(&self, nodes: usize) -> Vec<usize> {
        let is_evicted = |number: &usize| {
            let pod = self.get(&format!("low{number}"));
            pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        };
        (0..nodes).filter(is_evicted).collect()
    }

    /// Lets a low pod go.
    fn release(&self, number: usize) {
        let store = self.server.store();
        let target = WriteTarget::object(&store.pods().unwrap(), "default", &format!("low{number}"));
        let free = json!({"metadata": {"finalizers": null}});
        store.patch(&target, PatchKind::Merge, &free).unwrap();
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(waited.await.is_ok(), "{what} within {PATIENCE:?}");
    }

    async fn stop(self) {
        self.scheduler.stop(Duration::from_secs(10)).await;
    }
}

/// A scheduler with four workers, of which nothing runs yet.
fn scheduler_on(address: String, special: &Special) -> Scheduler {
    let catalogue = PluginCatalogue::in_tree();
    let loader = Loader::new(&catalogue);
    let loaded = match special.configuration {
        "" => loader.defaults(),
        text => loader.load_str("configuration", text),
    };
    let mut configuration = loaded.unwrap().configuration;
    for name in special.profiles {
        let mut profile = configuration.profiles[0].clone();
        profile.scheduler_name = (*name).to_owned();
        configuration.profiles.push(profile);
    }
    let registry = crate::plugins::registry();
    let gates = FeatureGates::parse(special.gates).unwrap();
    let metrics = metrics_for(&configuration, &registry, &gates, Exposition::default()).unwrap();
    let source = Source::Address(address);
    let options = ClientOptions {
        source,
        rate: special.rate,
        binds_in_flight: 64,
    };
    let clients = ClientSet::new(&options, Some(&metrics)).unwrap();
    let options = SchedulerOptions {
        configuration,
        settings: Settings {
            workers: 4,
            ..Settings::default()
        },
        registry,
        max_in_unschedulable: Duration::from_secs(300),
        may_act: Arc::new(|| true),
        async_preemption: gates.enabled("SchedulerAsyncPreemption"),
    };
    Scheduler::new(options, clients, metrics).unwrap()
}

fn create(server: &ServerHandle, pod: &PodBuilder) {
    server.store().insert_raw("", "pods", pod.json().clone()).unwrap();
}

fn low(number: usize) -> PodBuilder {
    pod(&format!("low{number}"))
        .image("pause")
        .cpu(800)
        .field(&["spec", "terminationGracePeriodSeconds"], 0)
}

fn high(number: usize) -> PodBuilder {
    pod(&format!("high{number}")).cpu(800).priority(10)
}

async fn preemptors_at_once(gates: &'static str) {
    const NODES: usize = 8;
    let scene = Scene::new(NODES, false, gates).await;
    let preemptors = 5;
    for number in 0..preemptors {
        create(&scene.server, &high(number));
    }
    let queue = Arc::clone(scene.scheduler.queue());
    scene
        .until("all are queued", |_| queue.pending_counts().active == preemptors)
        .await;
    scene.scheduler.start_scheduling().unwrap();
    let placed = |scene: &Scene| (0..preemptors).all(|number| scene.node_of(&format!("high{number}")).is_some());
    scene.until("all are bound", placed).await;
    let mut nodes: Vec<_> = (0..preemptors)
        .filter_map(|number| scene.node_of(&format!("high{number}")))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), preemptors, "each on a node of its own");
    assert_eq!(scene.evicted(NODES).len(), preemptors, "nobody was evicted in vain");
    assert_eq!(scene.scheduler.cluster().ledger.counts().nominated, 0);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preemptors_at_once_take_one_place_each() {
    preemptors_at_once("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preemptors_at_once_take_one_place_each_where_evictions_are_waited_for() {
    preemptors_at_once("SchedulerAsyncPreemption=false").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_preempts_twice_while_victims_are_on_their_way_out() {
    const NODES: usize = 6;
    let scene = Scene::new(NODES, true, "").await;
    scene.scheduler.start_scheduling().unwrap();
    for number in 0..2 {
        create(&scene.server, &high(number));
    }
    let nominated = |scene: &Scene| scene.nominated("high0").is_some() && scene.nominated("high1").is_some();
    scene.until("both are nominated", nominated).await;
    scene
        .until("both have victims", |scene| scene.evicted(NODES).len() == 2)
        .await;
    let uid = |name: &str| PodUid::parse(scene.get(name).unwrap()["metadata"]["uid"].as_str().unwrap());
    for name in ["high0", "high1"] {
        let waits = "not eligible due to a terminating pod on the nominated node.";
        let told = |scene: &Scene| {
            scene.scheduler.queue().activate(&[uid(name)]);
            scene.message(name).ends_with(waits)
        };
        scene.until("it waits for its victim", told).await;
    }
    let victims = scene.evicted(NODES);
    assert_eq!(victims.len(), 2);
    let places = ["high0", "high1"].map(|name| scene.nominated(name).unwrap());
    // A lower pod that comes meanwhile gets none of the room that becomes free.
    create(&scene.server, &pod("late").cpu(800));
    for number in victims {
        scene.release(number);
    }
    let placed = |scene: &Scene| ["high0", "high1"].map(|name| scene.node_of(name)) == places.clone().map(Some);
    scene.until("both are bound where they were nominated", placed).await;
    assert_eq!((scene.node_of("late"), scene.evicted(NODES).len()), (None, 2));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preemptor_whose_evictions_fail_is_tried_again() {
    let scene = Scene::new(1, false, "").await;
    let refused = FaultAction::Status {
        code: 403,
        retry_after_seconds: None,
    };
    let rule = FaultRule::on("delete", "pods").with(refused).times(1);
    scene.server.faults().add(rule).unwrap();
    scene.scheduler.start_scheduling().unwrap();
    create(&scene.server, &high(0));
    scene
        .until("it is bound", |scene| scene.node_of("high0").is_some())
        .await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stronger_preemptor_takes_the_place_and_the_weaker_loses_its_nomination() {
    let scene = Scene::new(1, true, "").await;
    scene.scheduler.start_scheduling().unwrap();
    create(&scene.server, &high(0));
    scene
        .until("the first is nominated", |scene| scene.nominated("high0").is_some())
        .await;
    create(&scene.server, &pod("stronger").cpu(800).priority(1000));
    scene
        .until("the second is nominated", |scene| scene.nominated("stronger").is_some())
        .await;
    scene
        .until("the first is not any more", |scene| scene.nominated("high0").is_none())
        .await;
    scene.release(0);
    scene
        .until("the second is bound", |scene| scene.node_of("stronger").is_some())
        .await;
    assert_eq!(scene.node_of("high0"), None);
    scene.stop().await;
}
