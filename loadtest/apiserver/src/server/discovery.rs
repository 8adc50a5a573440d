//! Discovery: what the server serves, in the plain and the aggregated form, and its version.
//!
//! Source: `apidiscovery.k8s.io/v2` and the `metav1.API*` types.
//!
//! Does not: cache; discovery is rare.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use super::Shared;
use super::auth::REVIEWS;
use crate::error::ApiError;
use crate::store::kinds::{EVENTS_GROUP, group_version};
use crate::store::{Kind, Store};

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What `kubectl get all` shows, by kind. Source: the `Categories` of the kinds' storage in `pkg/registry`.
const ALL_CATEGORY: [&str; 9] = [
    "Pod",
    "ReplicationController",
    "Service",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "CronJob",
];

/// A subresource: its name, group/version/kind of its body if that is another, and its verbs.
type Subresource = (&'static str, Option<[&'static str; 3]>, &'static [&'static str]);

/// One served resource of one version, with its subresources.
struct Entry {
    group: String,
    version: String,
    plural: String,
    singular: String,
    kind: String,
    short_names: Vec<String>,
    namespaced: bool,
    verbs: Vec<&'static str>,
    subresources: Vec<Subresource>,
    custom: bool,
}

impl Entry {
    fn categories(&self) -> &'static [&'static str] {
        if !self.custom && ALL_CATEGORY.contains(&self.kind.as_str()) {
            &["all"]
        } else {
            &[]
        }
    }
}

/// Answers a discovery path with its content type.
pub(super) fn answer(shared: &Shared, path: &str, headers: &HeaderMap) -> Result<(&'static str, Value), ApiError> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let plain = |value: Value| Ok(("application/json", value));
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let aggregated = accept.contains("as=APIGroupDiscoveryList") && accept.contains("v=v2;")
        || accept.contains("as=APIGroupDiscoveryList") && accept.ends_with("v=v2");
    match parts.as_slice() {
        ["version"] => plain(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
        })),
        [""] => plain(
            json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
        ),
        ["api"] if aggregated => Ok((AGGREGATED, aggregate(&shared.store, true))),
        ["apis"] if aggregated => Ok((AGGREGATED, aggregate(&shared.store, false))),
        ["api"] => plain(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": shared.address.to_string()}],
        })),
        ["apis"] => {
            let groups: Vec<Value> = groups(&shared.store)
                .iter()
                .map(|(group, versions)| group_document(group, versions))
                .collect();
            plain(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", group] => {
            let groups = groups(&shared.store);
            let (group, versions) = groups
                .iter()
                .find(|(name, _)| name == group)
                .ok_or_else(ApiError::no_such_path)?;
            let mut document = group_document(group, versions);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            plain(document)
        }
        ["api", version] => plain(resource_list(&shared.store, "", version)?),
        ["apis", group, version] => plain(resource_list(&shared.store, group, version)?),
        _ => Err(ApiError::no_such_path()),
    }
}

fn entries(store: &Store) -> Vec<Entry> {
    let mut entries = Vec::new();
    for resource in store.resources() {
        let kind = &resource.kind;
        for version in &kind.versions {
            entries.push(entry(kind, &kind.group, version));
        }
        if kind.kind == "Event" && !kind.custom {
            entries.push(entry(kind, EVENTS_GROUP, "v1"));
        }
    }
    for (group, plural, kind, namespaced) in REVIEWS {
        entries.push(Entry {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_ascii_lowercase(),
            kind: kind.to_owned(),
            short_names: Vec::new(),
            namespaced,
            verbs: vec!["create"],
            subresources: Vec::new(),
            custom: false,
        });
    }
    entries.push(Entry {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "bindings".to_owned(),
        singular: "binding".to_owned(),
        kind: "Binding".to_owned(),
        short_names: Vec::new(),
        namespaced: true,
        verbs: vec!["create"],
        subresources: Vec::new(),
        custom: false,
    });
    entries
}

