//! The server as a process of its own: the ready line, the kubeconfig, the end by signal.

#![expect(clippy::unwrap_used, reason = "a test ends at the first failure")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use serde_json::Value;
use supercargo_apiserver::contract;

/// Ends the process when the test ends, however it ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(arguments: &[&str]) -> (Process, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo-apiserver"));
    let child = command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut process = Process(child);
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready = serde_json::from_str(&line).unwrap_or_default();
    (process, ready)
}

#[tokio::test]
async fn a_process_serves_what_it_was_asked_to_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let path_text = path.to_str().unwrap();
    let arguments = [
        "--nodes",
        "7",
        "--pods",
        "30",
        "--workload",
        "mixed",
        "--tls",
        "--hollow",
        "--kubeconfig",
        path_text,
    ];
    let (_process, ready) = start(&arguments);
    assert_eq!((&ready["nodes"], &ready["pods"]), (&Value::from(7), &Value::from(30)));
    let client = contract::client(&std::fs::read_to_string(&path).unwrap())
        .await
        .unwrap();
    let nodes = Api::<Node>::all(client.clone())
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let pods = Api::<Pod>::all(client)
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    assert_eq!((nodes.items.len(), pods.items.len()), (7, 30));
}

#[test]
fn bad_arguments_end_the_process_with_an_error() {
    for arguments in [
        ["--workload", "other"],
        ["--zones", "0"],
        ["--nodes", "-1"],
        ["--port", "99999"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo-apiserver"));
        let output = command.args(arguments).args(["--pods", "1"]).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} is accepted");
        assert!(!output.stderr.is_empty(), "{arguments:?} is refused without a word");
    }
}
