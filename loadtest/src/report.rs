//! What runs and comparisons report, as JSON and for people.
//!
//! Does not: measure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::target::TargetKind;

/// The report of one run.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// The API server.
    pub target: TargetKind,
    /// The scheduler: `supercargo`, `kube-scheduler` or `bare-client`.
    pub scheduler: String,
    /// The workload's name.
    pub workload: String,
    /// Nodes created.
    pub nodes: usize,
    /// Pods created.
    pub pods: usize,
    /// Pods with a node at the end.
    pub bound: usize,
    /// Pods without a node and with PodScheduled=False at the end.
    pub unschedulable: usize,
    /// Pods that are neither bound nor unschedulable, or that no longer exist.
    pub lost_pods: usize,
    /// Pods that were deleted and are not gone at the end: what whoever plays the nodes had not come to.
    pub simulator_backlog: usize,
    /// Nodes whose capacity the pods bound in this run exceed.
    pub overcommitted_nodes: usize,
    /// `(bound − 1) / (last − first)`, by the harness's watch.
    pub pods_per_second: f64,
    /// Creation to bind; null when pods were created beforehand.
    pub latency_ms: Option<Latency>,
    /// The scheduler process's user and system time from its start until its last event was written.
    pub cpu_seconds: Option<f64>,
    /// The most resident memory that the scheduler process had.
    pub rss_bytes: Option<u64>,
    /// Scheduled and FailedScheduling Events at the end.
    pub events_written: u64,
    /// From the last bind to the last event.
    pub drain_seconds: f64,
    /// From the scheduler's start to the first bind.
    pub startup_seconds: f64,
    /// How often the harness's watch broke (moments of that time are late).
    pub watch_interruptions: u32,
    /// What of the target was changed for the measurement.
    pub target_notes: &'static str,
    /// Where pods make room for themselves: what came of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

/// What came of a run in which pods make room for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Preemption {
    /// Pods that went.
    pub victims: usize,
    /// Those of them beyond what the bound pods needed: room that was made for nobody.
    pub victims_in_vain: usize,
    /// PostFilter runs that nominated a node, by the scheduler's own histogram.
    pub nominations: f64,
    /// These runs over the seconds that they took.
    pub nominations_per_second: f64,
    /// Bound pods over the seconds from the first nomination to the last binding, by the harness's watch.
    pub preemptors_per_second: f64,
}

/// Percentiles in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// Percentiles (nearest rank) of unsorted milliseconds; `None` without any.
    #[must_use]
    pub fn of(mut millis: Vec<f64>) -> Option<Self> {
        millis.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (millis.len() * percent).div_ceil(100).max(1);
            millis.get(rank - 1).copied()
        };
        Some(Self {
            p50: at(50)?,
            p90: at(90)?,
            p99: at(99)?,
            max: at(100)?,
        })
    }
}

impl RunReport {
    /// Whether the end is as it must be: no pod is lost, no node holds too much, nobody went in vain.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let in_vain = self.preemption.map_or(0, |preemption| preemption.victims_in_vain);
        self.lost_pods == 0 && self.overcommitted_nodes == 0 && in_vain == 0
    }

    /// A few lines for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!(
            "{} on {:?}, {}: {} nodes, {} pods\n  bound {} ({:.0} pods/s), unschedulable {}, lost {}, overcommitted nodes {}\n",
            self.scheduler,
            self.target,
            self.workload,
            self.nodes,
            self.pods,
            self.bound,
            self.pods_per_second,
            self.unschedulable,
            self.lost_pods,
            self.overcommitted_nodes
        );
        if let Some(Latency { p50, p90, p99, max }) = self.latency_ms {
            let _infallible = writeln!(
                text,
                "  creation to bind: p50 {p50:.1} ms, p90 {p90:.1}, p99 {p99:.1}, max {max:.1}"
            );
        }
        if let Some(Preemption {
            victims,
            victims_in_vain,
            nominations,
            nominations_per_second,
            preemptors_per_second,
        }) = self.preemption
        {
            let _infallible = writeln!(
                text,
                "  preemption: {preemptors_per_second:.0} pods/s from the first nomination on, {victims} victims, \
                 {victims_in_vain} in vain, {nominations:.0} nominations at {nominations_per_second:.0}/s"
            );
        }
        if self.simulator_backlog > 0 {
            let _infallible = writeln!(
                text,
                "  simulator backlog: {} pods were deleted and are not gone",
                self.simulator_backlog
            );
        }
        if let (Some(cpu), Some(rss)) = (self.cpu_seconds, self.rss_bytes) {
            let mib = rss >> 20;
            let _infallible = writeln!(
                text,
                "  scheduler: {cpu:.2} s of CPU, {mib} MiB; {} events, the last {:.1} s after the last bind",
                self.events_written, self.drain_seconds
            );
        }
        text
    }
}

