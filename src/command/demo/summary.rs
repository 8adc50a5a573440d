//! The summary at the end of a demo, for people or as one JSON object.

use std::io::Write as _;
use std::time::Duration;

use crate::scheduler::Scheduler;
use crate::telemetry::process_usage;
use serde::Serialize;
use supercargo_apiserver::check::EndState;

use super::PlanSize;
use super::progress::Seen;

/// Percentiles of the time from creation to bind, in milliseconds.
#[derive(Debug, Serialize)]
struct LatencyMillis {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// How a demo went. CPU and memory are those of the whole process: API server and hollow nodes live in it too.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    target: &'static str,
    scheduler: &'static str,
    workload: &'static str,
    nodes: usize,
    pods: usize,
    bound: usize,
    unschedulable: usize,
    lost_pods: usize,
    overcommitted_nodes: usize,
    pods_per_second: f64,
    latency_ms: Option<LatencyMillis>,
    cpu_seconds: f64,
    rss_bytes: u64,
    events_written: u64,
    drain_seconds: f64,
}

impl Summary {
    pub(super) fn new(size: &PlanSize, state: &EndState, seen: &Seen, scheduler: &Scheduler, drain: Duration) -> Self {
        let usage = process_usage().unwrap_or_default();
        Self {
            target: "embedded",
            scheduler: "supercargo",
            workload: "basic",
            nodes: size.nodes,
            pods: size.pods,
            bound: state.bound,
            unschedulable: state.unschedulable,
            lost_pods: state.lost,
            overcommitted_nodes: state.overcommitted_nodes(),
            pods_per_second: seen.rate(),
            latency_ms: seen.latency.summary().map(|summary| LatencyMillis {
                p50: summary.p50_millis,
                p90: summary.p90_millis,
                p99: summary.p99_millis,
                max: summary.max_millis,
            }),
            cpu_seconds: usage.cpu_seconds,
            rss_bytes: usage.resident_bytes,
            events_written: scheduler.metrics().events_written_total(),
            drain_seconds: drain.as_secs_f64(),
        }
    }

    /// Whether every pod that was planned is accounted for.
    pub(super) const fn is_complete(&self) -> bool {
        self.bound + self.unschedulable == self.pods
    }

    /// Prints to standard output.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
            return Ok(());
        }
        writeln!(
            out,
            "bound           {} of {} pods on {} nodes",
            self.bound, self.pods, self.nodes
        )?;
        writeln!(out, "unschedulable   {}", self.unschedulable)?;
        writeln!(out, "rate            {:.0} pods/s", self.pods_per_second)?;
        if let Some(latency) = &self.latency_ms {
            writeln!(
                out,
                "creation→bind   p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
                latency.p50, latency.p90, latency.p99, latency.max
            )?;
        }
        writeln!(
            out,
            "CPU             {:.2} s (API server and hollow nodes included)",
            self.cpu_seconds
        )?;
        #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
        writeln!(out, "memory          {:.1} MiB", self.rss_bytes as f64 / 1_048_576.0)?;
        writeln!(
            out,
            "events          {} written, the last {:.2} s after the end",
            self.events_written, self.drain_seconds
        )?;
        Ok(())
    }
}
