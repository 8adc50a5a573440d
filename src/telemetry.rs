//! What the scheduler tells about itself: metrics, traces, logs and latency summaries.
//!
//! [`Metrics`] is made once and shared by `Arc`; every recorder method is a few relaxed atomic additions on a cell that
//! was found by index, so it may be called from a worker's cycle. Names, labels and buckets are kube-scheduler 1.36's
//! where the meaning is; our own metrics start with `supercargo_`.
//!
//! Does not: decide anything, read a clock, or hold a lock while something is recorded. Scrapes read the cells without
//! stopping the writers, so a scrape may see a histogram whose sum is one observation ahead of its buckets.
//!
//! Cost a pod: about 15 recorder calls of some 25 ns each (a counter and a histogram together took 50 ns on one core of a
//! busy two-core AMD EPYC); tracing costs one load while it is off.
//!
//! Children in reading order: `labels` (the enumerations behind label values), `cells` (sharded counters and
//! histograms), `names` (growing sets of label values), `metrics` (the recorders), `exposition` (what the page leaves
//! out), `encode` (the text page), `process` (`process_*`), `logging`, `streams` and `trace` (the `tracing` subscriber),
//! `latency` (summaries for people), `error_text` (errors as one line).

mod cells;
mod encode;
mod error_text;
mod exposition;
mod labels;
mod latency;
mod logging;
mod metrics;
mod names;
mod process;
mod streams;
mod trace;

pub use encode::CONTENT_TYPE;
pub use error_text::error_text;
pub use exposition::{AllowedValues, Exposition};
pub use labels::{
    AttemptResult, CacheKind, EngineMode, EvaluationPoint, ExtensionPoint, HealthEndpoint, HealthOutcome, HintOutcome,
    HttpVerb, Outcome, QueueKind, StatusLabel, VolumeStage,
};
pub use latency::{LatencyRecorder, LatencySummary};
pub use logging::{LogFormat, LogOptions, LogOutput, TelemetryError, TelemetryGuard, init};
pub use metrics::{
    EvaluationSet, EventLabel, ExtenderVerb, FeatureState, MAX_PROFILES, Metrics, MetricsOptions, OperationGuard,
    OperationLabel,
};
pub use process::{ProcessUsage, process_usage};
pub use trace::{TraceOptions, bind_span, cycle_span};
