//! Custom resources: a definition brings a resource, its deletion takes it away.
//!
//! Does not: check custom objects against their schema, or convert between versions (all versions share one form).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::resource::Resource;
use super::{Draft, Store, Table};
use crate::error::ApiError;
use crate::meta;

/// Most custom resources at once.
const MAX_RESOURCES: usize = 1_000;

/// Checks a definition and marks it established, as the server's controllers would.
pub(super) fn prepare(body: &mut Map<String, Value>) -> Result<(), ApiError> {
    let kind = kind_of(&Value::Object(body.clone()))?;
    let mut names = json!({
        "plural": kind.plural, "singular": kind.singular, "kind": kind.kind, "listKind": format!("{}List", kind.kind),
    });
    if !kind.short_names.is_empty() {
        names["shortNames"] = kind.short_names.iter().map(|name| Value::from(name.as_ref())).collect();
    }
    let now = meta::now_seconds();
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now, "message": ""});
    let status = json!({
        "acceptedNames": names, "storedVersions": [kind.version()],
        "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")],
    });
    meta::set_default(body, "status", status);
    Ok(())
}

fn kind_of(definition: &Value) -> Result<Kind, ApiError> {
    let name = meta::text(definition, &["metadata", "name"]).unwrap_or_default();
    let invalid = |field: &str, message: &str| {
        ApiError::invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, field, message)
    };
    let field = |path: &[&str]| meta::text(definition, path).unwrap_or_default().to_owned();
    let (group, plural, kind) = (
        field(&["spec", "group"]),
        field(&["spec", "names", "plural"]),
        field(&["spec", "names", "kind"]),
    );
    if group.is_empty() || plural.is_empty() || kind.is_empty() {
        return Err(invalid("spec", "group, names.plural and names.kind are required"));
    }
    if name != format!("{plural}.{group}") {
        return Err(invalid("metadata.name", "must be spec.names.plural+\".\"+spec.group"));
    }
    let versions = meta::get(definition, &["spec", "versions"]).and_then(Value::as_array);
    let mut served: Vec<(bool, String, bool)> = Vec::new();
    for version in versions.into_iter().flatten() {
        let flag = |key: &str| version.get(key).and_then(Value::as_bool).unwrap_or_default();
        if flag("served") {
            let version_name = meta::text(version, &["name"]).unwrap_or_default().to_owned();
            let has_status = meta::get(version, &["subresources", "status"]).is_some();
            served.push((!flag("storage"), version_name, has_status));
        }
    }
    // The storage version comes first.
    served.sort_by_key(|(not_storage, _, _)| *not_storage);
    if served.is_empty() {
        return Err(invalid("spec.versions", "must have at least one served version"));
    }
    let singular = field(&["spec", "names", "singular"]);
    let short_names = meta::get(definition, &["spec", "names", "shortNames"]).and_then(Value::as_array);
    Ok(Kind {
        group: group.into(),
        has_status: served.iter().any(|(_, _, has_status)| *has_status),
        versions: served.into_iter().map(|(_, version, _)| version.into()).collect(),
        singular: if singular.is_empty() {
            kind.to_ascii_lowercase().into()
        } else {
            singular.into()
        },
        plural: plural.into(),
        kind: kind.into(),
        short_names: short_names
            .into_iter()
            .flatten()
            .filter_map(|name| Some(name.as_str()?.to_owned().into()))
            .collect(),
        namespaced: field(&["spec", "scope"]) != "Cluster",
        has_generation: true,
        custom: true,
    })
}

impl Store {
    /// Serves a definition's resource; what is stored under the same name and scope stays.
    pub(super) fn establish(&self, definition: &Value) -> Result<(), ApiError> {
        let kind = kind_of(definition)?;
        let key = (kind.group.to_string(), kind.plural.to_string());
        let table = self.inner.resources.load();
        if table.get(&key).is_some_and(|resource| !resource.kind.custom) {
            let message = "the resource is built in";
            return Err(ApiError::invalid(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                &key.1,
                "spec.names",
                message,
            ));
        }
        if table.len() >= MAX_RESOURCES && !table.contains_key(&key) {
            return Err(ApiError::new(507, "InternalError", "too many custom resources"));
        }
        let old = table.get(&key).cloned();
        if old.as_ref().is_some_and(|old| same_shape(&old.kind, &kind)) {
            return Ok(());
        }
        let fresh = Arc::new(Resource::new(kind, Arc::clone(&self.inner.version), self.inner.limits));
        // Another shape (a new version, say) is a new resource that adopts the objects.
        for object in old.iter().flat_map(|old| old.snapshot().0) {
            let mut value = object.value();
            value["apiVersion"] = fresh.kind.api_version().into();
            fresh.insert(object.namespace(), object.name(), &Draft::new(&value));
        }
        self.inner.resources.rcu(|table| {
            let mut table: Table = (**table).clone();
            table.insert(key.clone(), Arc::clone(&fresh));
            table
        });
        if let Some(old) = old {
            old.drop_watches();
        }
        Ok(())
    }

    /// Stops serving a definition's resource and ends its watches.
    pub(super) fn retire(&self, definition: &Value) {
        let field = |path: &[&str]| meta::text(definition, path).unwrap_or_default().to_owned();
        let key = (field(&["spec", "group"]), field(&["spec", "names", "plural"]));
        let gone = self
            .inner
            .resources
            .load()
            .get(&key)
            .filter(|resource| resource.kind.custom)
            .cloned();
        let Some(gone) = gone else { return };
        self.inner.resources.rcu(|table| {
            let mut table: Table = (**table).clone();
            table.remove(&key);
            table
        });
        gone.drop_watches();
    }
}

fn same_shape(left: &Kind, right: &Kind) -> bool {
    left.versions == right.versions
        && left.kind == right.kind
        && left.namespaced == right.namespaced
        && left.has_status == right.has_status
}
