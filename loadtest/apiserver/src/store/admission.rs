//! What happens to an object between the request and the store: defaults, protected fields, kind rules.
//!
//! Source: the strategies in `pkg/registry/*/*/strategy.go`, defaults in `pkg/apis/*/v1/defaults.go` and the admission
//! plugins Priority and DefaultStorageClass, as far as scheduling sees them.
//!
//! Does not: validate whole objects against their schema; quantities are kept as written.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::writes::WriteTarget;
use super::{Store, key_of};
use crate::error::ApiError;
use crate::meta;

mod pod;

/// Metadata that only the server sets.
const PROTECTED: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "generation",
];

/// Prepares a new object: drops what clients may not set and fills defaults.
pub(super) fn prepare_create(
    store: &Store,
    kind: &Kind,
    namespace: &str,
    body: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    // A node brings its own status; everything else with a status subresource starts without one.
    if kind.has_status && kind.kind != "Node" {
        body.remove("status");
    }
    match kind.kind.as_ref() {
        "Pod" if !kind.custom => pod::prepare_create(store, body)?,
        "Node" => default_node(body),
        "Namespace" => {
            let name = body
                .get("metadata")
                .and_then(|metadata| meta::text(metadata, &["name"]))
                .unwrap_or_default();
            let name = name.to_owned();
            let labels = meta::section(meta::section(body, "metadata"), "labels");
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
            body.insert("status".into(), json!({"phase": "Active"}));
        }
        "PersistentVolumeClaim" => {
            default_claim(store, body)?;
            body.insert("status".into(), json!({"phase": "Pending"}));
        }
        "PersistentVolume" => {
            default_kind(kind, body);
            body.insert("status".into(), json!({"phase": "Pending"}));
        }
        "PodDisruptionBudget" => {
            let zero = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
            body.insert("status".into(), zero);
        }
        "Event" => check_event(namespace, body)?,
        "CustomResourceDefinition" => super::crd::prepare(body)?,
        _ => default_kind(kind, body),
    }
    Ok(())
}

/// Prepares a changed object: keeps protected metadata and the part that the addressed subresource does not own.
pub(super) fn prepare_update(store: &Store, target: &WriteTarget, old: &Value, new: Value) -> Result<Value, ApiError> {
    let kind = &target.resource.kind;
    let Value::Object(mut new) = new else {
        return Err(ApiError::bad_request("the changed object is not a JSON object"));
    };
    let empty = Map::new();
    let old_map = old.as_object().unwrap_or(&empty);
    keep(&mut new, old_map, &["apiVersion", "kind"]);
    let metadata = meta::section(&mut new, "metadata");
    let old_metadata = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    keep(metadata, old_metadata, &PROTECTED);
    keep(metadata, old_metadata, &["resourceVersion"]);
    metadata.remove("managedFields");
    match target.subresource.as_str() {
        "status" => {
            let owned: Vec<String> = old_map.keys().chain(new.keys()).cloned().collect();
            let kept: Vec<&str> = owned
                .iter()
                .map(String::as_str)
                .filter(|key| !matches!(*key, "status" | "metadata"))
                .collect();
            keep(&mut new, old_map, &kept);
        }
        "resize" => {
            keep(&mut new, old_map, &["status"]);
            pod::prepare_resize(old, &mut new, &target.name)?;
        }
        _ => {
            if kind.has_status {
                keep(&mut new, old_map, &["status"]);
            }
            match kind.kind.as_ref() {
                "Pod" if !kind.custom => pod::prepare_update(old, &mut new, &target.name)?,
                "CustomResourceDefinition" => super::crd::prepare(&mut new)?,
                "PersistentVolumeClaim" => default_claim(store, &mut new)?,
                _ => default_kind(kind, &mut new),
            }
        }
    }
    if kind.has_generation && target.subresource != "status" {
        bump_generation(old_map, &mut new);
    }
    Ok(Value::Object(new))
}

/// Whether an object whose deletion was asked for may go now: no finalizer and no grace left.
pub(super) fn is_released(object: &Value) -> bool {
    let metadata = object.get("metadata");
    let deleting = metadata
        .and_then(|metadata| metadata.get("deletionTimestamp"))
        .is_some_and(|time| !time.is_null());
    let grace = metadata
        .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
        .and_then(Value::as_i64);
    deleting && grace.unwrap_or_default() == 0 && !has_finalizers(object)
}

