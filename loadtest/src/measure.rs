//! One measured run: a fresh API server, a workload put into it, a scheduler, the harness's watch, and the end-state
//! check.
//!
//! How rates are measured: scheduler, API server and this load generator are separate processes. Unless pods are to
//! arrive during the run they all exist before the scheduler starts, and have no creation latency. The rate is `(bound
//! − 1) / (last − first)` by the harness's own watch. A run ends when every pod is bound, or every pod is bound or has
//! PodScheduled=False and no bind came for 15 s. CPU time is the scheduler process's until its last Event is written.
//!
//! Does not: repeat or compare (see [`crate::compare`]).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use supercargo_apiserver::check::EndState;

use crate::bare::{Placement, post_bindings, round_robin};
use crate::client::ApiClient;
use crate::controlplane::build::{Component, ensure};
use crate::endstate;
use crate::events::{Drained, EventCounts, count, drain};
use crate::podwatch::{BoundPod, Counts, PodWatch};
use crate::populate::{Pace, create_all};
use crate::preemption;
use crate::process::Managed;
use crate::report::{Latency, Preemption, RunReport};
use crate::schedulers::{Scheduler, SchedulerLaunch, kube_scheduler, own_binary, supercargo};
use crate::scrape::{OPEN_METRICS, Observations};
use crate::target::{Target, TargetKind};
use crate::workload::{Prepared, WorkloadSpec, prepare};

/// Connections that create nodes and pods; 32 were measured to saturate a kube-apiserver on two cores.
const CREATORS: usize = 32;
/// Without a bind for this long, and with every pod bound or refused, the run is over.
pub const QUIET: Duration = Duration::from_secs(15);
/// Without any bind for this long the run is over even if pods are still undecided: they count as lost.
const STALLED: Duration = Duration::from_secs(120);
/// How often the counts are looked at; it decides only when a run is seen to be over, not its rate.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for Events after the last bind.
const DRAIN_LIMIT: Duration = Duration::from_secs(300);
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchedulerKind {
    /// Supercargo's binary.
    Supercargo,
    /// The real kube-scheduler.
    KubeScheduler,
    /// Nobody: bindings are posted as fast as the server takes them.
    BareClient,
}

impl SchedulerKind {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Supercargo => "supercargo",
            Self::KubeScheduler => "kube-scheduler",
            Self::BareClient => "bare-client",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The API server.
    pub target: TargetKind,
    /// The workload.
    pub workload: WorkloadSpec,
    /// How the scheduler is started.
    pub launch: SchedulerLaunch,
    /// Bindings that the bare client has in flight.
    pub in_flight: usize,
    /// Create pods while the scheduler runs, at this pace, and report latencies.
    pub create_during: Option<Pace>,
    /// The longest that a run may take from the scheduler's start to its last bind.
    pub limit: Duration,
    /// Keep logs and configuration in this folder, one folder a run.
    pub keep: Option<PathBuf>,
}

/// A run's report and the bindings that were seen, in order.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: RunReport,
    /// The bindings.
    pub bound: Vec<BoundPod>,
}

/// Makes one run. `replay` are the bindings for the bare client to post; without them it goes round the nodes.
///
/// # Errors
/// When a part does not start, the workload cannot be made, or the server refuses something.
pub async fn run(spec: &RunSpec, who: SchedulerKind, replay: Option<&[Placement]>) -> Result<Outcome> {
    let launch = launch(spec, who).await?;
    let folder = RunFolder::create(spec.keep.as_deref(), who)?;
    let target = Target::start(spec.target, folder.path()).await?;
    let client = ApiClient::new(target.endpoint())?;
    let prepared = prepare(&spec.workload)?;
    tracing::info!(
        scheduler = who.name(),
        nodes = prepared.nodes.len(),
        pods = prepared.pods.len(),
        "creating objects"
    );
    create_all(&client, prepared.setup.clone(), 1, Pace::Full)
        .await
        .context("creating namespaces")?;
    create_all(&client, prepared.nodes.clone(), CREATORS, Pace::Full)
        .await
        .context("creating nodes")?;
    create_all(&client, prepared.placed.clone(), CREATORS, Pace::Full)
        .await
        .context("creating pods on nodes")?;
    if spec.create_during.is_none() {
        create_all(&client, prepared.pods.clone(), CREATORS, Pace::Full)
            .await
            .context("creating pods")?;
    }
    let watch = PodWatch::start(target.endpoint().clone(), prepared.namespace()).await?;
    let run = Run {
        spec,
        who,
        launch: &launch,
        client: &client,
        target: &target,
        prepared: &prepared,
        watch: &watch,
        folder: &folder,
    };
    let started = Instant::now();
    let (process, sent) = run.schedule(replay).await?;
    let finished = run.finish(process, started).await?;
    let state = endstate::read(&client, prepared.namespace()).await?;
    let bound = watch.bound();
    let mut report = run.report(&finished, &state, started, run.latency(&bound, sent.as_deref()));
    report.preemption = run.preemption(&finished).await?;
    Ok(Outcome { report, bound })
}

