//! A pod with its record in the queue.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Nanos;
use crate::cluster::PodInfo;
use crate::framework::{Diagnosis, Profile};
use crate::ids::Symbol;

/// A few plugin names, each once, sorted by symbol.
pub type PluginSet = SmallVec<[Symbol; 2]>;

/// Puts `plugin` into a set.
pub(super) fn insert(set: &mut PluginSet, plugin: Symbol) {
    if let Err(at) = set.binary_search(&plugin) {
        set.insert(at, plugin);
    }
}

/// The plugins behind a rejection. None at all stands for an error: the pod waits for time alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejectors {
    /// Those that answered unschedulable, resolvable or not.
    pub unschedulable: PluginSet,
    /// Those that answered pending: when their hint says so, the pod skips its backoff.
    pub pending: PluginSet,
}

impl Rejectors {
    /// Nobody: the attempt ended in an error.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One plugin that answered unschedulable.
    #[must_use]
    pub fn one(plugin: Symbol) -> Self {
        let mut rejectors = Self::default();
        rejectors.unschedulable.push(plugin);
        rejectors
    }

    /// Those that a diagnosis names.
    #[must_use]
    pub fn of(diagnosis: &Diagnosis) -> Self {
        let mut rejectors = Self::default();
        for plugin in &diagnosis.unschedulable_plugins {
            insert(&mut rejectors.unschedulable, *plugin);
        }
        for plugin in &diagnosis.pending_plugins {
            insert(&mut rejectors.pending, *plugin);
        }
        rejectors
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unschedulable.is_empty() && self.pending.is_empty()
    }
}

/// A pod that is to be scheduled, and what the queue remembers of it.
///
/// Source: `staging/src/k8s.io/kube-scheduler/framework/types.go` (`QueuedPodInfo`), Kubernetes 1.36.
#[derive(Clone, Debug)]
pub struct QueuedPodInfo {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The profile that schedules it; a cycle ends on the profile that it began with.
    pub profile: Arc<Profile>,
    /// When it was put into the queue, at first or after its last failed attempt.
    pub timestamp: Nanos,
    /// Number of attempts, the present one included.
    pub attempts: u32,
    /// Number of attempts that ended in a rejection.
    pub unschedulable_count: u32,
    /// Number of attempts that ended in an error since the last rejection.
    pub consecutive_errors: u32,
    /// When it first became active.
    pub initial_attempt: Option<Nanos>,
    /// Who rejected it in its last attempt, or gates it; empty during an attempt.
    pub rejectors: Rejectors,
    /// The PreEnqueue plugin that holds it back.
    pub gating_plugin: Option<Symbol>,
    /// When its backoff ends, once computed; whole seconds.
    pub backoff_expiry: Option<Nanos>,
    /// The present attempt is owed to the periodic sweep, and not to an event.
    pub flushed: bool,
    /// Number of the pop that gave the pod out; tells a late answer from a present one.
    pub(super) ticket: u64,
}

impl QueuedPodInfo {
    /// A pod that has not been tried yet.
    #[must_use]
    pub fn new(pod: Arc<PodInfo>, profile: Arc<Profile>, timestamp: Nanos) -> Self {
        Self {
            pod,
            profile,
            timestamp,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            initial_attempt: None,
            rejectors: Rejectors::default(),
            gating_plugin: None,
            backoff_expiry: None,
            flushed: false,
            ticket: 0,
        }
    }
}

/// What became of a pod that came back after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Requeued {
    /// It is ready again.
    Active,
    /// It waits for its backoff.
    Backoff,
    /// It waits for an event.
    Unschedulable,
    /// A PreEnqueue plugin holds it back.
    Gated,
    /// It was deleted or bound meanwhile: it is not in the queue any more.
    Gone,
    /// It is in the queue already; nothing changed.
    AlreadyQueued,
}

/// How long pods wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// The first wait after a failed attempt; doubles with each further one.
    pub initial_backoff: Duration,
    /// The longest wait; zero: no backoff at all.
    pub max_backoff: Duration,
    /// After so long without a helpful event a pod is tried anyhow.
    pub max_in_unschedulable: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable: Duration::from_secs(300),
        }
    }
}