/// Whether the object has finalizers.
pub(super) fn has_finalizers(object: &Value) -> bool {
    meta::get(object, &["metadata", "finalizers"])
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}

/// Puts the old values (or their absence) back.
fn keep(new: &mut Map<String, Value>, old: &Map<String, Value>, keys: &[&str]) {
    for key in keys {
        match old.get(*key) {
            Some(value) => new.insert((*key).to_owned(), value.clone()),
            None => new.remove(*key),
        };
    }
}

fn bump_generation(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let rest = |object: &Map<String, Value>| -> Vec<(String, Value)> {
        let members = object
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"));
        members.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    if rest(old) == rest(new) {
        return;
    }
    let metadata = meta::section(new, "metadata");
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    metadata.insert("generation".into(), generation.saturating_add(1).into());
}

/// Capacity is allocatable where only capacity is given.
fn default_node(body: &mut Map<String, Value>) {
    let status = meta::section(body, "status");
    if let (None | Some(Value::Null), Some(capacity)) = (status.get("allocatable"), status.get("capacity").cloned()) {
        status.insert("allocatable".into(), capacity);
    }
    meta::section(body, "spec");
}

fn default_claim(store: &Store, body: &mut Map<String, Value>) -> Result<(), ApiError> {
    let spec = meta::section(body, "spec");
    meta::set_default(spec, "volumeMode", "Filesystem");
    if spec.contains_key("storageClassName") {
        return Ok(());
    }
    let Ok(classes) = store.resource("storage.k8s.io", "storageclasses") else {
        return Ok(());
    };
    let (classes, _) = classes.snapshot();
    let default = classes.iter().find(|class| {
        let class = class.value();
        let path = ["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"];
        meta::text(&class, &path) == Some("true")
    });
    if let Some(class) = default {
        spec.insert("storageClassName".into(), class.name().into());
    }
    Ok(())
}

fn default_kind(kind: &Kind, body: &mut Map<String, Value>) {
    match kind.kind.as_ref() {
        "PersistentVolume" => {
            let spec = meta::section(body, "spec");
            meta::set_default(spec, "volumeMode", "Filesystem");
            meta::set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        }
        "StorageClass" => {
            meta::set_default(body, "volumeBindingMode", "Immediate");
            meta::set_default(body, "reclaimPolicy", "Delete");
        }
        "PriorityClass" => meta::set_default(body, "preemptionPolicy", "PreemptLowerPriority"),
        "CSIDriver" => {
            let spec = meta::section(body, "spec");
            meta::set_default(spec, "attachRequired", true);
            meta::set_default(spec, "podInfoOnMount", false);
            meta::set_default(spec, "storageCapacity", false);
            meta::set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        }
        "Service" => {
            let spec = meta::section(body, "spec");
            meta::set_default(spec, "type", "ClusterIP");
            meta::set_default(spec, "sessionAffinity", "None");
            for port in spec
                .get_mut("ports")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if let Value::Object(port) = port {
                    meta::set_default(port, "protocol", "TCP");
                }
            }
        }
        "ReplicaSet" | "StatefulSet" | "Deployment" | "ReplicationController" => {
            meta::set_default(meta::section(body, "spec"), "replicas", 1);
        }
        _ => {}
    }
}

fn check_event(namespace: &str, body: &Map<String, Value>) -> Result<(), ApiError> {
    let involved = body
        .get("involvedObject")
        .and_then(|involved| meta::text(involved, &["namespace"]));
    let involved = involved.unwrap_or_default();
    // Events about cluster-scoped objects live in "default".
    if involved == namespace || (involved.is_empty() && matches!(namespace, "default" | "kube-system")) {
        return Ok(());
    }
    Err(ApiError::invalid(
        "",
        "Event",
        "",
        "involvedObject.namespace",
        "does not match event.namespace",
    ))
}

/// The priority class of a pod, resolved.
pub(super) fn priority_class(store: &Store, name: &str) -> Result<Value, ApiError> {
    let classes = store.resource("scheduling.k8s.io", "priorityclasses")?;
    let class = classes
        .get(&key_of("", name))
        .ok_or_else(|| ApiError::forbidden("", "pods", "", &format!("no PriorityClass with name {name} was found")))?;
    Ok(class.value())
}
