//! Pods come and go while schedulers do, and the rules are watched all the time: simulated nodes accept anything.

use std::num::NonZeroU32;

use supercargo_apiserver::check::live::LiveCheck;
use supercargo_apiserver::hollow::{self, Hangs, HollowConfig};
use supercargo_apiserver::store::{EventKind, WatchBatch, WatchStart};

use super::*;
use crate::sync::Mutex;

const NODES: usize = 10;
/// Pods that there are at a time: they ask for four fifths of the nodes.
const PODS: usize = 80;
/// Pods that go and are replaced under each scheduler.
const REPLACED: usize = 80;
const SCHEDULERS: usize = 3;

/// Judges every change of a pod until a rule is broken.
async fn judge(server: Arc<ServerHandle>, check: Arc<Mutex<LiveCheck>>) -> String {
    let mut watcher = server.store().watch("", "pods", WatchStart::Existing).unwrap();
    loop {
        let items = match watcher.next().await {
            Ok(Some(WatchBatch::Events(items))) => items,
            Ok(Some(WatchBatch::InitialEventsEnd(_))) => continue,
            ended => return format!("the watch ended: {ended:?}"),
        };
        let mut check = check.lock();
        for item in items.iter() {
            if item.kind == EventKind::Deleted {
                check.gone(item.object.uid());
            } else if let Err(breach) = check.pod(&item.object.value()) {
                return breach.to_string();
            }
        }
    }
}

/// Some have a port of their node, some avoid each other, the rest only ask for room.
fn kind_of(number: usize) -> PodBuilder {
    let pod = pod(&format!("p{number}")).image("pause").cpu(100);
    match number % 10 {
        0 => pod
            .label("kind", "shy")
            .anti_affinity("kubernetes.io/hostname", &[("kind", "shy")]),
        1 => pod.host_port(8000),
        _ => pod,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_rule_is_broken_at_any_time_while_pods_and_schedulers_change() {
    let server = Arc::new(Server::start(ServerConfig::default()).await.unwrap());
    let check = Arc::new(Mutex::new(LiveCheck::default()));
    for number in 0..NODES {
        let node = node(&format!("n{number}")).cpu(1000).memory_gi(8).pods(30);
        check.lock().node(node.json());
        server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
    }
    let hangs = NonZeroU32::new(20).map(|every| Hangs {
        every,
        delay: Duration::from_millis(300),
    });
    let config = HollowConfig {
        hangs,
        ..HollowConfig::default()
    };
    let end = CancellationToken::new();
    let nodes = tokio::spawn(hollow::run(server.store().clone(), config, end.clone()));
    let judged = tokio::spawn(judge(Arc::clone(&server), Arc::clone(&check)));
    (0..PODS).for_each(|number| create(&server, &kind_of(number)));
    let mut gone = 0;
    for turn in 0..SCHEDULERS {
        let scheduler = scheduler_on(server.url(), &Special::default());
        scheduler.start_caches().unwrap();
        scheduler.synced().await;
        scheduler.start_scheduling().unwrap();
        for number in turn * REPLACED..(turn + 1) * REPLACED {
            let name = format!("p{number}");
            let target = WriteTarget::object(&server.store().pods().unwrap(), "default", &name);
            server.store().delete(&target, &Default::default()).unwrap();
            create(&server, &kind_of(number + PODS));
            gone += 1;
            tokio::task::yield_now().await;
        }
        // The last one finishes; the others leave in the middle of it.
        let is_last = turn + 1 == SCHEDULERS;
        let all_placed = async {
            loop {
                let counts = check.lock().counts();
                if judged.is_finished() || (counts.waiting == 0 && counts.bound - counts.gone == PODS) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if is_last {
            let placed = tokio::time::timeout(PATIENCE, all_placed).await;
            assert!(placed.is_ok(), "lost: {:?}", check.lock().counts());
        }
        scheduler.stop(Duration::from_secs(10)).await;
    }
    if judged.is_finished() {
        panic!("a rule was broken: {}", judged.await.unwrap());
    }
    judged.abort();
    assert!(check.lock().counts().gone <= gone, "replaced pods are counted apart");
    end.cancel();
    nodes.await.unwrap().unwrap();
}
