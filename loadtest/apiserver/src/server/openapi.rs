//! OpenAPI documents, just enough for `kubectl`: which patch operations take `fieldValidation`, and open schemas.
//!
//! Does not: describe fields; every schema is an object with anything in it.

use serde_json::{Map, Value, json};

use crate::store::kinds::group_version;
use crate::store::{Kind, Store};

/// Media type of the version 2 document for `kubectl` (which asks with an at sign that media types may not hold).
pub(super) const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// `Document{swagger: "2.0", info: {title: "Kubernetes", version: "v1.36.0"}}`, without definitions: `kubectl` then skips
/// validation of its own.
pub(super) const V2_DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.0";

/// Answers an OpenAPI path, if it is one.
pub(super) fn answer(store: &Store, path: &str) -> Option<Value> {
    let rest = path.trim_matches('/').strip_prefix("openapi/")?;
    match rest {
        "v2" => Some(json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.0"}, "paths": {}, "definitions": {},
        })),
        "v3" => Some(index(store)),
        other => document(store, other.strip_prefix("v3/")?),
    }
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn index(store: &Store) -> Value {
    let mut paths = Map::new();
    for resource in store.resources() {
        for version in &resource.kind.versions {
            let path = path_of(&resource.kind.group, version);
            let url = format!("/openapi/v3/{path}?hash=1");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document(store: &Store, wanted: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for resource in store.resources() {
        let kind = &resource.kind;
        for version in kind
            .versions
            .iter()
            .filter(|version| path_of(&kind.group, version) == wanted)
        {
            let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
            paths.insert(
                format!("/{wanted}{scope}/{}/{{name}}", kind.plural),
                operations(kind, version),
            );
            let gvk = json!({"group": kind.group, "version": version, "kind": kind.kind});
            let name = format!(
                "io.k8s.{}.{}",
                group_version(&kind.group, version).replace('/', "."),
                kind.kind
            );
            let schema = json!({
                "type": "object", "x-kubernetes-group-version-kind": [gvk], "x-kubernetes-preserve-unknown-fields": true,
            });
            schemas.insert(name, schema);
        }
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn operations(kind: &Kind, version: &str) -> Value {
    let gvk = json!({"group": kind.group, "version": version, "kind": kind.kind});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "responses": {"200": {"description": "OK"}},
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
        })
    };
    json!({"patch": operation("patch"), "put": operation("put")})
}
