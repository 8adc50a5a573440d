//! Latency summaries for people: exact percentiles of a run (`supercargo demo`).
//!
//! Does not: feed `/metrics`, whose histograms have fixed buckets.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest latency told apart, in microseconds: one hour. Longer ones count as one hour.
const MAX_MICROS: u64 = 3_600_000_000;

/// Collects latencies on one thread; recorders of several threads are merged at the end. About 180 KB.
#[derive(Debug, Clone)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
}

/// Percentiles in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySummary {
    /// Number of latencies.
    pub count: u64,
    /// Half were at most this.
    pub p50_millis: f64,
    /// Nine of ten were at most this.
    pub p90_millis: f64,
    /// 99 of 100 were at most this.
    pub p99_millis: f64,
    /// None was longer.
    pub max_millis: f64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyRecorder {
    /// An empty recorder with three significant digits between 1 µs and one hour.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "the bounds are constants; a test makes a recorder")]
        let histogram = Histogram::new_with_bounds(1, MAX_MICROS, 3).expect("1 µs to 1 h with three digits is valid");
        Self { histogram }
    }

    /// Records one latency.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MAX_MICROS);
        self.histogram.saturating_record(micros.clamp(1, MAX_MICROS));
    }

    /// Adds the latencies of another recorder.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so adding cannot fail.
        if self.histogram.add(&other.histogram).is_err() {
            tracing::error!("latency recorders of different bounds");
        }
    }

    /// The percentiles; `None` when nothing was recorded.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.histogram.is_empty() {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 3.6e9")]
        let millis = |micros: u64| micros as f64 / 1000.0;
        Some(LatencySummary {
            count: self.histogram.len(),
            p50_millis: millis(self.histogram.value_at_quantile(0.5)),
            p90_millis: millis(self.histogram.value_at_quantile(0.9)),
            p99_millis: millis(self.histogram.value_at_quantile(0.99)),
            max_millis: millis(self.histogram.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_three_digits() {
        let mut first = LatencyRecorder::new();
        let mut second = LatencyRecorder::new();
        for millis in 1..=50 {
            first.record(Duration::from_millis(millis));
            second.record(Duration::from_millis(millis + 50));
        }
        first.merge(&second);
        let summary = first.summary().unwrap();
        assert_eq!(summary.count, 100);
        assert!((summary.p50_millis - 50.0).abs() < 0.05, "{summary:?}");
        assert!((summary.p99_millis - 99.0).abs() < 0.1, "{summary:?}");
        assert!((summary.max_millis - 100.0).abs() < 0.1, "{summary:?}");
    }

    #[test]
    fn nothing_recorded_has_no_percentiles_and_long_latencies_saturate() {
        let mut recorder = LatencyRecorder::new();
        assert_eq!(recorder.summary(), None);
        recorder.record(Duration::from_secs(1_000_000));
        assert!(recorder.summary().unwrap().max_millis >= 3_600_000.0);
    }
}
