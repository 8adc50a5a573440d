//! Tables for `kubectl get`.
//!
//! Source: the printers in `pkg/printers/internalversion/printers.go` for column names and meaning.
//!
//! Does not: have columns of its own for every kind; the others show name and age.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::view::partial;
use crate::meta;
use crate::store::{Kind, Object};

/// (name, type, format, priority); priority above 0 shows with `-o wide` only.
type Column = (&'static str, &'static str, &'static str, u8);

const NAME: Column = ("Name", "string", "name", 0);
const AGE: Column = ("Age", "string", "", 0);

const POD: &[Column] = &[
    NAME,
    ("Ready", "string", "", 0),
    ("Status", "string", "", 0),
    ("Restarts", "string", "", 0),
    AGE,
    ("IP", "string", "", 1),
    ("Node", "string", "", 1),
    ("Nominated Node", "string", "", 1),
    ("Readiness Gates", "string", "", 1),
];
const NODE: &[Column] = &[
    NAME,
    ("Status", "string", "", 0),
    ("Roles", "string", "", 0),
    AGE,
    ("Version", "string", "", 0),
    ("Internal-IP", "string", "", 1),
    ("External-IP", "string", "", 1),
    ("OS-Image", "string", "", 1),
    ("Kernel-Version", "string", "", 1),
    ("Container-Runtime", "string", "", 1),
];
const EVENT: &[Column] = &[
    ("Last Seen", "string", "", 0),
    ("Type", "string", "", 0),
    ("Reason", "string", "", 0),
    ("Object", "string", "", 0),
    ("Message", "string", "", 0),
    ("Name", "string", "name", 1),
];
const NAMESPACE: &[Column] = &[NAME, ("Status", "string", "", 0), AGE];
const LEASE: &[Column] = &[NAME, ("Holder", "string", "", 0), AGE];
const PRIORITY_CLASS: &[Column] = &[
    NAME,
    ("Value", "integer", "", 0),
    ("Global-Default", "boolean", "", 0),
    AGE,
    ("PreemptionPolicy", "string", "", 0),
];
const CLAIM: &[Column] = &[
    NAME,
    ("Status", "string", "", 0),
    ("Volume", "string", "", 0),
    ("StorageClass", "string", "", 0),
    AGE,
];
const BUDGET: &[Column] = &[
    NAME,
    ("Min Available", "string", "", 0),
    ("Max Unavailable", "string", "", 0),
    ("Allowed Disruptions", "integer", "", 0),
    AGE,
];
const OTHER: &[Column] = &[NAME, AGE];

/// A `Table` of objects.
pub(super) fn of<'a>(
    kind: &Kind,
    objects: impl IntoIterator<Item = &'a Object>,
    include: &str,
    metadata: &Value,
) -> Value {
    let columns = match (kind.custom, kind.kind.as_ref()) {
        (false, "Pod") => POD,
        (false, "Node") => NODE,
        (false, "Event") => EVENT,
        (false, "Namespace") => NAMESPACE,
        (false, "Lease") => LEASE,
        (false, "PriorityClass") => PRIORITY_CLASS,
        (false, "PersistentVolumeClaim") => CLAIM,
        (false, "PodDisruptionBudget") => BUDGET,
        _ => OTHER,
    };
    let now = Timestamp::now();
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let value = object.value();
            let cells = cells(kind, &value, now);
            let shown = match include {
                "None" => Value::Null,
                "Object" => value,
                _ => partial(&value),
            };
            json!({"cells": cells, "object": shown})
        })
        .collect();
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, kind, format, priority)| {
            json!({"name": name, "type": kind, "format": format, "priority": priority, "description": ""})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn cells(kind: &Kind, value: &Value, now: Timestamp) -> Vec<Value> {
    let text = |path: &[&str]| meta::text(value, path).unwrap_or_default();
    let or_none = |path: &[&str]| {
        meta::text(value, path)
            .filter(|text| !text.is_empty())
            .unwrap_or("<none>")
    };
    let name = text(&["metadata", "name"]);
    let age = age(text(&["metadata", "creationTimestamp"]), now);
    if kind.custom {
        return vec![name.into(), age.into()];
    }
    match kind.kind.as_ref() {
        "Pod" => pod_cells(value, name, &age),
        "Node" => node_cells(value, name, &age),
        "Event" => {
            let seen = ["lastTimestamp", "eventTime", "firstTimestamp"]
                .into_iter()
                .map(|key| text(&[key]));
            let seen = seen
                .filter(|time| !time.is_empty())
                .map(|time| self::age(time, now))
                .next();
            let about = format!(
                "{}/{}",
                text(&["involvedObject", "kind"]).to_ascii_lowercase(),
                text(&["involvedObject", "name"])
            );
            vec![
                seen.unwrap_or(age).into(),
                text(&["type"]).into(),
                text(&["reason"]).into(),
                about.into(),
                text(&["message"]).trim().into(),
                name.into(),
            ]
        }
        "Namespace" => vec![name.into(), text(&["status", "phase"]).into(), age.into()],
        "Lease" => vec![name.into(), text(&["spec", "holderIdentity"]).into(), age.into()],
        "PriorityClass" => vec![
            name.into(),
            value.get("value").cloned().unwrap_or_default(),
            value
                .get("globalDefault")
                .and_then(Value::as_bool)
                .unwrap_or_default()
                .into(),
            age.into(),
            text(&["preemptionPolicy"]).into(),
        ],
        "PersistentVolumeClaim" => vec![
            name.into(),
            text(&["status", "phase"]).into(),
            text(&["spec", "volumeName"]).into(),
            or_none(&["spec", "storageClassName"]).into(),
            age.into(),
        ],
        "PodDisruptionBudget" => {
            let bound = |key: &str| match meta::get(value, &["spec", key]) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => "N/A".to_owned(),
            };
            let allowed = meta::get(value, &["status", "disruptionsAllowed"])
                .cloned()
                .unwrap_or_else(|| 0.into());
            vec![
                name.into(),
                bound("minAvailable").into(),
                bound("maxUnavailable").into(),
                allowed,
                age.into(),
            ]
        }
        _ => vec![name.into(), age.into()],
    }
}

