//! Reserve, Unreserve, Permit, and what the binding pool asks of a profile.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::PodInfo;
use crate::framework::{Code, CycleState, Plugin, Profile, Status};
use crate::ids::Symbol;

/// The longest wait at Permit.
pub const MAX_PERMIT_WAIT: Duration = Duration::from_secs(15 * 60);

/// How Permit ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PermitRun {
    /// The pod may be bound once each of these plugins allows it; none: at once.
    Proceed(Vec<(Symbol, Duration)>),
    /// Rejected, or something failed.
    Ended(Status),
}

impl Profile {
    /// Runs Reserve in order; the first that does not succeed ends it. The caller then runs [`Self::run_unreserve`].
    ///
    /// # Errors
    /// The rejection with its plugin, or the failure.
    pub fn run_reserve(&self, state: &mut CycleState, pod: &PodInfo, node: Symbol) -> Result<(), Status> {
        for plugin in &self.reserve {
            let Some(reserve) = plugin.reserve() else { continue };
            let status = reserve.reserve_pod(state, pod, node);
            if status.is_rejected() {
                return Err(status.by(plugin.name()));
            }
            if !status.is_success() {
                let (name, text) = (plugin.name(), status.message());
                return Err(Status::error(format!("running Reserve plugin {name:?}: {text}")));
            }
        }
        Ok(())
    }

    /// Runs Unreserve of every Reserve plugin, last first.
    pub fn run_unreserve(&self, state: &mut CycleState, pod: &PodInfo, node: Symbol) {
        for reserve in self.reserve.iter().rev().filter_map(|plugin| plugin.reserve()) {
            reserve.unreserve_pod(state, pod, node);
        }
    }

    /// Runs Permit.
    #[must_use]
    pub fn run_permit(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> PermitRun {
        let mut waits = Vec::new();
        for plugin in &self.permit {
            let Some(permit) = plugin.permit() else { continue };
            let name = plugin.name();
            let (status, timeout) = permit.permit_pod(state, pod, node);
            match status.code {
                Code::Success => {}
                Code::Wait => waits.push((name, timeout.min(MAX_PERMIT_WAIT))),
                Code::Unschedulable | Code::UnschedulableAndUnresolvable | Code::Pending => {
                    return PermitRun::Ended(status.by(name));
                }
                Code::Error | Code::Skip => {
                    let text = status.message();
                    return PermitRun::Ended(Status::error(format!("running Permit plugin {name:?}: {text}")));
                }
            }
        }
        PermitRun::Proceed(waits)
    }

    /// PreBind plugins in order.
    #[must_use]
    pub fn pre_bind_plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.pre_bind
    }

    /// Bind plugins in order.
    #[must_use]
    pub fn bind_plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.bind
    }

    /// PostBind plugins in order.
    #[must_use]
    pub fn post_bind_plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.post_bind
    }
}
