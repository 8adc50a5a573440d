//! The same judgement while a run goes on: fed with every change of nodes and pods, it names the first change that breaks
//! a rule. Simulated nodes accept anything, so that somebody else has to look.
//!
//! Watched for: more on a node than it has (requests, slots, host ports), a pod that moves to another node, required
//! anti-affinity between pods in place. Pods that went and were replaced are counted apart.
//!
//! Does not: judge spreading (deletions may leave any skew behind), nor resizes that are under way.
//!
//! Cost: the pods of a node a binding; with anti-affinity in play, all pods.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde_json::Value;

use super::{is_any, quantity, requests};
use crate::meta;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A node holds more than it has.
    #[error("node {node} holds {used_nanos} of {capacity_nanos} (billionths) {resource} with pod {pod}")]
    Overcommitted {
        /// The node.
        node: String,
        /// The resource, or `pods`.
        resource: String,
        /// What the pods use, in billionths.
        used_nanos: i128,
        /// What the node has, in billionths.
        capacity_nanos: i128,
        /// The pod that was one too many.
        pod: String,
    },
    /// Two pods of a node have one port.
    #[error("pods {pod} and {other} on node {node} both have port {port}")]
    Port {
        /// The node.
        node: String,
        /// `PROTOCOL/IP:PORT`.
        port: String,
        /// The pod that came later.
        pod: String,
        /// The pod that had it.
        other: String,
    },
    /// A pod was bound a second time.
    #[error("pod {pod} was on node {from} and is on {to}")]
    Moved {
        /// The pod.
        pod: String,
        /// Where it was.
        from: String,
        /// Where it is.
        to: String,
    },
    /// Two pods that may not share a domain do.
    #[error("pods {pod} and {other} share {domain} against an anti-affinity")]
    TooClose {
        /// The pod that came later.
        pod: String,
        /// The pod that was there.
        other: String,
        /// `key=value` of the domain.
        domain: String,
    },
}

/// Counts of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Pods that were seen to get a node.
    pub bound: usize,
    /// Of these, pods that are gone.
    pub gone: usize,
    /// Pods without a node that exist.
    pub waiting: usize,
}

/// A required anti-affinity term.
#[derive(Debug, Clone)]
struct Term {
    key: String,
    selector: Option<Value>,
    namespaces: Vec<String>,
}

#[derive(Debug, Clone)]
struct Pod {
    name: String,
    namespace: String,
    node: Option<String>,
    /// Uses nothing any more.
    ended: bool,
    requests: BTreeMap<String, i128>,
    ports: Vec<(String, String, i64)>,
    labels: Value,
    avoids: Vec<Term>,
}

/// Follows a cluster.
#[derive(Debug, Default)]
pub struct LiveCheck {
    nodes: HashMap<String, Value>,
    /// By UID.
    pods: HashMap<String, Pod>,
    /// UIDs on a node.
    placed: HashMap<String, Vec<String>>,
    counts: LiveCounts,
}

impl LiveCheck {
    /// A node came or changed.
    pub fn node(&mut self, node: &Value) {
        if let Some(name) = meta::text(node, &["metadata", "name"]) {
            self.nodes.insert(name.to_owned(), node.clone());
        }
    }

    /// A pod came or changed.
    ///
    /// # Errors
    /// The change breaks a rule. The check goes on all the same.
    pub fn pod(&mut self, object: &Value) -> Result<(), Breach> {
        let uid = meta::text(object, &["metadata", "uid"]).unwrap_or_default();
        let new = Pod::of(object);
        let old = self.pods.insert(uid.to_owned(), new.clone());
        self.counts.waiting += usize::from(old.is_none());
        let was_on = old.and_then(|old| old.node);
        let Some(node) = new.node.clone() else { return Ok(()) };
        match was_on {
            Some(from) if from != node => {
                return Err(Breach::Moved {
                    pod: new.name,
                    from,
                    to: node,
                });
            }
            Some(_) => return Ok(()),
            None => {}
        }
        self.counts.waiting -= 1;
        self.counts.bound += 1;
        self.placed.entry(node.clone()).or_default().push(uid.to_owned());
        if new.ended {
            return Ok(());
        }
        self.judge_room(&new, &node)?;
        self.judge_ports(&new, uid, &node)?;
        self.judge_distance(&new, uid, &node)
    }

    /// A pod is gone; its room is free.
    pub fn gone(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        match pod.node {
            Some(node) => {
                self.counts.gone += 1;
                if let Some(placed) = self.placed.get_mut(&node) {
                    placed.retain(|other| other != uid);
                }
            }
            None => self.counts.waiting -= 1,
        }
    }

    /// Counts so far.
    #[must_use]
    pub const fn counts(&self) -> LiveCounts {
        self.counts
    }

