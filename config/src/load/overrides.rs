//! Values from the command line that go over a file's.

use crate::duration::GoDuration;
use crate::wire::WireConfiguration;

/// Values given on the command line; `None` leaves the file's or the default.
///
/// Leader election flags always go over a file; the rest are deprecated flags, which a caller passes on only when there
/// is no file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--leader-elect`.
    pub leader_elect: Option<bool>,
    /// `--leader-elect-lease-duration`.
    pub lease_duration: Option<GoDuration>,
    /// `--leader-elect-renew-deadline`.
    pub renew_deadline: Option<GoDuration>,
    /// `--leader-elect-retry-period`.
    pub retry_period: Option<GoDuration>,
    /// `--leader-elect-resource-lock`.
    pub resource_lock: Option<String>,
    /// `--leader-elect-resource-name`.
    pub resource_name: Option<String>,
    /// `--leader-elect-resource-namespace`.
    pub resource_namespace: Option<String>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<String>,
    /// `--kube-api-content-type`.
    pub content_type: Option<String>,
    /// `--kube-api-qps`.
    pub qps: Option<f64>,
    /// `--kube-api-burst`.
    pub burst: Option<i32>,
    /// `--profiling`.
    pub profiling: Option<bool>,
    /// `--contention-profiling`.
    pub contention_profiling: Option<bool>,
}

impl Overrides {
    /// Puts the given values over a decoded file.
    pub(super) fn apply(&self, mut wire: WireConfiguration) -> WireConfiguration {
        let mut election = wire.leader_election.take().unwrap_or_default();
        over(&mut election.leader_elect, self.leader_elect.as_ref());
        over(&mut election.lease_duration, self.lease_duration.as_ref());
        over(&mut election.renew_deadline, self.renew_deadline.as_ref());
        over(&mut election.retry_period, self.retry_period.as_ref());
        over(&mut election.resource_lock, self.resource_lock.as_ref());
        over(&mut election.resource_name, self.resource_name.as_ref());
        over(&mut election.resource_namespace, self.resource_namespace.as_ref());
        wire.leader_election = Some(election);
        let mut connection = wire.client_connection.take().unwrap_or_default();
        over(&mut connection.kubeconfig, self.kubeconfig.as_ref());
        over(&mut connection.content_type, self.content_type.as_ref());
        over(&mut connection.qps, self.qps.as_ref());
        over(&mut connection.burst, self.burst.as_ref());
        wire.client_connection = Some(connection);
        over(&mut wire.enable_profiling, self.profiling.as_ref());
        over(
            &mut wire.enable_contention_profiling,
            self.contention_profiling.as_ref(),
        );
        wire
    }
}

fn over<T: Clone>(slot: &mut Option<T>, value: Option<&T>) {
    if let Some(value) = value {
        *slot = Some(value.clone());
    }
}
