//! Nodes and pods in a line: `node("a").cpu("4")`, `pod("p").cpu("500m")`.
//!
//! Does not: send anything.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A node under construction.
#[derive(Debug, Clone)]
pub struct NodeBuilder(Value);

/// A pod under construction.
#[derive(Debug, Clone)]
pub struct PodBuilder(Value);

/// A ready node with 4 CPUs, 8 GiB, room for 110 pods and its hostname label.
#[must_use]
pub fn node(name: &str) -> NodeBuilder {
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    NodeBuilder(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

/// A pod of one container that asks for nothing.
#[must_use]
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {}}}],
        },
    }))
}

impl NodeBuilder {
    /// Its CPU.
    #[must_use]
    pub fn cpu(mut self, quantity: &str) -> Self {
        self.0["status"]["capacity"]["cpu"] = json!(quantity);
        self.0["status"]["allocatable"]["cpu"] = json!(quantity);
        self
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// A taint that keeps pods away.
    #[must_use]
    pub fn taint(mut self, key: &str) -> Self {
        self.0["spec"]["taints"] = json!([{"key": key, "effect": "NoSchedule"}]);
        self
    }

    /// The node.
    ///
    /// # Panics
    /// Never: the builder makes a valid node.
    #[must_use]
    pub fn build(self) -> Node {
        decode(self.0)
    }
}

impl PodBuilder {
    /// What it asks of a CPU.
    #[must_use]
    pub fn cpu(mut self, quantity: &str) -> Self {
        self.0["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(quantity);
        self
    }

    /// What it asks of an extended resource, which cannot be over-committed.
    #[must_use]
    pub fn extended(mut self, resource: &str, quantity: &str) -> Self {
        for list in ["requests", "limits"] {
            self.0["spec"]["containers"][0]["resources"][list][resource] = json!(quantity);
        }
        self
    }

    /// Only nodes with this label.
    #[must_use]
    pub fn selector(mut self, key: &str, value: &str) -> Self {
        self.0["spec"]["nodeSelector"][key] = json!(value);
        self
    }

    /// Only nodes whose label has one of the values, as a required node affinity.
    #[must_use]
    pub fn affinity(mut self, key: &str, values: &[&str]) -> Self {
        self.0["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]});
        self
    }

    /// A port of the node.
    #[must_use]
    pub fn host_port(mut self, port: u16) -> Self {
        self.0["spec"]["containers"][0]["ports"] = json!([{"containerPort": port, "hostPort": port}]);
        self
    }

    /// These volumes.
    #[must_use]
    pub fn volumes(mut self, volumes: Vec<Value>) -> Self {
        self.0["spec"]["volumes"] = volumes.into();
        self
    }

    /// A scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.0["spec"]["schedulingGates"] = json!([{"name": name}]);
        self
    }

    /// Its scheduler.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.0["spec"]["schedulerName"] = json!(name);
        self
    }

    /// Something that keeps it from going when it is deleted.
    #[must_use]
    pub fn finalizer(mut self, name: &str) -> Self {
        self.0["metadata"]["finalizers"] = json!([name]);
        self
    }

    /// Its priority class, which must exist.
    #[must_use]
    pub fn priority_class(mut self, name: &str) -> Self {
        self.0["spec"]["priorityClassName"] = json!(name);
        self
    }

    /// The pod.
    ///
    /// # Panics
    /// Never: the builder makes a valid pod.
    #[must_use]
    pub fn build(self) -> Pod {
        decode(self.0)
    }
}

fn decode<T: DeserializeOwned>(value: Value) -> T {
    #[expect(clippy::expect_used, reason = "the builders above make nothing that does not decode")]
    serde_json::from_value(value).expect("a built object decodes")
}
