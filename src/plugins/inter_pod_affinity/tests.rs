//! Recorded edge cases as tables, and the proof that counting change by change comes to the same.

mod filter;
mod hints;
mod incremental;
mod score;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{Labels, NamespaceLabels};
use crate::framework::Plugin;
use crate::ids::Symbol;
use crate::plugins::check::plugin;
use crate::testing::{PodBuilder, World};

const HARD: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const SOFT: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const NO_AFFINITY: &str = "UU node(s) didn't match pod affinity rules";
const ANTI: &str = "U node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "U node(s) didn't satisfy existing pods anti-affinity rules";

fn affinity() -> Arc<dyn Plugin> {
    plugin("InterPodAffinity")
}

/// A term for pods with a label.
fn like(key: &str, value: &str, topology_key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {key: value}}, "topologyKey": topology_key})
}

/// A term for pods whose label is one of these.
fn one_of(key: &str, values: &[&str], topology_key: &str) -> Value {
    let expression = json!({"key": key, "operator": "In", "values": values});
    json!({"labelSelector": {"matchExpressions": [expression]}, "topologyKey": topology_key})
}

/// The same term with one more member.
fn with(mut term: Value, member: &str, value: Value) -> Value {
    term[member] = value;
    term
}

fn weighted(weight: i32, term: &Value) -> Value {
    json!({"weight": weight, "podAffinityTerm": term})
}

/// Requires to be near.
fn near(pod: PodBuilder, terms: &[Value]) -> PodBuilder {
    pod.field(&["spec", "affinity", "podAffinity", HARD], terms)
}

/// Requires to be apart.
fn apart(pod: PodBuilder, terms: &[Value]) -> PodBuilder {
    pod.field(&["spec", "affinity", "podAntiAffinity", HARD], terms)
}

/// Prefers to be near.
fn likes(pod: PodBuilder, terms: &[Value]) -> PodBuilder {
    pod.field(&["spec", "affinity", "podAffinity", SOFT], terms)
}

/// Prefers to be apart.
fn dislikes(pod: PodBuilder, terms: &[Value]) -> PodBuilder {
    pod.field(&["spec", "affinity", "podAntiAffinity", SOFT], terms)
}

fn put_namespace(world: &World, name: &str, labels: &[(&str, &str)]) {
    world.namespaces().put(NamespaceLabels {
        name: Symbol::new(name),
        labels: labels.iter().copied().collect::<Labels>(),
    });
}