fn entry(kind: &Kind, group: &str, version: &str) -> Entry {
    const WRITE: &[&str] = &["get", "patch", "update"];
    let mut subresources: Vec<Subresource> = Vec::new();
    if kind.kind == "Pod" && !kind.custom {
        subresources.push(("binding", Some(["", "v1", "Binding"]), &["create"]));
        subresources.push(("eviction", Some(["policy", "v1", "Eviction"]), &["create"]));
        subresources.push(("resize", None, WRITE));
    }
    if kind.has_status {
        subresources.push(("status", None, WRITE));
    }
    Entry {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: kind.plural.to_string(),
        singular: kind.singular.to_string(),
        kind: kind.kind.to_string(),
        short_names: kind.short_names.iter().map(ToString::to_string).collect(),
        namespaced: kind.namespaced,
        verbs: VERBS.to_vec(),
        subresources,
        custom: kind.custom,
    }
}

/// Named groups with their versions, storage version first.
fn groups(store: &Store) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for entry in entries(store).into_iter().filter(|entry| !entry.group.is_empty()) {
        match groups.iter_mut().find(|(group, _)| *group == entry.group) {
            Some((_, versions)) if versions.contains(&entry.version) => {}
            Some((_, versions)) => versions.push(entry.version),
            None => groups.push((entry.group, vec![entry.version])),
        }
    }
    groups.sort();
    groups
}

fn group_document(group: &str, versions: &[String]) -> Value {
    let document = |version: &String| json!({"groupVersion": group_version(group, version), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(document).collect::<Vec<Value>>(),
        "preferredVersion": versions.first().map(document),
    })
}

fn resource_list(store: &Store, group: &str, version: &str) -> Result<Value, ApiError> {
    let mut resources = Vec::new();
    for entry in entries(store)
        .iter()
        .filter(|entry| entry.group == group && entry.version == version)
    {
        let mut document = json!({
            "name": entry.plural, "singularName": entry.singular, "namespaced": entry.namespaced, "kind": entry.kind,
            "verbs": entry.verbs,
        });
        if !entry.short_names.is_empty() {
            document["shortNames"] = entry.short_names.clone().into();
        }
        if !entry.categories().is_empty() {
            document["categories"] = entry.categories().into();
        }
        resources.push(document);
        for (name, body, verbs) in &entry.subresources {
            let mut document = json!({
                "name": format!("{}/{name}", entry.plural), "singularName": "", "namespaced": entry.namespaced,
                "kind": entry.kind, "verbs": verbs,
            });
            if let Some([group, version, kind]) = body {
                document["group"] = (*group).into();
                document["version"] = (*version).into();
                document["kind"] = (*kind).into();
            }
            resources.push(document);
        }
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version),
        "resources": resources,
    }))
}

fn aggregate(store: &Store, core: bool) -> Value {
    let entries = entries(store);
    let groups = if core {
        vec![(String::new(), vec!["v1".to_owned()])]
    } else {
        groups(store)
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = entries
                        .iter()
                        .filter(|entry| entry.group == *group && entry.version == *version)
                        .map(aggregate_entry)
                        .collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregate_entry(entry: &Entry) -> Value {
    let own = json!({"group": entry.group, "version": entry.version, "kind": entry.kind});
    let subresources: Vec<Value> = entry
        .subresources
        .iter()
        .map(|(name, body, verbs)| {
            let kind = match body {
                Some([group, version, kind]) => json!({"group": group, "version": version, "kind": kind}),
                None => own.clone(),
            };
            json!({"subresource": name, "responseKind": kind, "verbs": verbs})
        })
        .collect();
    json!({
        "resource": entry.plural, "responseKind": own, "singularResource": entry.singular, "verbs": entry.verbs,
        "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
        "shortNames": entry.short_names, "categories": entry.categories(), "subresources": subresources,
    })
}
