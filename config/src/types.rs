//! The effective top-level configuration, as the scheduler reads it.
//!
//! Every value is defaulted and checked. Only [`ClientConnection`] remembers what was left out, because a rate limit
//! that was not asked for is not applied.
//!
//! Does not: decode or print (see [`crate::load`], [`crate::print`]).

use std::time::Duration;

use crate::extender::Extender;
use crate::profile::Profile;

/// API group and version of the file format.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// Kind of the file format.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// An effective `KubeSchedulerConfiguration`.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Concurrency that kube-scheduler would use inside a cycle, at least 1. Read for compatibility.
    pub parallelism: u32,
    /// Who may be active among replicas.
    pub leader_election: LeaderElection,
    /// How to reach the API server.
    pub client_connection: ClientConnection,
    /// Whether profiling endpoints are served.
    pub enable_profiling: bool,
    /// Whether lock contention is profiled.
    pub enable_contention_profiling: bool,
    /// Percentage, 0..=100; 0 means adaptive. Accepted and shown; every node is scored whatever it says.
    pub percentage_of_nodes_to_score: u32,
    /// First backoff of a pod after a failed attempt, whole seconds, at least 1 s.
    pub pod_initial_backoff: Duration,
    /// Longest backoff of a pod, whole seconds, at least `pod_initial_backoff`.
    pub pod_max_backoff: Duration,
    /// Profiles, at least one, with unique names.
    pub profiles: Vec<Profile>,
    /// Extenders in file order.
    pub extenders: Vec<Extender>,
    /// Whether watches start only once this replica leads.
    pub delay_cache_until_active: bool,
}

/// Leader election by a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether to take part; without it this replica is always active.
    pub leader_elect: bool,
    /// How long others wait after the last renewal before they take over.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Pause between attempts to take or renew.
    pub retry_period: Duration,
    /// Kind of lock; always `leases` when `leader_elect` is set.
    pub resource_lock: String,
    /// Name of the Lease.
    pub resource_name: String,
    /// Namespace of the Lease.
    pub resource_namespace: String,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_lock: "leases".to_owned(),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

/// The client's side of the connection to the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConnection {
    /// Path of a kubeconfig; empty means in-cluster.
    pub kubeconfig: String,
    /// `Accept` header, empty for the client's own choice.
    pub accept_content_types: String,
    /// `Content-Type` that kube-scheduler would send. Accepted and shown.
    pub content_type: String,
    /// Requests a second, if it was given. Negative means no limit.
    pub qps: Option<f32>,
    /// Requests at once above `qps`, if it was given.
    pub burst: Option<u32>,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: None,
            burst: None,
        }
    }
}

/// A client-side limit on the rate of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests a second, above 0.
    pub qps: f32,
    /// Requests at once, at least 1.
    pub burst: u32,
}

impl ClientConnection {
    /// kube-scheduler's default rate, used for the half that was left out when only the other was given.
    pub const DEFAULT_QPS: f32 = 50.0;
    /// kube-scheduler's default burst.
    pub const DEFAULT_BURST: u32 = 100;

    /// The limit to apply, or `None`: neither value was given, or `qps` is negative.
    ///
    /// kube-scheduler applies 50/100 when nothing is given; we rely on the API server's priority and fairness.
    pub fn rate_limit(&self) -> Option<RateLimit> {
        if self.qps.is_none() && self.burst.is_none() {
            return None;
        }
        let qps = self.qps.unwrap_or(Self::DEFAULT_QPS);
        if qps < 0.0 {
            return None;
        }
        let burst = self.burst.unwrap_or(Self::DEFAULT_BURST).max(1);
        Some(RateLimit { qps, burst })
    }
}

impl Configuration {
    /// The profile that schedules pods with this `schedulerName`. O(profiles).
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles
            .iter()
            .find(|profile| profile.scheduler_name == scheduler_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(qps: Option<f32>, burst: Option<u32>) -> Option<(f32, u32)> {
        let connection = ClientConnection {
            qps,
            burst,
            ..ClientConnection::default()
        };
        connection.rate_limit().map(|limit| (limit.qps, limit.burst))
    }

    #[test]
    fn rate_limit_applies_only_when_asked_for() {
        assert_eq!(limit(None, None), None);
        assert_eq!(limit(Some(-1.0), None), None);
        assert_eq!(limit(Some(-1.0), Some(5)), None);
        assert_eq!(limit(Some(20.0), None), Some((20.0, 100)));
        assert_eq!(limit(None, Some(7)), Some((50.0, 7)));
        assert_eq!(limit(Some(20.0), Some(0)), Some((20.0, 1)));
    }
}
