//! Builds nodes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::NodeSpec;
use crate::cluster::watch::decode_node;
use crate::testing::{push, set, uid_of};

/// A node that offers 110 pods and nothing else, with its hostname label.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder {
        json: json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": uid_of(name), "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"allocatable": {"pods": "110"}},
        }),
    }
}

/// A node in the making; every method changes one thing and gives the builder back.
#[derive(Clone, Debug)]
#[must_use]
pub struct NodeBuilder {
    json: Value,
}

impl NodeBuilder {
    /// The UID.
    pub fn uid(self, uid: &str) -> Self {
        self.field(&["metadata", "uid"], uid)
    }

    /// Allocatable CPU, in milli-CPU.
    pub fn cpu(self, milli: i64) -> Self {
        self.allocatable("cpu", &format!("{milli}m"))
    }

    /// Allocatable memory, in MiB.
    pub fn memory_mi(self, mi: i64) -> Self {
        self.allocatable("memory", &format!("{mi}Mi"))
    }

    /// Allocatable memory, in GiB.
    pub fn memory_gi(self, gi: i64) -> Self {
        self.allocatable("memory", &format!("{gi}Gi"))
    }

    /// Allocatable number of pods.
    pub fn pods(self, count: i64) -> Self {
        self.allocatable("pods", &count.to_string())
    }

    /// Any allocatable amount.
    pub fn allocatable(self, resource: &str, quantity: &str) -> Self {
        self.field(&["status", "allocatable", resource], quantity)
    }

    /// One label.
    pub fn label(self, key: &str, value: &str) -> Self {
        self.field(&["metadata", "labels", key], value)
    }

    /// The zone's label.
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// One annotation.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.field(&["metadata", "annotations", key], value)
    }

    /// One taint.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint = json!({"key": key, "value": value, "effect": effect});
        push(&mut self.json, &["spec", "taints"], taint);
        self
    }

    /// `spec.unschedulable`.
    pub fn unschedulable(self) -> Self {
        self.field(&["spec", "unschedulable"], true)
    }

    /// An image with one name.
    pub fn image(mut self, name: &str, bytes: i64) -> Self {
        let image = json!({"names": [name], "sizeBytes": bytes});
        push(&mut self.json, &["status", "images"], image);
        self
    }

    /// A feature that the node declares.
    pub fn declared_feature(mut self, name: &str) -> Self {
        push(&mut self.json, &["status", "declaredFeatures"], name.into());
        self
    }

    /// A condition.
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        let condition = json!({"type": kind, "status": status});
        push(&mut self.json, &["status", "conditions"], condition);
        self
    }

    /// Any field, by its path.
    pub fn field(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        set(&mut self.json, path, value.into());
        self
    }

    /// The object.
    #[must_use]
    pub const fn json(&self) -> &Value {
        &self.json
    }

    /// The node.
    ///
    /// # Panics
    /// What was built is no valid node.
    #[must_use]
    pub fn build(&self) -> Arc<NodeSpec> {
        match decode_node(&self.json.to_string()) {
            Ok(spec) => Arc::new(spec),
            Err(error) => panic!("{error}"),
        }
    }
}
