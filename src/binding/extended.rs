//! Binds by extenders, in the place of the profile's Bind plugins.
//!
//! Source: `pkg/scheduler/schedule_one.go` (`extendersBinding`), Kubernetes 1.36. A call that failed may have bound the
//! pod all the same: the pod is read back before anything else is tried.

use super::attempt::Ending;
use super::pool::{BindingPool, shutting_down};
use crate::binding::{BindTask, Failure};
use crate::extender::{BindError, Binder};
use crate::framework::EXTENDER;

impl BindingPool {
    /// Has the extender bind that is interested in the pod. `None`: there is none, or it failed and may be ignored.
    pub(super) async fn bind_by_extender(&self, task: &BindTask) -> Option<Ending> {
        if self.extenders.is_empty() {
            return None;
        }
        for binder in self.extenders.binders(&task.queued.pod) {
            if let Some(ending) = self.forbidden(task, *EXTENDER).await {
                return Some(ending);
            }
            let Err(error) = self.ask_to_bind(task, binder).await else {
                return Some(Ending::Bound);
            };
            if error.is_unsure
                && let Some(ending) = self.read_back(task).await
            {
                return Some(ending);
            }
            if self.stopping.is_cancelled() {
                return Some(Ending::Failed(shutting_down()));
            }
            if !binder.is_ignorable() {
                return Some(Ending::Failed(Failure::Error(error.text)));
            }
            tracing::info!(
                extender = binder.url(),
                pod = task.queued.pod.full_name(),
                error = error.text,
                "an extender failed to bind and is passed over"
            );
        }
        None
    }

    async fn ask_to_bind(&self, task: &BindTask, binder: Binder<'_>) -> Result<(), BindError> {
        let pod = &task.queued.pod;
        let _lane = self.extender_lanes.acquire(pod.priority()).await;
        tokio::select! {
            biased;
            bound = binder.bind(pod, task.node) => bound,
            () = self.stopping.cancelled() => Err(BindError {
                text: "the scheduler is shutting down".to_owned(),
                is_unsure: true,
            }),
        }
    }
}
