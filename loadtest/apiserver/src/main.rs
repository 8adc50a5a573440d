//! `supercargo-apiserver`: the embedded API server as a process of its own, for load tests.
//!
//! It fills the store, then prints one JSON line with the address and the kubeconfig's path, and serves until SIGINT or
//! SIGTERM.

use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use supercargo_apiserver::hollow::{self, Hangs, HollowConfig};
use supercargo_apiserver::workload::{self, Workload, WorkloadParams};
use supercargo_apiserver::{Server, ServerConfig};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An embedded Kubernetes API server with nodes and pods in it.
#[derive(Debug, Parser)]
#[command(name = "supercargo-apiserver", version)]
struct Options {
    /// Port on loopback; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve TLS with a certificate made at start.
    #[arg(long)]
    tls: bool,
    /// Threads of the server.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Nodes to create; the workload's own number when left out and a workload is named.
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods to create; likewise.
    #[arg(long)]
    pods: Option<usize>,
    /// basic, mixed, openb or preemption.
    #[arg(long)]
    workload: Option<Workload>,
    /// Node and pod files of another trace for openb.
    #[arg(long, num_args = 2, value_names = ["NODES", "PODS"])]
    trace: Vec<PathBuf>,
    /// Seed of the workload.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// spec.schedulerName of the pods.
    #[arg(long, default_value = "default-scheduler")]
    scheduler_name: String,
    /// Namespaces that the pods take turns in.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    namespaces: Vec<String>,
    /// Zones that the nodes take turns in.
    #[arg(long, default_value_t = 3)]
    zones: usize,
    /// Run hollow nodes.
    #[arg(long)]
    hollow: bool,
    /// Milliseconds from bound to Running on hollow nodes.
    #[arg(long, default_value_t = 0, value_name = "MILLIS")]
    startup_delay: u64,
    /// Milliseconds from a pod's deletion until it is gone on hollow nodes.
    #[arg(long, default_value_t = 0, value_name = "MILLIS")]
    stop_delay: u64,
    /// Every so-manieth deletion hangs for `--hang-seconds`.
    #[arg(long, value_name = "N", requires = "hollow")]
    hang_every: Option<std::num::NonZeroU32>,
    /// How long a deletion hangs, in seconds.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    hang_seconds: u64,
    /// Hollow nodes complete deletions but write no status.
    #[arg(long)]
    no_status: bool,
    /// Seconds between heartbeats of each hollow node; 0: none.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    heartbeat: u64,
    /// Where to write the kubeconfig; a temporary file when left out.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

impl Options {
    fn params(&self) -> Option<WorkloadParams> {
        if self.workload.is_none() && self.nodes.is_none() && self.pods.is_none() {
            return None;
        }
        let default_count = if self.workload.is_some() { None } else { Some(0) };
        Some(WorkloadParams {
            workload: self.workload.unwrap_or(Workload::Basic),
            nodes: self.nodes.or(default_count),
            pods: self.pods.or(default_count),
            seed: self.seed,
            scheduler_name: self.scheduler_name.clone(),
            namespaces: self.namespaces.clone(),
            zones: self.zones,
            trace: match self.trace.as_slice() {
                [nodes, pods] => Some((nodes.clone(), pods.clone())),
                _ => None,
            },
            ..WorkloadParams::default()
        })
    }

    fn hollow_config(&self) -> HollowConfig {
        HollowConfig {
            startup_delay: Duration::from_millis(self.startup_delay),
            write_status: !self.no_status,
            stop_delay: Duration::from_millis(self.stop_delay),
            hangs: self.hang_every.map(|every| Hangs {
                every,
                delay: Duration::from_secs(self.hang_seconds),
            }),
            heartbeat: (self.heartbeat > 0).then(|| Duration::from_secs(self.heartbeat)),
        }
    }
}

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let threads = usize::from(options.threads);
    let runtime = if threads == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?
    } else {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?
    };
    runtime.block_on(run(options))
}

async fn run(options: Options) -> Result<(), AnyError> {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), options.port);
    let server = Server::start(ServerConfig {
        address,
        tls: options.tls,
        ..ServerConfig::default()
    })
    .await?;
    let (mut nodes, mut pods) = (0, 0);
    if let Some(params) = options.params() {
        let plan = workload::generate(params)?;
        plan.load(server.store())?;
        (nodes, pods) = (plan.node_count(), plan.pod_count());
    }
    let stop = CancellationToken::new();
    let hollow_nodes = async {
        match options.hollow {
            true => hollow::run(server.store().clone(), options.hollow_config(), stop.clone()).await,
            false => {
                stop.cancelled().await;
                Ok(())
            }
        }
    };
    let default_path = std::env::temp_dir().join(format!("supercargo-apiserver-{}.kubeconfig", std::process::id()));
    let path = options.kubeconfig.clone().unwrap_or_else(|| default_path.clone());
    std::fs::write(&path, server.kubeconfig())?;
    let ready = json!({
        "url": server.url(), "kubeconfig": path, "pid": std::process::id(), "nodes": nodes, "pods": pods,
    });
    let mut out = std::io::stdout();
    writeln!(out, "{ready}")?;
    out.flush()?;
    let outcome = tokio::select! {
        outcome = hollow_nodes => outcome.map_err(AnyError::from),
        outcome = stopped() => outcome.map_err(AnyError::from),
    };
    stop.cancel();
    server.stop().await;
    if path == default_path {
        std::fs::remove_file(&path)?;
    }
    outcome
}

/// SIGINT or SIGTERM.
async fn stopped() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome,
        _ = terminate.recv() => Ok(()),
    }
}
