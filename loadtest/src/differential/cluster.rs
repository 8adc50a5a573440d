//! The generated cluster: namespaces, nodes, Services and owners, priority and storage classes, volumes and claims.
//!
//! Everything comes from one random generator, so that a seed gives the same cluster.
//!
//! Does not: make the pods (see `pods`).

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::state::{
    BUDGETS, CONTROLLERS, CSI_DRIVERS, CSI_NODES, Kind, NAMESPACES, NODES, PRIORITY_CLASSES, REPLICA_SETS, SERVICES,
    STATEFUL_SETS, STORAGE_CLASSES, VOLUMES,
};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const RACK: &str = "example.com/rack";
/// Namespaces and their labels.
pub(super) const SPACES: [(&str, &[(&str, &str)]); 4] = [
    ("default", &[]),
    ("team-a", &[("team", "a"), ("env", "prod")]),
    ("team-b", &[("team", "b"), ("env", "test")]),
    ("team-c", &[("env", "prod")]),
];
/// Values of the label `app`.
pub(super) const APPS: u32 = 12;
/// Images that nodes hold and containers run.
pub(super) const IMAGES: u32 = 20;
pub(super) const ZONES: u32 = 4;
const RACKS: u32 = 6;
/// Apps with a Service, and with each kind of owner.
const SERVED: u32 = 4;
/// Classes whose pods never preempt, and of which none is below the pods without a class.
pub(super) const NEVER: [(&str, i32); 2] = [("never-middle", 100), ("never-high", 1_000)];
/// Classes whose pods preempt.
pub(super) const PREEMPTING: [(&str, i32); 2] = [("preempting-middle", 500), ("preempting-high", 10_000)];
/// Volumes that may be bound to claims without a driver, on single nodes.
const LOCAL_VOLUMES: u32 = 60;
/// The driver that attaches, with a limit on each node.
pub(super) const DRIVER: &str = "csi.example.com";
/// The class whose volumes exist beforehand and are chosen with the node.
pub(super) const LOCAL_CLASS: &str = "local";
/// The class whose volumes are made once the node is chosen.
pub(super) const LATE_CLASS: &str = "late";
/// The same, in two zones alone.
pub(super) const ZONED_CLASS: &str = "late-zoned";
/// The class whose claims are bound at once; nobody binds them here.
pub(super) const IMMEDIATE_CLASS: &str = "immediate";

/// Objects to create, in order; the status of some is written apart.
pub(super) type Objects = Vec<(Kind, Value)>;

/// True in so many of a hundred cases.
pub(super) fn hit(random: &mut Pcg64Mcg, percent: u32) -> bool {
    random.random_range(0..100) < percent
}

/// One of several.
pub(super) fn pick<T: Copy>(random: &mut Pcg64Mcg, of: &[T]) -> Option<T> {
    let index = random.random_range(0..of.len().max(1));
    of.get(index).copied()
}

/// One of several texts; empty for none.
pub(super) fn word<'a>(random: &mut Pcg64Mcg, of: &[&'a str]) -> &'a str {
    pick(random, of).unwrap_or_default()
}

/// The whole cluster without pods and claims.
pub(super) fn cluster(random: &mut Pcg64Mcg, nodes: usize) -> Objects {
    let mut objects = Objects::new();
    for (name, labels) in SPACES {
        let labels: serde_json::Map<String, Value> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        objects.push((
            NAMESPACES,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        ));
    }
    for (policy, classes) in [("Never", NEVER), ("PreemptLowerPriority", PREEMPTING)] {
        objects.extend(classes.map(|(name, value)| {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "preemptionPolicy": policy,
            });
            (PRIORITY_CLASSES, class)
        }));
    }
    storage(&mut objects);
    for index in 0..nodes {
        objects.push((NODES, node(random, index)));
    }
    for index in (0..nodes).filter(|index| index % 4 != 3) {
        objects.push((CSI_NODES, csi_node(random, index)));
    }
    for index in 0..LOCAL_VOLUMES {
        objects.push((VOLUMES, local_volume(random, index, nodes)));
    }
    owners(&mut objects);
    objects
}

pub(super) fn node_name(index: usize) -> String {
    format!("node-{index:04}")
}

