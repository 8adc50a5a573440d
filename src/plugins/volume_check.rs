//! Volume objects and pods with volumes, for the volume plugins' tests.

use serde_json::{Value, json};

use crate::cluster::watch::decode_volume_object;
use crate::cluster::{VolumeKind, VolumeObject};
use crate::framework::EventObject;
use crate::testing::{NodeBuilder, PodBuilder, World, pod};

fn object(kind: VolumeKind, name: &str, rest: Value) -> VolumeObject {
    let mut json = rest;
    json["metadata"]["name"] = name.into();
    decode_volume_object(kind, &json.to_string()).unwrap()
}

fn of_parts(kind: VolumeKind, name: &str, metadata: Value, spec: Value) -> VolumeObject {
    let mut json = json!({});
    json["metadata"] = metadata;
    json["spec"] = spec;
    object(kind, name, json)
}

/// A claim in the namespace `default`, of these parts of its spec.
pub(super) fn claim(name: &str, spec: Value) -> VolumeObject {
    claim_of(name, json!({"namespace": "default"}), spec)
}

/// A claim with this metadata.
pub(super) fn claim_of(name: &str, metadata: Value, spec: Value) -> VolumeObject {
    of_parts(VolumeKind::Claim, name, metadata, spec)
}

/// A claim that is bound to a volume.
pub(super) fn bound(name: &str, volume: &str) -> VolumeObject {
    claim(name, json!({"volumeName": volume}))
}

/// A claim that waits for a volume of a class.
pub(super) fn unbound(name: &str, class: &str) -> VolumeObject {
    claim(name, json!({"storageClassName": class}))
}

/// A claim with one access mode.
pub(super) fn with_mode(name: &str, mode: &str) -> VolumeObject {
    claim(name, json!({"accessModes": [mode]}))
}

/// A volume with these labels and parts of its spec.
pub(super) fn volume(name: &str, labels: Value, spec: Value) -> VolumeObject {
    let mut metadata = json!({});
    metadata["labels"] = labels;
    of_parts(VolumeKind::Volume, name, metadata, spec)
}

/// A volume of a CSI driver; its handle is its name.
pub(super) fn csi_volume(name: &str, driver: &str) -> VolumeObject {
    volume(
        name,
        json!({}),
        json!({"csi": {"driver": driver, "volumeHandle": name}}),
    )
}

/// A StorageClass; an empty mode is left out.
pub(super) fn class(name: &str, provisioner: &str, mode: &str) -> VolumeObject {
    let mut json = json!({"provisioner": provisioner});
    if !mode.is_empty() {
        json["volumeBindingMode"] = mode.into();
    }
    object(VolumeKind::Class, name, json)
}

/// A CSINode with drivers and their limits.
pub(super) fn csi_node(name: &str, drivers: &[(&str, Option<i32>)]) -> VolumeObject {
    let drivers = drivers.iter().map(|(driver, limit)| match limit {
        Some(limit) => json!({"name": driver, "nodeID": name, "allocatable": {"count": limit}}),
        None => json!({"name": driver, "nodeID": name}),
    });
    let drivers: Vec<Value> = drivers.collect();
    object(VolumeKind::CsiNode, name, json!({"spec": {"drivers": drivers}}))
}

/// A VolumeAttachment.
pub(super) fn attachment(name: &str, node: &str, attacher: &str, volume: &str) -> VolumeObject {
    let source = json!({"persistentVolumeName": volume});
    let spec = json!({"attacher": attacher, "nodeName": node, "source": source});
    object(VolumeKind::Attachment, name, json!({"spec": spec}))
}

/// A pod with a volume for each source, called `v0`, `v1` and so on.
pub(super) fn pod_with(name: &str, sources: &[Value]) -> PodBuilder {
    let named = sources.iter().enumerate().map(|(at, source)| {
        let mut volume = source.clone();
        volume["name"] = format!("v{at}").into();
        volume
    });
    pod(name).field(&["spec", "volumes"], named.collect::<Vec<_>>())
}

/// A pod that uses claims.
pub(super) fn pod_claiming(name: &str, claims: &[&str]) -> PodBuilder {
    let source = |claim: &&str| json!({"persistentVolumeClaim": {"claimName": claim}});
    pod_with(name, &claims.iter().map(source).collect::<Vec<_>>())
}

/// A small cluster with volume objects.
pub(super) fn world(nodes: &[NodeBuilder], pods: &[PodBuilder], objects: &[VolumeObject]) -> World {
    let world = super::check::world(nodes, pods);
    for object in objects {
        world.add_volume_object(object.clone());
    }
    world
}

/// The event's object for a volume object that came or changed.
pub(super) fn volume_event(old: Option<&VolumeObject>, new: &VolumeObject) -> EventObject {
    EventObject::Volume {
        old: old.cloned(),
        new: Some(new.clone()),
    }
}

/// The event's object for a volume object that went.
pub(super) fn volume_gone(old: &VolumeObject) -> EventObject {
    EventObject::Volume {
        old: Some(old.clone()),
        new: None,
    }
}
