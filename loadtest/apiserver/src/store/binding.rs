//! Binding a pod to a node: the one write that happens ten thousand times a second.
//!
//! The stored bytes are spliced: `spec.nodeName` and the status (a few hundred bytes) are rewritten, the rest is copied.
//!
//! Source: `pkg/registry/core/pod/storage/storage.go` (`assignPod`, `setPodNodeAndMetadata`).
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
    spec: &'a RawValue,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

impl Store {
    /// Binds a pod.
    ///
    /// # Errors
    /// 404 when the pod is gone; 409 when it is bound, being deleted, gated, or a precondition fails; 422 for a bad target.
    pub fn bind(&self, namespace: &str, name: &str, request: &BindRequest) -> Result<Arc<Object>, ApiError> {
        let node = request.target.name.as_str();
        if !matches!(request.target.kind.as_str(), "" | "Node") {
            return Err(ApiError::invalid(
                "",
                "Binding",
                name,
                "target.kind",
                "must be empty or \"Node\"",
            ));
        }
        if node.is_empty() {
            return Err(ApiError::invalid("", "Binding", name, "target.name", "Required value"));
        }
        let pods = self.pods()?;
        let key = key_of(namespace, name);
        for _ in 0..MAX_ATTEMPTS {
            let pod = pods.get(&key).ok_or_else(|| ApiError::not_found("", "pods", name))?;
            if let Some(bound) = try_bind(&pods, &pod, request)? {
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
        self.bind(
            namespace,
            name,
            &BindRequest {
                target,
                ..BindRequest::default()
            },
        )
    }
}

fn try_bind(pods: &Arc<Resource>, pod: &Arc<Object>, request: &BindRequest) -> Result<Option<Arc<Object>>, ApiError> {
    check_bindable(pod, request)?;
    if request.metadata.annotations.is_none() && request.metadata.labels.is_none() {
        let broken = || ApiError::new(500, "InternalError", "the stored pod cannot be parsed");
        return Ok(pods.replace(pod, &splice(pod, &request.target.name).ok_or_else(broken)?));
    }
    Ok(pods.replace(pod, &rewrite(pod, request)))
}

fn check_bindable(pod: &Object, request: &BindRequest) -> Result<(), ApiError> {
    let name = pod.name();
    let conflict = |why: &str| ApiError::conflict("", "pods/binding", name, why);
    let metadata = &request.metadata;
    if !metadata.uid.is_empty() && metadata.uid != pod.uid() {
        let (wanted, found) = (&metadata.uid, pod.uid());
        return Err(conflict(&format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        )));
    }
    if !metadata.resource_version.is_empty() && metadata.resource_version != pod.rv.to_string() {
        let (wanted, found) = (&metadata.resource_version, pod.rv);
        return Err(conflict(&format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"
        )));
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

/// Splices the node name and the new status into the stored bytes.
fn splice(pod: &Object, node: &str) -> Option<Draft> {
    let json = pod.json();
    let parts: Tail<'_> = serde_json::from_slice(&json).ok()?;
    let tail = pod.tail();
    // Positions of the two values inside the tail, from their addresses inside the object.
    let offset = |part: &str| Some((part.as_ptr().addr() - json.as_ptr().addr()).checked_sub(json.len() - tail.len()));
    let spec = parts.spec.get();
    let spec_at = offset(spec)??;
    let status_text = new_status(parts.status.map(RawValue::get))?;
    let node_text = serde_json::to_string(node).ok()?;
    let mut out = Vec::with_capacity(tail.len() + node_text.len() + status_text.len() + 16);
    let comma = if spec.len() > 2 { "," } else { "" };
    let put_spec = |out: &mut Vec<u8>| {
        for part in ["{\"nodeName\":", &node_text, comma, spec.get(1..)?] {
            out.extend_from_slice(part.as_bytes());
        }
        Some(())
    };
    match parts.status.map(RawValue::get) {
        // Members are stored in key order, so the status stands after the spec.
        Some(status) => {
            let status_at = offset(status)??;
            out.extend_from_slice(tail.get(..spec_at)?);
            put_spec(&mut out)?;
            out.extend_from_slice(tail.get(spec_at + spec.len()..status_at)?);
            out.extend_from_slice(status_text.as_bytes());
            out.extend_from_slice(tail.get(status_at + status.len()..)?);
        }
        None => {
            out.extend_from_slice(tail.get(..spec_at)?);
            put_spec(&mut out)?;
            out.extend_from_slice(b",\"status\":");
            out.extend_from_slice(status_text.as_bytes());
            out.extend_from_slice(tail.get(spec_at + spec.len()..)?);
        }
    }
    Some(Draft::from_parts(
        out,
        Index {
            node_name: node.into(),
            ..pod.index.clone()
        },
    ))
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
        conditions.retain(|condition| meta::text(condition, &["type"]) != Some("PodScheduled"));
        conditions.push(condition);
    }
}

/// The slow path, for bindings with labels or annotations.
fn rewrite(pod: &Object, request: &BindRequest) -> Draft {
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
        meta::section(top, "spec").insert("nodeName".into(), request.target.name.as_str().into());
        mark_scheduled(meta::section(top, "status"));
    }
    Draft::new(&value)
}
