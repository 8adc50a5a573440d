//! Workloads as requests: the objects of a named workload, serialised once and ready to be sent.
//!
//! Does not: define the workloads ([`supercargo_apiserver::workload`] does).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use serde_json::Value;
use supercargo_apiserver::workload::{Plan, Prerequisite, WorkloadParams, generate};

use crate::populate::Item;

/// Namespace and name.
pub type PodName = (Box<str>, Box<str>);

/// The trace's files in a folder given with `--trace`, plain or compressed.
const TRACE_FILES: [&str; 2] = ["openb_nodes.csv", "openb_pods_gpuspec33.csv"];

/// Which workload, how large.
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// Its name: `basic`, `mixed`, `openb` or `preemption`.
    pub name: String,
    /// Nodes; a trace has its own number.
    pub nodes: Option<usize>,
    /// Pods; a trace has its own number.
    pub pods: Option<usize>,
    /// The folder with the trace's files; else the built-in ones.
    pub trace: Option<PathBuf>,
    /// Makes a random workload repeatable.
    pub seed: u64,
}

/// A workload's objects as requests.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Makes the objects.
    pub plan: Plan,
    /// What must exist first, in order: namespaces, priority classes.
    pub setup: Vec<Item>,
    /// The nodes.
    pub nodes: Vec<Item>,
    /// The pods that are on nodes from the start.
    pub placed: Vec<Item>,
    /// The pods to be scheduled, in order of submission.
    pub pods: Vec<Item>,
    /// Namespace and name of each pod.
    pub pod_names: Vec<PodName>,
}

/// Makes a workload's requests.
///
/// # Errors
/// When the workload is unknown, too large, or its trace cannot be read.
pub fn prepare(spec: &WorkloadSpec) -> Result<Prepared> {
    let plan = generate(WorkloadParams {
        workload: spec.name.parse()?,
        nodes: spec.nodes,
        pods: spec.pods,
        seed: spec.seed,
        trace: spec.trace.as_deref().map(trace_files).transpose()?,
        ..WorkloadParams::default()
    })
    .with_context(|| format!("workload {}", spec.name))?;
    let nodes: Arc<str> = "/api/v1/nodes".into();
    let pods: Vec<(Item, PodName)> = plan.pods().map(|pod| pod_item(&pod)).collect();
    let (pods, pod_names) = pods.into_iter().unzip();
    Ok(Prepared {
        setup: plan.prerequisites().iter().map(prerequisite).collect(),
        nodes: plan.nodes().map(|node| item(Arc::clone(&nodes), &node)).collect(),
        placed: plan.placed().map(|pod| pod_item(&pod).0).collect(),
        pods,
        pod_names,
        plan,
    })
}

impl Prepared {
    /// The namespace of the pods to be scheduled, where other pods are in the cluster too.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let first = self.pod_names.first().filter(|_| !self.placed.is_empty());
        first.map(|(namespace, _)| namespace.as_ref())
    }
}

fn trace_files(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let find = |name: &str| {
        let candidates = [folder.join(name), folder.join(format!("{name}.gz"))];
        let found = candidates.into_iter().find(|path| path.is_file());
        found.with_context(|| format!("there is no {name} (nor {name}.gz) in {}", folder.display()))
    };
    let [nodes, pods] = TRACE_FILES;
    Ok((find(nodes)?, find(pods)?))
}

fn item(path: Arc<str>, object: &Value) -> Item {
    Item {
        path,
        body: Bytes::from(object.to_string()),
    }
}

fn pod_item(pod: &Value) -> (Item, PodName) {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{}/pods", text("namespace"));
    (item(path.into(), pod), (text("namespace").into(), text("name").into()))
}

fn prerequisite(needed: &Prerequisite) -> Item {
    let version = needed.object["apiVersion"].as_str().unwrap_or("v1");
    let root = if needed.group.is_empty() { "api" } else { "apis" };
    item(format!("/{root}/{version}/{}", needed.plural).into(), &needed.object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> WorkloadSpec {
        WorkloadSpec {
            name: name.to_owned(),
            nodes: Some(3),
            pods: Some(5),
            trace: None,
            seed: 7,
        }
    }

    #[test]
    fn every_workload_becomes_requests() {
        for name in ["basic", "mixed", "openb", "preemption"] {
            let prepared = prepare(&spec(name)).unwrap();
            assert_eq!((prepared.nodes.len(), prepared.pods.len()), (3, 5), "{name}");
            assert_eq!(prepared.pods[0].path.as_ref(), "/api/v1/namespaces/default/pods");
        }
        let full = prepare(&spec("preemption")).unwrap();
        assert_eq!((full.placed.len(), full.namespace()), (12, Some("default")));
        assert_eq!(full.placed[0].path.as_ref(), "/api/v1/namespaces/filled/pods");
        let setup = prepare(&spec("mixed")).unwrap().setup;
        assert!(
            setup
                .iter()
                .any(|item| item.path.as_ref() == "/apis/scheduling.k8s.io/v1/priorityclasses")
        );
    }

    #[test]
    fn unknown_workload_and_missing_trace_are_named() {
        assert!(format!("{:#}", prepare(&spec("nope")).unwrap_err()).contains("nope"));
        let mut spec = spec("openb");
        spec.trace = Some("/nonexistent".into());
        assert!(format!("{:#}", prepare(&spec).unwrap_err()).contains("openb_nodes.csv"));
    }
}
