//! Pods: defaults that scheduling sees, priority, gates, and what an update may change.
//!
//! Source: `pkg/apis/core/v1/defaults.go`, `pkg/registry/core/pod/strategy.go`, `plugin/pkg/admission/priority`.
//!
//! Does not: run service account, quota or security admission.

use serde_json::{Map, Value, json};

use super::super::Store;
use crate::error::ApiError;
use crate::meta;

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// A new pod.
pub(super) fn prepare_create(store: &Store, body: &mut Map<String, Value>) -> Result<(), ApiError> {
    let labels = body
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"))
        .cloned()
        .unwrap_or_default();
    let name = body
        .get("metadata")
        .and_then(|metadata| meta::text(metadata, &["name"]))
        .unwrap_or_default()
        .to_owned();
    let spec = meta::section(body, "spec");
    validate(&name, spec)?;
    default_spec(spec);
    resolve_priority(store, spec)?;
    merge_label_keys(spec, &labels);
    add_default_tolerations(spec);
    let topology = spec
        .get("nodeName")
        .and_then(Value::as_str)
        .map(|node| store.topology_labels(node));
    let gated = spec
        .get("schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": meta::now_seconds(), "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
        if spec.contains_key("nodeName") {
            let why = "nodeName cannot be set until all schedulingGates have been cleared";
            return Err(ApiError::invalid("", "Pod", &name, "spec.nodeName", why));
        }
    }
    body.insert("status".into(), status);
    if let Some(topology) = topology.filter(|topology| !topology.is_empty()) {
        let topology = topology
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value)));
        meta::section(meta::section(body, "metadata"), "labels").extend(topology);
    }
    Ok(())
}

/// Pods tolerate a lost node for five minutes, unless they say something about it themselves.
///
/// Source: `plugin/pkg/admission/defaulttolerationseconds`.
fn add_default_tolerations(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(tolerations) = tolerations else { return };
    let missing: Vec<&str> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|key| {
            !tolerations.iter().any(|toleration| {
                let field = |name: &str| meta::text(toleration, &[name]).unwrap_or_default();
                (field("key") == *key || field("key").is_empty()) && matches!(field("effect"), "" | "NoExecute")
            })
        })
        .collect();
    tolerations.extend(
        missing
            .into_iter()
            .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})),
    );
}

/// A changed pod: only what upstream lets change may differ.
pub(super) fn prepare_update(old: &Value, new: &mut Map<String, Value>, name: &str) -> Result<(), ApiError> {
    let spec = meta::section(new, "spec");
    validate(name, spec)?;
    default_spec(spec);
    let empty = Map::new();
    let old_spec = old.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    for key in ["priority", "preemptionPolicy"] {
        if let (None, Some(value)) = (spec.get(key), old_spec.get(key)) {
            spec.insert(key.into(), value.clone());
        }
    }
    check_additions(old_spec, spec, name)?;
    let mut frozen_old = old_spec.clone();
    let mut frozen_new = spec.clone();
    default_spec(&mut frozen_old);
    for frozen in [&mut frozen_old, &mut frozen_new] {
        thaw(frozen, old_spec.get("schedulingGates").is_some());
    }
    if frozen_old != frozen_new {
        let why = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to \
                   existing tolerations), `spec.terminationGracePeriodSeconds`";
        return Err(ApiError::invalid("", "Pod", name, "spec", why));
    }
    Ok(())
}

/// A resize: only the containers' resources may differ.
pub(super) fn prepare_resize(old: &Value, new: &mut Map<String, Value>, name: &str) -> Result<(), ApiError> {
    let strip = |spec: Option<&Value>| {
        let mut spec = spec.and_then(Value::as_object).cloned().unwrap_or_default();
        for container in containers_mut(&mut spec) {
            container.remove("resources");
        }
        spec
    };
    if strip(old.get("spec")) != strip(new.get("spec")) {
        let why = "Forbidden: only cpu and memory resources are mutable";
        return Err(ApiError::invalid("", "Pod", name, "spec", why));
    }
    Ok(())
}

/// Tolerations may only be added; scheduling gates may only be removed.
fn check_additions(old: &Map<String, Value>, new: &Map<String, Value>, name: &str) -> Result<(), ApiError> {
    let list =
        |spec: &Map<String, Value>, key: &str| spec.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (old_tolerations, new_tolerations) = (list(old, "tolerations"), list(new, "tolerations"));
    if !old_tolerations
        .iter()
        .all(|toleration| new_tolerations.contains(toleration))
    {
        let why = "Forbidden: existing toleration can not be modified except its tolerationSeconds";
        return Err(ApiError::invalid("", "Pod", name, "spec.tolerations", why));
    }
    let (old_gates, new_gates) = (list(old, "schedulingGates"), list(new, "schedulingGates"));
    if let Some(gate) = new_gates.iter().find(|gate| !old_gates.contains(gate)) {
        let gate = meta::text(gate, &["name"]).unwrap_or_default();
        let why = format!("Forbidden: only deletion is allowed, but found new scheduling gate '{gate}'");
        return Err(ApiError::invalid("", "Pod", name, "spec.schedulingGates", &why));
    }
    Ok(())
}

/// Removes what an update may change, so that the rest can be compared.
fn thaw(spec: &mut Map<String, Value>, gated: bool) {
    for key in [
        "activeDeadlineSeconds",
        "tolerations",
        "schedulingGates",
        "terminationGracePeriodSeconds",
    ] {
        spec.remove(key);
    }
    if gated {
        // A gated pod may have its node constraints tightened; that they are only tightened is not checked.
        spec.remove("nodeSelector");
        spec.remove("affinity");
    }
    for container in containers_mut(spec) {
        container.remove("image");
    }
}

