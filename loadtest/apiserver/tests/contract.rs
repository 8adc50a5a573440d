//! The contract suite against the embedded server: plain HTTP on the caller's runtime, TLS on a thread of its own.

#![expect(clippy::expect_used, reason = "a test ends at the first failure")]

use supercargo_apiserver::{Server, ServerConfig, contract};

async fn run(config: ServerConfig) {
    let server = Server::start(config).await.expect("the server starts");
    let client = contract::client(&server.kubeconfig())
        .await
        .expect("the client is made");
    let failures = contract::run_all(&client).await;
    server.stop().await;
    let text: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "{} of {} fail:\n{}",
        failures.len(),
        contract::all().len(),
        text.join("\n")
    );
}

#[tokio::test]
async fn plain_server_keeps_the_contract() {
    run(ServerConfig::default()).await;
}

#[tokio::test]
async fn tls_server_on_its_own_thread_keeps_the_contract() {
    run(ServerConfig {
        tls: true,
        threads: 1,
        ..ServerConfig::default()
    })
    .await;
}
