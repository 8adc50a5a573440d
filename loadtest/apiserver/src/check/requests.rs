//! What a pod asks of its node, summed from its spec.
//!
//! Source: `k8s.io/component-helpers/resource` for the rules (init containers, sidecars, overhead, pod-level resources).

use hashbrown::HashMap;
use serde_json::Value;

use super::quantity;
use crate::meta;

type Amounts = HashMap<String, i128>;

/// Requests by resource in billionths, and how many quantities could not be parsed.
pub(super) fn of(pod: &Value) -> (Amounts, usize) {
    let mut bad = 0;
    let list = |key: &str| {
        meta::get(pod, &["spec", key])
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let mut total = Amounts::new();
    for container in list("containers") {
        add(
            &mut total,
            &amounts(meta::get(container, &["resources", "requests"]), &mut bad),
        );
    }
    // Init containers run one after the other, beside the sidecars started before them.
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = amounts(meta::get(container, &["resources", "requests"]), &mut bad);
        if meta::text(container, &["restartPolicy"]) == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            raise(&mut peak, &together);
        }
    }
    raise(&mut total, &peak);
    // Requests of the pod as a whole replace the sums of its containers.
    for (resource, amount) in amounts(meta::get(pod, &["spec", "resources", "requests"]), &mut bad).drain() {
        total.insert(resource, amount);
    }
    add(&mut total, &amounts(meta::get(pod, &["spec", "overhead"]), &mut bad));
    (total, bad)
}

/// (protocol, address, port) of the host ports.
pub(super) fn host_ports(pod: &Value) -> Vec<(String, String, i64)> {
    let list = |key: &str| {
        meta::get(pod, &["spec", key])
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let sidecars = list("initContainers")
        .iter()
        .filter(|container| meta::text(container, &["restartPolicy"]) == Some("Always"));
    let mut ports = Vec::new();
    for container in list("containers").iter().chain(sidecars) {
        for port in container.get("ports").and_then(Value::as_array).into_iter().flatten() {
            let number = port.get("hostPort").and_then(Value::as_i64).unwrap_or_default();
            let text = |key: &str, default: &str| {
                meta::text(port, &[key])
                    .filter(|text| !text.is_empty())
                    .unwrap_or(default)
                    .to_owned()
            };
            let entry = (text("protocol", "TCP"), text("hostIP", "0.0.0.0"), number);
            // A pod may name one port twice without clashing with itself.
            if number > 0 && !ports.contains(&entry) {
                ports.push(entry);
            }
        }
    }
    ports
}

fn amounts(map: Option<&Value>, bad: &mut usize) -> Amounts {
    let mut amounts = Amounts::new();
    for (resource, written) in map.and_then(Value::as_object).into_iter().flatten() {
        match quantity::parse_json(written) {
            Some(amount) => {
                amounts.insert(resource.clone(), amount);
            }
            None => *bad += 1,
        }
    }
    amounts
}

fn add(sum: &mut Amounts, more: &Amounts) {
    let mut more: Vec<(&String, &i128)> = more.iter().collect();
    more.sort();
    for (resource, amount) in more {
        let slot = sum.entry_ref(resource.as_str()).or_default();
        *slot = slot.saturating_add(*amount);
    }
}

fn raise(sum: &mut Amounts, floor: &Amounts) {
    let mut floor: Vec<(&String, &i128)> = floor.iter().collect();
    floor.sort();
    for (resource, amount) in floor {
        let slot = sum.entry_ref(resource.as_str()).or_default();
        *slot = (*slot).max(*amount);
    }
}
