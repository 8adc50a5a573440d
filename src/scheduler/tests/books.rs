//! The books (objects, ledger, queue) while they are filled, while a kind is listed anew, and when the server's past
//! changes.

use super::*;
use crate::cluster::watch::{Delivery, PodObject};
use crate::ids::Symbol;
use ingest::Message;

/// More than two pages of a list.
const MANY: usize = 1_200;

impl Scene {
    /// The caches run, nothing is scheduled.
    fn begin(server: ServerHandle) -> Self {
        let scheduler = scheduler_on(server.url(), &Special::default());
        scheduler.start_caches().unwrap();
        Self { server, scheduler }
    }

    fn pods_known(&self) -> usize {
        self.scheduler.cluster().pod_count()
    }

    fn state_of(&self, name: &str) -> Option<&'static str> {
        let pods = self.scheduler.cluster().pods();
        let pod = pods.iter().find(|pod| &*pod.name == name)?;
        pod.labels.get(Symbol::new("state")).map(Symbol::as_str)
    }

    /// Nobody hears of what `change` does, and then the history of pods is gone.
    fn out_of_sight(&self, change: impl FnOnce(&ServerHandle)) {
        let away = FaultAction::Status {
            code: 503,
            retry_after_seconds: None,
        };
        let faults = self.server.faults();
        for verb in ["list", "watch"] {
            faults.add(FaultRule::on(verb, "pods").with(away)).unwrap();
        }
        faults.drop_watches("pods");
        change(&self.server);
        faults.compact("pods");
        faults.clear();
    }
}

async fn server_at(address: &str, nodes: usize) -> ServerHandle {
    let config = ServerConfig {
        address: address.parse().unwrap(),
        ..ServerConfig::default()
    };
    let server = Server::start(config).await.unwrap();
    for number in 0..nodes {
        let node = node(&format!("n{number}")).cpu(1000).memory_gi(8).pods(1000);
        server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
    }
    server
}

async fn server_with_nodes(count: usize) -> ServerHandle {
    server_at("127.0.0.1:0", count).await
}

fn placed(number: usize, nodes: usize) -> PodBuilder {
    let node = format!("n{}", number % nodes);
    pod(&format!("placed{number:05}")).cpu(10).on(&node)
}

fn listed(pod: &PodBuilder) -> Message {
    let object: PodObject = serde_json::from_str(&pod.json().to_string()).unwrap();
    Message::Pod(Delivery::Listed(object))
}

/// Of no server: nothing is listening there.
fn alone() -> Scheduler {
    scheduler_on("http://127.0.0.1:9".to_owned(), &Special::default())
}

