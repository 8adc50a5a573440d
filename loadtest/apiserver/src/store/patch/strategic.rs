//! Strategic merge patch: objects merge, lists merge by the key that the API types name for them.
//!
//! Source: the `patchStrategy` and `patchMergeKey` tags of `k8s.io/api`; directives of apimachinery `strategicpatch`.
//!
//! Does not: reorder by `$setElementOrder` (order is kept, new elements come last).

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Merge keys by list name. Lists that are not here are replaced whole, as upstream's atomic lists are.
const MERGE_KEYS: [(&str, &[&str]); 21] = [
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("ports", &["containerPort", "port"]),
    ("addresses", &["type"]),
    ("ownerReferences", &["uid"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("schedulingGates", &["name"]),
    ("resourceClaims", &["name"]),
    ("resourceClaimStatuses", &["name"]),
    ("podIPs", &["ip"]),
    ("secrets", &["name"]),
    ("volumesAttached", &["name"]),
    ("drivers", &["name"]),
];
/// Lists of plain values that merge as sets.
const SETS: [&str; 2] = ["finalizers", "podCIDRs"];

/// Applies a document to an object.
pub(super) fn apply(object: &mut Value, document: &Value) -> Result<(), ApiError> {
    match (object, document) {
        (Value::Object(target), Value::Object(patch)) => merge_object(target, patch),
        _ => Err(ApiError::bad_request("a strategic merge patch must be a JSON object")),
    }
}

fn merge_object(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), ApiError> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => target.clear(),
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(ApiError::bad_request(format!("unrecognized patch directive {other:?}"))),
    }
    if let Some(Value::Array(retained)) = patch.get("$retainKeys") {
        target.retain(|key, _| retained.iter().any(|other| other.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/")
            && let (Some(Value::Array(stored)), Value::Array(gone)) = (target.get_mut(list), value)
        {
            stored.retain(|element| !gone.contains(element));
        }
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        merge_member(target, key, value)?;
    }
    Ok(())
}

fn merge_member(target: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), ApiError> {
    match value {
        Value::Null => {
            target.remove(key);
            Ok(())
        }
        Value::Object(patch) => {
            let slot = target.entry(key).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            match slot {
                Value::Object(slot) => merge_object(slot, patch),
                _ => Ok(()),
            }
        }
        Value::Array(patch) => {
            let slot = target.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            match slot {
                Value::Array(slot) => merge_list(slot, key, patch),
                _ => Ok(()),
            }
        }
        plain => {
            target.insert(key.to_owned(), plain.clone());
            Ok(())
        }
    }
}

fn merge_list(target: &mut Vec<Value>, name: &str, patch: &[Value]) -> Result<(), ApiError> {
    let replace = patch
        .iter()
        .any(|element| directive(element) == Some("replace") && only_directive(element));
    let merge_key = merge_key(name, patch);
    if replace || (merge_key.is_none() && !SETS.contains(&name)) {
        let kept = patch.iter().filter(|element| directive(element).is_none());
        *target = kept.cloned().collect();
        return Ok(());
    }
    let Some(merge_key) = merge_key else {
        for element in patch {
            if !target.contains(element) {
                target.push(element.clone());
            }
        }
        return Ok(());
    };
    for element in patch {
        let Value::Object(change) = element else {
            return Err(ApiError::bad_request(format!("{name}: an element is not an object")));
        };
        let Some(id) = change.get(merge_key) else {
            return Err(ApiError::bad_request(format!(
                "{name}: an element does not contain the merge key {merge_key}"
            )));
        };
        let at = target.iter().position(|stored| stored.get(merge_key) == Some(id));
        match (directive(element), at) {
            (Some("delete"), Some(at)) => {
                target.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => {
                if let Some(Value::Object(stored)) = target.get_mut(at) {
                    merge_object(stored, change)?;
                }
            }
            (_, None) => {
                let mut fresh = Map::new();
                merge_object(&mut fresh, change)?;
                target.push(Value::Object(fresh));
            }
        }
    }
    Ok(())
}

fn merge_key(name: &str, patch: &[Value]) -> Option<&'static str> {
    let (_, candidates) = MERGE_KEYS.iter().find(|(list, _)| *list == name)?;
    // Of two candidates (ports of a container, ports of a Service) the elements say which is meant.
    let objects = patch.iter().find_map(Value::as_object);
    let Some(first) = objects else {
        return candidates.first().copied();
    };
    candidates.iter().copied().find(|key| first.contains_key(*key))
}

fn directive(element: &Value) -> Option<&str> {
    element.get("$patch").and_then(Value::as_str)
}

fn only_directive(element: &Value) -> bool {
    element.as_object().is_some_and(|map| map.len() == 1)
}
