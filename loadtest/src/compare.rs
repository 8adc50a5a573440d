//! Supercargo, kube-scheduler and the bare client on the same target in the same run: alternating, medians, ratios.
//!
//! Each round makes one run of each, every one on a fresh API server. The bare client posts the very bindings that
//! Supercargo made in that round, with as many in flight.
//!
//! Where pods make room for themselves the rates are those from the first nomination to the last binding (see
//! [`crate::preemption`]), the bare client makes the evictions too, and `engine_ratio` compares the schedulers' own
//! PostFilter times.
//!
//! Does not: judge the figures. Runs of Supercargo that do not end as they must are told in the report and by the exit
//! code.

use anyhow::Result;

use crate::bare::Placement;
use crate::measure::{Outcome, RunSpec, SchedulerKind, run};
use crate::report::{BareSide, CompareReport, Row, RunReport, Side, median, ratio};

/// Rounds whose medians are reported.
pub const ROUNDS: usize = 3;

/// Compares on one workload.
///
/// # Errors
/// When a run fails.
pub async fn compare(spec: &RunSpec, rounds: usize) -> Result<CompareReport> {
    let (mut ours, mut theirs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds.max(1) {
        let Outcome { report, bound } = run(spec, SchedulerKind::Supercargo, None).await?;
        log(round, &report);
        ours.push(report);
        let report = run(spec, SchedulerKind::KubeScheduler, None).await?.report;
        log(round, &report);
        theirs.push(report);
        let placements = bound.into_iter().map(|pod| Placement {
            namespace: pod.namespace,
            pod: pod.name,
            node: pod.node,
        });
        let placements: Vec<Placement> = placements.collect();
        let whole = placements.len() == ours.last().map_or(0, |run| run.pods);
        let replay = (whole || ours.last().is_none_or(|run| run.preemption.is_none())).then_some(placements.as_slice());
        let report = run(spec, SchedulerKind::BareClient, replay).await?.report;
        log(round, &report);
        bare.push(rate(&report));
    }
    let (nodes, pods) = ours.first().map_or((0, 0), |run| (run.nodes, run.pods));
    let (supercargo, kube_scheduler) = (side(ours), side(theirs));
    let bare_client = BareSide {
        pods_per_second: median(bare.clone()),
        runs: bare,
    };
    let engine_ratio = supercargo
        .nominations_per_second
        .zip(kube_scheduler.nominations_per_second);
    let row = Row {
        workload: spec.workload.name.clone(),
        target: spec.target,
        nodes,
        pods,
        engine_ratio: engine_ratio.map(|(ours, theirs)| ratio(ours, theirs)),
        ratio: ratio(supercargo.pods_per_second, kube_scheduler.pods_per_second),
        cpu_ratio: ratio(supercargo.cpu_ms_per_pod, kube_scheduler.cpu_ms_per_pod),
        bare_ratio: ratio(supercargo.pods_per_second, bare_client.pods_per_second),
        bound_ratio: ratio(median_bound(&supercargo), median_bound(&kube_scheduler)),
        supercargo,
        kube_scheduler,
        bare_client,
    };
    Ok(CompareReport { rows: vec![row] })
}

fn log(round: usize, report: &RunReport) {
    tracing::info!(
        round,
        scheduler = report.scheduler,
        pods_per_second = rate(report),
        bound = report.bound,
        lost = report.lost_pods,
        overcommitted = report.overcommitted_nodes,
        cpu_seconds = report.cpu_seconds,
        "run ended"
    );
}

fn side(runs: Vec<RunReport>) -> Side {
    let cpu = |run: &RunReport| run.cpu_seconds.unwrap_or(0.0);
    let mut rss: Vec<u64> = runs.iter().filter_map(|run| run.rss_bytes).collect();
    rss.sort_unstable();
    Side {
        pods_per_second: median(runs.iter().map(rate).collect()),
        nominations_per_second: nominations(&runs),
        cpu_seconds: median(runs.iter().map(cpu).collect()),
        cpu_ms_per_pod: median(runs.iter().map(|run| ratio(cpu(run) * 1e3, size(run.bound))).collect()),
        rss_bytes: rss.get(rss.len().saturating_sub(1) / 2).copied().unwrap_or(0),
        bound: runs.iter().map(|run| run.bound).collect(),
        runs,
    }
}

/// The rate that is compared.
fn rate(run: &RunReport) -> f64 {
    run.preemption
        .map_or(run.pods_per_second, |preemption| preemption.preemptors_per_second)
}

fn nominations(runs: &[RunReport]) -> Option<f64> {
    let rates: Vec<f64> = runs
        .iter()
        .filter_map(|run| Some(run.preemption?.nominations_per_second))
        .collect();
    (!rates.is_empty()).then(|| median(rates))
}

fn median_bound(side: &Side) -> f64 {
    median(side.bound.iter().copied().map(size).collect())
}

fn size(value: usize) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}