fn pod_cells(value: &Value, name: &str, age: &str) -> Vec<Value> {
    let or_none = |path: &[&str]| {
        meta::text(value, path)
            .filter(|text| !text.is_empty())
            .unwrap_or("<none>")
    };
    let list = |path: &[&str]| {
        meta::get(value, path)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let containers = list(&["spec", "containers"]).len();
    let statuses = list(&["status", "containerStatuses"]);
    let ready = statuses
        .iter()
        .filter(|status| status.get("ready") == Some(&Value::Bool(true)))
        .count();
    let restarts: i64 = statuses
        .iter()
        .filter_map(|status| status.get("restartCount").and_then(Value::as_i64))
        .sum();
    let gates = list(&["spec", "readinessGates"]);
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        format!("0/{}", gates.len())
    };
    vec![
        name.into(),
        format!("{ready}/{containers}").into(),
        pod_status(value).into(),
        restarts.to_string().into(),
        age.into(),
        or_none(&["status", "podIP"]).into(),
        or_none(&["spec", "nodeName"]).into(),
        or_none(&["status", "nominatedNodeName"]).into(),
        gates.into(),
    ]
}

fn pod_status(value: &Value) -> &str {
    if meta::get(value, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
        return "Terminating";
    }
    let gated = condition(value, "PodScheduled").and_then(|condition| meta::text(condition, &["reason"]));
    if gated == Some("SchedulingGated") {
        return "SchedulingGated";
    }
    let reason = meta::text(value, &["status", "reason"]).filter(|reason| !reason.is_empty());
    reason
        .or_else(|| meta::text(value, &["status", "phase"]))
        .unwrap_or_default()
}

fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = meta::get(value, &["status", "conditions"]).and_then(Value::as_array)?;
    conditions
        .iter()
        .find(|condition| meta::text(condition, &["type"]) == Some(kind))
}

fn node_cells(value: &Value, name: &str, age: &str) -> Vec<Value> {
    let mut status = match condition(value, "Ready").and_then(|ready| meta::text(ready, &["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if meta::get(value, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = meta::get(value, &["metadata", "labels"]).and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| {
        let addresses = meta::get(value, &["status", "addresses"]).and_then(Value::as_array);
        let found = addresses
            .into_iter()
            .flatten()
            .find(|address| meta::text(address, &["type"]) == Some(kind));
        found
            .and_then(|address| meta::text(address, &["address"]))
            .unwrap_or("<none>")
            .to_owned()
    };
    let info = |key: &str| {
        meta::text(value, &["status", "nodeInfo", key])
            .unwrap_or("<unknown>")
            .to_owned()
    };
    vec![
        name.into(),
        status.into(),
        roles.into(),
        age.into(),
        meta::text(value, &["status", "nodeInfo", "kubeletVersion"])
            .unwrap_or_default()
            .into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// A duration since `time`, in the short form of `kubectl` (`5s`, `3m10s`, `2d3h`).
///
/// Source: apimachinery `util/duration` (`HumanDuration`).
fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = now.as_second().saturating_sub(time.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let ago = |seconds: i64| {
            age(
                &meta::format_seconds(Timestamp::from_second(1_000_000_000 - seconds).unwrap()),
                now,
            )
        };
        assert_eq!(ago(5), "5s");
        assert_eq!(ago(190), "3m10s");
        assert_eq!(ago(3_600), "60m");
        assert_eq!(ago(4 * 3_600), "4h");
        assert_eq!(ago(3 * 86_400 + 7_200), "3d2h");
        assert_eq!(age("", now), "<unknown>");
    }
}