#[tokio::test]
async fn scheduling_does_not_begin_while_any_kind_is_missing() {
    let kinds: Vec<&str> = alone().statuses.all().map(WatchStatus::kind).collect();
    for absent in kinds {
        let scheduler = alone();
        let others = scheduler.statuses.all().filter(|status| status.kind() != absent);
        others.for_each(WatchStatus::set_synced);
        assert!(!scheduler.is_synced(), "{absent}");
        let missing = format!("{absent}: the first list is not complete");
        assert_eq!(scheduler.missing(), [missing.as_str()]);
        let refused = scheduler.start_scheduling().unwrap_err().to_string();
        assert_eq!(refused, format!("the caches are not complete: {missing}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_first_list_holds_up_the_first_decision() {
    const NODES: usize = 6;
    let server = server_with_nodes(NODES).await;
    // They come before those that fill the nodes.
    for number in 0..10 {
        create(&server, &pod(&format!("a-waiting{number}")).cpu(10));
    }
    for number in 0..NODES * 100 {
        create(&server, &placed(number, NODES));
    }
    let slow = FaultRule::on("list", "pods").delayed(Duration::from_millis(150));
    server.faults().add(slow).unwrap();
    let scene = Scene::begin(server);
    let queue = Arc::clone(scene.scheduler.queue());
    scene
        .until("the first page is there", |_| queue.pending_counts().active == 10)
        .await;
    assert!(scene.scheduler.start_scheduling().is_err(), "half of the books");
    scene.scheduler.synced().await;
    assert_eq!(scene.pods_known(), NODES * 100 + 10);
    scene.scheduler.start_scheduling().unwrap();
    let refused = |scene: &Scene| (0..10).all(|number| !scene.message(&format!("a-waiting{number}")).is_empty());
    scene.until("all are refused", refused).await;
    let message = scene.message("a-waiting0");
    assert!(message.contains("6 Insufficient cpu"), "{message}");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_list_of_what_is_known_changes_nothing() {
    const NODES: usize = 4;
    let server = server_with_nodes(NODES).await;
    for number in 0..MANY {
        create(&server, &placed(number, NODES));
    }
    create(&server, &pod("waiting").cpu(8000));
    let scene = Scene::begin(server);
    scene.scheduler.synced().await;
    let cluster = Arc::clone(scene.scheduler.cluster());
    for round in 1..=3 {
        let (head, known) = (cluster.log.head(), scene.pods_known());
        scene.out_of_sight(|server| {
            let name = format!("placed{round:05}");
            server.store().delete_now("", "pods", "default", &name).unwrap();
        });
        let forgotten = |scene: &Scene| {
            let now = scene.pods_known();
            assert!(
                now + 1 >= known,
                "{now} of {known}: there is no moment without the others"
            );
            now + 1 == known
        };
        scene.until("the one that went is forgotten", forgotten).await;
        let changes = cluster.log.head() - head;
        assert!(changes <= 2, "{changes} changes for one pod that went");
    }
    assert_eq!(scene.scheduler.queue().totals().entered, 1, "nobody enters twice");
    scene.stop().await;
}

#[tokio::test]
async fn a_list_that_breaks_half_way_takes_nothing_away() {
    let scheduler = alone();
    let mut ingest = scheduler.ingest();
    let pod_of = |number: usize| match number % 2 {
        0 => placed(number, 4),
        _ => pod(&format!("waiting{number}")),
    };
    let pods: Vec<PodBuilder> = (0..100).map(pod_of).collect();
    let known = || {
        (
            scheduler.cluster().pod_count(),
            scheduler.queue().pending_counts().active,
        )
    };
    let list = |ingest: &mut Ingest, pods: &[PodBuilder]| {
        ingest.apply(Message::Pod(Delivery::Restarted));
        pods.iter().for_each(|pod| ingest.apply(listed(pod)));
    };
    list(&mut ingest, &pods);
    ingest.apply(Message::Pod(Delivery::Complete));
    assert_eq!(known(), (100, 50));
    for length in [0, 1, 50, 99] {
        list(&mut ingest, &pods[..length]);
        assert_eq!(known(), (100, 50), "broken after {length}");
    }
    // The first pod was in the broken lists; what counts is that the whole one does not have it.
    list(&mut ingest, &pods[1..]);
    assert_eq!(known(), (100, 50));
    ingest.apply(Message::Pod(Delivery::Complete));
    assert_eq!(known(), (99, 50));
    assert_eq!(scheduler.queue().totals().entered, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_restored_from_a_backup_is_believed() {
    const NODES: usize = 2;
    let server = server_with_nodes(NODES).await;
    let url = server.url();
    for number in 0..20 {
        create(&server, &placed(number, NODES).label("state", "new"));
    }
    let Scene { server, scheduler } = Scene::begin(server);
    scheduler.synced().await;
    let version = server.stats().resource_version;
    server.stop().await;
    let server = server_at(url.trim_start_matches("http://"), NODES).await;
    let state = |number: usize| if number < 5 { "old" } else { "new" };
    for number in 0..10 {
        create(&server, &placed(number, NODES).label("state", state(number)));
    }
    assert!(server.stats().resource_version < version, "versions went backwards");
    // It does not know the versions that the watch asks for.
    let unknown = FaultRule::on("watch", "pods").with(FaultAction::Expired);
    server.faults().add(unknown).unwrap();
    server.faults().drop_watches("pods");
    let scene = Scene { server, scheduler };
    let restored = |scene: &Scene| {
        let as_backed_up = |number| scene.state_of(&format!("placed{number:05}")) == Some(state(number));
        scene.pods_known() == 10 && (0..10).all(as_backed_up)
    };
    scene.until("the books are those of the backup", restored).await;
    scene.server.faults().clear();
    // Changes whose versions lie below those that were known count too.
    create(&scene.server, &placed(30, NODES));
    scene.until("a new pod is seen", |scene| scene.pods_known() == 11).await;
    assert!(scene.server.stats().resource_version < version);
    scene.stop().await;
}
