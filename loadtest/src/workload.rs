//! Workloads as requests: the objects of a named workload, serialised once and ready to be sent.
//!
//! Does not: define the workloads.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use serde_json::json;

use crate::populate::Item;

/// Which workload, how large.
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// Its name: `basic`, `mixed` or `openb`.
    pub name: String,
    /// Nodes; a trace has its own number.
    pub nodes: Option<usize>,
    /// Pods; a trace has its own number.
    pub pods: Option<usize>,
    /// The folder with the trace's files.
    pub trace: Option<PathBuf>,
    /// Makes a random workload repeatable.
    pub seed: u64,
}

/// A workload's objects as requests.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What must exist first, in order: namespaces, priority classes.
    pub setup: Vec<Item>,
    /// The nodes.
    pub nodes: Vec<Item>,
    /// The pods in order of submission.
    pub pods: Vec<Item>,
    /// Namespace and name of each pod.
    pub pod_names: Vec<(Box<str>, Box<str>)>,
    /// The nodes' names.
    pub node_names: Vec<Box<str>>,
    /// Pods that surely fit on one node, for the bare client.
    pub pods_per_node: usize,
}

/// Makes a workload's requests.
///
/// # Errors
/// When the workload is unknown or its trace cannot be read.
pub fn prepare(spec: &WorkloadSpec) -> Result<Prepared> {
    if spec.name != "basic" {
        bail!("unknown workload {}", spec.name);
    }
    let node = |i: usize| json!({"apiVersion":"v1","kind":"Node","metadata":{"name":format!("node-{i:05}"),"labels":{"kubernetes.io/hostname":format!("node-{i:05}")}},"status":{"capacity":{"cpu":"4","memory":"32Gi","pods":"110"},"allocatable":{"cpu":"4","memory":"32Gi","pods":"110"}}});
    let pod = |i: usize| json!({"apiVersion":"v1","kind":"Pod","metadata":{"name":format!("pod-{i:06}"),"namespace":"default"},"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.10","resources":{"requests":{"cpu":"100m","memory":"500Mi"},"limits":{"cpu":"100m","memory":"500Mi"}}}]}});
    let (nodes, pods) = (spec.nodes.unwrap_or(1000), spec.pods.unwrap_or(1000));
    let item = |path: &str, body: serde_json::Value| Item {
        path: Arc::from(path),
        body: Bytes::from(body.to_string()),
    };
    Ok(Prepared {
        setup: Vec::new(),
        nodes: (0..nodes).map(|i| item("/api/v1/nodes", node(i))).collect(),
        pods: (0..pods)
            .map(|i| item("/api/v1/namespaces/default/pods", pod(i)))
            .collect(),
        pod_names: (0..pods)
            .map(|i| ("default".into(), format!("pod-{i:06}").into()))
            .collect(),
        node_names: (0..nodes).map(|i| format!("node-{i:05}").into()).collect(),
        pods_per_node: 40,
    })
}
