//! `supercargo demo`: the scheduler on an embedded API server with hollow nodes, over its ordinary client.
//!
//! Does not: need a cluster, a file or a network (a configuration may be given). Everything it starts ends with it.

mod progress;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use crate::client::{ClientOptions, ClientSet, Source};
use crate::clock::Clock;
use crate::framework::Registry;
use crate::scheduler::{Scheduler, SchedulerOptions, metrics_for};
use crate::telemetry::Exposition;
use anyhow::Context as _;
use supercargo_apiserver::check::{self, CheckOptions};
use supercargo_apiserver::hollow::{self, HollowConfig};
use supercargo_apiserver::workload::{Plan, Workload, WorkloadParams, generate};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
use supercargo_config::{FeatureGates, Loaded, Loader};
use tokio_util::sync::CancellationToken;

use crate::command::Command;
use crate::command::options::DemoArgs;
use progress::Progress;
use summary::Summary;

/// A run in which nothing is bound for so long has come to its end.
const QUIET: Duration = Duration::from_secs(15);
/// How long the scheduler may take to write its last events.
const DRAIN: Duration = Duration::from_secs(120);

/// Runs the demo and prints its summary; true: every pod that can be scheduled is bound.
///
/// # Errors
/// Something could not be started.
pub(crate) fn run(args: &DemoArgs, command: Command) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(demo(args, command))
}

async fn demo(args: &DemoArgs, command: Command) -> anyhow::Result<bool> {
    let loaded = load(args, &command)?;
    let plan = generate(WorkloadParams {
        workload: Workload::Basic,
        nodes: Some(args.nodes as usize),
        pods: Some(args.pods as usize),
        ..WorkloadParams::default()
    })?;
    // Threads of its own, so that its work is not counted as the scheduler's patience.
    let server = Server::start(ServerConfig {
        threads: 1,
        ..ServerConfig::default()
    })
    .await?;
    plan.load_nodes(server.store())?;
    let stop = CancellationToken::new();
    let hollow = tokio::spawn(hollow::run(
        server.store().clone(),
        HollowConfig::default(),
        stop.clone(),
    ));
    let scheduler = start_scheduler(&server, loaded, command.registry).await?;
    let progress = Progress::start(server.store(), plan_size(&plan), !args.json)?;
    let outcome = run_pods(&plan, &server, &progress).await;
    let clock = Clock::Real;
    let begun = clock.now();
    scheduler.stop(DRAIN).await;
    let drain = clock.now().since(begun);
    stop.cancel();
    outcome?;
    hollow.await.context("hollow nodes")??;
    let state = check::check(
        &server.store().values("", "nodes")?,
        &server.store().values("", "pods")?,
        &CheckOptions::default(),
    );
    let summary = Summary::new(&plan_size(&plan), &state, &progress.finish(), &scheduler, drain);
    summary.print(args.json)?;
    server.stop().await;
    Ok(state.is_sound() && state.bound + state.unschedulable == state.pods && summary.is_complete())
}

/// Nodes and pods of the plan.
#[derive(Clone, Copy)]
pub(crate) struct PlanSize {
    nodes: usize,
    pods: usize,
}

fn plan_size(plan: &Plan) -> PlanSize {
    PlanSize {
        nodes: plan.node_count(),
        pods: plan.pod_count(),
    }
}

/// The configuration that is asked for, or the defaults.
fn load(args: &DemoArgs, command: &Command) -> anyhow::Result<Loaded> {
    let loader = Loader::new(command.catalogue());
    Ok(match &args.config {
        Some(path) => loader.load_file(path)?,
        None => loader.defaults()?,
    })
}

async fn start_scheduler(server: &ServerHandle, loaded: Loaded, registry: Registry) -> anyhow::Result<Scheduler> {
    let settings = loaded.settings.unwrap_or_default();
    let (gates, exposition) = (FeatureGates::default(), Exposition::default());
    let metrics = metrics_for(&loaded.configuration, &registry, &gates, exposition)?;
    let clients = ClientSet::new(
        &ClientOptions {
            source: Source::Address(server.url()),
            rate: None,
            binds_in_flight: settings.binding_concurrency,
        },
        Some(&metrics),
    )?;
    let options = SchedulerOptions {
        configuration: loaded.configuration,
        settings,
        registry,
        max_in_unschedulable: Duration::from_secs(300),
        may_act: Arc::new(|| true),
        async_preemption: gates.enabled("SchedulerAsyncPreemption"),
    };
    let scheduler = Scheduler::new(options, clients, metrics)?;
    scheduler.start_caches()?;
    scheduler.synced().await;
    scheduler.start_scheduling()?;
    Ok(scheduler)
}

/// Creates all pods and waits until each is bound or known to fit nowhere.
async fn run_pods(plan: &Plan, server: &ServerHandle, progress: &Progress) -> anyhow::Result<()> {
    let store = server.store().clone();
    let plan = plan.clone();
    tokio::task::spawn_blocking(move || plan.load_pods(&store))
        .await
        .context("creating pods")??;
    progress.settled(QUIET).await;
    Ok(())
}
