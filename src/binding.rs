//! Everything after a node is reserved: Permit waits, PreBind, the bind itself, events, conditions, and giving back what
//! failed.
//!
//! A worker takes a [`Slot`] before it pops a pod, so assumed pods that are not yet bound are bounded; it hands a
//! [`BindTask`] over after Permit. A task waits at Permit without a slot, takes a lane (bounded API calls, highest
//! priority first), binds, and ends in exactly one way: bound, gone, elsewhere, or failed and back in the queue.
//!
//! Does not: decide, or undo anything by time: an unknown outcome is read back until it is known.
//!
//! Threads: tasks on the runtime; [`BindingPool`]'s and [`FailureHandler`]'s methods may be called from any thread.
//! Cost a pod: one API call; its Scheduled event is written after binds, by a writer of its own.
//!
//! Children in reading order: `slots` (bounds), `task`, `pool` (the life of a task), `pre_bind` and `volumes` (its
//! requests and waits), `pre_binding`, `attempt` (the bind call), `extended` (an extender's), `waiting` (Permit), `evict` (pods that give way),
//! `failure` (back to the queue), `events` (with `series`) and `status`
//! (the writers, over `write`).

mod attempt;
mod events;
mod evict;
mod extended;
mod failure;
mod pool;
mod pre_bind;
mod pre_binding;
mod series;
mod slots;
mod status;
mod task;
mod volumes;
mod waiting;
mod write;

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use supercargo_config::Settings;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::ClientSet;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::extender::Extenders;
use crate::queue::SchedulingQueue;
use crate::sync::Mutex;
use crate::telemetry::Metrics;

pub use events::{EventOptions, EventWriter, PodEvent, PodEventKind};
pub use evict::Evictor;
pub use failure::{Failure, FailureHandler};
pub use pool::BindingPool;
pub use slots::Slot;
pub use status::{StatusPatch, StatusWriter};
pub use task::BindTask;
pub use waiting::{WaitOutcome, WaitingMap};

/// What a pool is made from.
pub struct BindingParts {
    /// Objects and ledger.
    pub cluster: Arc<Cluster>,
    /// Where failed pods go back to.
    pub queue: Arc<SchedulingQueue>,
    /// For binds, events and status.
    pub clients: ClientSet,
    /// Who may bind in the place of the Bind plugins.
    pub extenders: Arc<Extenders>,
    /// Recorders.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: Clock,
    /// Bounds and deadlines.
    pub settings: Settings,
    /// Asked before every bind and eviction: whether this process may still act.
    pub may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether pods are evicted in the background, and not before the preemptor's cycle ends.
    pub async_preemption: bool,
}

impl std::fmt::Debug for BindingParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BindingParts")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Starts a pool and what handles its failures. Must be called inside a tokio runtime.
#[must_use]
pub fn start(parts: BindingParts) -> (Arc<BindingPool>, Arc<FailureHandler>) {
    let in_flight = Arc::new(AtomicUsize::new(0));
    let writers = TaskTracker::new();
    let events = EventWriter::start(
        &parts.clients.status,
        &EventOptions {
            queue_length: parts.settings.event_queue_length,
            concurrency: parts.settings.event_concurrency,
            binds_in_flight: Arc::clone(&in_flight),
        },
        Arc::clone(&parts.metrics),
        parts.clock.clone(),
        &writers,
    );
    let status = StatusWriter::start(
        &parts.clients.status,
        parts.settings.status_concurrency,
        &parts.clock,
        &writers,
    );
    let waiting = Arc::new(WaitingMap::default());
    let pre_binding = Arc::new(pre_binding::PreBinding::default());
    let evictor = Arc::new(Evictor::new(evict::EvictorParts {
        cluster: Arc::clone(&parts.cluster),
        queue: Arc::clone(&parts.queue),
        client: parts.clients.status.clone(),
        events: Arc::clone(&events),
        status: Arc::clone(&status),
        waiting: Arc::clone(&waiting),
        pre_binding: Arc::clone(&pre_binding),
        metrics: Arc::clone(&parts.metrics),
        clock: parts.clock.clone(),
        may_act: Arc::clone(&parts.may_act),
        is_async: parts.async_preemption,
    }));
    let failures = Arc::new(FailureHandler {
        cluster: Arc::clone(&parts.cluster),
        queue: Arc::clone(&parts.queue),
        events,
        status,
        metrics: Arc::clone(&parts.metrics),
        clock: parts.clock.clone(),
        told: Mutex::default(),
    });
    let pool = Arc::new(BindingPool {
        failures: Arc::clone(&failures),
        cluster: parts.cluster,
        queue: parts.queue,
        client: parts.clients.bind,
        operation: parts.metrics.operation("binding"),
        metrics: parts.metrics,
        clock: parts.clock,
        may_act: parts.may_act,
        deadline: parts.settings.bind_deadline,
        slots: slots::Slots::new(parts.settings.max_assumed_pods),
        lanes: slots::Lanes::new(parts.settings.binding_concurrency),
        extender_lanes: slots::Lanes::new(parts.settings.extender_concurrency),
        extenders: parts.extenders,
        volumes: Arc::default(),
        waiting,
        pre_binding,
        evictor,
        in_flight,
        tasks: TaskTracker::new(),
        writers,
        closing: CancellationToken::new(),
        stopping: CancellationToken::new(),
        runtime: Handle::current(),
    });
    (pool, failures)
}
