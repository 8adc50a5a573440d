//! What must hold at the end of a run, from the API's own state: every pod accounted for, no node given too much.
//!
//! It shares no arithmetic with the scheduler: quantities are parsed here (`quantity`) and requests summed anew.
//!
//! Does not: judge placement rules such as affinity; nor count in-place resizes that are under way (the spec's requests
//! are taken).

use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use serde_json::Value;

use crate::meta;

pub mod live;
pub mod quantity;

mod requests;

/// Which pods are ours: only they make a node overcommitted, and only they are counted.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Only pods with this `spec.schedulerName`.
    pub scheduler: Option<String>,
    /// Only pods with these UIDs.
    pub uids: Option<HashSet<String>>,
    /// Only pods of this namespace.
    pub namespace: Option<String>,
}

impl CheckOptions {
    fn is_ours(&self, pod: &Value) -> bool {
        let equals = |wanted: &Option<String>, path: &[&str]| {
            wanted
                .as_deref()
                .is_none_or(|wanted| meta::text(pod, path) == Some(wanted))
        };
        equals(&self.scheduler, &["spec", "schedulerName"])
            && equals(&self.namespace, &["metadata", "namespace"])
            && self
                .uids
                .as_ref()
                .is_none_or(|uids| uids.contains(meta::text(pod, &["metadata", "uid"]).unwrap_or_default()))
    }
}

/// A node that holds more than it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overcommit {
    /// The node.
    pub node: String,
    /// The resource, `pods`, or `hostPort PROTOCOL/IP:PORT`.
    pub resource: String,
    /// What the pods use, in billionths (for counts and ports: in pods).
    pub used_nanos: i128,
    /// What the node has, in the same unit.
    pub capacity_nanos: i128,
}

/// The end state of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndState {
    /// Pods of ours.
    pub pods: usize,
    /// With a node.
    pub bound: usize,
    /// Without a node, and `PodScheduled` is false (not because of gates).
    pub unschedulable: usize,
    /// Without a node because of scheduling gates.
    pub gated: usize,
    /// Being deleted and not gone: what whoever plays the nodes has not come to yet. They keep their room, and one
    /// without a node is no longer waited for.
    pub terminating: usize,
    /// Without a node and without a verdict: lost.
    pub lost: usize,
    /// Names (`namespace/name`) of lost pods, the first hundred.
    pub lost_names: Vec<String>,
    /// Bound to nodes that do not exist.
    pub on_missing_nodes: usize,
    /// UIDs or names that occur more than once.
    pub duplicates: usize,
    /// Quantities that cannot be parsed; they count as zero.
    pub bad_quantities: usize,
    /// Nodes that hold too much, by node and resource.
    pub overcommitted: Vec<Overcommit>,
}

