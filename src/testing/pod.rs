//! Builds pods.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::watch::{DecodeError, DecodedPod};
use crate::cluster::{ClassTable, PodInfo};
use crate::testing::{CLASSES, push, set, uid_of};

/// A pod with one container that requests nothing, in the namespace `default`.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder {
        json: json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": uid_of(&format!("default/{name}"))},
            "spec": {"containers": [{"name": "main"}], "schedulerName": "default-scheduler"},
            "status": {"phase": "Pending"},
        }),
        pending: false,
    }
}

/// A pod in the making; every method changes one thing and gives the builder back.
#[derive(Clone, Debug)]
#[must_use]
pub struct PodBuilder {
    json: Value,
    pending: bool,
}

impl PodBuilder {
    /// The namespace; the UID changes with it.
    pub fn namespace(mut self, namespace: &str) -> Self {
        let name = self.json["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.json["metadata"]["uid"] = uid_of(&format!("{namespace}/{name}")).into();
        self.field(&["metadata", "namespace"], namespace)
    }

    /// The UID.
    pub fn uid(self, uid: &str) -> Self {
        self.field(&["metadata", "uid"], uid)
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(self, version: u64) -> Self {
        self.field(&["metadata", "resourceVersion"], version.to_string())
    }

    /// One label.
    pub fn label(self, key: &str, value: &str) -> Self {
        self.field(&["metadata", "labels", key], value)
    }

    /// `metadata.creationTimestamp`, such as `2026-01-01T00:00:00Z`.
    pub fn created(self, time: &str) -> Self {
        self.field(&["metadata", "creationTimestamp"], time)
    }

    /// Gives it a deletion timestamp.
    pub fn terminating(self) -> Self {
        self.field(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
    }

    /// CPU of the first container, in milli-CPU.
    pub fn cpu(self, milli: i64) -> Self {
        self.request("cpu", &format!("{milli}m"))
    }

    /// Memory of the first container, in MiB.
    pub fn memory_mi(self, mi: i64) -> Self {
        self.request("memory", &format!("{mi}Mi"))
    }

    /// Memory of the first container, in GiB.
    pub fn memory_gi(self, gi: i64) -> Self {
        self.request("memory", &format!("{gi}Gi"))
    }

    /// Any request of the first container.
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        let container = &mut self.json["spec"]["containers"][0];
        set(container, &["resources", "requests", resource], quantity.into());
        self
    }

    /// The image of the first container.
    pub fn image(mut self, image: &str) -> Self {
        self.json["spec"]["containers"][0]["image"] = image.into();
        self
    }

    /// One more container.
    pub fn container(self, requests: &[(&str, &str)]) -> Self {
        self.add_container("containers", requests, false)
    }

    /// One more ordinary init container.
    pub fn init_container(self, requests: &[(&str, &str)]) -> Self {
        self.add_container("initContainers", requests, false)
    }

    /// One more sidecar: an init container that keeps running.
    pub fn sidecar(self, requests: &[(&str, &str)]) -> Self {
        self.add_container("initContainers", requests, true)
    }

    fn add_container(mut self, list: &str, requests: &[(&str, &str)], sidecar: bool) -> Self {
        let count = self.json["spec"][list].as_array().map_or(0, Vec::len);
        let mut container = json!({"name": format!("{list}-{count}")});
        for (resource, quantity) in requests {
            set(&mut container, &["resources", "requests", resource], (*quantity).into());
        }
        if sidecar {
            container["restartPolicy"] = "Always".into();
        }
        push(&mut self.json, &["spec", list], container);
        self
    }

    /// A pod-level request.
    pub fn pod_level(self, resource: &str, quantity: &str) -> Self {
        self.field(&["spec", "resources", "requests", resource], quantity)
    }

    /// Overhead.
    pub fn overhead(self, resource: &str, quantity: &str) -> Self {
        self.field(&["spec", "overhead", resource], quantity)
    }

    /// The priority.
    pub fn priority(self, priority: i32) -> Self {
        self.field(&["spec", "priority"], priority)
    }

    /// `preemptionPolicy: Never`.
    pub fn never_preempts(self) -> Self {
        self.field(&["spec", "preemptionPolicy"], "Never")
    }

    /// Which profile schedules it.
    pub fn scheduler_name(self, name: &str) -> Self {
        self.field(&["spec", "schedulerName"], name)
    }

    /// One toleration; empty texts are left out.
    pub fn toleration(mut self, key: &str, operator: &str, value: &str, effect: &str) -> Self {
        let mut toleration = json!({});
        for (field, text) in [
            ("key", key),
            ("operator", operator),
            ("value", value),
            ("effect", effect),
        ] {
            if !text.is_empty() {
                toleration[field] = text.into();
            }
        }
        push(&mut self.json, &["spec", "tolerations"], toleration);
        self
    }

    /// One pair of the node selector.
    pub fn node_selector(self, key: &str, value: &str) -> Self {
        self.field(&["spec", "nodeSelector", key], value)
    }

    /// One more term of the required node affinity, of one expression.
    pub fn require_node(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let path = [
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ];
        push(&mut self.json, &path, term);
        self
    }

    /// One more preferred node affinity term, of one expression.
    pub fn prefer_node(mut self, weight: i32, key: &str, operator: &str, values: &[&str]) -> Self {
        let expression = json!({"key": key, "operator": operator, "values": values});
        let term = json!({"weight": weight, "preference": {"matchExpressions": [expression]}});
        let path = [
            "spec",
            "affinity",
            "nodeAffinity",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ];
        push(&mut self.json, &path, term);
        self
    }

    /// A required term of anti-affinity to pods of the same namespace that have these labels.
    pub fn anti_affinity(self, topology_key: &str, labels: &[(&str, &str)]) -> Self {
        self.require_pods("podAntiAffinity", topology_key, labels)
    }

    /// A required term of affinity to pods of the same namespace that have these labels.
    pub fn pod_affinity(self, topology_key: &str, labels: &[(&str, &str)]) -> Self {
        self.require_pods("podAffinity", topology_key, labels)
    }

    fn require_pods(mut self, side: &str, topology_key: &str, labels: &[(&str, &str)]) -> Self {
        let term = json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": map_of(labels)}});
        let path = [
            "spec",
            "affinity",
            side,
            "requiredDuringSchedulingIgnoredDuringExecution",
        ];
        push(&mut self.json, &path, term);
        self
    }

    /// A preferred term of `podAffinity` or `podAntiAffinity` to pods of the same namespace that have these labels.
    pub fn prefer_pods(mut self, side: &str, weight: i32, topology_key: &str, labels: &[(&str, &str)]) -> Self {
        let term = json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": map_of(labels)}});
        let path = [
            "spec",
            "affinity",
            side,
            "preferredDuringSchedulingIgnoredDuringExecution",
        ];
        push(
            &mut self.json,
            &path,
            json!({"weight": weight, "podAffinityTerm": term}),
        );
        self
    }

    /// A topology spread constraint over pods that have these labels; `when` is `DoNotSchedule` or `ScheduleAnyway`.
    pub fn spread(self, max_skew: i32, topology_key: &str, when: &str, labels: &[(&str, &str)]) -> Self {
        let constraint = json!({
            "maxSkew": max_skew,
            "topologyKey": topology_key,
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": map_of(labels)},
        });
        self.spread_as(constraint)
    }

    /// A topology spread constraint, as the API writes it.
    pub fn spread_as(mut self, constraint: Value) -> Self {
        push(&mut self.json, &["spec", "topologySpreadConstraints"], constraint);
        self
    }

    /// The controller that owns it.
    pub fn owned_by(mut self, api_version: &str, kind: &str, name: &str) -> Self {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "controller": true});
        push(&mut self.json, &["metadata", "ownerReferences"], owner);
        self
    }

