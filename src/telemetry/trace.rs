//! Spans of cycles and binds, sampled before they are made.
//!
//! A span that is not sampled is [`Span::none`]: it costs one relaxed load and, while tracing is on, one step of a small
//! generator of the thread's own. The generator decides about telemetry only, never about placement.
//!
//! Does not: trace nodes or plugins; a cycle's fields say what the phases took.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::logging::TelemetryError;

/// Target of the spans for the collector; log lines leave it out.
pub(super) const TARGET: &str = "supercargo_trace";

/// Longest wait for the collector to take a batch.
const EXPORT_DEADLINE: Duration = Duration::from_secs(5);

/// Share of cycles that are sampled, in 2^-64; 0 is off.
static THRESHOLD: AtomicU64 = AtomicU64::new(0);

/// Where spans go and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOptions {
    /// OTLP over gRPC, for example `http://otel-collector:4317`.
    pub endpoint: String,
    /// Share of pods whose cycle and bind are traced, 0 to 1.
    pub ratio: f64,
}

/// The exporter with its batch thread.
pub(super) fn provider(options: &TraceOptions) -> Result<SdkTracerProvider, TelemetryError> {
    if !(0.0..=1.0).contains(&options.ratio) {
        return Err(TelemetryError::Ratio(options.ratio));
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(options.endpoint.clone())
        .with_timeout(EXPORT_DEADLINE)
        .build()
        .map_err(|source| TelemetryError::Exporter {
            endpoint: options.endpoint.clone(),
            source,
        })?;
    Ok(SdkTracerProvider::builder()
        .with_resource(resource())
        .with_batch_exporter(exporter)
        .build())
}

fn resource() -> Resource {
    Resource::builder()
        .with_service_name("supercargo")
        .with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ))
        .build()
}

/// The layer that hands our spans, and nothing else, to the provider.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let tracer = provider.tracer("supercargo");
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_filter(filter_fn(|metadata| metadata.target() == TARGET))
}

/// Sets the share of cycles that are sampled; clamped to 0 to 1.
pub(super) fn set_ratio(ratio: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped; `as` saturates"
    )]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let threshold = (ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
    THRESHOLD.store(threshold, Ordering::Relaxed);
}

thread_local! {
    static GENERATOR: Cell<u64> = const { Cell::new(0) };
}

/// Whether this cycle is one of the sampled ones.
fn sampled() -> bool {
    let threshold = THRESHOLD.load(Ordering::Relaxed);
    threshold != 0 && next_random() <= threshold
}

/// The next number of this thread's SplitMix64 (Steele, Lea and Flood, 2014), seeded by the cell's address.
fn next_random() -> u64 {
    GENERATOR.with(|cell| {
        let mut state = cell.get();
        if state == 0 {
            state = std::ptr::from_ref(cell).addr() as u64;
        }
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        cell.set(state);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A span for one scheduling cycle, or none when it is not sampled. Record `node`, `result`, `feasible` and `evaluated`
/// on it before it ends.
#[must_use]
pub fn cycle_span(namespace: &str, pod: &str, profile: &str) -> Span {
    if !sampled() {
        return Span::none();
    }
    tracing::info_span!(
        target: TARGET,
        "scheduling_cycle",
        "k8s.namespace.name" = namespace,
        "k8s.pod.name" = pod,
        profile,
        node = tracing::field::Empty,
        result = tracing::field::Empty,
        feasible = tracing::field::Empty,
        evaluated = tracing::field::Empty,
    )
}

/// A span for one bind, child of its cycle's span; none when the cycle was not sampled. Record `result` and `attempts`.
#[must_use]
pub fn bind_span(cycle: &Span, namespace: &str, pod: &str, node: &str) -> Span {
    if cycle.is_none() {
        return Span::none();
    }
    tracing::info_span!(
        target: TARGET,
        parent: cycle,
        "bind",
        "k8s.namespace.name" = namespace,
        "k8s.pod.name" = pod,
        "k8s.node.name" = node,
        result = tracing::field::Empty,
        attempts = tracing::field::Empty,
    )
}

#[cfg(test)]
mod tests;