/// One side of a comparison: medians of its runs.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Median rate.
    pub pods_per_second: f64,
    /// Where pods make room for themselves: median rate of PostFilter runs that nominated a node, in process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominations_per_second: Option<f64>,
    /// Median CPU time of the scheduler process, in seconds.
    pub cpu_seconds: f64,
    /// Median of CPU milliseconds for each bound pod.
    pub cpu_ms_per_pod: f64,
    /// Median peak of resident memory.
    pub rss_bytes: u64,
    /// Bound pods of each run.
    pub bound: Vec<usize>,
    /// The runs.
    pub runs: Vec<RunReport>,
}

/// The bare client's side.
#[derive(Debug, Clone, Serialize)]
pub struct BareSide {
    /// Median rate.
    pub pods_per_second: f64,
    /// The rate of each run.
    pub runs: Vec<f64>,
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// The API server.
    pub target: TargetKind,
    /// Nodes created.
    pub nodes: usize,
    /// Pods created.
    pub pods: usize,
    /// Supercargo's side.
    pub supercargo: Side,
    /// kube-scheduler's side.
    pub kube_scheduler: Side,
    /// The bare client's side.
    pub bare_client: BareSide,
    /// Supercargo's rate over kube-scheduler's.
    pub ratio: f64,
    /// Where pods make room for themselves: Supercargo's nominations a second in process over kube-scheduler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_ratio: Option<f64>,
    /// Supercargo's CPU seconds for a pod over kube-scheduler's.
    pub cpu_ratio: f64,
    /// Supercargo's rate over the bare client's.
    pub bare_ratio: f64,
    /// Median of Supercargo's bound pods over kube-scheduler's.
    pub bound_ratio: f64,
}

/// A comparison's report.
#[derive(Debug, Clone, Serialize)]
pub struct CompareReport {
    /// One row a workload.
    pub rows: Vec<Row>,
}

impl CompareReport {
    /// Whether every run of Supercargo ended as it must ([`RunReport::is_sound`]).
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.supercargo.runs.iter().all(RunReport::is_sound))
    }

    /// A table for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let Row {
                workload,
                nodes,
                pods,
                supercargo,
                kube_scheduler,
                bare_client,
                ..
            } = row;
            let _infallible = writeln!(
                text,
                "{workload} on {:?}: {nodes} nodes, {pods} pods (medians)",
                row.target
            );
            for (name, side) in [("supercargo", supercargo), ("kube-scheduler", kube_scheduler)] {
                let _infallible = writeln!(
                    text,
                    "  {name:<15} {:>8.0} pods/s  {:>7.3} ms CPU a pod  {:>5} MiB  bound {:?}",
                    side.pods_per_second,
                    side.cpu_ms_per_pod,
                    side.rss_bytes >> 20,
                    side.bound
                );
            }
            let _infallible = writeln!(
                text,
                "  {:<15} {:>8.0} pods/s\n  supercargo is {:.2} x kube-scheduler at {:.3} x its CPU a pod, {:.0}% of the bare client; \
                 bound pods {:.4} x",
                "bare client",
                bare_client.pods_per_second,
                row.ratio,
                row.cpu_ratio,
                row.bare_ratio * 100.0,
                row.bound_ratio
            );
            if let Some(engine) = row.engine_ratio {
                let _infallible = writeln!(
                    text,
                    "  nominations a second in process: {:.0} and {:.0}, {engine:.2} x",
                    supercargo.nominations_per_second.unwrap_or(0.0),
                    kube_scheduler.nominations_per_second.unwrap_or(0.0)
                );
            }
            for run in supercargo.runs.iter().filter(|run| !run.is_sound()) {
                let _infallible = write!(text, "  NOT SOUND: {}", run.summary());
            }
        }
        text
    }
}

/// The median; the lower of the two middle ones for an even number; zero for none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// `a / b`, zero when `b` is.
#[must_use]
pub fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_three_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(Vec::new()).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn percentiles_are_of_nearest_rank() {
        let latency = Latency::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            latency,
            Latency {
                p50: 100.0,
                p90: 180.0,
                p99: 198.0,
                max: 200.0
            }
        );
        assert!(Latency::of(Vec::new()).is_none());
    }
}