/// How the scheduler is started, its binary built: nothing is compiled while something is measured.
async fn launch(spec: &RunSpec, who: SchedulerKind) -> Result<SchedulerLaunch> {
    let mut launch = spec.launch.clone();
    launch.json_only = spec.target == TargetKind::Embedded;
    if who != SchedulerKind::BareClient {
        launch.extra_args.push(OPEN_METRICS.to_owned());
    }
    let given = launch.binary.take();
    let build = move || match who {
        SchedulerKind::Supercargo => given.map_or_else(|| own_binary("supercargo"), Ok).map(Some),
        SchedulerKind::KubeScheduler => ensure(Component::KubeScheduler).map(|_| None),
        SchedulerKind::BareClient => Ok(None),
    };
    launch.binary = tokio::task::spawn_blocking(build)
        .await
        .context("the build task failed")??;
    Ok(launch)
}

/// The parts of a run in progress.
struct Run<'a> {
    spec: &'a RunSpec,
    who: SchedulerKind,
    launch: &'a SchedulerLaunch,
    client: &'a ApiClient,
    target: &'a Target,
    prepared: &'a Prepared,
    watch: &'a PodWatch,
    folder: &'a RunFolder,
}

/// What was seen when the run was over.
struct Finished {
    counts: Counts,
    drained: Option<Drained>,
    events: EventCounts,
    nominations: Option<Observations>,
}

