//! Controllers that make evicted pods anew: preemption comes to an end all the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use supercargo_apiserver::store::Store;
use tokio::task::JoinHandle;

use super::*;

/// The pod with this number.
type Template = fn(usize) -> PodBuilder;

/// Keeps a number of pods alive, as the controller of a replica set does: each that goes has a successor, at the latest
/// a moment after it began to go. Nobody but the scheduler ends them.
struct ReplicaSet {
    store: Store,
    made: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl ReplicaSet {
    fn start(server: &ServerHandle, replicas: usize, template: Template) -> Self {
        let (store, made) = (server.store().clone(), Arc::new(AtomicUsize::new(0)));
        top_up(&store, &made, replicas, template);
        let (of_task, made_by_task) = (store.clone(), Arc::clone(&made));
        let task = tokio::spawn(async move {
            loop {
                top_up(&of_task, &made_by_task, replicas, template);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self { store, made, task }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    fn alive(&self) -> Vec<Value> {
        alive(&self.store)
    }
}

impl Drop for ReplicaSet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn top_up(store: &Store, made: &AtomicUsize, replicas: usize, template: Template) {
    for _ in alive(store).len()..replicas {
        let number = made.fetch_add(1, Ordering::AcqRel);
        let pod = template(number).label("app", "set");
        store.insert_raw("", "pods", pod.json().clone()).unwrap();
    }
}

/// The set's pods that nobody has asked to go.
fn alive(store: &Store) -> Vec<Value> {
    let mut pods = store.values("", "pods").unwrap();
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == "set" && pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

fn small(name: &str) -> PodBuilder {
    pod(name)
        .image("pause")
        .cpu(1000)
        .field(&["spec", "terminationGracePeriodSeconds"], 0)
}

async fn server_with(nodes: usize, milli_cpu: i64, pods: i64) -> ServerHandle {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    for number in 0..nodes {
        let node = node(&format!("n{number}")).cpu(milli_cpu).memory_gi(64).pods(pods);
        server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
    }
    server
}

impl Scene {
    /// Tries pods at once, whatever they wait for.
    fn hurry(&self, names: &[&str]) {
        let known = names.iter().filter_map(|name| self.get(name));
        let uids: Vec<_> = known
            .map(|pod| PodUid::parse(pod["metadata"]["uid"].as_str().unwrap()))
            .collect();
        self.scheduler.queue().activate(&uids);
    }

    /// Has pods tried several times that cannot be placed.
    async fn tried_in_vain(&self, names: &[&str]) {
        for _ in 0..5 {
            self.hurry(names);
            let queue = self.scheduler.queue();
            let idle = |_: &Self| queue.pending_counts().active + queue.pods_out() == 0;
            self.until("nothing is being tried", idle).await;
        }
    }

    async fn bound_in_a_hurry(&self, name: &str) {
        self.until(&format!("{name} is bound"), |scene| {
            scene.hurry(&[name]);
            scene.node_of(name).is_some()
        })
        .await;
    }
}

/// A pod evicts the only one of a node, which stays for a while; what its controller makes in its place must not get
/// the place when it becomes free, whoever of the profiles decides about it: each round costs one eviction.
async fn each_round_costs_one_eviction(weak: Template, strong: &'static str) {
    const ROUNDS: usize = 4;
    let server = server_with(1, 4000, 1).await;
    let set = ReplicaSet::start(&server, 1, weak);
    let profiles = &["other"];
    let scene = Scene::over(
        server,
        &Special {
            profiles,
            ..Special::default()
        },
    )
    .await;
    scene.scheduler.start_scheduling().unwrap();
    for round in 0..ROUNDS {
        let (vip, victim, successor) = (
            format!("vip{round}"),
            format!("low{round}"),
            format!("low{}", round + 1),
        );
        scene.bound_in_a_hurry(&victim).await;
        create(&scene.server, &pod(&vip).scheduler_name(strong).priority(100));
        scene
            .until("the place is promised", |scene| scene.nominated(&vip).is_some())
            .await;
        scene
            .until("the successor was tried", |scene| !scene.message(&successor).is_empty())
            .await;
        scene.tried_in_vain(&[&successor, &vip]).await;
        assert_eq!(set.made(), round + 2, "one eviction a round");
        scene.release(round);
        scene.bound_in_a_hurry(&vip).await;
        scene.tried_in_vain(&[&successor]).await;
        assert_eq!((set.made(), scene.node_of(&successor)), (round + 2, None));
        scene.server.store().delete_now("", "pods", "default", &vip).unwrap();
    }
    scene.stop().await;
}

fn weak(number: usize, profile: &str) -> PodBuilder {
    small(&format!("low{number}"))
        .scheduler_name(profile)
        .field(&["metadata", "finalizers"], json!(["example.com/hold"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_victims_successor_of_another_profile_does_not_get_its_place_back() {
    each_round_costs_one_eviction(|number| weak(number, "other"), "default-scheduler").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_victims_successor_of_the_first_profile_does_not_get_its_place_back() {
    each_round_costs_one_eviction(|number| weak(number, "default-scheduler"), "other").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_victims_successor_of_the_same_profile_does_not_get_its_place_back() {
    each_round_costs_one_eviction(|number| weak(number, "other"), "other").await;
}

const OLD: usize = 12;

/// A pod from before there were priority classes, or one from after.
fn reborn(number: usize) -> PodBuilder {
    let pod = small(&format!("low{number}"));
    if number < OLD {
        pod.on(&format!("n{}", number / 4))
    } else {
        pod.priority(1000)
    }
}

/// A class that is the default of new pods, in a full cluster of old ones: newcomers evict old pods, whose successors
/// evict further ones, until all are new.
async fn a_chain_ends_when_all_are_equal(newcomers: usize) {
    let server = server_with(3, 4000, 110).await;
    let class = json!({"metadata": {"name": "medium"}, "value": 1000, "globalDefault": true});
    server
        .store()
        .insert_raw("scheduling.k8s.io", "priorityclasses", class)
        .unwrap();
    let set = ReplicaSet::start(&server, OLD, reborn);
    let scene = Scene::over(server, &Special::default()).await;
    scene.scheduler.start_scheduling().unwrap();
    let names: Vec<String> = (0..newcomers).map(|number| format!("x{number}")).collect();
    for name in &names {
        create(&scene.server, &small(name).priority(1000));
    }
    let new = |scene: &Scene| -> Vec<Value> {
        let newcomers = names.iter().filter_map(|name| scene.get(name));
        newcomers.chain(set.alive()).collect()
    };
    let waiting = |scene: &Scene| -> Vec<String> {
        let waiting = new(scene).into_iter().filter(|pod| !is_bound(pod));
        waiting
            .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
            .collect()
    };
    let settled = |scene: &Scene| {
        let left = waiting(scene);
        set.made() == 2 * OLD && left.len() == newcomers && left.iter().all(|name| !scene.message(name).is_empty())
    };
    scene.until("all places are taken by new pods", settled).await;
    let left = waiting(&scene);
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    scene.tried_in_vain(&left).await;
    assert_eq!(set.made(), 2 * OLD, "as many evictions as there were old pods");
    assert!(new(&scene).iter().all(|pod| pod["spec"]["priority"] == 1000));
    // Nobody but an old pod was evicted: of the successors, each is the first of its number.
    assert_eq!(new(&scene).len(), OLD + newcomers);
    assert_eq!((waiting(&scene).len(), left.len()), (newcomers, newcomers));
    let nominated = left.iter().filter(|name| scene.nominated(name).is_some()).count();
    assert_eq!((nominated, scene.scheduler.cluster().ledger.counts().nominated), (0, 0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_made_anew_with_a_priority_evict_each_old_pod_once_and_no_equal() {
    a_chain_ends_when_all_are_equal(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_that_run_side_by_side_end_as_one_does() {
    a_chain_ends_when_all_are_equal(3).await;
}
