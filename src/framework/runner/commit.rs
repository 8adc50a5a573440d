//! Reserve, Unreserve, Permit, and what the binding pool asks of a profile.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{Code, CycleState, Plugin, Profile, Status};
use crate::ids::Symbol;
use crate::telemetry::ExtensionPoint;

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

impl PermitRun {
    const fn code(&self) -> Code {
        match self {
            Self::Proceed(waits) if waits.is_empty() => Code::Success,
            Self::Proceed(_) => Code::Wait,
            Self::Ended(status) => status.code,
        }
    }
}

impl Profile {
    /// Runs Reserve in order; the first that does not succeed ends it. The caller then runs [`Self::run_unreserve`].
    ///
    /// # Errors
    /// The rejection with its plugin, or the failure.
    pub fn run_reserve(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Result<(), Status> {
        self.timed(
            ExtensionPoint::Reserve,
            self.reserve.len(),
            || self.reserve_plugins(cluster, state, pod, node),
            code_of,
        )
    }

    fn reserve_plugins(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Result<(), Status> {
        let mut laps = self.plugin_stopwatch(state);
        for plugin in &self.reserve {
            let Some(reserve) = plugin.reserve() else { continue };
            let status = reserve.reserve_pod(cluster, state, pod, node);
            laps.plugin(plugin.name(), ExtensionPoint::Reserve, status.code);
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
        let unreserve = || {
            let mut laps = self.plugin_stopwatch(state);
            for plugin in self.reserve.iter().rev() {
                let Some(reserve) = plugin.reserve() else { continue };
                reserve.unreserve_pod(state, pod, node);
                laps.plugin(plugin.name(), ExtensionPoint::Unreserve, Code::Success);
            }
        };
        self.timed(ExtensionPoint::Unreserve, self.reserve.len(), unreserve, |()| {
            Code::Success
        });
    }

    /// Runs Permit.
    #[must_use]
    pub fn run_permit(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> PermitRun {
        self.timed(
            ExtensionPoint::Permit,
            self.permit.len(),
            || self.permit_plugins(state, pod, node),
            PermitRun::code,
        )
    }

    fn permit_plugins(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> PermitRun {
        let mut laps = self.plugin_stopwatch(state);
        let mut waits = Vec::new();
        for plugin in &self.permit {
            let Some(permit) = plugin.permit() else { continue };
            let name = plugin.name();
            let (status, timeout) = permit.permit_pod(state, pod, node);
            laps.plugin(name, ExtensionPoint::Permit, status.code);
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

/// The code of an outcome whose failure is a status.
pub(super) fn code_of<T>(outcome: &Result<T, Status>) -> Code {
    outcome.as_ref().map_or_else(|status| status.code, |_| Code::Success)
}
