//! The contract suite of the embedded API server, on a real kube-apiserver: both must answer alike.

#![cfg(feature = "real-control-plane")]

use supercargo_apiserver::contract;
use supercargo_loadtest::controlplane::credentials::User;
use supercargo_loadtest::controlplane::{ControlPlane, Options};

#[tokio::test]
async fn real_server_keeps_the_contract() {
    let plane = ControlPlane::start(&Options::default())
        .await
        .expect("the control plane starts");
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig(User::Admin)).expect("the kubeconfig reads");
    let client = contract::client(&kubeconfig).await.expect("the client is made");
    let failures = contract::run_all(&client).await;
    plane.stop().await.expect("the control plane stops");
    let text: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(
        failures.is_empty(),
        "{} of {} fail:\n{}",
        failures.len(),
        contract::all().len(),
        text.join("\n")
    );
}