/// A node; the first ten show every shape.
pub(super) fn node(random: &mut Pcg64Mcg, index: usize) -> Value {
    let name = node_name(index);
    let (cpu, memory, pods) = match index % 10 {
        0..5 => ("4", "8Gi", "40"),
        5..8 => ("8", "32Gi", "60"),
        8 => ("16", "16Gi", "110"),
        _ => ("2", "64Gi", "8"),
    };
    let mut labels = json!({
        HOST: name, "kubernetes.io/os": "linux", "disk": if index.is_multiple_of(2) { "ssd" } else { "hdd" },
        RACK: format!("rack-{}", random.random_range(0..RACKS)), "cores": cpu,
        "tier": word(random, &["gold", "silver", "bronze"]),
    });
    if index % 10 != 7 {
        labels[ZONE] = format!("zone-{}", random.random_range(0..ZONES)).into();
    }
    let mut resources = json!({"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "50Gi"});
    if hit(random, 25) {
        resources["example.com/gadget"] = "4".into();
    }
    let taint = |key: &str, effect: &str| json!({"key": key, "value": "yes", "effect": effect});
    let taints = match (index, random.random_range(0..100)) {
        (1, _) | (10.., 0..10) => vec![taint("dedicated", "NoSchedule")],
        (3, _) | (10.., 10..22) => vec![taint("busy", "PreferNoSchedule")],
        (4, _) | (10.., 22..26) => vec![taint("leaving", "NoExecute"), taint("busy", "PreferNoSchedule")],
        _ => Vec::new(),
    };
    let first = random.random_range(0..IMAGES);
    let images: Vec<Value> = (first..first + 6)
        .map(|number| json!({"names": [image(number % IMAGES)], "sizeBytes": 90_000_000 * u64::from(number % IMAGES + 1)}))
        .collect();
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "generated"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": index == 6 || (index > 10 && hit(random, 3))},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready], "images": images},
    })
}

pub(super) fn image(number: u32) -> String {
    format!("registry.example.com/app-{number}:v1")
}

fn csi_node(random: &mut Pcg64Mcg, index: usize) -> Value {
    let name = node_name(index);
    let driver = json!({
        "name": DRIVER, "nodeID": name, "topologyKeys": [HOST],
        "allocatable": {"count": random.random_range(1..4)},
    });
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]},
    })
}

fn storage(objects: &mut Objects) {
    objects.push((
        CSI_DRIVERS,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {"attachRequired": true, "storageCapacity": false},
        }),
    ));
    let zones = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-0", "zone-1"]}]}]);
    let classes = [
        (
            LOCAL_CLASS,
            "kubernetes.io/no-provisioner",
            "WaitForFirstConsumer",
            Value::Null,
        ),
        (LATE_CLASS, DRIVER, "WaitForFirstConsumer", Value::Null),
        (ZONED_CLASS, DRIVER, "WaitForFirstConsumer", zones),
        (IMMEDIATE_CLASS, DRIVER, "Immediate", Value::Null),
    ];
    objects.extend(classes.map(|(name, provisioner, mode, topologies)| {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": topologies,
        });
        (STORAGE_CLASSES, class)
    }));
}

/// A volume on one node, or on all of a zone.
fn local_volume(random: &mut Pcg64Mcg, index: u32, nodes: usize) -> Value {
    let (key, value) = if index.is_multiple_of(3) {
        (ZONE, format!("zone-{}", random.random_range(0..ZONES)))
    } else {
        (HOST, node_name(random.random_range(0..nodes.max(1))))
    };
    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("local-{index:03}")},
        "spec": {
            "capacity": {"storage": word(random, &["1Gi", "5Gi", "20Gi"])}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": LOCAL_CLASS, "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": format!("/disks/{index}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    })
}

/// Services and owners of the first apps, without any controller that acts on them; and budgets.
fn owners(objects: &mut Objects) {
    for (namespace, _) in SPACES {
        for app in 0..SERVED {
            let labels = json!({"app": format!("app-{app}")});
            let metadata = |kind: &str| json!({"name": format!("{kind}-{app}"), "namespace": namespace});
            let container = json!({"name": "main", "image": image(app)});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
            let mut add = |kind: Kind, version: &str, name: &str, spec: Value| {
                let object = json!({
                    "apiVersion": version, "kind": name, "metadata": metadata(&name.to_lowercase()), "spec": spec,
                });
                objects.push((kind, object));
            };
            let selector = json!({"matchLabels": labels});
            match app {
                0 => add(
                    SERVICES,
                    "v1",
                    "Service",
                    json!({"selector": labels, "ports": [{"port": 80}]}),
                ),
                1 => {
                    let spec = json!({"replicas": 0, "selector": selector, "template": template});
                    add(REPLICA_SETS, "apps/v1", "ReplicaSet", spec);
                }
                2 => {
                    let spec =
                        json!({"replicas": 0, "selector": selector, "template": template, "serviceName": "service-0"});
                    add(STATEFUL_SETS, "apps/v1", "StatefulSet", spec);
                }
                _ => {
                    let spec = json!({"replicas": 0, "selector": labels, "template": template});
                    add(CONTROLLERS, "v1", "ReplicationController", spec);
                }
            }
        }
        for (app, allowed) in [(4, 0), (5, 1), (6, 3)] {
            let budget = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": format!("budget-{app}"), "namespace": namespace},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": format!("app-{app}")}}},
                "status": {
                    "disruptionsAllowed": allowed, "currentHealthy": 5, "desiredHealthy": 1, "expectedPods": 5,
                    "observedGeneration": 1,
                },
            });
            objects.push((BUDGETS, budget));
        }
    }
}
