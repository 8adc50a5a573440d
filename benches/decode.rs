//! How long does one pod or node take from JSON to compiled form?
//!
//! Input: a running pod of about 4 KB as a kubelet's status updates show it (managed fields and all), a pending pod of
//! a Deployment of about 2 KB, a node with 50 images of about 12 KB. Target: 10 µs for the running pod, class look-up
//! included, on one core of the reference machine (spec figure for slim decoding alone: 6.2 µs).

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use supercargo::cluster::watch::{PodObject, decode_node, decode_pod};
use supercargo::cluster::{ClassTable, LabelVisibility};
use supercargo::testing::{NodeBuilder, PodBuilder, node, pod};

fn pending() -> PodBuilder {
    let base = pod("web-6d4cf56db6-x7k2p")
        .namespace("shop")
        .label("app.kubernetes.io/name", "web")
        .label("app.kubernetes.io/instance", "web-eu")
        .label("pod-template-hash", "6d4cf56db6")
        .image("registry.example/shop/web:v1.27.3")
        .cpu(250)
        .memory_mi(512)
        .priority(1000)
        .toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute")
        .toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute")
        .node_selector("kubernetes.io/os", "linux")
        .created("2026-01-01T00:00:00Z");
    let env: Vec<Value> = (0..10)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("a value of some length, number {i}")}))
        .collect();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6", "controller": true}]);
    let volumes = json!([{"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}}]);
    let mut spec = base.json()["spec"].clone();
    spec["containers"][0]["env"] = env.into();
    spec["volumes"] = volumes;
    base.field(&["spec"], spec)
        .field(&["metadata", "ownerReferences"], owner)
}

fn running() -> PodBuilder {
    let fields: Value = (0..30)
        .map(|i| (format!("f:field{i}"), json!({"f:a": {}, "f:b": {}})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let managed = json!([{"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "kubelet"}]);
    let requests = json!({"cpu": "250m", "memory": "512Mi"});
    let status = json!([{
        "name": "main", "image": "registry.example/shop/web:v1.27.3", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
        "resources": {"requests": requests}, "allocatedResources": requests,
    }]);
    let mut builder = pending()
        .on("node-0042")
        .started("2026-01-01T00:00:02Z")
        .resource_version(123_456)
        .field(&["metadata", "managedFields"], managed)
        .field(&["status", "containerStatuses"], status);
    for kind in ["PodScheduled", "Initialized", "Ready", "ContainersReady"] {
        builder = builder.condition(kind, "True", "", "");
    }
    builder
}

fn big_node() -> NodeBuilder {
    let mut builder = node("node-0042")
        .cpu(64_000)
        .memory_gi(256)
        .zone("zone-a")
        .condition("Ready", "True")
        .annotation("csi.volume.kubernetes.io/nodeid", "{}");
    for i in 0..50 {
        let name = format!("registry.example/team/image-{i}@sha256:{i:064x}");
        builder = builder.image(&name, 100 << 20);
    }
    builder
}

fn decode(c: &mut Criterion) {
    let classes = ClassTable::new(LabelVisibility::All);
    let mut group = c.benchmark_group("decode");
    for (name, text) in [
        ("pod_running", running().json().to_string()),
        ("pod_pending", pending().json().to_string()),
    ] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| b.iter(|| decode_pod(black_box(&text), &classes)));
        group.bench_function(format!("{name}_as_watched"), |b| {
            b.iter(|| serde_json::from_str::<PodObject>(black_box(&text)).map(PodObject::into_decoded));
        });
    }
    let text = big_node().json().to_string();
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("node", |b| b.iter(|| decode_node(black_box(&text))));
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
