//! The form in which a client sees objects: as stored, as `events.k8s.io`, in another version, as a table or metadata only.
//!
//! Does not: change what is stored. Only the stored form costs nothing; every other one parses each object.

use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Map, Value, json};

use super::path::ResourcePath;
use super::table;
use crate::error::ApiError;
use crate::store::kinds::{self, EVENTS_GROUP};
use crate::store::{Kind, Object};

/// How objects are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// The stored bytes.
    Stored,
    /// Another group or version of the same object.
    Version(String),
    /// `PartialObjectMetadata`.
    Metadata,
    /// A `Table`; the text is the `includeObject` parameter.
    Table(String),
}

impl View {
    /// From the path and the `Accept` header.
    ///
    /// # Errors
    /// 406 when the client takes no JSON.
    pub(super) fn of(
        path: &ResourcePath,
        kind: &Kind,
        headers: &HeaderMap,
        include_object: &str,
    ) -> Result<Self, ApiError> {
        let accept = headers
            .get(ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        for choice in accept.split(',').map(str::trim) {
            let mut parameters = choice.split(';').map(str::trim);
            let media_type = parameters.next().unwrap_or_default();
            if !matches!(media_type, "" | "*/*" | "application/*" | "application/json") {
                continue;
            }
            let form = parameters.find_map(|parameter| parameter.strip_prefix("as="));
            match form {
                Some("Table") => return Ok(Self::Table(include_object.to_owned())),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Metadata),
                Some(_) => {}
                None if path.group == kind.group && path.version == kind.version() => return Ok(Self::Stored),
                None => return Ok(Self::Version(kinds::group_version(&path.group, &path.version))),
            }
        }
        let message = "only the following media types are accepted: application/json";
        Err(ApiError::new(406, "NotAcceptable", message))
    }

    /// One object in this form.
    pub(super) fn object(&self, kind: &Kind, object: &Object) -> Bytes {
        match self {
            Self::Stored => object.json(),
            Self::Table(include) => to_bytes(&table::of(
                kind,
                [object],
                include,
                &json!({"resourceVersion": object.rv.to_string()}),
            )),
            _ => to_bytes(&self.value(object.value())),
        }
    }

    /// A parsed object in this form (a table row is not an object: it stays as it is).
    pub(super) fn value(&self, mut value: Value) -> Value {
        match self {
            Self::Stored | Self::Table(_) => value,
            Self::Version(api_version) => {
                if api_version.starts_with(EVENTS_GROUP) {
                    value = rename(value, false);
                }
                value["apiVersion"] = api_version.as_str().into();
                value
            }
            Self::Metadata => partial(&value),
        }
    }

    /// A client's document in the stored form.
    pub(super) fn stored(&self, path: &ResourcePath, document: Value) -> Value {
        if path.group == EVENTS_GROUP && path.plural == "events" {
            rename(document, true)
        } else {
            document
        }
    }

    /// Kind and version of a list in this form.
    pub(super) fn list_head(&self, kind: &Kind) -> (String, String) {
        match self {
            Self::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Self::Version(api_version) => (format!("{}List", kind.kind), api_version.clone()),
            _ => (format!("{}List", kind.kind), kind.api_version()),
        }
    }
}

pub(super) fn to_bytes(value: &Value) -> Bytes {
    // A Value always serialises.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// `PartialObjectMetadata` of an object.
pub(super) fn partial(value: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": value.get("metadata").cloned().unwrap_or_default(),
    })
}

/// Fields of events in the core group and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(value: Value, to_core: bool) -> Value {
    let Value::Object(map) = value else { return value };
    let members = map.into_iter().map(|(key, value)| {
        let found = EVENT_FIELDS
            .iter()
            .find(|(core, new)| key == if to_core { *new } else { *core });
        match found {
            Some((core, new)) => ((if to_core { *core } else { *new }).to_owned(), value),
            None => (key, value),
        }
    });
    Value::Object(members.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_two_forms() {
        let core = json!({"involvedObject": {"name": "p"}, "message": "m", "reason": "Scheduled", "count": 1});
        let view = View::Version("events.k8s.io/v1".to_owned());
        let shown = view.value(core.clone());
        assert_eq!(shown["regarding"]["name"], "p");
        assert_eq!(shown["note"], "m");
        let path = ResourcePath {
            group: EVENTS_GROUP.to_owned(),
            plural: "events".to_owned(),
            ..ResourcePath::default()
        };
        let mut back = view.stored(&path, shown);
        back.as_object_mut().unwrap().remove("apiVersion");
        assert_eq!(back, core);
    }
}
