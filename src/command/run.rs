//! `supercargo run`: from options to a running scheduler and to its orderly end.
//!
//! The order is kube-scheduler's: clients, secure server, caches, election, scheduling. A standby keeps its caches warm.
//! SIGTERM and SIGINT end it: no new cycles, binds in flight finish or are unreserved, events are written, the Lease is
//! released, exit code 0. A lost Lease ends it with exit code 1.
//!
//! Does not: parse options or decide anything about pods.

mod election;
mod serving;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{ClientOptions, ClientSet, RateLimit, Source};
use crate::framework::Registry;
use crate::scheduler::{Scheduler, SchedulerOptions, metrics_for};
use crate::telemetry::TelemetryGuard;
use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::command::options::Options;
use election::Election;

/// How long binds in flight and events may take once the process is asked to end; a pod's default grace is 30 s.
const DRAIN: Duration = Duration::from_secs(20);

/// Why a run came to its end.
enum End {
    /// It was asked to.
    Asked,
    /// The Lease is lost.
    Lost(String),
}

/// Runs the scheduler until it is told to stop or loses its Lease.
///
/// # Errors
/// Something could not be started.
pub(crate) fn run(options: &Options, registry: Registry) -> anyhow::Result<ExitCode> {
    install_tls_provider()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let guard = {
        let _inside = runtime.enter();
        Arc::new(crate::telemetry::init(&options.logging).context("setting up logs and traces")?)
    };
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    let code = runtime.block_on(schedule(options, registry, &guard));
    runtime.shutdown_timeout(Duration::from_secs(2));
    guard.shutdown();
    code
}

/// ring is the process's one TLS provider; two would be a silent choice between them.
fn install_tls_provider() -> anyhow::Result<()> {
    let installed = rustls::crypto::ring::default_provider().install_default();
    installed.map_err(|_other| anyhow::anyhow!("another TLS provider is installed already"))
}

async fn schedule(options: &Options, registry: Registry, guard: &Arc<TelemetryGuard>) -> anyhow::Result<ExitCode> {
    let mut ends = Ends::new()?;
    let metrics = metrics_for(
        &options.configuration,
        &registry,
        &options.gates,
        options.exposition.clone(),
    )?;
    let clients = ClientSet::new(&client_options(options), Some(&metrics)).context("connecting to the API server")?;
    let server_address = clients.server().to_owned();
    let election = Election::new(options, &clients, &metrics)?;
    let fence = election.fence();
    let scheduler = Arc::new(Scheduler::new(
        SchedulerOptions {
            configuration: options.configuration.clone(),
            settings: options.settings.clone(),
            registry,
            max_in_unschedulable: options.pod_max_in_unschedulable,
            may_act: Arc::new(move || fence.may_act()),
            async_preemption: options.gates.enabled("SchedulerAsyncPreemption"),
        },
        clients,
        metrics,
    )?);
    let stopping = Arc::new(AtomicBool::new(false));
    let server_end = CancellationToken::new();
    let server = serving::start(options, guard, &scheduler, &election, &stopping, &server_end).await?;
    log_start(options, &server_address);
    let end = lead(options, &scheduler, election, &mut ends).await;
    stopping.store(true, Ordering::Release);
    let code = match end? {
        (End::Asked, election) => {
            tracing::info!("asked to end: finishing what is under way");
            scheduler.stop(DRAIN).await;
            if let Some(election) = election {
                election.release().await;
            }
            ExitCode::SUCCESS
        }
        (End::Lost(reason), _) => {
            tracing::error!(reason, "this process may not act any more: it ends");
            ExitCode::FAILURE
        }
    };
    server_end.cancel();
    if let Some(server) = server {
        server.await.context("the secure server")?;
    }
    Ok(code)
}

/// Caches, election, scheduling; returns when the process has to end, with the election if it is to be released.
async fn lead(
    options: &Options,
    scheduler: &Scheduler,
    election: Election,
    ends: &mut Ends,
) -> anyhow::Result<(End, Option<election::Running>)> {
    let delayed = options.configuration.delay_cache_until_active && election.is_contested();
    if !delayed {
        scheduler.start_caches().context("starting the caches")?;
        tokio::select! {
            () = scheduler.synced() => {}
            () = ends.any() => return Ok((End::Asked, None)),
        }
    }
    let mut running = election.start();
    tokio::select! {
        elected = running.elected() => if let Err(reason) = elected {
            return Ok((End::Lost(reason), None));
        },
        () = ends.any() => return Ok((End::Asked, Some(running))),
    }
    if delayed {
        scheduler.start_caches().context("starting the caches")?;
        tokio::select! {
            () = scheduler.synced() => {}
            reason = running.lost() => return Ok((End::Lost(reason), None)),
            () = ends.any() => return Ok((End::Asked, Some(running))),
        }
    }
    scheduler.start_scheduling().context("starting to schedule")?;
    tokio::select! {
        reason = running.lost() => Ok((End::Lost(reason), None)),
        () = ends.any() => Ok((End::Asked, Some(running))),
    }
}

fn client_options(options: &Options) -> ClientOptions {
    let connection = &options.configuration.client_connection;
    ClientOptions {
        source: Source::from_flags(Some(&connection.kubeconfig), options.master.as_deref()),
        rate: connection.rate_limit().map(|limit| RateLimit {
            qps: limit.qps,
            burst: limit.burst,
        }),
        binds_in_flight: options.settings.binding_concurrency,
    }
}

fn log_start(options: &Options, api_server: &str) {
    let profiles: Vec<&str> = options
        .configuration
        .profiles
        .iter()
        .map(|p| p.scheduler_name.as_str())
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        api_server,
        profiles = profiles.join(","),
        workers = options.settings.workers,
        "starting"
    );
    if options.configuration.percentage_of_nodes_to_score != 0 {
        tracing::info!("percentageOfNodesToScore does not change decisions: every node is scored");
    }
}

/// The signals that end the process.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
