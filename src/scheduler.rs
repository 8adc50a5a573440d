//! The scheduler put together: what `main` runs, `demo` embeds and a library user starts with plugins of their own.
//!
//! Threads: one task a watched kind on the runtime; one thread that applies deliveries, one that publishes snapshots,
//! one for the queue's timers; one a worker. The binding pool lives on the runtime.
//!
//! Does not: parse options, elect a leader or serve HTTP; the caller says when to begin scheduling and when to stop.
//!
//! Children: `watches` (which kinds, and the road to the applying thread), `ingest` (applying, timed by `handling`), `extending` (cycles put aside),
//! `network` (what is known of latencies at the start), `worker` (from a popped
//! pod to the binding pool), `commit` (from a decision to a reserve), `threads`.

mod commit;
mod extending;
mod handling;
mod ingest;
mod kept;
mod kept_volumes;
mod network;
#[cfg(test)]
#[cfg(feature = "demo")]
mod tests;
mod threads;
mod watches;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use supercargo_config::gates::Stage;
use supercargo_config::{Configuration, FeatureGates, Settings};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::binding::{BindingParts, BindingPool, Evictor, FailureHandler};
use crate::client::ClientSet;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::watch::{Alarm, WatchStatus};
use crate::extender::{ExtenderError, Extenders};
use crate::framework::{EXTENDER, Handle, Observer, ProfileError, Profiles, Registry};
use crate::queue::{QueueConfig, SchedulingQueue};
use crate::sync::Mutex;
use crate::telemetry::{Exposition, FeatureState, Metrics, MetricsOptions};
use extending::Extending;
use handling::Handling;
use ingest::{Ingest, Statuses};
pub use network::SourceError;
use threads::Threads;
use worker::{Worker, WorkerParts};

/// Why a scheduler cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// A profile cannot be built.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// An extender cannot be set up.
    #[error("couldn't build extenders: {0}")]
    Extender(#[from] ExtenderError),
    /// A source of latencies cannot be used.
    #[error(transparent)]
    Latencies(#[from] SourceError),
}

/// What a scheduler is made from.
pub struct SchedulerOptions {
    /// The effective configuration.
    pub configuration: Configuration,
    /// Our own settings.
    pub settings: Settings,
    /// In-tree plugins and those of a library user.
    pub registry: Registry,
    /// After so long without a helpful event a pod is tried anyhow.
    pub max_in_unschedulable: Duration,
    /// Asked before every bind and eviction: whether this process may still act.
    pub may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether pods are evicted in the background: the feature gate `SchedulerAsyncPreemption`.
    pub async_preemption: bool,
}

impl std::fmt::Debug for SchedulerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerOptions")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A scheduler.
pub struct Scheduler {
    parts: WorkerParts,
    clients: ClientSet,
    settings: Settings,
    statuses: Arc<Statuses>,
    alarm: Alarm,
    applied: Arc<Notify>,
    stopping: CancellationToken,
    tasks: TaskTracker,
    threads: Mutex<Threads>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("cluster", &self.parts.cluster)
            .finish_non_exhaustive()
    }
}

/// Metrics for the profiles and plugins of a configuration and for feature gates; `exposition` says what of them is
/// shown.
///
/// # Errors
/// The profiles cannot be built.
pub fn metrics_for(
    configuration: &Configuration,
    registry: &Registry,
    gates: &FeatureGates,
    exposition: Exposition,
) -> Result<Arc<Metrics>, ProfileError> {
    let profiles = Profiles::build(configuration, registry, &Arc::default())?;
    let names = profiles.all().iter().flat_map(|profile| profile.plugin_names());
    let extender = (!configuration.extenders.is_empty()).then_some(*EXTENDER);
    let names = names.chain(extender);
    let plugins: std::collections::BTreeSet<&str> = names.map(|name| name.as_str()).collect();
    Ok(Arc::new(Metrics::new(&MetricsOptions {
        profiles: profiles
            .all()
            .iter()
            .map(|profile| profile.name.as_str().to_owned())
            .collect(),
        plugins: plugins.into_iter().map(str::to_owned).collect(),
        features: gates.all().map(feature_state).collect(),
        exposition,
    })))
}

fn feature_state((name, stage, enabled): (&str, Stage, bool)) -> FeatureState {
    let stage = match stage {
        Stage::Alpha => "ALPHA",
        Stage::Beta => "BETA",
        Stage::Ga | Stage::Locked => "",
    };
    FeatureState {
        name: name.to_owned(),
        stage: stage.to_owned(),
        enabled,
    }
}