    /// Pods that use room on a node.
    fn on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a String, &'a Pod)> {
        let placed = self.placed.get(node).map_or(&[][..], Vec::as_slice);
        placed
            .iter()
            .filter_map(|uid| Some((uid, self.pods.get(uid).filter(|pod| !pod.ended)?)))
    }

    fn judge_room(&self, pod: &Pod, node: &str) -> Result<(), Breach> {
        // A node that is not known yet is judged by the end state.
        let Some(allocatable) = self
            .nodes
            .get(node)
            .and_then(|node| meta::get(node, &["status", "allocatable"]))
        else {
            return Ok(());
        };
        let asked = pod.requests.iter().filter(|(_, amount)| **amount > 0);
        let slot = ("pods".to_owned(), quantity::NANOS);
        for resource in asked.map(|(resource, _)| resource).chain([&slot.0]) {
            let of = |pod: &Pod| match *resource == slot.0 {
                true => slot.1,
                false => pod.requests.get(resource).copied().unwrap_or_default(),
            };
            let used_nanos: i128 = self.on(node).map(|(_, pod)| of(pod)).sum();
            let capacity = allocatable.get(resource).and_then(quantity::parse_json);
            let capacity_nanos = capacity.unwrap_or_default();
            if used_nanos > capacity_nanos {
                return Err(Breach::Overcommitted {
                    node: node.to_owned(),
                    resource: resource.clone(),
                    used_nanos,
                    capacity_nanos,
                    pod: pod.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn judge_ports(&self, pod: &Pod, uid: &str, node: &str) -> Result<(), Breach> {
        for (protocol, address, port) in &pod.ports {
            let clash = |other: &(String, String, i64)| {
                other.0 == *protocol && other.2 == *port && (other.1 == *address || is_any(&other.1) || is_any(address))
            };
            let mut others = self.on(node).filter(|(other, _)| *other != uid);
            if let Some((_, other)) = others.find(|(_, other)| other.ports.iter().any(clash)) {
                return Err(Breach::Port {
                    node: node.to_owned(),
                    port: format!("{protocol}/{address}:{port}"),
                    pod: pod.name.clone(),
                    other: other.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn judge_distance(&self, pod: &Pod, uid: &str, node: &str) -> Result<(), Breach> {
        let label = |node: &str, key: &str| {
            let node = self.nodes.get(node)?;
            meta::text(node, &["metadata", "labels", key])
        };
        let others = self.pods.iter().filter(|(other, seen)| *other != uid && !seen.ended);
        for (_, other) in others {
            let Some(place) = other.node.as_deref() else { continue };
            let mine = pod.avoids.iter().filter(|term| term.means(other));
            let theirs = other.avoids.iter().filter(|term| term.means(pod));
            for term in mine.chain(theirs) {
                if let (Some(here), Some(there)) = (label(node, &term.key), label(place, &term.key))
                    && here == there
                {
                    return Err(Breach::TooClose {
                        pod: pod.name.clone(),
                        other: other.name.clone(),
                        domain: format!("{}={here}", term.key),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let text = |path: &[&str]| meta::text(pod, path).unwrap_or_default().to_owned();
        let namespace = text(&["metadata", "namespace"]);
        let node = Some(text(&["spec", "nodeName"])).filter(|node| !node.is_empty());
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = meta::get(pod, &["spec", "affinity", "podAntiAffinity", required]).and_then(Value::as_array);
        Self {
            name: format!("{namespace}/{}", text(&["metadata", "name"])),
            ended: matches!(&*text(&["status", "phase"]), "Succeeded" | "Failed"),
            requests: requests::of(pod).0.into_iter().collect(),
            ports: requests::host_ports(pod),
            labels: meta::get(pod, &["metadata", "labels"]).cloned().unwrap_or_default(),
            avoids: terms
                .into_iter()
                .flatten()
                .map(|term| Term::of(term, &namespace))
                .collect(),
            namespace,
            node,
        }
    }
}

impl Term {
    fn of(term: &Value, own: &str) -> Self {
        let listed = meta::get(term, &["namespaces"]).and_then(Value::as_array);
        let listed: Vec<String> = listed
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        Self {
            key: meta::text(term, &["topologyKey"]).unwrap_or_default().to_owned(),
            selector: meta::get(term, &["labelSelector"]).cloned(),
            namespaces: if listed.is_empty() {
                vec![own.to_owned()]
            } else {
                listed
            },
        }
    }

    /// Whether the term is about the pod.
    fn means(&self, pod: &Pod) -> bool {
        let Some(selector) = &self.selector else { return false };
        let label = |key: &str| pod.labels.get(key).and_then(Value::as_str);
        let pairs = meta::get(selector, &["matchLabels"]).and_then(Value::as_object);
        let mut pairs = pairs.into_iter().flatten();
        let expressions = meta::get(selector, &["matchExpressions"]).and_then(Value::as_array);
        let mut expressions = expressions.into_iter().flatten();
        let holds = |expression: &Value| {
            let found = meta::text(expression, &["key"]).and_then(label);
            let values = meta::get(expression, &["values"]).and_then(Value::as_array);
            let is_listed = values
                .into_iter()
                .flatten()
                .any(|value| found.is_some() && value.as_str() == found);
            match meta::text(expression, &["operator"]) {
                Some("In") => is_listed,
                Some("NotIn") => !is_listed,
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        };
        self.namespaces.contains(&pod.namespace)
            && pairs.all(|(key, value)| label(key) == value.as_str())
            && expressions.all(holds)
    }
}

#[cfg(test)]
mod tests;
