//! What a plugin may ask of the running scheduler.
//!
//! `queue` and `binding` implement the traits; whoever assembles the process fills the handle in. Before that, and in
//! tests without a scheduler, every request is answered with "no such pod".

use std::sync::{Arc, OnceLock};

use crate::cluster::PodInfo;
use crate::ids::{PodUid, Symbol};
use crate::telemetry::{Metrics, VolumeStage};

/// Pods that wait at Permit.
pub trait WaitingPods: Send + Sync {
    /// Takes `plugin` off the list of those that a pod waits for; false: the pod does not wait.
    fn allow(&self, pod: PodUid, plugin: Symbol) -> bool;
    /// Ends a pod's wait with a rejection; false: the pod does not wait.
    fn reject(&self, pod: PodUid, plugin: Symbol, message: &str) -> bool;
    /// The pods that wait.
    fn list(&self) -> Vec<PodUid>;
}

/// The queue's door for pods that a plugin wants tried again.
pub trait Activate: Send + Sync {
    /// Moves pods that wait for an event or for their backoff to the active queue; unknown pods are ignored.
    fn activate(&self, pods: &[PodUid]);
    /// Asks again about a pod that a PreEnqueue plugin holds back after an event that would have it tried again; any
    /// other pod is left alone.
    fn ungate(&self, pod: PodUid);
}

/// Pods that have to go so that another one fits, once that one is nominated to their node.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// For whom.
    pub preemptor: Arc<PodInfo>,
    /// The `schedulerName` of the preemptor's profile.
    pub scheduler: Symbol,
    /// The plugin that chose the victims.
    pub plugin: Symbol,
    /// The node.
    pub node: Symbol,
    /// Who goes, most important first; pods that are on their way out already are among them.
    pub victims: Vec<Arc<PodInfo>>,
    /// Pods of lower priority that were nominated to the node and are not any more.
    pub displaced: Vec<Arc<PodInfo>>,
}

/// Who asks the API server to remove pods.
pub trait Evict: Send + Sync {
    /// Has the victims evicted: in the background, or, where preemption is synchronous, before it returns.
    ///
    /// # Errors
    /// Only where it is synchronous: what failed.
    fn evict(&self, eviction: Eviction) -> Result<(), String>;
    /// Whether pods are being evicted for `preemptor` in the background, so that another try would come too early. Is
    /// called under the queue's lock.
    fn is_evicting_for(&self, preemptor: PodUid) -> bool;
}

/// The running scheduler, as a plugin sees it.
#[derive(Default)]
pub struct Handle {
    evict: OnceLock<Arc<dyn Evict>>,
    waiting: OnceLock<Arc<dyn WaitingPods>>,
    activate: OnceLock<Arc<dyn Activate>>,
    metrics: OnceLock<Arc<Metrics>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Says who keeps the waiting pods; only the first call counts.
    pub fn set_waiting(&self, waiting: Arc<dyn WaitingPods>) {
        self.waiting.get_or_init(|| waiting);
    }

    /// Says who activates pods; only the first call counts.
    pub fn set_activate(&self, activate: Arc<dyn Activate>) {
        self.activate.get_or_init(|| activate);
    }

    /// Says who counts; only the first call counts.
    pub fn set_metrics(&self, metrics: Arc<Metrics>) {
        self.metrics.get_or_init(|| metrics);
    }

    /// Counts a failure with a pod's volumes.
    pub fn volume_stage_failed(&self, stage: VolumeStage) {
        if let Some(metrics) = self.metrics.get() {
            metrics.volume_stage_failed(stage);
        }
    }

    /// Says who evicts pods; only the first call counts.
    pub fn set_evict(&self, evict: Arc<dyn Evict>) {
        self.evict.get_or_init(|| evict);
    }

    /// See [`Evict::evict`].
    ///
    /// # Errors
    /// See there; and that nobody evicts.
    pub fn evict(&self, eviction: Eviction) -> Result<(), String> {
        match self.evict.get() {
            Some(evict) => evict.evict(eviction),
            None => Err("nobody evicts pods".to_owned()),
        }
    }

    /// See [`Evict::is_evicting_for`].
    #[must_use]
    pub fn is_evicting_for(&self, preemptor: PodUid) -> bool {
        self.evict.get().is_some_and(|evict| evict.is_evicting_for(preemptor))
    }

    /// See [`WaitingPods::allow`].
    #[must_use]
    pub fn allow_waiting(&self, pod: PodUid, plugin: Symbol) -> bool {
        self.waiting.get().is_some_and(|waiting| waiting.allow(pod, plugin))
    }

    /// See [`WaitingPods::reject`].
    #[must_use]
    pub fn reject_waiting(&self, pod: PodUid, plugin: Symbol, message: &str) -> bool {
        self.waiting
            .get()
            .is_some_and(|waiting| waiting.reject(pod, plugin, message))
    }

    /// See [`WaitingPods::list`].
    #[must_use]
    pub fn waiting(&self) -> Vec<PodUid> {
        self.waiting.get().map(|waiting| waiting.list()).unwrap_or_default()
    }

    /// See [`Activate::activate`].
    pub fn activate(&self, pods: &[PodUid]) {
        if let Some(queue) = self.activate.get() {
            queue.activate(pods);
        }
    }
}
