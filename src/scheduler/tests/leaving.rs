//! Pods that go while they are tried, and room that is given back late.

use super::*;
use crate::cluster::watch::{Delivery, NodeObject, PodObject};
use ingest::Message;

fn applied(pod: &PodBuilder) -> Message {
    let object: PodObject = serde_json::from_str(&pod.json().to_string()).unwrap();
    Message::Pod(Delivery::Applied(object))
}

fn deleted(pod: &PodBuilder) -> Message {
    let object: PodObject = serde_json::from_str(&pod.json().to_string()).unwrap();
    Message::Pod(Delivery::Deleted(object))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_go_while_they_are_popped_leave_nothing_behind() {
    const PODS: usize = 2_000;
    // No server listens there: whatever happens is told by hand.
    let scheduler = scheduler_on("http://127.0.0.1:9".to_owned(), &Special::default());
    scheduler.statuses.all().for_each(WatchStatus::set_synced);
    let mut ingest = scheduler.ingest();
    scheduler.start_scheduling().unwrap();
    for number in 0..PODS {
        // Too small for everybody; each change of it is an event.
        let node = node("n").cpu(1).pods(1_000_000).label("round", &number.to_string());
        let node: NodeObject = serde_json::from_str(&node.json().to_string()).unwrap();
        ingest.apply(Message::Node(Delivery::Applied(node)));
        let pod = pod(&format!("p{number}")).cpu(1000);
        ingest.apply(applied(&pod));
        match number % 4 {
            0 => ingest.apply(applied(&pod.clone().terminating())),
            1 => ingest.apply(applied(&pod.clone().on("n"))),
            2 => ingest.apply(applied(&pod.clone().scheduler_name("another"))),
            _ => {}
        }
        ingest.apply(deleted(&pod));
    }
    let queue = Arc::clone(scheduler.queue());
    let is_empty = async {
        while queue.pods_out() > 0 || queue.events_kept() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_empty).await.unwrap();
    let (totals, counts) = (queue.totals(), queue.pending_counts());
    assert_eq!(totals.entered, totals.bound + totals.deleted + totals.handed_over);
    assert_eq!((counts.active, counts.backoff, counts.unschedulable), (0, 0, 0));
    let ledger = scheduler.cluster().ledger.counts();
    assert_eq!((ledger.pods, ledger.assumed, ledger.nominated), (0, 0, 0));
    scheduler.stop(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_on_their_way_out_keep_their_room_until_they_are_gone() {
    const PODS: usize = 40;
    const ROUNDS: usize = 2;
    let server = Server::start(ServerConfig::default()).await.unwrap();
    for number in 0..4 {
        let node = node(&format!("n{number}")).cpu(1000).memory_gi(8).pods(110);
        server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
    }
    let scheduler = scheduler_on(server.url(), &Special::default());
    scheduler.start_caches().unwrap();
    scheduler.synced().await;
    scheduler.start_scheduling().unwrap();
    let scene = Scene { server, scheduler };
    let store = scene.server.store();
    let name = |round: usize, number: usize| format!("r{round}-{number}");
    let hangs = |number: usize| number.is_multiple_of(10);
    let bound = |scene: &Scene, round: usize| (0..PODS).filter(|n| scene.node_of(&name(round, *n)).is_some()).count();
    let make = |round: usize| {
        for number in 0..PODS {
            let mut pod = pod(&name(round, number)).image("pause").cpu(100);
            if hangs(number) {
                pod = pod.field(&["metadata", "finalizers"], json!(["example.com/hold"]));
            }
            create(&scene.server, &pod);
        }
    };
    make(0);
    for round in 0..ROUNDS {
        scene.until("all are bound", |scene| bound(scene, round) == PODS).await;
        for number in 0..PODS {
            store.delete_now("", "pods", "default", &name(round, number)).unwrap();
        }
        make(round + 1);
        scene
            .until("all get room but as many as hang", |scene| {
                bound(scene, round + 1) == PODS - PODS / 10
            })
            .await;
        let refused = |scene: &Scene| {
            let mut waiting = (0..PODS).filter(|n| scene.node_of(&name(round + 1, *n)).is_none());
            waiting.all(|number| scene.message(&name(round + 1, number)).contains("Insufficient cpu"))
        };
        scene.until("the others are refused", refused).await;
        assert_eq!(bound(&scene, round + 1), PODS - PODS / 10);
        for number in (0..PODS).filter(|number| hangs(*number)) {
            let target = WriteTarget::object(&store.pods().unwrap(), "default", &name(round, number));
            let free = json!({"metadata": {"finalizers": null}});
            store.patch(&target, PatchKind::Merge, &free).unwrap();
        }
    }
    scene.until("all are bound", |scene| bound(scene, ROUNDS) == PODS).await;
    assert_eq!(scene.scheduler.cluster().pod_count(), PODS);
    scene.stop().await;
}
