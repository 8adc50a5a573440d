//! Pods whose PreBind is under way: it can still be stopped without a call to the API server when their place is wanted
//! for a pod of higher priority.
//!
//! Source: `pkg/scheduler/framework/runtime/pods_in_prebind_map.go`, Kubernetes 1.36.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::ids::{PodUid, Symbol};
use crate::sync::Mutex;

#[derive(Debug, Default)]
struct Entry {
    cancelled: CancellationToken,
    by: Option<Symbol>,
}

/// The pods whose PreBind is under way.
#[derive(Debug, Default)]
pub(super) struct PreBinding(Mutex<FxHashMap<PodUid, Entry>>);

/// One pod's PreBind, until it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    all: Arc<PreBinding>,
    pod: PodUid,
    cancelled: CancellationToken,
}

impl PreBinding {
    /// A pod's PreBind begins.
    pub(super) fn enter(self: &Arc<Self>, pod: PodUid) -> Entered {
        let entry = Entry::default();
        let cancelled = entry.cancelled.clone();
        self.0.lock().insert(pod, entry);
        Entered {
            all: Arc::clone(self),
            pod,
            cancelled,
        }
    }

    /// Whether a pod's PreBind is under way.
    #[cfg(test)]
    pub(super) fn is_entered(&self, pod: PodUid) -> bool {
        self.0.lock().contains_key(&pod)
    }

    /// Stops a pod's PreBind on behalf of a plugin; false: none is under way.
    pub(super) fn cancel(&self, pod: PodUid, plugin: Symbol) -> bool {
        let mut all = self.0.lock();
        let Some(entry) = all.get_mut(&pod) else { return false };
        entry.by.get_or_insert(plugin);
        entry.cancelled.cancel();
        true
    }
}

impl Entered {
    /// Until it is stopped.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The PreBind is over and can be stopped no more; the plugin that had it stopped before.
    pub(super) fn leave(self) -> Option<Symbol> {
        let entry = self.all.0.lock().remove(&self.pod);
        entry.and_then(|entry| entry.by)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.pod);
    }
}
