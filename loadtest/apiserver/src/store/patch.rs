//! Patches: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge, and apply as create-or-merge.
//!
//! Does not: track field managers; an applied document only adds and changes, it removes nothing that it left out.

use serde_json::Value;

use crate::error::ApiError;
use crate::meta;

mod json;
mod strategic;

/// The kinds of patch documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml` (JSON is YAML).
    Apply,
}

impl PatchKind {
    /// From a content type.
    #[must_use]
    pub fn from_content_type(text: &str) -> Option<Self> {
        match text.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// The object after the patch.
pub(super) fn apply(kind: PatchKind, custom: bool, current: &Value, document: &Value) -> Result<Value, ApiError> {
    let mut object = current.clone();
    match kind {
        PatchKind::Json => json::apply(&mut object, document)?,
        PatchKind::Merge => merge(&mut object, document),
        PatchKind::Strategic if custom => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                           application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
        PatchKind::Strategic => strategic::apply(&mut object, document)?,
        PatchKind::Apply => {
            if meta::get(document, &["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
                return Err(ApiError::bad_request("metadata.managedFields must be nil"));
            }
            strategic::apply(&mut object, document)?;
        }
    }
    Ok(object)
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: PatchKind, before: &Value, patch: &Value, after: &Value) {
        assert_eq!(apply(kind, false, before, patch).unwrap(), *after, "{patch}");
    }

    #[test]
    fn merge_patch_replaces_lists_and_removes_nulls() {
        check(
            PatchKind::Merge,
            &json!({"a": {"b": 1, "c": [1, 2]}, "d": 4}),
            &json!({"a": {"b": null, "c": [3]}, "e": {"f": null, "g": 1}}),
            &json!({"a": {"c": [3]}, "d": 4, "e": {"g": 1}}),
        );
    }

    #[test]
    fn json_patch_does_its_six_operations() {
        check(
            PatchKind::Json,
            &json!({"a": [1, 2], "b": {"x/y": 1, "z~": 2}}),
            &json!([
                {"op": "test", "path": "/a/0", "value": 1},
                {"op": "add", "path": "/a/-", "value": 3},
                {"op": "add", "path": "/a/0", "value": 0},
                {"op": "replace", "path": "/b/x~1y", "value": 5},
                {"op": "remove", "path": "/b/z~0"},
                {"op": "copy", "from": "/a/1", "path": "/c"},
                {"op": "move", "from": "/c", "path": "/d"},
            ]),
            &json!({"a": [0, 1, 2, 3], "b": {"x/y": 5}, "d": 1}),
        );
        for bad in [
            &json!([{"op": "test", "path": "/a", "value": 2}]),
            &json!([{"op": "remove", "path": "/nope"}]),
            &json!([{"op": "replace", "path": "/nope/x", "value": 1}]),
            &json!([{"op": "dance", "path": "/a"}]),
            &json!({"op": "add"}),
        ] {
            assert!(apply(PatchKind::Json, false, &json!({"a": 1}), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn strategic_merge_joins_lists_by_their_keys() {
        check(
            PatchKind::Strategic,
            &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]}}),
            &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}],
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "New"}]}}),
            &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "True"},
                {"type": "New", "status": "True"}]}}),
        );
        check(
            PatchKind::Strategic,
            &json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "E", "value": "1"}]}, {"name": "b"}],
                "tolerations": [{"key": "a"}]}, "metadata": {"finalizers": ["x", "y"], "labels": {"l": "1", "m": "2"}}}),
            &json!({"spec": {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}, {"name": "b", "$patch": "delete"}],
                "tolerations": [{"key": "b"}]}, "metadata": {"finalizers": ["z"], "$deleteFromPrimitiveList/finalizers": ["x"],
                "labels": {"l": null}}}),
            &json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]}],
                "tolerations": [{"key": "b"}]}, "metadata": {"finalizers": ["y", "z"], "labels": {"m": "2"}}}),
        );
        check(
            PatchKind::Strategic,
            &json!({"a": {"x": 1, "y": 2}, "volumes": [{"name": "v", "emptyDir": {}}]}),
            &json!({"a": {"$patch": "replace", "z": 3}, "volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}),
            &json!({"a": {"z": 3}, "volumes": [{"name": "v", "secret": {}}]}),
        );
    }
}
