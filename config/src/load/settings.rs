//! Defaults and checks of [`Settings`].

use std::time::Duration;

use super::check::Cx;
use crate::duration::GoDuration;
use crate::error::FieldError;
use crate::settings::{Settings, TracingSettings};
use crate::wire::{WireSettings, WireTracing};

/// Share of cycles that are traced when an endpoint is given without a share.
const DEFAULT_SAMPLE_RATIO: f64 = 0.01;
/// Bounds of the deadline of one attempt to bind.
const BIND_DEADLINE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));

/// The effective settings. With errors noted in `cx` the result is not to be used.
pub(super) fn check(wire: WireSettings, cx: &mut Cx<'_>) -> Settings {
    let defaults = Settings::default();
    let workers = number(wire.workers, defaults.workers, (1, 1_024), "workers", cx);
    let binding_concurrency = number(
        wire.binding_concurrency,
        defaults.binding_concurrency,
        (1, 10_000),
        "bindingConcurrency",
        cx,
    );
    let assumed = binding_concurrency * Settings::ASSUMED_PODS_PER_BINDING;
    let max_assumed_pods = number(
        wire.max_assumed_pods,
        assumed,
        (binding_concurrency, 1_000_000),
        "maxAssumedPods",
        cx,
    );
    let event_queue_length = number(
        wire.event_queue_length,
        defaults.event_queue_length,
        (1, 10_000_000),
        "eventQueueLength",
        cx,
    );
    Settings {
        workers,
        binding_concurrency,
        max_assumed_pods,
        tie_break_seed: wire.tie_break_seed,
        bind_deadline: bind_deadline(wire.bind_deadline, defaults.bind_deadline, cx),
        event_queue_length,
        event_concurrency: number(
            wire.event_concurrency,
            defaults.event_concurrency,
            (1, 1_000),
            "eventConcurrency",
            cx,
        ),
        status_concurrency: number(
            wire.status_concurrency,
            defaults.status_concurrency,
            (1, 1_000),
            "statusConcurrency",
            cx,
        ),
        extender_concurrency: number(
            wire.extender_concurrency,
            defaults.extender_concurrency,
            (1, 1_000),
            "extenderConcurrency",
            cx,
        ),
        tracing: tracing(wire.tracing.unwrap_or_default(), cx),
    }
}

/// A count in `low..=high`.
fn number(value: Option<i64>, default: usize, (low, high): (usize, usize), path: &str, cx: &mut Cx<'_>) -> usize {
    let Some(value) = value else {
        return default.clamp(low, high);
    };
    match usize::try_from(value) {
        Ok(number) if (low..=high).contains(&number) => number,
        _ => {
            cx.invalid(path, value, format!("not in valid range [{low}, {high}]"));
            default.clamp(low, high)
        }
    }
}

fn bind_deadline(value: Option<GoDuration>, default: Duration, cx: &mut Cx<'_>) -> Duration {
    let Some(value) = value else { return default };
    let (low, high) = BIND_DEADLINE;
    match value.to_std() {
        Some(deadline) if (low..=high).contains(&deadline) => deadline,
        _ => {
            let (low, high) = (GoDuration::from(low), GoDuration::from(high));
            cx.invalid("bindDeadline", value, format!("not in valid range [{low}, {high}]"));
            default
        }
    }
}

fn tracing(wire: WireTracing, cx: &mut Cx<'_>) -> TracingSettings {
    let otlp_endpoint = wire.otlp_endpoint.unwrap_or_default();
    let given = !otlp_endpoint.is_empty();
    if given && !otlp_endpoint.starts_with("http://") && !otlp_endpoint.starts_with("https://") {
        cx.invalid(
            "tracing.otlpEndpoint",
            &otlp_endpoint,
            "must start with http:// or https://",
        );
    }
    let default = if given { DEFAULT_SAMPLE_RATIO } else { 0.0 };
    let sample_ratio = wire.sample_ratio.unwrap_or(default);
    if !(0.0..=1.0).contains(&sample_ratio) {
        cx.invalid("tracing.sampleRatio", sample_ratio, "not in valid range [0, 1]");
    } else if sample_ratio > 0.0 && !given {
        let detail = "sampleRatio is above 0, so traces need an endpoint such as http://localhost:4317";
        cx.push(FieldError::required("tracing.otlpEndpoint", detail));
    }
    TracingSettings {
        otlp_endpoint,
        sample_ratio,
    }
}
