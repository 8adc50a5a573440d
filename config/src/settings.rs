//! Supercargo's own settings, `SupercargoConfiguration` of `supercargo.io/v1alpha1`.
//!
//! They stand in a file of their own or in a further YAML document of the configuration file; without them everything
//! has a default. Nothing here changes which node is best for a pod.

use std::time::Duration;

/// API group and version of the file format.
pub const API_VERSION: &str = "supercargo.io/v1alpha1";
/// Kind of the file format.
pub const KIND: &str = "SupercargoConfiguration";

/// Effective settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Scheduling loops, 1..=1024; default: the cores that this process may use. With 1, decisions are in strict queue
    /// order.
    pub workers: usize,
    /// Bind calls in flight, 1..=10,000; default 64.
    pub binding_concurrency: usize,
    /// Pods assumed and not yet bound, `binding_concurrency`..=1,000,000; default 4 × `binding_concurrency`.
    pub max_assumed_pods: usize,
    /// Seed of the choice among equally good nodes; default: another one in each run.
    pub tie_break_seed: Option<u64>,
    /// Deadline of one attempt to bind, 100 ms..=1 h; default 30 s.
    pub bind_deadline: Duration,
    /// Events that wait to be written, 1..=10,000,000; more are dropped and counted; default 100,000.
    pub event_queue_length: usize,
    /// Event writes in flight, 1..=1,000; default 8.
    pub event_concurrency: usize,
    /// Pod status writes in flight, 1..=1,000; default 8.
    pub status_concurrency: usize,
    /// Pods that the same extenders are asked about at a time, and binds by extenders in flight, 1..=1,000; default 16.
    /// With 1, extenders are asked about one pod after another, as by kube-scheduler.
    pub extender_concurrency: usize,
    /// Traces.
    pub tracing: TracingSettings,
}

/// Where traces go and how many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracingSettings {
    /// OTLP/gRPC endpoint such as `http://localhost:4317`; empty: no traces.
    pub otlp_endpoint: String,
    /// Share of cycles that are traced, 0..=1; default 0.01 with an endpoint, 0 without.
    pub sample_ratio: f64,
}

impl Settings {
    /// Default number of bind calls in flight.
    pub const DEFAULT_BINDING_CONCURRENCY: usize = 64;
    /// Assumed pods for each bind call in flight: one in the call, one decided next, two in retries or waits.
    pub const ASSUMED_PODS_PER_BINDING: usize = 4;

    /// The cores that this process may use, at least 1.
    pub fn default_workers() -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: Self::default_workers(),
            binding_concurrency: Self::DEFAULT_BINDING_CONCURRENCY,
            max_assumed_pods: Self::DEFAULT_BINDING_CONCURRENCY * Self::ASSUMED_PODS_PER_BINDING,
            tie_break_seed: None,
            bind_deadline: Duration::from_secs(30),
            event_queue_length: 100_000,
            event_concurrency: 8,
            status_concurrency: 8,
            extender_concurrency: 16,
            tracing: TracingSettings::default(),
        }
    }
}