impl Run<'_> {
    /// Starts the scheduler and lets pods arrive where asked. Gives the process and when each pod was sent.
    async fn schedule(&self, replay: Option<&[Placement]>) -> Result<(Option<Scheduler>, Option<Vec<Instant>>)> {
        let kubeconfig = self.target.scheduler_kubeconfig();
        let dir = self.folder.path();
        let process = match self.who {
            SchedulerKind::Supercargo => Some(supercargo(self.launch, &kubeconfig, dir, "supercargo")?),
            SchedulerKind::KubeScheduler => Some(kube_scheduler(self.launch, &kubeconfig, dir, "kube-scheduler")?),
            SchedulerKind::BareClient => None,
        };
        let sent = match self.spec.create_during {
            Some(pace) => {
                let pods = self.prepared.pods.clone();
                Some(
                    create_all(self.client, pods, CREATORS, pace)
                        .await
                        .context("creating pods")?,
                )
            }
            None => None,
        };
        if self.who == SchedulerKind::BareClient {
            self.write_bare(replay).await?;
        }
        Ok((process, sent))
    }

    /// What the bare client does in place of a scheduler.
    async fn write_bare(&self, replay: Option<&[Placement]>) -> Result<()> {
        let (client, plan, in_flight) = (self.client, &self.prepared.plan, self.spec.in_flight);
        if self.preempts() {
            return preemption::evict_and_bind(client, plan, replay, in_flight).await;
        }
        match replay {
            Some(placements) => post_bindings(client, placements, in_flight).await,
            None => post_bindings(client, &round_robin(plan), in_flight).await,
        }
    }

    fn preempts(&self) -> bool {
        !self.prepared.placed.is_empty()
    }

    /// Waits until the run is over and the Events are written, then stops the scheduler.
    async fn finish(&self, scheduler: Option<Scheduler>, started: Instant) -> Result<Finished> {
        let Some(mut scheduler) = scheduler else {
            return Ok(Finished {
                counts: self.wait_over(None, started).await?,
                drained: None,
                events: EventCounts::default(),
                nominations: None,
            });
        };
        let counts = self.wait_over(Some(&mut scheduler.process), started).await?;
        let expected = u64::try_from(counts.bound).unwrap_or(u64::MAX);
        let drained = drain(self.client, Some(scheduler.process.pid()), expected, DRAIN_LIMIT).await?;
        let events = count(self.client).await?;
        scheduler.process.ensure_running()?;
        let nominations = match self.preempts() {
            true => Some(preemption::nominations(&scheduler).await?),
            false => None,
        };
        scheduler.process.terminate(STOP_GRACE).await?;
        Ok(Finished {
            nominations,
            counts: self.watch.counts()?,
            drained: Some(drained),
            events,
        })
    }

    async fn wait_over(&self, mut process: Option<&mut Managed>, started: Instant) -> Result<Counts> {
        let all = self.prepared.pods.len();
        // The bare client has posted everything; its last events may still be under way to the watch.
        let quiet = if process.is_some() {
            QUIET
        } else {
            Duration::from_secs(3)
        };
        loop {
            let counts = self.watch.counts()?;
            if counts.bound >= all {
                return Ok(counts);
            }
            // Room is made for many pods before the first is bound: there a refusal is progress too.
            let last = if self.preempts() {
                counts.last_decision
            } else {
                counts.last
            };
            let since_bind = last.unwrap_or(started).elapsed();
            let decided = counts.bound + counts.unschedulable >= all || process.is_none();
            if (decided && since_bind >= quiet) || since_bind >= STALLED {
                return Ok(counts);
            }
            if started.elapsed() >= self.spec.limit {
                bail!("the run is not over after {:?}: {counts:?}", self.spec.limit);
            }
            if let Some(process) = process.as_deref_mut() {
                process.ensure_running()?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Creation to bind for each bound pod; from just before the request was sent, so never too short.
    fn latency(&self, bound: &[BoundPod], sent: Option<&[Instant]>) -> Option<Latency> {
        let sent = sent?;
        let names = self.prepared.pod_names.iter().zip(sent);
        let by_name: std::collections::HashMap<(&str, &str), Instant> = names
            .map(|((namespace, name), at)| ((namespace.as_ref(), name.as_ref()), *at))
            .collect();
        let millis = bound.iter().filter_map(|pod| {
            let at = by_name.get(&(pod.namespace.as_ref(), pod.name.as_ref()))?;
            Some(pod.at.saturating_duration_since(*at).as_secs_f64() * 1e3)
        });
        Latency::of(millis.collect())
    }

    async fn preemption(&self, finished: &Finished) -> Result<Option<Preemption>> {
        let placed = self.prepared.placed.len();
        if placed == 0 {
            return Ok(None);
        }
        let figures = preemption::measured(self.client, placed, &finished.counts, finished.nominations);
        figures.await.map(Some)
    }

    fn report(&self, finished: &Finished, state: &EndState, started: Instant, latency: Option<Latency>) -> RunReport {
        let Finished {
            counts,
            drained,
            events,
            ..
        } = finished;
        let process = drained.and_then(|drained| drained.process);
        let since = |later: Option<Instant>, earlier: Option<Instant>| match (later, earlier) {
            (Some(later), Some(earlier)) => later.saturating_duration_since(earlier).as_secs_f64(),
            _ => 0.0,
        };
        RunReport {
            target: self.spec.target,
            scheduler: self.who.name().to_owned(),
            workload: self.spec.workload.name.clone(),
            nodes: self.prepared.nodes.len(),
            pods: self.prepared.pods.len(),
            bound: state.bound,
            unschedulable: state.unschedulable,
            lost_pods: state.lost + state.on_missing_nodes + self.prepared.pods.len().saturating_sub(state.pods),
            simulator_backlog: state.terminating,
            overcommitted_nodes: state.overcommitted_nodes(),
            pods_per_second: counts.pods_per_second(),
            latency_ms: latency,
            cpu_seconds: process.map(|process| process.cpu_seconds),
            rss_bytes: process.map(|process| process.peak_rss_bytes),
            events_written: events.scheduled + events.failed,
            drain_seconds: since(drained.map(|drained| drained.last_growth), counts.last),
            startup_seconds: since(counts.first, Some(started)),
            watch_interruptions: counts.interruptions,
            target_notes: match self.spec.target {
                TargetKind::Embedded => {
                    "plain HTTP on loopback; hollow nodes write no status; kube-scheduler speaks JSON"
                }
                TargetKind::Real => {
                    "etcd without fsync; priority and fairness and the limits on requests in flight are off"
                }
            },
            preemption: None,
        }
    }
}

/// The folder of one run's logs and files: kept where asked, else removed with the run.
#[derive(Debug)]
struct RunFolder {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl RunFolder {
    fn create(keep: Option<&Path>, who: SchedulerKind) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{}-", who.name());
        builder.prefix(&prefix);
        match keep {
            Some(parent) => {
                std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
                let path = builder
                    .tempdir_in(parent)
                    .context("cannot create a folder for the run")?
                    .keep();
                Ok(Self { path, _temporary: None })
            }
            None => {
                let temporary = builder.tempdir().context("cannot create a temporary folder")?;
                Ok(Self {
                    path: temporary.path().to_owned(),
                    _temporary: Some(temporary),
                })
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
