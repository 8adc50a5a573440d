//! Claims, nodes, promises and hints.

mod binding;
mod claims;
mod hints;
mod nodes;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::watch::decode_volume_object;
use crate::cluster::{VolumeKind, VolumeObject};
use crate::framework::Plugin;
use crate::plugins::check::{self, plugin};
use crate::testing::{NodeBuilder, PodBuilder, World, node, pod};

fn binding() -> Arc<dyn Plugin> {
    plugin("VolumeBinding")
}

/// An object of these parts.
fn object(kind: VolumeKind, name: &str, parts: &Value) -> VolumeObject {
    let mut json = parts.clone();
    json["metadata"]["name"] = name.into();
    if matches!(kind, VolumeKind::Claim | VolumeKind::Capacity) {
        json["metadata"]["namespace"] = "default".into();
    }
    if json["metadata"]["resourceVersion"].is_null() {
        json["metadata"]["resourceVersion"] = "1".into();
    }
    decode_volume_object(kind, &json.to_string()).unwrap()
}

/// A class that waits for the first consumer.
fn waiting_class(name: &str, provisioner: &str) -> VolumeObject {
    let parts = json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    object(VolumeKind::Class, name, &parts)
}

/// Local volumes.
fn local() -> VolumeObject {
    waiting_class("local", "kubernetes.io/no-provisioner")
}

/// An unbound claim of a class.
fn unbound(name: &str, class: &str, gib: u32) -> VolumeObject {
    object(
        VolumeKind::Claim,
        name,
        &json!({"metadata": {"uid": format!("uid-{name}")}, "spec": {"storageClassName": class,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": format!("{gib}Gi")}}}}),
    )
}

/// A claim that is bound to a volume.
fn bound(name: &str, volume: &str) -> VolumeObject {
    object(
        VolumeKind::Claim,
        name,
        &json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"storageClassName": "local", "volumeName": volume}}),
    )
}

/// The parts of a free volume of the class `local` on a node.
fn local_parts(node: &str, gib: u32) -> Value {
    json!({
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": format!("{gib}Gi")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}},
        },
        "status": {"phase": "Available"},
    })
}

/// A free local volume.
fn on_node(name: &str, node: &str, gib: u32) -> VolumeObject {
    object(VolumeKind::Volume, name, &local_parts(node, gib))
}

/// A pod with these claims.
fn claiming(name: &str, claims: &[&str]) -> PodBuilder {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod(name).field(&["spec", "volumes"], Value::Array(volumes.collect()))
}

/// A pod with a generic ephemeral volume.
fn ephemeral(name: &str, volume: &str) -> PodBuilder {
    pod(name).field(&["spec", "volumes"], json!([{"name": volume, "ephemeral": {}}]))
}

fn world(nodes: &[NodeBuilder], objects: &[VolumeObject]) -> World {
    let world = check::world(nodes, &[]);
    for object in objects {
        world.add_volume_object(object.clone());
    }
    world
}

/// Two nodes.
fn two() -> [NodeBuilder; 2] {
    [node("n1").zone("a"), node("n2").zone("b")]
}

/// What PreFilter, or else the filter on `n1` and `n2`, says.
fn filtered(pod: &PodBuilder, objects: &[VolumeObject]) -> String {
    check::filter(&*binding(), pod, &world(&two(), objects)).join("; ")
}
