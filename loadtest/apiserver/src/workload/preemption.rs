//! `preemption`: a full cluster, and pods that fit only where others go.
//!
//! Every node (4 cpu, 32Gi, 110 pods) holds four pods of 900m and priority 0 from the start; each pod to be scheduled
//! wants 3000m at priority 10, so that three of the four must go: `node-default`, `pod-low-priority` and
//! `pod-high-priority` of scheduler_perf. The pods that may go ask for no grace, so that a deletion needs no kubelet.

use serde_json::{Value, json};

/// The namespace of the pods that fill the nodes.
pub const FILLED_NAMESPACE: &str = "filled";
/// Pods that each node holds from the start.
pub const FILLERS_PER_NODE: usize = 4;
/// Pods of a node that must go for one pod to fit: 4000m − 3600m + 3 × 900m ≥ 3000m.
pub const VICTIMS_PER_POD: usize = 3;
/// The class of the pods to be scheduled, and its value.
pub(super) const PRIORITY_CLASS: (&str, i32) = ("preemptor", 10);

/// The pod with this index among those that fill the nodes; nodes are filled one after the other.
pub(super) fn filler(index: usize) -> Value {
    let node = format!("node-{:06}", index / FILLERS_PER_NODE);
    let name = format!("filler-{:06}-{}", index / FILLERS_PER_NODE, index % FILLERS_PER_NODE);
    let mut pod = pod_of(&name, "900m");
    pod["metadata"]["namespace"] = FILLED_NAMESPACE.into();
    pod["spec"]["nodeName"] = node.into();
    pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
    pod
}

pub(super) fn pod(index: usize, prefix: &str) -> Value {
    let mut pod = pod_of(&format!("{prefix}-{index:07}"), "3000m");
    pod["spec"]["priorityClassName"] = PRIORITY_CLASS.0.into();
    pod
}

fn pod_of(name: &str, cpu: &str) -> Value {
    let resources = json!({"cpu": cpu, "memory": "500Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "pause", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": resources, "limits": resources},
        }]},
    })
}
