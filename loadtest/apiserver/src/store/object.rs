//! A stored object and an event about it: JSON bytes plus the few fields that selectors ask for.
//!
//! An object is kept as one buffer that already is its watch line, `{"type":"ADDED","object":{…}}\n`; the object itself
//! is a slice of it. A read, a list and every watcher share that buffer. The resource version is the first text in the
//! object, so that a new version of a known body costs one copy and no parsing.
//!
//! Does not: know kinds, rules or HTTP.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::meta;

/// The start of every stored object, up to its resource version.
const HEAD: &str = "{\"metadata\":{\"resourceVersion\":\"";

/// Labels of an object, sorted by key.
pub(crate) type Labels = Arc<[(Box<str>, Box<str>)]>;

/// What selectors and the rules of pods read without parsing the object.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.labels`, sorted.
    pub labels: Labels,
    /// `spec.nodeName` (pods and others that have it), empty when absent.
    pub node_name: Arc<str>,
    /// `spec.schedulerName`, empty when absent.
    pub scheduler_name: Arc<str>,
    /// `status.phase`, empty when absent or not one of the known phases.
    pub phase: &'static str,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether `spec.schedulingGates` has entries.
    pub gated: bool,
}

impl Index {
    fn of(object: &Value) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> = match meta::get(object, &["metadata", "labels"]) {
            Some(Value::Object(map)) => map
                .iter()
                .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
                .collect(),
            _ => Vec::new(),
        };
        labels.sort();
        let field = |path: &[&str]| meta::text(object, path).unwrap_or_default();
        Self {
            uid: field(&["metadata", "uid"]).into(),
            labels: labels.into(),
            node_name: field(&["spec", "nodeName"]).into(),
            scheduler_name: field(&["spec", "schedulerName"]).into(),
            phase: known_phase(field(&["status", "phase"])),
            gated: meta::get(object, &["spec", "schedulingGates"])
                .and_then(Value::as_array)
                .is_some_and(|gates| !gates.is_empty()),
            deleting: meta::get(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(other, _)| other.as_ref().cmp(key))
            .ok()?;
        self.labels.get(at).map(|(_, value)| value.as_ref())
    }
}

fn known_phase(phase: &str) -> &'static str {
    [
        "Pending",
        "Running",
        "Succeeded",
        "Failed",
        "Unknown",
        "Active",
        "Terminating",
        "Bound",
        "Available",
    ]
    .into_iter()
    .find(|known| *known == phase)
    .unwrap_or_default()
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It is new (or newly matches a selector).
    Added,
    /// It changed.
    Modified,
    /// It is gone (or no longer matches a selector).
    Deleted,
}

impl EventKind {
    /// The watch protocol's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A body ready to be stored: everything but the resource version.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The object's JSON after the resource version's text: from its closing quote to the last brace.
    tail: Vec<u8>,
    /// The indexed fields of the body.
    pub index: Index,
}

impl Draft {
    /// Serialises `object`; its `metadata.resourceVersion` is ignored.
    #[must_use]
    pub fn new(object: &Value) -> Self {
        let mut tail = Vec::with_capacity(1024);
        tail.push(b'"');
        let empty = Map::new();
        let top = object.as_object().unwrap_or(&empty);
        if let Some(Value::Object(metadata)) = top.get("metadata") {
            write_members(&mut tail, metadata, "resourceVersion");
        }
        tail.push(b'}');
        write_members(&mut tail, top, "metadata");
        tail.push(b'}');
        Self {
            tail,
            index: Index::of(object),
        }
    }

    /// A draft from a tail that was spliced by hand; it must close every brace that the head opens.
    #[must_use]
    pub const fn from_parts(tail: Vec<u8>, index: Index) -> Self {
        Self { tail, index }
    }

    /// The same body as a stored object's.
    #[must_use]
    pub fn same_as(object: &Object) -> Self {
        Self {
            tail: object.tail().to_vec(),
            index: object.index.clone(),
        }
    }

