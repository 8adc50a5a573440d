//! The server over HTTP as clients see it when things go wrong: faults, tokens, missing kinds, stopping.

#![expect(clippy::unwrap_used, reason = "a test ends at the first failure")]

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::{Value, json};
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::server::StaticToken;
use supercargo_apiserver::workload::{self, Workload, WorkloadParams};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle, contract};

async fn start(config: ServerConfig) -> (ServerHandle, Client) {
    let server = Server::start(config).await.unwrap();
    let client = contract::client(&server.kubeconfig()).await.unwrap();
    (server, client)
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn code(client: &Client, method: &str, path: &str, body: &Value) -> u16 {
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    match client.request::<Value>(request.body(bytes).unwrap()).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

#[tokio::test]
async fn refusals_and_resets_are_seen_by_clients() {
    let (server, client) = start(ServerConfig::default()).await;
    let pods = "/api/v1/namespaces/default/pods";
    let refused = FaultAction::Status {
        code: 429,
        retry_after_seconds: Some(1),
    };
    server
        .faults()
        .add(FaultRule::on("create", "pods").with(refused).times(1))
        .unwrap();
    assert_eq!(code(&client, "POST", pods, &pod("a")).await, 429);
    assert_eq!(code(&client, "POST", pods, &pod("a")).await, 200);
    server
        .faults()
        .add(FaultRule::on("create", "pods").with(FaultAction::ResetBefore).times(1))
        .unwrap();
    assert_eq!(code(&client, "POST", pods, &pod("b")).await, 0);
    assert!(server.store().get("", "pods", "default", "b").is_err());
    server
        .faults()
        .add(FaultRule::on("create", "pods").with(FaultAction::ResetAfter).times(1))
        .unwrap();
    assert_eq!(code(&client, "POST", pods, &pod("c")).await, 0);
    assert!(server.store().get("", "pods", "default", "c").is_ok());
    server.stop().await;
    assert_eq!(code(&client, "GET", pods, &Value::Null).await, 0);
}

#[tokio::test]
async fn faults_can_be_set_over_http() {
    let (server, client) = start(ServerConfig::default()).await;
    let rule =
        json!({"verbs": ["list"], "resource": "nodes", "action": {"type": "status", "code": 503}, "remaining": 1});
    assert_eq!(code(&client, "POST", "/supercargo/faults", &rule).await, 200);
    assert_eq!(code(&client, "GET", "/api/v1/nodes", &Value::Null).await, 503);
    assert_eq!(code(&client, "GET", "/api/v1/nodes", &Value::Null).await, 200);
    assert_eq!(
        code(&client, "POST", "/supercargo/faults", &json!({"nonsense": 1})).await,
        400
    );
    assert_eq!(code(&client, "DELETE", "/supercargo/faults/1", &Value::Null).await, 200);
    assert_eq!(code(&client, "DELETE", "/supercargo/faults/1", &Value::Null).await, 404);
    assert_eq!(
        code(
            &client,
            "POST",
            "/supercargo/hide/resourceslices.resource.k8s.io",
            &Value::Null
        )
        .await,
        200
    );
    assert_eq!(
        code(&client, "GET", "/apis/resource.k8s.io/v1/resourceslices", &Value::Null).await,
        404
    );
    assert_eq!(
        code(
            &client,
            "POST",
            "/supercargo/show/resourceslices.resource.k8s.io",
            &Value::Null
        )
        .await,
        200
    );
    assert_eq!(
        code(&client, "GET", "/apis/resource.k8s.io/v1/resourceslices", &Value::Null).await,
        200
    );
    assert_eq!(server.stats().errors, 4);
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_survives_dropped_expired_and_compacted_watches() {
    let (server, client) = start(ServerConfig::default()).await;
    let api: Api<Pod> = Api::namespaced(client, "default");
    let backoff = watcher::DefaultBackoff::default();
    let mut stream = kube::runtime::WatchStreamExt::backoff(watcher(api, watcher::Config::default()), backoff).boxed();
    for (round, name) in ["a", "b", "c"].into_iter().enumerate() {
        server.store().create_as("", "pods", "default", pod(name)).unwrap();
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), stream.next())
                .await
                .unwrap()
                .unwrap();
            match next {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))
                    if pod.metadata.name.as_deref() == Some(name) =>
                {
                    break;
                }
                _ => {}
            }
        }
        match round {
            0 => server.faults().drop_watches("pods"),
            1 => {
                server
                    .faults()
                    .add(FaultRule::on("watch", "pods").with(FaultAction::Expired).times(1))
                    .unwrap();
                server.faults().compact("pods");
                server.faults().drop_watches("");
            }
            _ => {}
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn tokens_open_the_door() {
    let token = StaticToken {
        token: "secret".to_owned(),
        user: "scheduler".to_owned(),
        ..StaticToken::default()
    };
    let (server, client) = start(ServerConfig {
        tokens: vec![token],
        tls: true,
        ..ServerConfig::default()
    })
    .await;
    assert_eq!(code(&client, "GET", "/api/v1/nodes", &Value::Null).await, 200);
    let stranger = contract::client(&server.kubeconfig_for(Some("wrong"))).await.unwrap();
    assert_eq!(code(&stranger, "GET", "/api/v1/nodes", &Value::Null).await, 401);
    assert_eq!(code(&stranger, "GET", "/apis", &Value::Null).await, 401);
    server.stop().await;
}

#[tokio::test]
async fn long_lists_and_pages_agree() {
    let (server, client) = start(ServerConfig::default()).await;
    let params = WorkloadParams {
        workload: Workload::Mixed,
        nodes: Some(300),
        pods: Some(3_000),
        ..WorkloadParams::default()
    };
    workload::generate(params).unwrap().load(server.store()).unwrap();
    let pods: Api<Pod> = Api::all(client.clone());
    let whole = pods.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(whole.items.len(), 3_000);
    let stream = watcher(pods, watcher::Config::default().page_size(70));
    let listed = stream.take_while(|event| {
        let more = !matches!(event, Ok(watcher::Event::InitDone));
        async move { more }
    });
    let listed: Vec<watcher::Event<Pod>> = listed.try_collect().await.unwrap();
    let names: Vec<String> = listed
        .into_iter()
        .filter_map(|event| match event {
            watcher::Event::InitApply(pod) => pod.metadata.name,
            _ => None,
        })
        .collect();
    assert!(
        names
            .iter()
            .eq(whole.items.iter().filter_map(|pod| pod.metadata.name.as_ref()))
    );
    let nodes = Api::<Node>::all(client)
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    assert_eq!(nodes.items.len(), 300);
    server.stop().await;
}

#[tokio::test]
async fn bookmarks_come_while_nothing_else_does() {
    let config = ServerConfig {
        bookmark_interval: Duration::from_millis(50),
        ..ServerConfig::default()
    };
    let (server, client) = start(config).await;
    let path = format!(
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion={}",
        server.store().version()
    );
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut stream = client.request_events::<Value>(request).await.unwrap().boxed();
    server.store().create_namespace("elsewhere").unwrap();
    let event = tokio::time::timeout(Duration::from_secs(10), stream.try_next())
        .await
        .unwrap()
        .unwrap();
    let Some(kube::core::WatchEvent::Bookmark(bookmark)) = event else {
        panic!("{event:?} is no bookmark")
    };
    assert_eq!(bookmark.metadata.resource_version, server.store().version().to_string());
    server.stop().await;
}

#[tokio::test]
async fn versions_before_the_history_are_expired() {
    let (server, client) = start(ServerConfig::default()).await;
    let path = "/api/v1/pods?watch=true&resourceVersion=1";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut stream = client.request_events::<Value>(request).await.unwrap().boxed();
    let event = stream.try_next().await.unwrap();
    assert!(
        matches!(&event, Some(kube::core::WatchEvent::Error(status)) if status.code == 410),
        "{event:?}"
    );
    assert!(stream.try_next().await.unwrap().is_none());
    let exact = "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact";
    assert_eq!(code(&client, "GET", exact, &Value::Null).await, 410);
    server.stop().await;
}
