//! Pods that talk to each other, on a whole scheduler.

use super::*;

const PROFILE: &str = include_str!("../../../config/examples/network.yaml");

fn in_region(name: &str, region: &str) -> Value {
    let node = node(name).cpu(4000).memory_gi(8).pods(110);
    node.label("topology.kubernetes.io/region", region).json().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_land_near_those_that_they_talk_to_and_wait_where_nobody_is_near() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    for (name, region) in [
        ("e", "eastus"),
        ("e2", "eastus2"),
        ("w", "westus"),
        ("b", "brazilsouth"),
    ] {
        server.store().insert_raw("", "nodes", in_region(name, region)).unwrap();
    }
    create(&server, &pod("db").label("app", "db").cpu(100).on("e"));
    let peers = ["metadata", "annotations", "network.supercargo.io/peers"];
    for number in 0..6 {
        let client = pod(&format!("client{number}")).cpu(100);
        create(&server, &client.field(&peers, r#"[{"selector":{"app":"db"}}]"#));
    }
    let far = pod("far")
        .cpu(100)
        .node_selector("topology.kubernetes.io/region", "brazilsouth");
    create(
        &server,
        &far.field(&peers, r#"[{"selector":{"app":"db"},"maxLatencyMs":5}]"#),
    );
    create(&server, &pod("wrong").cpu(100).field(&peers, "nobody"));
    let special = Special {
        configuration: PROFILE,
        ..Special::default()
    };
    let scene = Scene::over(server, &special).await;
    scene.scheduler.start_scheduling().unwrap();
    scene
        .until("every client is bound", |scene| {
            (0..6).all(|number| scene.node_of(&format!("client{number}")).is_some())
        })
        .await;
    for number in 0..6 {
        assert_eq!(scene.node_of(&format!("client{number}")).as_deref(), Some("e"));
    }
    scene
        .until("both others say why they wait", |scene| {
            ["far", "wrong"].iter().all(|name| !scene.message(name).is_empty())
        })
        .await;
    assert!(
        scene
            .message("far")
            .contains("ms to pod's network zone is above the threshold of 5 ms")
    );
    assert!(
        scene
            .message("wrong")
            .contains("annotation network.supercargo.io/peers: ")
    );
    scene.stop().await;
}
