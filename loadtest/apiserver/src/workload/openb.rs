//! `openb`: a production GPU cluster from the public trace alibaba/clusterdata, `cluster-trace-gpu-v2023`.
//!
//! A row becomes an object so: `model` is the node label `gpu.model`; `gpu_spec` a required node affinity on it. Whole
//! GPUs are `nvidia.com/gpu`. A share (`num_gpu` 1, `gpu_milli` below 1000) requests `example.com/gpu-milli`; GPU nodes
//! whose number ends in 7, 8 or 9 offer all their GPUs in thousandths, the others whole, so that no GPU is counted twice.
//! Pods are submitted in the order of their creation time.
//!
//! Does not: use quality of service, phases or run times of the trace.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{WorkloadError, node_labels, ready_node};

const NODES: &[u8] = include_bytes!("../../data/openb_nodes.csv.gz");
const PODS: &[u8] = include_bytes!("../../data/openb_pods_gpuspec33.csv.gz");
/// Largest trace file that is read, unpacked.
const MAX_TRACE_BYTES: u64 = 512 << 20;
/// Pods a node takes; the trace does not say.
const PODS_A_NODE: &str = "110";

/// The rows of a trace.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) nodes: Vec<NodeRow>,
    pub(super) pods: Vec<PodRow>,
}

/// A node of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeRow {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpus: u64,
    model: String,
}

/// A task of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodRow {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpus: u64,
    gpu_milli: u64,
    models: Vec<String>,
    created: u64,
}

impl Trace {
    /// Reads the given files, or the built-in ones.
    pub(super) fn read(files: Option<&(PathBuf, PathBuf)>) -> Result<Self, WorkloadError> {
        let (nodes, pods) = match files {
            Some((nodes, pods)) => (read_file(nodes)?, read_file(pods)?),
            None => (
                unpack("openb_nodes.csv.gz", NODES.to_vec())?,
                unpack("openb_pods_gpuspec33.csv.gz", PODS.to_vec())?,
            ),
        };
        let nodes = rows(&nodes, NODE_COLUMNS, parse_node)?;
        let mut pods = rows(&pods, POD_COLUMNS, parse_pod)?;
        pods.sort_by_key(|pod| pod.created);
        Ok(Self { nodes, pods })
    }

    pub(super) fn node(&self, index: usize, zones: usize) -> Value {
        let Some(row) = self.nodes.get(index) else {
            return Value::Null;
        };
        let mut labels = node_labels(&row.name, index, zones);
        if !row.model.is_empty() {
            labels["gpu.model"] = row.model.as_str().into();
        }
        let mut resources = json!({
            "cpu": format!("{}m", row.cpu_milli), "memory": format!("{}Mi", row.memory_mib), "pods": PODS_A_NODE,
        });
        if row.gpus > 0 {
            if row.name.ends_with(['7', '8', '9']) {
                resources["example.com/gpu-milli"] = (row.gpus * 1_000).to_string().into();
            } else {
                resources["nvidia.com/gpu"] = row.gpus.to_string().into();
            }
        }
        ready_node(&row.name, &labels, &resources)
    }

    pub(super) fn pod(&self, index: usize) -> Value {
        let Some(row) = self.pods.get(index) else {
            return Value::Null;
        };
        let mut resources = json!({"cpu": format!("{}m", row.cpu_milli), "memory": format!("{}Mi", row.memory_mib)});
        if row.gpus == 1 && row.gpu_milli < 1_000 {
            resources["example.com/gpu-milli"] = row.gpu_milli.to_string().into();
        } else if row.gpus > 0 {
            resources["nvidia.com/gpu"] = row.gpus.to_string().into();
        }
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": row.name},
            "spec": {"containers": [{
                "name": "task", "image": "registry.example.com/task:v1",
                "resources": {"requests": resources, "limits": resources},
            }]},
        });
        if !row.models.is_empty() {
            let expression = json!({"key": "gpu.model", "operator": "In", "values": row.models});
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        }
        pod
    }
}

/// A file's name and text.
struct Text {
    path: String,
    text: String,
}

fn read_file(path: &Path) -> Result<Text, WorkloadError> {
    let name = path.display().to_string();
    let failed = |source| WorkloadError::Read {
        path: name.clone(),
        source,
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_TRACE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    unpack(&name, bytes)
}

fn unpack(path: &str, bytes: Vec<u8>) -> Result<Text, WorkloadError> {
    let failed = |source| WorkloadError::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        GzDecoder::new(bytes.as_slice())
            .take(MAX_TRACE_BYTES)
            .read_to_string(&mut text)
            .map_err(failed)?;
    } else {
        text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
    }
    Ok(Text {
        path: path.to_owned(),
        text,
    })
}

const NODE_COLUMNS: &[&str] = &["sn", "cpu_milli", "memory_mib", "gpu", "model"];
const POD_COLUMNS: &[&str] = &[
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
];

/// Parses the lines of a file; `columns` are found by name in its first line.
fn rows<Row>(
    file: &Text,
    columns: &[&str],
    parse: impl Fn(&[&str]) -> Result<Row, String>,
) -> Result<Vec<Row>, WorkloadError> {
    let bad = |line: usize, message: String| WorkloadError::Parse {
        path: file.path.clone(),
        line,
        message,
    };
    let mut lines = file.text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        let place = header.iter().position(|name| name == column);
        places.push(place.ok_or_else(|| bad(1, format!("there is no column {column:?}")))?);
    }
    let mut rows = Vec::new();
    for (position, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let chosen: Option<Vec<&str>> = places.iter().map(|place| cells.get(*place).copied()).collect();
        let chosen = chosen.ok_or_else(|| {
            bad(
                position + 2,
                format!("{} cells, {} expected", cells.len(), header.len()),
            )
        })?;
        rows.push(parse(&chosen).map_err(|message| bad(position + 2, message))?);
    }
    Ok(rows)
}

fn number(column: &str, text: &str) -> Result<u64, String> {
    // Some copies of the trace write whole numbers as 4000.0.
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse().map_err(|_| format!("{column}: {text:?} is not a number"))
}

fn parse_node(cells: &[&str]) -> Result<NodeRow, String> {
    let [name, cpu, memory, gpus, model] = cells else {
        return Err("cells are missing".to_owned());
    };
    Ok(NodeRow {
        name: (*name).to_owned(),
        cpu_milli: number("cpu_milli", cpu)?,
        memory_mib: number("memory_mib", memory)?,
        gpus: number("gpu", gpus)?,
        model: (*model).to_owned(),
    })
}

fn parse_pod(cells: &[&str]) -> Result<PodRow, String> {
    let [name, cpu, memory, gpus, gpu_milli, models, created] = cells else {
        return Err("cells are missing".to_owned());
    };
    let mut models: Vec<String> = models
        .split('|')
        .filter(|model| !model.is_empty())
        .map(str::to_owned)
        .collect();
    models.dedup();
    Ok(PodRow {
        name: (*name).to_owned(),
        cpu_milli: number("cpu_milli", cpu)?,
        memory_mib: number("memory_mib", memory)?,
        gpus: number("num_gpu", gpus)?,
        gpu_milli: number("gpu_milli", gpu_milli)?,
        models,
        created: number("creation_time", created)?,
    })
}
