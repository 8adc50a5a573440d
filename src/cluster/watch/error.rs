//! What is wrong with an object, and where.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::watch::locate;

/// An object that cannot be used as the API server sent it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} {}: {path}: {message}", full_name(.namespace, .name))]
pub struct DecodeError {
    /// `pod`, `node` and the like.
    pub kind: &'static str,
    /// The namespace, if it has one that can be read.
    pub namespace: Box<str>,
    /// The name, if it can be read.
    pub name: Box<str>,
    /// The field that is wrong, such as `spec.containers[0].resources.requests[cpu]`.
    pub path: Box<str>,
    /// What is wrong with it.
    pub message: Box<str>,
}

fn full_name(namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { "(name unknown)" } else { name };
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// A wrong field, before it is known whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    path: String,
    message: String,
}

impl Fault {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// The same, with `prefix` before its path.
    pub(super) fn under(self, prefix: &str) -> Self {
        Self {
            path: format!("{prefix}.{}", self.path),
            ..self
        }
    }

    pub(super) fn of(self, kind: &'static str, namespace: &str, name: &str) -> DecodeError {
        DecodeError {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            path: self.path.into(),
            message: self.message.into(),
        }
    }
}

/// The metadata that can be read of an object that is otherwise wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Salvaged {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

impl Salvaged {
    pub(super) fn from_json(json: &str) -> Self {
        let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        let field = |name: &str| {
            let value = object.get("metadata").and_then(|meta| meta.get(name));
            value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        Self {
            namespace: field("namespace"),
            name: field("name"),
            uid: field("uid"),
            resource_version: field("resourceVersion"),
        }
    }
}

impl Salvaged {
    pub(super) fn into_meta(self) -> ObjectMeta {
        let some = |text: String| (!text.is_empty()).then_some(text);
        ObjectMeta {
            name: some(self.name),
            namespace: some(self.namespace),
            uid: some(self.uid),
            resource_version: some(self.resource_version),
            ..Default::default()
        }
    }
}

/// The error of an object whose JSON does not have the shape of its kind.
pub(super) fn shape_error(kind: &'static str, json: &str, error: &serde_json::Error) -> DecodeError {
    let salvaged = Salvaged::from_json(json);
    let path = locate::path_at(json, error.line(), error.column());
    Fault::new(path, error.to_string()).of(kind, &salvaged.namespace, &salvaged.name)
}