impl Scheduler {
    /// Puts a scheduler together; nothing runs yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The profiles cannot be built, or an extender cannot be set up.
    pub fn new(
        mut options: SchedulerOptions,
        clients: ClientSet,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SchedulerError> {
        options.configuration.leave_resources_to_extenders();
        let clock = Clock::Real;
        let handle = Arc::new(Handle::default());
        let observer = Observer {
            metrics: Arc::clone(&metrics),
            clock: clock.clone(),
        };
        let (configuration, registry) = (&options.configuration, &options.registry);
        let profiles = Profiles::build_observed(configuration, registry, &handle, &observer)?;
        let profiles = Arc::new(profiles);
        let names = profiles.all().iter().map(|profile| profile.name);
        let cluster = Arc::new(Cluster::new(names, profiles.label_visibility()));
        network::take_sources(configuration, &cluster.network)?;
        let queue_config = QueueConfig {
            initial_backoff: options.configuration.pod_initial_backoff,
            max_backoff: options.configuration.pod_max_backoff,
            max_in_unschedulable: options.max_in_unschedulable,
        };
        let queue = Arc::new(SchedulingQueue::new(
            Arc::clone(&profiles),
            clock.clone(),
            queue_config,
            Arc::clone(&metrics),
        ));
        let extenders = Arc::new(Extenders::new(&configuration.extenders, &metrics)?);
        let (binding, failures) = crate::binding::start(BindingParts {
            cluster: Arc::clone(&cluster),
            queue: Arc::clone(&queue),
            clients: clients.clone(),
            extenders: Arc::clone(&extenders),
            metrics: Arc::clone(&metrics),
            clock: clock.clone(),
            settings: options.settings.clone(),
            may_act: options.may_act,
            async_preemption: options.async_preemption,
        });
        handle.set_evict(Arc::<Evictor>::clone(binding.evictor()));
        handle.set_waiting(Arc::<BindingPool>::clone(&binding));
        handle.set_metrics(Arc::clone(&metrics));
        handle.set_activate(Arc::<SchedulingQueue>::clone(&queue));
        let statuses = Statuses {
            pods: WatchStatus::new("Pod"),
            nodes: WatchStatus::new("Node"),
            kept: watches::kept_kinds().into_iter().map(|(status, _)| status).collect(),
        };
        let concurrency = options.settings.extender_concurrency;
        let extending = Extending::new(extenders, concurrency, &cluster, &queue, &metrics);
        Ok(Self {
            parts: WorkerParts {
                extending,
                cluster,
                queue,
                binding,
                failures,
                handle,
                metrics,
                clock,
            },
            clients,
            settings: options.settings,
            statuses: Arc::new(statuses),
            alarm: Alarm::default(),
            applied: Arc::new(Notify::new()),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            threads: Mutex::default(),
        })
    }

    /// Starts the watches and keeps the caches warm.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_caches(&self) -> std::io::Result<()> {
        let messages = self.watch_all();
        let ingest = self.ingest();
        let mut threads = self.threads.lock();
        let clock = self.parts.clock.clone();
        threads.ingest(ingest, messages, Arc::clone(&self.applied), clock)?;
        threads.publisher(self.parts.clone())
    }

    /// Who applies deliveries.
    fn ingest(&self) -> Ingest {
        Ingest {
            cluster: Arc::clone(&self.parts.cluster),
            queue: Arc::clone(&self.parts.queue),
            binding: Arc::clone(&self.parts.binding),
            metrics: Arc::clone(&self.parts.metrics),
            statuses: Arc::clone(&self.statuses),
            extenders: Arc::clone(&self.parts.extending.extenders),
            handling: Handling::new(Arc::clone(&self.parts.metrics)),
            listed_pods: FxHashSet::default(),
            listed_nodes: FxHashSet::default(),
            listed: FxHashMap::default(),
        }
    }

    /// Whether everything that there was at first has been applied.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.statuses.all().all(WatchStatus::is_synced)
    }

    /// Waits until [`Self::is_synced`].
    pub async fn synced(&self) {
        loop {
            let notified = self.applied.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.is_synced() {
                return;
            }
            notified.await;
        }
    }

    /// Which kinds are not there yet and why; empty once synced.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let waiting = self.statuses.all().filter(|status| !status.is_synced());
        waiting
            .map(|status| match status.trouble() {
                Some(trouble) => format!("{}: {trouble}", status.kind()),
                None => format!("{}: the first list is not complete", status.kind()),
            })
            .collect()
    }

    /// Starts workers and the queue's timers.
    ///
    /// # Errors
    /// The caches are not synced (a decision on half of the books would be a wrong one), or a thread cannot be started.
    pub fn start_scheduling(&self) -> std::io::Result<()> {
        if !self.is_synced() {
            let missing = self.missing().join("; ");
            return Err(std::io::Error::other(format!("the caches are not complete: {missing}")));
        }
        let mut threads = self.threads.lock();
        threads.timers(self.parts.clone())?;
        let seed = self.settings.tie_break_seed.unwrap_or_else(random_seed);
        for number in 0..self.settings.workers {
            let worker = Worker::new(self.parts.clone(), seed.wrapping_add(number as u64));
            threads.worker(number, worker)?;
        }
        tracing::info!(
            workers = self.settings.workers,
            nodes = self.parts.cluster.node_count(),
            "scheduling"
        );
        Ok(())
    }

    /// Stops: no new cycles; binds in flight end or are unreserved within `deadline`; what is to be written is written
    /// within it as well.
    pub async fn stop(&self, deadline: Duration) {
        self.parts.queue.close();
        self.parts.extending.stop().await;
        self.parts.binding.drain(deadline).await;
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let threads = std::mem::take(&mut *self.threads.lock());
        // Joining blocks: not on a thread of the runtime.
        if tokio::task::spawn_blocking(move || threads.join()).await.is_err() {
            tracing::warn!("a thread ended with a panic");
        }
    }

    /// Objects, ledger and change log.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.parts.cluster
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &Arc<SchedulingQueue> {
        &self.parts.queue
    }

    /// Recorders.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.parts.metrics
    }

    /// The binding pool.
    #[must_use]
    pub fn binding(&self) -> &Arc<BindingPool> {
        &self.parts.binding
    }

    /// What becomes of pods that fail.
    #[must_use]
    pub fn failures(&self) -> &Arc<FailureHandler> {
        &self.parts.failures
    }
}

/// Another one in every process.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish()
}