    pub(super) fn finish(&self, key: Arc<str>, namespace_len: usize, kind: EventKind, rv: u64) -> Object {
        let word = kind.as_str();
        let mut line = Vec::with_capacity(self.tail.len() + HEAD.len() + word.len() + 56);
        // Writing to a Vec cannot fail.
        write!(line, "{{\"type\":\"{word}\",\"object\":").unwrap_or_default();
        let start = line.len();
        line.extend_from_slice(HEAD.as_bytes());
        write!(line, "{rv}").unwrap_or_default();
        let tail_start = line.len();
        line.extend_from_slice(&self.tail);
        let end = line.len();
        line.extend_from_slice(b"}\n");
        Object {
            key,
            namespace_len,
            rv,
            stored_kind: kind,
            line: line.into(),
            start,
            tail_start,
            end,
            index: self.index.clone(),
        }
    }
}

fn write_members(out: &mut Vec<u8>, map: &Map<String, Value>, skip: &str) {
    for (key, value) in map {
        if key == skip {
            continue;
        }
        out.push(b',');
        // A map of strings to values always serialises; a Vec always accepts.
        serde_json::to_writer(&mut *out, key).unwrap_or_default();
        out.push(b':');
        serde_json::to_writer(&mut *out, value).unwrap_or_default();
    }
}

/// A stored version of an object. Immutable.
#[derive(Debug)]
pub struct Object {
    key: Arc<str>,
    namespace_len: usize,
    /// Resource version of this version.
    pub rv: u64,
    stored_kind: EventKind,
    line: Bytes,
    start: usize,
    tail_start: usize,
    end: usize,
    /// The indexed fields.
    pub index: Index,
}

impl Object {
    /// `namespace/name`; `/name` for a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn shared_key(&self) -> Arc<str> {
        Arc::clone(&self.key)
    }

    pub(super) const fn namespace_len(&self) -> usize {
        self.namespace_len
    }

    /// Namespace, empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.get(..self.namespace_len).unwrap_or_default()
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.get(self.namespace_len + 1..).unwrap_or_default()
    }

    /// UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.index.uid
    }

    /// The change that stored this version: the type in its watch line.
    #[must_use]
    pub const fn stored_kind(&self) -> EventKind {
        self.stored_kind
    }

    /// The object as JSON.
    #[must_use]
    pub fn json(&self) -> Bytes {
        self.line.slice(self.start..self.end)
    }

    /// The object as a watch line with the type it was stored with.
    #[must_use]
    pub fn line(&self) -> Bytes {
        self.line.clone()
    }

    /// The object as a watch line of another type or resource version.
    #[must_use]
    pub fn line_as(&self, kind: EventKind, rv: u64) -> Bytes {
        Draft::same_as(self)
            .finish(self.shared_key(), self.namespace_len, kind, rv)
            .line
    }

    /// JSON after the resource version's text.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        self.line.get(self.tail_start..self.end).unwrap_or_default()
    }

    /// The object parsed. A stored object is always valid JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_slice(self.line.get(self.start..self.end).unwrap_or_default()).unwrap_or_default()
    }

    /// Bytes that this version holds, for the history's budget.
    #[must_use]
    pub fn size(&self) -> usize {
        self.line.len()
    }
}

/// One change of a resource.
#[derive(Debug, Clone)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The object after the change; for a deletion its last state, with the deletion's resource version.
    pub object: Arc<Object>,
    /// The object before the change; absent when it is new.
    pub previous: Option<Arc<Object>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_object_is_the_body_with_a_version() {
        let body = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "uid": "u", "labels": {"b": "2", "a": "1"}, "resourceVersion": "9"},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let object = Draft::new(&body).finish("ns/a".into(), 2, EventKind::Added, 12);
        let mut expected = body;
        expected["metadata"]["resourceVersion"] = "12".into();
        assert_eq!(object.value(), expected);
        assert_eq!((object.namespace(), object.name(), object.uid()), ("ns", "a", "u"));
        assert_eq!(object.index.label("b"), Some("2"));
        assert_eq!(object.index.phase, "Running");
        let line: Value = serde_json::from_slice(&object.line_as(EventKind::Deleted, 13)).unwrap();
        assert_eq!(line["type"], "DELETED");
        assert_eq!(line["object"]["metadata"]["resourceVersion"], "13");
    }
}