    /// A TCP host port of the first container, on all addresses.
    pub fn host_port(self, port: u16) -> Self {
        self.host_port_on("", "TCP", port)
    }

    /// A host port of the first container.
    pub fn host_port_on(mut self, ip: &str, protocol: &str, port: u16) -> Self {
        let entry = json!({"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol});
        push(&mut self.json["spec"]["containers"][0], &["ports"], entry);
        self
    }

    /// A scheduling gate.
    pub fn gate(mut self, name: &str) -> Self {
        push(&mut self.json, &["spec", "schedulingGates"], json!({"name": name}));
        self
    }

    /// Bound to a node and running there.
    pub fn on(self, node: &str) -> Self {
        self.field(&["spec", "nodeName"], node).phase("Running")
    }

    /// Asks for a node by name, and is not bound to it.
    pub fn asking_for(mut self, node: &str) -> Self {
        self.pending = true;
        self.field(&["spec", "nodeName"], node)
    }

    /// `status.nominatedNodeName`.
    pub fn nominated(self, node: &str) -> Self {
        self.field(&["status", "nominatedNodeName"], node)
    }

    /// `status.phase`.
    pub fn phase(self, phase: &str) -> Self {
        self.field(&["status", "phase"], phase)
    }

    /// `status.startTime`, such as `2026-01-01T00:00:00Z`.
    pub fn started(self, time: &str) -> Self {
        self.field(&["status", "startTime"], time)
    }

    /// A condition.
    pub fn condition(mut self, kind: &str, status: &str, reason: &str, message: &str) -> Self {
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
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

    /// Decodes it, without a class.
    ///
    /// # Errors
    /// What was built is no valid pod.
    pub fn decode(&self) -> Result<DecodedPod, DecodeError> {
        let decoded = DecodedPod::from_json(&self.json.to_string())?;
        Ok(if self.pending { decoded.into_pending() } else { decoded })
    }

    /// The pod, with a class of `classes`.
    ///
    /// # Panics
    /// What was built is no valid pod.
    #[must_use]
    pub fn build_in(&self, classes: &ClassTable) -> Arc<PodInfo> {
        match self.decode() {
            Ok(decoded) => Arc::new(decoded.classify(classes)),
            Err(error) => panic!("{error}"),
        }
    }

    /// The pod, with a class that sees all labels.
    ///
    /// # Panics
    /// What was built is no valid pod.
    #[must_use]
    pub fn build(&self) -> Arc<PodInfo> {
        self.build_in(&CLASSES)
    }
}

fn map_of(labels: &[(&str, &str)]) -> Value {
    let pairs = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
    Value::Object(pairs.collect())
}
