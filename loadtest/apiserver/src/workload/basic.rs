//! `basic`: equal nodes and equal pods, the templates `node-default` and `pod-default` of scheduler_perf.

use serde_json::{Value, json};

use super::{node_labels, ready_node};

pub(super) fn node(index: usize, zones: usize) -> Value {
    let name = format!("node-{index:06}");
    let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    ready_node(&name, &node_labels(&name, index, zones), &resources)
}

pub(super) fn pod(index: usize, prefix: &str) -> Value {
    let resources = json!({"cpu": "100m", "memory": "500Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{prefix}-{index:07}")},
        "spec": {"containers": [{
            "name": "pause", "image": "registry.k8s.io/pause:3.10",
            "ports": [{"containerPort": 80}],
            "resources": {"requests": resources, "limits": resources},
        }]},
    })
}
