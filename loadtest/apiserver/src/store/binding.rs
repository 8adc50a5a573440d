//! Binding a pod to a node: the one write that happens ten thousand times a second.
//!
//! The stored bytes are spliced: `spec.nodeName`, the topology labels and the status (a few hundred bytes) are rewritten,
//! the rest is copied.
//!
//! Source: `pkg/registry/core/pod/storage/storage.go` (`assignPod`, `setPodNodeAndMetadata`) and the admission plugin
//! PodTopologyLabels (the node's zone and region become labels of the pod). Refusals have the codes and texts that
//! kube-apiserver 1.36.3 gives.
//!
//! Does not: check that the node exists; a real API server does not either.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Store;
use super::object::{Draft, Index, Object};
use super::resource::{Resource, key_of};
use crate::error::ApiError;
use crate::meta;

/// Attempts before 409; each failure means that another write of this pod succeeded.
const MAX_ATTEMPTS: usize = 100;
/// Labels of nodes that their pods carry too.
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A request to bind a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BindRequest {
    /// Of the Binding: the pod's name and, as preconditions, UID and resource version.
    pub metadata: BindMetadata,
    /// The node.
    pub target: BindTarget,
}

/// Metadata of a Binding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BindMetadata {
    /// Pod name.
    pub name: String,
    /// Pod namespace; empty: that of the request.
    pub namespace: String,
    /// The pod must have this UID, unless empty.
    pub uid: String,
    /// The pod must have this version, unless empty.
    pub resource_version: String,
    /// Merged into the pod's annotations.
    pub annotations: Option<Map<String, Value>>,
    /// Merged into the pod's labels.
    pub labels: Option<Map<String, Value>>,
}

/// Target of a Binding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct BindTarget {
    /// `Node` or empty.
    pub kind: String,
    /// Node name.
    pub name: String,
}

/// The parts of a stored pod that a bind touches.
#[derive(Deserialize)]
struct Tail<'a> {
    #[serde(borrow)]
    metadata: TailMetadata<'a>,
    #[serde(borrow)]
    spec: &'a RawValue,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TailMetadata<'a> {
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
}

impl Store {
    /// Binds a pod.
    ///
    /// # Errors
    /// 404 when the pod is gone; 409 when it is bound, being deleted, gated, or a precondition fails; 500 for a bad target.
    pub fn bind(&self, namespace: &str, name: &str, request: &BindRequest) -> Result<Arc<Object>, ApiError> {
        let node = request.target.name.as_str();
        // Upstream returns these two as plain errors, which answer 500 without a reason.
        if !matches!(request.target.kind.as_str(), "" | "Node") {
            let kind = &request.target.kind;
            let message = format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
            return Err(ApiError::new(500, "", message));
        }
        if node.is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        let labels = self.topology_labels(node);
        let pods = self.pods()?;
        let key = key_of(namespace, name);
        for _ in 0..MAX_ATTEMPTS {
            let pod = pods.get(&key).ok_or_else(|| ApiError::not_found("", "pods", name))?;
            if let Some(bound) = try_bind(&pods, &pod, request, &labels)? {
                return Ok(bound);
            }
        }
        Err(ApiError::stale("", "pods", name))
    }

    /// Binds a pod in the shortest form, for tests and hollow schedulers.
    ///
    /// # Errors
    /// As [`Store::bind`].
    pub fn bind_to(&self, namespace: &str, name: &str, node: &str) -> Result<Arc<Object>, ApiError> {
        let target = BindTarget {
            kind: "Node".to_owned(),
            name: node.to_owned(),
        };
        let request = BindRequest {
            target,
            ..BindRequest::default()
        };
        self.bind(namespace, name, &request)
    }

    /// Zone and region of a node, which its pods carry too.
    pub(super) fn topology_labels(&self, node: &str) -> Vec<(&'static str, String)> {
        let node = self
            .resource("", "nodes")
            .ok()
            .and_then(|nodes| nodes.get(&key_of("", node)));
        let Some(node) = node else { return Vec::new() };
        let known = TOPOLOGY_LABELS.into_iter();
        known
            .filter_map(|key| Some((key, node.index.label(key)?.to_owned())))
            .collect()
    }
}

