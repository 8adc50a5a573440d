//! Workloads by name: the nodes and pods of a run, made from a seed or read from a trace.
//!
//! A [`Plan`] makes each object from its index alone, so that a million of them need no memory and any part of a run can
//! be made again.
//!
//! | name | what it is |
//! | --- | --- |
//! | `basic` | equal nodes (4 cpu, 32Gi, 110 pods) and equal pods (100m, 500Mi): the default templates of scheduler_perf |
//! | `mixed` | sizes, labels, taints, tolerations, affinities, host ports, priorities and images mixed; see `mixed` |
//! | `openb` | a real GPU cluster: 1,523 nodes, 8,152 pods; see `openb` |
//! | `preemption` | a full cluster, and pods that fit only where others go; see `preemption` |
//!
//! Does not: send anything; [`Plan::load`] fills an embedded store, a harness posts the objects to a real server.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::store::Store;

mod basic;
mod mixed;
mod openb;
mod preemption;

pub use preemption::{FILLED_NAMESPACE, FILLERS_PER_NODE, VICTIMS_PER_POD};

/// Most nodes or pods of one plan.
pub const MAX_OBJECTS: usize = 10_000_000;

/// The workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Equal nodes, equal pods.
    Basic,
    /// A mix of everything that depends on a node alone.
    Mixed,
    /// The openb GPU trace.
    Openb,
    /// A full cluster, and pods that must make room for themselves.
    Preemption,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Basic, Self::Mixed, Self::Openb, Self::Preemption];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Mixed => "mixed",
            Self::Openb => "openb",
            Self::Preemption => "preemption",
        }
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| WorkloadError::Unknown(text.to_owned()))
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("unknown workload {0:?}: use basic, mixed, openb or preemption")]
    Unknown(String),
    /// A number is out of range.
    #[error("{field}: {message}")]
    Range {
        /// Which parameter.
        field: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A trace file cannot be read.
    #[error("cannot read trace file {path}")]
    Read {
        /// The file.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A line of a trace file cannot be understood.
    #[error("{path}, line {line}: {message}")]
    Parse {
        /// The file.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The embedded store refused an object.
    #[error("cannot create {name}")]
    Create {
        /// The object.
        name: String,
        /// The refusal.
        source: ApiError,
    },
}

/// Parameters of a plan.
#[derive(Debug, Clone)]
pub struct WorkloadParams {
    /// Which workload.
    pub workload: Workload,
    /// Number of nodes; `None`: 1,000 (`preemption`: 5,000), or the trace's.
    pub nodes: Option<usize>,
    /// Number of pods to be scheduled; `None`: 10,000 (`preemption`: 500), or the trace's.
    pub pods: Option<usize>,
    /// Seed of everything random.
    pub seed: u64,
    /// `spec.schedulerName` of the pods.
    pub scheduler_name: String,
    /// Namespaces; pods take turns. `default` is not created.
    pub namespaces: Vec<String>,
    /// Zones; nodes take turns.
    pub zones: usize,
    /// `spec.priorityClassName` of pods that the workload gives none, with its value; `None`: no class.
    pub priority: Option<(String, i32)>,
    /// Node and pod files of the trace, plain or gzip; `None`: the built-in ones.
    pub trace: Option<(PathBuf, PathBuf)>,
    /// Prefix of generated pod names, so that several plans fit into one cluster.
    pub pod_prefix: String,
}

impl Default for WorkloadParams {
    fn default() -> Self {
        Self {
            workload: Workload::Basic,
            nodes: None,
            pods: None,
            seed: 1,
            scheduler_name: "default-scheduler".to_owned(),
            namespaces: vec!["default".to_owned()],
            zones: 3,
            priority: None,
            trace: None,
            pod_prefix: "pod".to_owned(),
        }
    }
}

/// An object to create before the nodes and pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Prerequisite {
    /// API group.
    pub group: &'static str,
    /// Plural resource name; all are cluster-scoped.
    pub plural: &'static str,
    /// The object.
    pub object: Value,
}

/// A workload with its parameters: makes each object by its index.
#[derive(Debug, Clone)]
pub struct Plan {
    params: WorkloadParams,
    trace: Option<Arc<openb::Trace>>,
    nodes: usize,
    pods: usize,
}

/// Makes a plan.
///
/// # Errors
/// When a number is out of range or a trace cannot be read.
pub fn generate(params: WorkloadParams) -> Result<Plan, WorkloadError> {
    if params.zones == 0 {
        return Err(WorkloadError::Range {
            field: "zones",
            message: "must be at least 1".to_owned(),
        });
    }
    if params.namespaces.is_empty() {
        return Err(WorkloadError::Range {
            field: "namespaces",
            message: "must name at least one".to_owned(),
        });
    }
    let trace = match params.workload {
        Workload::Openb => Some(Arc::new(openb::Trace::read(params.trace.as_ref())?)),
        _ => None,
    };
    let (all_nodes, all_pods) = match (&trace, params.workload) {
        (Some(trace), _) => (trace.nodes.len(), trace.pods.len()),
        (None, Workload::Preemption) => (5_000, 500),
        (None, _) => (1_000, 10_000),
    };
    let (nodes, pods) = (params.nodes.unwrap_or(all_nodes), params.pods.unwrap_or(all_pods));
    for (field, count, most) in [("nodes", nodes, all_nodes), ("pods", pods, all_pods)] {
        let most = if trace.is_some() { most } else { MAX_OBJECTS };
        if count > most {
            return Err(WorkloadError::Range {
                field,
                message: format!("must be at most {most}, not {count}"),
            });
        }
    }
    Ok(Plan {
        params,
        trace,
        nodes,
        pods,
    })
}

impl Plan {
    /// The parameters.
    #[must_use]
    pub const fn params(&self) -> &WorkloadParams {
        &self.params
    }

    /// Number of nodes.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.nodes
    }

    /// Number of pods to be scheduled.
    #[must_use]
    pub const fn pod_count(&self) -> usize {
        self.pods
    }

    /// Number of pods that are on nodes from the start.
    #[must_use]
    pub const fn placed_count(&self) -> usize {
        match self.params.workload {
            Workload::Preemption => self.nodes * FILLERS_PER_NODE,
            Workload::Basic | Workload::Mixed | Workload::Openb => 0,
        }
    }

    /// Namespaces and priority classes that the pods need.
    #[must_use]
    pub fn prerequisites(&self) -> Vec<Prerequisite> {
        let namespace = |name: &String| Prerequisite {
            group: "",
            plural: "namespaces",
            object: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        };
        let mut all: Vec<Prerequisite> = self
            .params
            .namespaces
            .iter()
            .filter(|name| *name != "default")
            .map(namespace)
            .collect();
        let preempts = self.params.workload == Workload::Preemption;
        if preempts {
            all.push(namespace(&FILLED_NAMESPACE.to_owned()));
        }
        let mut classes: Vec<(String, i32)> = self.params.priority.clone().into_iter().collect();
        if self.params.workload == Workload::Mixed {
            classes.extend(
                mixed::PRIORITY_CLASSES
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value)),
            );
        }
        if preempts {
            let (name, value) = preemption::PRIORITY_CLASS;
            classes.push((name.to_owned(), value));
        }
        all.extend(classes.into_iter().map(|(name, value)| Prerequisite {
            group: "scheduling.k8s.io",
            plural: "priorityclasses",
            object: json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            }),
        }));
        all
    }

    /// The node with an index below [`Plan::node_count`].
    #[must_use]
    pub fn node(&self, index: usize) -> Value {
        match (&self.trace, self.params.workload) {
            (Some(trace), _) => trace.node(index, self.params.zones),
            (None, Workload::Mixed) => mixed::node(index, &self.params, &mut self.random(index, 0)),
            (None, _) => basic::node(index, self.params.zones),
        }
    }

    /// The pod with an index below [`Plan::pod_count`]; indices are the order of submission.
    #[must_use]
    pub fn pod(&self, index: usize) -> Value {
        let params = &self.params;
        let mut pod = match (&self.trace, params.workload) {
            (Some(trace), _) => trace.pod(index),
            (None, Workload::Mixed) => mixed::pod(index, params, &mut self.random(index, 1)),
            (None, Workload::Preemption) => preemption::pod(index, &params.pod_prefix),
            (None, _) => basic::pod(index, &params.pod_prefix),
        };
        let turn = index % params.namespaces.len().max(1);
        let namespace = params.namespaces.get(turn).map_or("default", String::as_str);
        pod["metadata"]["namespace"] = namespace.into();
        pod["spec"]["schedulerName"] = params.scheduler_name.as_str().into();
        if let (Some((class, _)), Value::Null) = (&params.priority, &pod["spec"]["priorityClassName"]) {
            pod["spec"]["priorityClassName"] = class.as_str().into();
        }
        if pod["spec"]["priorityClassName"].is_null()
            && let Some(spec) = pod["spec"].as_object_mut()
        {
            spec.remove("priorityClassName");
        }
        pod
    }

    /// The pods that are on nodes from the start, their `spec.nodeName` set.
    pub fn placed(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.placed_count()).map(preemption::filler)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.nodes).map(|index| self.node(index))
    }

    /// All pods in the order of submission.
    pub fn pods(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.pods).map(|index| self.pod(index))
    }

    /// Creates everything in an embedded store: prerequisites, nodes, pods.
    ///
    /// # Errors
    /// When the store refuses an object; namespaces and classes that exist are kept.
    pub fn load(&self, store: &Store) -> Result<(), WorkloadError> {
        self.load_nodes(store)?;
        self.load_pods(store)
    }

    /// Creates prerequisites and nodes in an embedded store.
    ///
    /// # Errors
    /// As [`Plan::load`].
    pub fn load_nodes(&self, store: &Store) -> Result<(), WorkloadError> {
        for needed in self.prerequisites() {
            let name = needed.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            match store.create_as(needed.group, needed.plural, "", needed.object) {
                Ok(_) => {}
                Err(error) if error.reason == "AlreadyExists" => {}
                Err(source) => return Err(WorkloadError::Create { name, source }),
            }
        }
        for node in self.nodes() {
            create(store, "nodes", node)?;
        }
        Ok(())
    }

    /// Creates the pods in an embedded store, those that are on nodes from the start first.
    ///
    /// # Errors
    /// As [`Plan::load`].
    pub fn load_pods(&self, store: &Store) -> Result<(), WorkloadError> {
        self.placed()
            .chain(self.pods())
            .try_for_each(|pod| create(store, "pods", pod))
    }

    fn random(&self, index: usize, stream: u64) -> Pcg64Mcg {
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        // Odd multipliers spread neighbouring indices and the two streams over the seeds.
        let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Pcg64Mcg::seed_from_u64(self.params.seed ^ mixed)
    }
}

fn create(store: &Store, plural: &str, object: Value) -> Result<(), WorkloadError> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let created = store.create_as("", plural, &namespace, object);
    created
        .map(|_| ())
        .map_err(|source| WorkloadError::Create { name, source })
}

/// Labels that every node has: host name, zone and region.
fn node_labels(name: &str, index: usize, zones: usize) -> Value {
    json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": format!("zone-{}", index % zones.max(1)),
        "topology.kubernetes.io/region": "region-0",
    })
}

/// A node that is ready.
fn ready_node(name: &str, labels: &Value, resources: &Value) -> Value {
    let condition =
        json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hollow node is ready"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [condition]},
    })
}

#[cfg(test)]
mod tests;
