//! Spans reach an exporter, and only the sampled ones are made.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

#[derive(Debug, Clone, Default)]
struct Collected(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Collected {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        self.0.lock().extend(batch);
        std::future::ready(Ok(()))
    }
}

/// One test, because the ratio is the process's.
#[test]
fn sampled_spans_are_exported_and_others_are_never_made() {
    let collected = Collected::default();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource())
        .with_simple_exporter(collected.clone())
        .build();
    let subscriber = tracing_subscriber::registry().with(layer(&provider));
    tracing::subscriber::with_default(subscriber, || {
        set_ratio(0.0);
        assert!(cycle_span("ns", "off", "default-scheduler").is_none());

        set_ratio(1.0);
        let cycle = cycle_span("ns", "pod", "default-scheduler");
        let bind = bind_span(&cycle, "ns", "pod", "node-1");
        bind.record("result", "bound");
        assert!(bind_span(&Span::none(), "ns", "pod", "node-1").is_none());

        set_ratio(0.25);
        let made = (0..4000).filter(|_| sampled()).count();
        assert!((800..1200).contains(&made), "{made} of 4000 were sampled at 0.25");
        set_ratio(0.0);
    });
    provider.force_flush().unwrap();
    let spans = collected.0.lock();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["bind", "scheduling_cycle"]);
    assert_eq!(
        spans.first().unwrap().parent_span_id,
        spans.get(1).unwrap().span_context.span_id()
    );
    assert_eq!(THRESHOLD.load(Ordering::Relaxed), 0);
}

#[test]
fn a_ratio_above_one_is_refused() {
    let options = TraceOptions {
        endpoint: "http://127.0.0.1:4317".to_owned(),
        ratio: 1.5,
    };
    assert!(matches!(provider(&options), Err(TelemetryError::Ratio(_))));
}