impl EndState {
    /// Number of distinct overcommitted nodes.
    #[must_use]
    pub fn overcommitted_nodes(&self) -> usize {
        let mut nodes: Vec<&str> = self.overcommitted.iter().map(|over| over.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    /// Whether no pod is lost, duplicated or on a missing node, and no node overcommitted.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lost == 0 && self.duplicates == 0 && self.on_missing_nodes == 0 && self.overcommitted.is_empty()
    }
}

/// Names kept in [`EndState::lost_names`].
const MAX_NAMES: usize = 100;

/// What the pods of one node use.
#[derive(Default)]
struct Use {
    by_resource: HashMap<String, i128>,
    /// Resources of which a pod of ours uses some.
    ours: HashSet<String>,
    /// (protocol, address, port) and whether it is ours.
    ports: Vec<(String, String, i64, bool)>,
    pods: i128,
    has_ours: bool,
}

/// Checks listed nodes and pods.
#[must_use]
pub fn check(nodes: &[Value], pods: &[Value], options: &CheckOptions) -> EndState {
    let mut state = EndState::default();
    let mut seen: HashSet<String> = HashSet::with_capacity(pods.len() * 2);
    let mut uses: HashMap<&str, Use> = HashMap::with_capacity(nodes.len());
    for pod in pods {
        let text = |path: &[&str]| meta::text(pod, path).unwrap_or_default();
        let name = format!("{}/{}", text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        let ours = options.is_ours(pod);
        let uid = text(&["metadata", "uid"]).to_owned();
        let fresh_uid = uid.is_empty() || seen.insert(uid);
        if !(seen.insert(name.clone()) && fresh_uid) {
            state.duplicates += 1;
        }
        let node = text(&["spec", "nodeName"]);
        if ours {
            count(&mut state, pod, name, node);
        }
        if !node.is_empty() && !matches!(text(&["status", "phase"]), "Succeeded" | "Failed") {
            charge(uses.entry(node).or_default(), pod, ours, &mut state.bad_quantities);
        }
    }
    for node in nodes {
        let name = meta::text(node, &["metadata", "name"]).unwrap_or_default();
        if let Some(used) = uses.remove(name).filter(|used| used.has_ours) {
            compare(&mut state, name, node, &used);
        }
    }
    let left: usize = uses.values().filter(|used| used.has_ours).count();
    if left > 0 {
        let known: HashSet<&str> = nodes
            .iter()
            .filter_map(|node| meta::text(node, &["metadata", "name"]))
            .collect();
        state.on_missing_nodes = pods
            .iter()
            .filter(|pod| options.is_ours(pod))
            .filter_map(|pod| meta::text(pod, &["spec", "nodeName"]))
            .filter(|node| !node.is_empty() && !known.contains(node))
            .count();
    }
    state
        .overcommitted
        .sort_by(|left, right| (&left.node, &left.resource).cmp(&(&right.node, &right.resource)));
    state
}

fn count(state: &mut EndState, pod: &Value, name: String, node: &str) {
    state.pods += 1;
    let terminating = meta::text(pod, &["metadata", "deletionTimestamp"]).is_some();
    state.terminating += usize::from(terminating);
    if !node.is_empty() {
        state.bound += 1;
        return;
    }
    let conditions = meta::get(pod, &["status", "conditions"]).and_then(Value::as_array);
    let scheduled = conditions
        .into_iter()
        .flatten()
        .find(|condition| meta::text(condition, &["type"]) == Some("PodScheduled"));
    let field = |key: &str| {
        scheduled
            .and_then(|condition| meta::text(condition, &[key]))
            .unwrap_or_default()
    };
    match (field("status"), field("reason")) {
        ("False", "SchedulingGated") => state.gated += 1,
        ("False", _) => state.unschedulable += 1,
        _ if terminating => {}
        _ => {
            state.lost += 1;
            if state.lost_names.len() < MAX_NAMES {
                state.lost_names.push(name);
            }
        }
    }
}

fn charge(used: &mut Use, pod: &Value, ours: bool, bad: &mut usize) {
    used.pods += 1;
    used.has_ours |= ours;
    let (requests, bad_here) = requests::of(pod);
    *bad += bad_here;
    let mut requests: Vec<(String, i128)> = requests.into_iter().filter(|(_, amount)| *amount > 0).collect();
    requests.sort();
    for (resource, amount) in requests {
        if ours {
            used.ours.insert(resource.clone());
        }
        let sum = used.by_resource.entry(resource).or_default();
        *sum = sum.saturating_add(amount);
    }
    used.ports.extend(
        requests::host_ports(pod)
            .into_iter()
            .map(|(protocol, address, port)| (protocol, address, port, ours)),
    );
}

fn compare(state: &mut EndState, name: &str, node: &Value, used: &Use) {
    let allocatable = meta::get(node, &["status", "allocatable"]);
    let mut capacity_of = |resource: &str| {
        let written = allocatable.and_then(|map| map.get(resource));
        let parsed = written.map(quantity::parse_json);
        if parsed == Some(None) {
            state.bad_quantities += 1;
        }
        parsed.flatten().unwrap_or_default()
    };
    let mut found = Vec::new();
    let mut over = |resource: String, used_nanos: i128, capacity_nanos: i128| {
        if used_nanos > capacity_nanos {
            found.push(Overcommit {
                node: name.to_owned(),
                resource,
                used_nanos,
                capacity_nanos,
            });
        }
    };
    let mut resources: Vec<(&String, &i128)> = used.by_resource.iter().collect();
    resources.sort();
    for (resource, amount) in resources {
        if used.ours.contains(resource) {
            over(resource.clone(), *amount, capacity_of(resource));
        }
    }
    over("pods".to_owned(), used.pods, capacity_of("pods") / quantity::NANOS);
    for (position, (protocol, address, port, ours)) in used.ports.iter().enumerate() {
        let clash =
            used.ports
                .iter()
                .skip(position + 1)
                .any(|(other_protocol, other_address, other_port, other_ours)| {
                    let same = protocol == other_protocol && port == other_port;
                    let overlap = address == other_address || is_any(address) || is_any(other_address);
                    same && overlap && (*ours || *other_ours)
                });
        if clash {
            over(format!("hostPort {protocol}/{address}:{port}"), 2, 1);
        }
    }
    state.overcommitted.append(&mut found);
}

fn is_any(address: &str) -> bool {
    matches!(address, "" | "0.0.0.0" | "::")
}

#[cfg(test)]
mod tests;
