//! The text page that Prometheus scrapes (exposition format 0.0.4, as kube-scheduler serves it).
//!
//! Does not: run often; a scrape allocates freely.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::cells::HistogramView;
use super::exposition::Exposition;
use super::metrics::Metrics;
use super::process;

/// `Content-Type` of the page.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Label names with values; written in the order of their names, as client_golang does.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Counters carry no exemplars; the encoder wants a type for them.
type NoExemplar = Exemplar<Labels<'static>, f64>;

/// Writes families to a page; a family without samples leaves no trace, nor does one that is disabled.
#[derive(Debug)]
pub(super) struct Page<'e> {
    encoder: DescriptorEncoder<'e>,
    exposition: Arc<Exposition>,
}

impl Page<'_> {
    /// Writes a family of counters; `name` is without `_total`.
    pub(super) fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> std::fmt::Result {
        let shown_name = format!("{name}_total");
        let samples = self.samples(&shown_name, samples, |sum, value| *sum = sum.wrapping_add(value));
        if samples.is_empty() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            family
                .encode_family(&labels)?
                .encode_counter(&value, None::<&NoExemplar>)?;
        }
        Ok(())
    }

    /// Writes a family of gauges.
    pub(super) fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, i64)>,
    ) -> std::fmt::Result {
        let samples = self.samples(name, samples, |sum, value| *sum = sum.wrapping_add(value));
        if samples.is_empty() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a family of histograms.
    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, HistogramView)>,
    ) -> std::fmt::Result {
        let samples = self.samples(name, samples, |sum, view| sum.add(&view));
        if samples.is_empty() {
            return Ok(());
        }
        let mut family = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, view) in samples {
            family.encode_family(&labels)?.encode_histogram::<Labels<'static>>(
                view.sum,
                view.count,
                &view.buckets,
                None,
            )?;
        }
        Ok(())
    }

    /// Writes one number that may have a fraction, as a gauge or (`name` without `_total`) a counter.
    pub(super) fn number(&mut self, name: &str, help: &str, kind: MetricType, value: f64) -> std::fmt::Result {
        let is_counter = kind == MetricType::Counter;
        let shown_name = format!("{name}{}", if is_counter { "_total" } else { "" });
        if self.exposition.hides(&shown_name) {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        if is_counter {
            family.encode_counter(&value, None::<&NoExemplar>)
        } else {
            family.encode_gauge(&value)
        }
    }

    /// What is shown of a family.
    fn samples<'a, V>(
        &self,
        name: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, V)>,
        add: impl Fn(&mut V, V),
    ) -> Vec<(Labels<'a>, V)> {
        if self.exposition.hides(name) {
            return Vec::new();
        }
        self.exposition.constrain(name, samples, add)
    }
}

/// Which families a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection {
    All,
    HealthChecks,
}

#[derive(Debug)]
struct Source {
    metrics: Arc<Metrics>,
    selection: Selection,
}

impl Collector for Source {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut page = Page {
            encoder,
            exposition: Arc::clone(self.metrics.exposition_rules()),
        };
        match self.selection {
            Selection::All => {
                self.metrics.write(&mut page)?;
                process::write(&mut page)
            }
            Selection::HealthChecks => self.metrics.write_slis(&mut page),
        }
    }
}

fn text(metrics: &Arc<Metrics>, selection: Selection) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Source {
        metrics: Arc::clone(metrics),
        selection,
    }));
    let mut page = String::new();
    // Writing to a string cannot fail; an error could only come from the encoder and leaves what was written so far.
    if prometheus_text::encode(&mut page, &registry).is_err() {
        tracing::error!("metrics could not be written");
    }
    page
}

impl Metrics {
    /// The page for `/metrics`: every family that has a value. O(cells in use).
    #[must_use]
    pub fn exposition(self: &Arc<Self>) -> String {
        text(self, Selection::All)
    }

    /// The page for `/metrics/slis`: the health checks alone.
    #[must_use]
    pub fn slis_exposition(self: &Arc<Self>) -> String {
        text(self, Selection::HealthChecks)
    }
}
