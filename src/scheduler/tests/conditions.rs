//! Conditions that the API server and the scheduler write in turn, as autoscalers read them.

use super::*;

const SINCE: &str = "2026-01-01T10:00:00Z";

impl Scene {
    fn condition(&self, name: &str) -> Value {
        let pod = self.get(name).unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == "PodScheduled");
        found.unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gated_pod_keeps_the_servers_word_and_later_refusals_keep_its_time() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    let small = node("small").cpu(1000).memory_gi(8).pods(110);
    server.store().insert_raw("", "nodes", small.json().clone()).unwrap();
    let written_by_server = json!([{
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": SINCE,
    }]);
    let gated = pod("gated").image("pause").cpu(4000).gate("example.com/hold");
    create(&server, &gated.field(&["status", "conditions"], written_by_server));
    let scene = Scene::over(server, &Special::default()).await;
    scene.scheduler.start_scheduling().unwrap();
    let before = scene.get("gated").unwrap();
    create(&scene.server, &pod("free").cpu(100));
    scene
        .until("another pod is bound", |scene| scene.node_of("free").is_some())
        .await;
    let uid = PodUid::parse(before["metadata"]["uid"].as_str().unwrap());
    scene.scheduler.queue().activate(&[uid]);
    scene.scheduler.queue().flush_unschedulable();
    assert_eq!(scene.get("gated").unwrap(), before, "nobody wrote about it");

    let store = scene.server.store();
    let target = WriteTarget::object(&store.pods().unwrap(), "default", "gated");
    let open = json!({"spec": {"schedulingGates": null}});
    store.patch(&target, PatchKind::Merge, &open).unwrap();
    let refused = |scene: &Scene| scene.condition("gated")["reason"] == "Unschedulable";
    scene.until("it is refused", refused).await;
    assert_eq!(
        scene.condition("gated")["lastTransitionTime"],
        SINCE,
        "False before and after"
    );

    let large = node("large").cpu(8000).memory_gi(8).pods(110);
    store.insert_raw("", "nodes", large.json().clone()).unwrap();
    scene
        .until("it is bound", |scene| scene.condition("gated")["status"] == "True")
        .await;
    let condition = scene.condition("gated");
    assert_ne!(condition["lastTransitionTime"], SINCE, "{condition}");
    assert!(condition["reason"].is_null(), "{condition}");
    scene.stop().await;
}