fn containers_mut(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    spec.iter_mut()
        .filter(|(key, _)| CONTAINER_LISTS.contains(&key.as_str()))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
        .filter_map(Value::as_object_mut)
}

fn validate(name: &str, spec: &Map<String, Value>) -> Result<(), ApiError> {
    let invalid = |field: &str, message: &str| Err(ApiError::invalid("", "Pod", name, field, message));
    let Some(containers) = spec
        .get("containers")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
    else {
        return invalid("spec.containers", "Required value");
    };
    let mut seen: Vec<&str> = Vec::with_capacity(containers.len());
    for (index, container) in containers.iter().enumerate() {
        let Some(container_name) = meta::text(container, &["name"]).filter(|name| !name.is_empty()) else {
            return invalid(&format!("spec.containers[{index}].name"), "Required value");
        };
        if meta::text(container, &["image"]).is_none_or(str::is_empty) {
            return invalid(&format!("spec.containers[{index}].image"), "Required value");
        }
        if seen.contains(&container_name) {
            return invalid(&format!("spec.containers[{index}].name"), "Duplicate value");
        }
        seen.push(container_name);
    }
    Ok(())
}

fn default_spec(spec: &mut Map<String, Value>) {
    if spec
        .get("nodeName")
        .is_some_and(|node| node.as_str().is_none_or(str::is_empty))
    {
        spec.remove("nodeName");
    }
    meta::set_default(spec, "restartPolicy", "Always");
    meta::set_default(spec, "dnsPolicy", "ClusterFirst");
    meta::set_default(spec, "schedulerName", "default-scheduler");
    meta::set_default(spec, "terminationGracePeriodSeconds", 30);
    meta::set_default(spec, "enableServiceLinks", true);
    meta::set_default(spec, "securityContext", Map::new());
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default();
    for container in containers_mut(spec) {
        default_container(container, host_network);
    }
}

fn default_container(container: &mut Map<String, Value>, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let latest = image.ends_with(":latest") || !image.rsplit('/').next().unwrap_or_default().contains([':', '@']);
    meta::set_default(
        container,
        "imagePullPolicy",
        if latest { "Always" } else { "IfNotPresent" },
    );
    meta::set_default(container, "terminationMessagePath", "/dev/termination-log");
    meta::set_default(container, "terminationMessagePolicy", "File");
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Value::Object(port) = port else { continue };
        meta::set_default(port, "protocol", "TCP");
        let unset = port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0;
        if let (true, true, Some(number)) = (host_network, unset, port.get("containerPort").cloned()) {
            port.insert("hostPort".into(), number);
        }
    }
    let resources = meta::section(container, "resources");
    if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() {
        let requests = meta::section(resources, "requests");
        for (name, quantity) in limits {
            meta::set_default(requests, &name, quantity);
        }
    }
}

/// The class's value and policy; without a class a given priority is left as it is.
fn resolve_priority(store: &Store, spec: &mut Map<String, Value>) -> Result<(), ApiError> {
    if let Some(name) = spec
        .get("priorityClassName")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    {
        let class = super::priority_class(store, name)?;
        spec.insert("priority".into(), class.get("value").cloned().unwrap_or_default());
        if let Some(policy) = class.get("preemptionPolicy") {
            meta::set_default(spec, "preemptionPolicy", policy.clone());
        }
    }
    meta::set_default(spec, "priority", 0);
    meta::set_default(spec, "preemptionPolicy", "PreemptLowerPriority");
    Ok(())
}

/// `matchLabelKeys` and `mismatchLabelKeys` become expressions of the term's selector.
///
/// Source: KEP-3633 and KEP-3243 (`applyMatchLabelKeysAndMismatchLabelKeys`, `applyMatchLabelKeys…`).
fn merge_label_keys(spec: &mut Map<String, Value>, labels: &Value) {
    for constraint in spec
        .get_mut("topologySpreadConstraints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        merge_into(constraint, labels);
    }
    let Some(affinity) = spec.get_mut("affinity") else {
        return;
    };
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(rules) = affinity.get_mut(side) else { continue };
        let required = rules
            .get_mut("requiredDuringSchedulingIgnoredDuringExecution")
            .and_then(Value::as_array_mut);
        for term in required.into_iter().flatten() {
            merge_into(term, labels);
        }
        let preferred = rules
            .get_mut("preferredDuringSchedulingIgnoredDuringExecution")
            .and_then(Value::as_array_mut);
        for term in preferred
            .into_iter()
            .flatten()
            .filter_map(|weighted| weighted.get_mut("podAffinityTerm"))
        {
            merge_into(term, labels);
        }
    }
}

fn merge_into(term: &mut Value, labels: &Value) {
    let mut more: Vec<Value> = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term
            .get(list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if let Some(value) = labels.get(key) {
                more.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if more.is_empty() {
        return;
    }
    // Without a selector the term matches nothing, and it stays so.
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else {
        return;
    };
    let expressions = selector
        .entry("matchExpressions")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(expressions) = expressions {
        expressions.extend(more);
    }
}

fn qos_class(spec: &mut Map<String, Value>) -> &'static str {
    let (mut guaranteed, mut any) = (true, false);
    for container in containers_mut(spec) {
        let section = |key: &str| {
            container
                .get("resources")
                .and_then(|resources| resources.get(key))
                .and_then(Value::as_object)
        };
        let (requests, limits) = (section("requests"), section("limits"));
        for name in ["cpu", "memory"] {
            let (request, limit) = (
                requests.and_then(|map| map.get(name)),
                limits.and_then(|map| map.get(name)),
            );
            any |= request.is_some() || limit.is_some();
            guaranteed &= request.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