fn try_bind(
    pods: &Arc<Resource>,
    pod: &Arc<Object>,
    request: &BindRequest,
    topology: &[(&'static str, String)],
) -> Result<Option<Arc<Object>>, ApiError> {
    check_bindable(pod, request)?;
    let metadata = &request.metadata;
    let relabelled = topology.iter().any(|(key, _)| pod.index.label(key).is_some());
    if metadata.annotations.is_none() && metadata.labels.is_none() && !relabelled {
        let broken = || ApiError::new(500, "InternalError", "the stored pod cannot be parsed");
        let draft = splice(pod, &request.target.name, topology).ok_or_else(broken)?;
        return Ok(pods.replace(pod, &draft));
    }
    Ok(pods.replace(pod, &rewrite(pod, request, topology)))
}

fn check_bindable(pod: &Object, request: &BindRequest) -> Result<(), ApiError> {
    let name = pod.name();
    let conflict = |why: &str| ApiError::conflict("", "pods/binding", name, why);
    let metadata = &request.metadata;
    if !metadata.uid.is_empty() && metadata.uid != pod.uid() {
        let (wanted, found) = (&metadata.uid, pod.uid());
        let failed = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
        return Err(storage_conflict(pod, &failed));
    }
    if !metadata.resource_version.is_empty() && metadata.resource_version != pod.rv.to_string() {
        let (wanted, found) = (&metadata.resource_version, pod.rv);
        let failed = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"
        );
        return Err(storage_conflict(pod, &failed));
    }
    if pod.index.deleting {
        return Err(conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    if !pod.index.node_name.is_empty() {
        return Err(conflict(&format!(
            "pod {name} is already assigned to node {:?}",
            pod.index.node_name
        )));
    }
    if pod.index.gated {
        return Err(conflict(&format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    Ok(())
}

/// A failed precondition, in the words of upstream's storage layer.
fn storage_conflict(pod: &Object, failed: &str) -> ApiError {
    let key = format!("/registry/pods/{}", pod.key());
    let why =
        format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {failed}");
    ApiError::conflict("", "pods", pod.name(), &why)
}

/// Bytes of the stored tail to replace, and with what.
struct Edit {
    at: usize,
    length: usize,
    text: String,
}

/// Splices the node name, the topology labels and the new status into the stored bytes.
fn splice(pod: &Object, node: &str, topology: &[(&'static str, String)]) -> Option<Draft> {
    let json = pod.json();
    let parts: Tail<'_> = serde_json::from_slice(&json).ok()?;
    let tail = pod.tail();
    // Position of a value inside the tail, from its address inside the object.
    let offset = |part: &str| (part.as_ptr().addr() - json.as_ptr().addr()).checked_sub(json.len() - tail.len());
    let mut edits: Vec<Edit> = Vec::with_capacity(3);
    if !topology.is_empty() {
        let members: Vec<String> = topology
            .iter()
            .map(|(key, value)| format!("\"{key}\":{}", json!(value)))
            .collect();
        let members = members.join(",");
        edits.push(match parts.metadata.labels.map(RawValue::get) {
            Some(labels) if labels.len() > 2 => Edit {
                at: offset(labels)? + labels.len() - 1,
                length: 0,
                text: format!(",{members}"),
            },
            Some(labels) => Edit {
                at: offset(labels)?,
                length: labels.len(),
                text: format!("{{{members}}}"),
            },
            // The tail starts with the quote that closes the resource version.
            None => Edit {
                at: 1,
                length: 0,
                text: format!(",\"labels\":{{{members}}}"),
            },
        });
    }
    let spec = parts.spec.get();
    let comma = if spec.len() > 2 { "," } else { "" };
    edits.push(Edit {
        at: offset(spec)? + 1,
        length: 0,
        text: format!("\"nodeName\":{}{comma}", json!(node)),
    });
    let status = new_status(parts.status.map(RawValue::get))?;
    edits.push(match parts.status.map(RawValue::get) {
        Some(old) => Edit {
            at: offset(old)?,
            length: old.len(),
            text: status,
        },
        None => Edit {
            at: offset(spec)? + spec.len(),
            length: 0,
            text: format!(",\"status\":{status}"),
        },
    });
    edits.sort_by_key(|edit| edit.at);
    let mut out = Vec::with_capacity(tail.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut copied = 0;
    for edit in &edits {
        out.extend_from_slice(tail.get(copied..edit.at)?);
        out.extend_from_slice(edit.text.as_bytes());
        copied = edit.at + edit.length;
    }
    out.extend_from_slice(tail.get(copied..)?);
    let mut index = Index {
        node_name: node.into(),
        ..pod.index.clone()
    };
    if !topology.is_empty() {
        let mut labels = pod.index.labels.to_vec();
        labels.extend(
            topology
                .iter()
                .map(|(key, value)| (Box::from(*key), Box::from(value.as_str()))),
        );
        labels.sort();
        index.labels = labels.into();
    }
    Some(Draft::from_parts(out, index))
}

/// The status after a bind: PodScheduled is true, a nomination is gone.
fn new_status(old: Option<&str>) -> Option<String> {
    let mut status: Map<String, Value> = match old {
        Some(text) => serde_json::from_str(text).ok()?,
        None => Map::new(),
    };
    mark_scheduled(&mut status);
    serde_json::to_string(&status).ok()
}

fn mark_scheduled(status: &mut Map<String, Value>) {
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let now = meta::now_seconds();
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if let Value::Array(conditions) = conditions {
        match conditions
            .iter_mut()
            .find(|old| meta::text(old, &["type"]) == Some("PodScheduled"))
        {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}

/// The slow path, for bindings with labels or annotations.
fn rewrite(pod: &Object, request: &BindRequest, topology: &[(&'static str, String)]) -> Draft {
    let mut value = pod.value();
    if let Value::Object(top) = &mut value {
        let metadata = meta::section(top, "metadata");
        for (key, more) in [
            ("annotations", &request.metadata.annotations),
            ("labels", &request.metadata.labels),
        ] {
            if let Some(more) = more {
                meta::section(metadata, key).extend(more.clone());
            }
        }
        if !topology.is_empty() {
            let topology = topology
                .iter()
                .map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str())));
            meta::section(metadata, "labels").extend(topology);
        }
        meta::section(top, "spec").insert("nodeName".into(), request.target.name.as_str().into());
        mark_scheduled(meta::section(top, "status"));
    }
    Draft::new(&value)
}
