//! A limit on calls that leaves most of them waiting.

use supercargo_shards::leader::{LeaderElectionConfig, LeaderElector, LeaderState};
use tokio_util::sync::CancellationToken;

use super::*;

/// Renewals to see: at ten a second, more than a second of them.
const RENEWALS: usize = 12;
const PODS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_of_the_lease_do_not_wait_behind_other_calls() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    let node = node("n0").cpu(1000).memory_gi(8).pods(110);
    server.store().insert_raw("", "nodes", node.json().clone()).unwrap();
    // The burst is for the lists and watches at the start. 400 pods that fit nowhere make 800 calls: minutes of them.
    let rate = Some(RateLimit { qps: 5.0, burst: 60 });
    let scene = Scene::over(
        server,
        &Special {
            rate,
            ..Special::default()
        },
    )
    .await;
    let lease = LeaderElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "supercargo".to_owned(),
        identity: "this".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_millis(100),
    };
    let elector = LeaderElector::new(scene.scheduler.clients.lease.clone(), lease).unwrap();
    let (mut state, cancel) = (elector.subscribe(), CancellationToken::new());
    let election = tokio::spawn(elector.run(cancel.clone()));
    let leads = state.wait_for(|state| matches!(state, LeaderState::Leading { .. }));
    tokio::time::timeout(PATIENCE, leads).await.unwrap().unwrap();
    scene.scheduler.start_scheduling().unwrap();
    for number in 0..PODS {
        create(&scene.server, &pod(&format!("p{number}")).cpu(9000));
    }
    let queue = Arc::clone(scene.scheduler.queue());
    scene
        .until("all were tried", |_| queue.pending_counts().unschedulable == PODS)
        .await;
    let renewed = |scene: &Scene| {
        let lease = scene
            .server
            .store()
            .get("coordination.k8s.io", "leases", "kube-system", "supercargo");
        lease.unwrap().value()["spec"]["renewTime"].clone()
    };
    for number in 0..RENEWALS {
        let before = renewed(&scene);
        let what = format!("renewal {number}");
        scene.until(&what, |scene| renewed(scene) != before).await;
    }
    let told = (0..PODS).filter(|number| !scene.message(&format!("p{number}")).is_empty());
    assert!(told.count() < PODS, "nothing was starved");
    assert!(matches!(*state.borrow(), LeaderState::Leading { .. }));
    cancel.cancel();
    election.await.unwrap();
    scene.scheduler.stop(Duration::from_millis(100)).await;
}
