//! `mixed`: what clusters hold besides equal pods, as far as it depends on a node and its use alone.
//!
//! Nodes (by share): 50% general 8 cpu/32Gi, 25% compute 16/32Gi, 15% memory 8/64Gi, 10% `dedicated=batch:NoSchedule` 16/64Gi.
//! Half have `disk=ssd`, the others `disk=hdd`; 5% of the rest have a `PreferNoSchedule` taint; each holds 5 of 20 images.
//!
//! Pods (by share, independent of each other): sizes 50% 100m/128Mi, 25% 250m/512Mi, 15% 500m/1Gi, 8% 1/2Gi, 2% 2/4Gi;
//! 20% `nodeSelector disk=ssd`; 15% required affinity to two of the zones; 15% preferred affinity to one zone; 10%
//! tolerate the dedicated taint and half of those require such a node; 5% a host port between 8000 and 8999; 10% class
//! `mixed-high`, 5% class `mixed-low`; every pod has one of 50 `app` labels and one of 20 images.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::{WorkloadParams, node_labels, ready_node};

/// Classes that the pods name.
pub(super) const PRIORITY_CLASSES: [(&str, i32); 2] = [("mixed-high", 1_000), ("mixed-low", -10)];
const IMAGES: usize = 20;
const APPS: usize = 50;

pub(super) fn node(index: usize, params: &WorkloadParams, random: &mut Pcg64Mcg) -> Value {
    let name = format!("node-{index:06}");
    let mut labels = node_labels(&name, index, params.zones);
    // The first ten nodes show every shape, so that small clusters have them all.
    let share = if index < 10 {
        index * 10
    } else {
        random.random_range(0..100)
    };
    let (class, cpu, memory) = match share {
        0..50 => ("general", "8", "32Gi"),
        50..75 => ("compute", "16", "32Gi"),
        75..90 => ("memory", "8", "64Gi"),
        _ => ("batch", "16", "64Gi"),
    };
    labels["node.kubernetes.io/instance-type"] = class.into();
    labels["disk"] = if index.is_multiple_of(2) { "ssd" } else { "hdd" }.into();
    let resources = json!({"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"});
    let soft = random.random_range(0..100) < 5;
    if class == "batch" {
        labels["dedicated"] = "batch".into();
    }
    let mut node = ready_node(&name, &labels, &resources);
    if class == "batch" {
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    } else if soft {
        node["spec"]["taints"] = json!([{"key": "example.com/busy", "value": "true", "effect": "PreferNoSchedule"}]);
    }
    let first = random.random_range(0..IMAGES);
    let images: Vec<Value> = (first..first + 5)
        .map(|number| {
            let number = number % IMAGES;
            json!({"names": [image(number)], "sizeBytes": 50_000_000 * (number + 1)})
        })
        .collect();
    node["status"]["images"] = images.into();
    node
}

fn image(number: usize) -> String {
    format!("registry.example.com/app-{number}:v1")
}

pub(super) fn pod(index: usize, params: &WorkloadParams, random: &mut Pcg64Mcg) -> Value {
    let (cpu, memory) = match random.random_range(0..100) {
        0..50 => ("100m", "128Mi"),
        50..75 => ("250m", "512Mi"),
        75..90 => ("500m", "1Gi"),
        90..98 => ("1", "2Gi"),
        _ => ("2", "4Gi"),
    };
    let mut container = json!({
        "name": "app", "image": image(random.random_range(0..IMAGES)),
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    });
    let mut hit = |percent: u32| random.random_range(0..100) < percent;
    let (ssd, two_zones, one_zone, tolerates) = (hit(20), hit(15), hit(15), hit(10));
    let (dedicated, host_port, high, low) = (tolerates && hit(50), hit(5), hit(10), hit(5));
    if host_port {
        let port = random.random_range(8_000..9_000);
        container["ports"] = json!([{"containerPort": port, "hostPort": port, "protocol": "TCP"}]);
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{}-{index:07}", params.pod_prefix),
            "labels": {"app": format!("app-{}", random.random_range(0..APPS))},
        },
        "spec": {"containers": [container]},
    });
    if ssd {
        pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    }
    let mut zone = || format!("zone-{}", random.random_range(0..params.zones));
    let mut required: Vec<Value> = Vec::new();
    if two_zones {
        required.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone(), zone()]}));
    }
    if tolerates {
        pod["spec"]["tolerations"] =
            json!([{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]);
    }
    if dedicated && !two_zones && !ssd {
        required.push(json!({"key": "dedicated", "operator": "In", "values": ["batch"]}));
    }
    if !required.is_empty() {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchExpressions": required}]});
    }
    if one_zone {
        let expression = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone()]});
        pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"weight": 10, "preference": {"matchExpressions": [expression]}}]);
    }
    let class = if high {
        Some("mixed-high")
    } else if low {
        Some("mixed-low")
    } else {
        None
    };
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod
}
