//! Attempts, their latency, permit waits and preemption.

use std::sync::LazyLock;
use std::time::Duration;

use super::super::cells::{Buckets, Counter, Histogram, Table};
use super::super::encode::Page;
use super::super::labels::{AttemptResult, Outcome, StatusLabel, VolumeStage};
use super::super::names::Names;
use super::{MAX_PROFILES, Metrics, split_index, table_index};

/// Label values of `attempts`: 1 to 14, then all above.
const SLI_ATTEMPTS: usize = 15;

static ATTEMPT_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.001, 2.0, 15));
static SLI_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.01, 2.0, 20));
static ATTEMPTS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_numbers(1.0, 2.0, 5));
static VICTIMS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_numbers(1.0, 2.0, 7));

#[derive(Debug)]
pub(super) struct Cells {
    /// `[profile][result]`
    attempts: Table<Counter>,
    /// `[profile][result]`
    attempt_duration: Table<Histogram>,
    algorithm_duration: Histogram,
    /// `[attempts - 1]`
    sli_duration: Table<Histogram>,
    pod_attempts: Histogram,
    after_flush: Counter,
    /// `[status]`
    permit_wait: Table<Histogram>,
    preemption_attempts: Counter,
    preemption_victims: Histogram,
    /// `[outcome]`
    eviction_duration: Table<Histogram>,
    /// `[outcome]`
    evictions: Table<Counter>,
    /// `[stage]`
    volume_stage_errors: Table<Counter>,
}

impl Cells {
    pub(super) fn new() -> Self {
        Self {
            attempts: Table::new(MAX_PROFILES * AttemptResult::ALL.len()),
            attempt_duration: Table::new(MAX_PROFILES * AttemptResult::ALL.len()),
            algorithm_duration: Histogram::new(&ATTEMPT_SECONDS),
            sli_duration: Table::new(SLI_ATTEMPTS),
            pod_attempts: Histogram::new(&ATTEMPTS),
            after_flush: Counter::default(),
            permit_wait: Table::new(StatusLabel::ALL.len()),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(&VICTIMS),
            eviction_duration: Table::new(Outcome::ALL.len()),
            evictions: Table::new(Outcome::ALL.len()),
            volume_stage_errors: Table::new(VolumeStage::ALL.len()),
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>, profiles: &Names) -> std::fmt::Result {
        let profile_and_result = |index: usize| {
            let (profile, [result]) = split_index(index, [AttemptResult::ALL.len()]);
            vec![
                (
                    "result",
                    AttemptResult::ALL.get(result).map_or("", |result| result.as_str()),
                ),
                ("profile", profiles.get(profile).unwrap_or_default()),
            ]
        };
        page.counters(
            "scheduler_schedule_attempts",
            "[STABLE] Attempts to schedule pods, by result and profile",
            self.attempts
                .used()
                .map(|(index, cell)| (profile_and_result(index), cell.value())),
        )?;
        page.histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Time of a scheduling attempt, decision and binding together",
            self.attempt_duration
                .used()
                .map(|(index, cell)| (profile_and_result(index), cell.view())),
        )?;
        page.histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Time of the decision alone",
            [(Vec::new(), self.algorithm_duration.view())],
        )?;
        page.histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] Time from a pod's first entry in the active queue until it is bound, by number of attempts",
            self.sli_duration
                .used()
                .map(|(index, cell)| (vec![("attempts", attempts_label(index))], cell.view())),
        )?;
        page.histograms(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Attempts that a pod needed until it was scheduled",
            [(Vec::new(), self.pod_attempts.view())],
        )?;
        page.counters(
            "scheduler_pod_scheduled_after_flush",
            "[ALPHA] Pods scheduled right after the periodic flush moved them, which no event did",
            [(Vec::new(), self.after_flush.value())],
        )?;
        page.histograms(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Time that pods waited at Permit, by result",
            self.permit_wait.used().map(|(index, cell)| {
                (
                    vec![(
                        "result",
                        StatusLabel::ALL.get(index).map_or("", |status| status.as_str()),
                    )],
                    cell.view(),
                )
            }),
        )?;
        page.counters(
            "scheduler_volume_scheduling_stage_error",
            "[ALPHA] Failures with a pod's volumes, by what was being done",
            self.volume_stage_errors.used().map(|(index, cell)| {
                let stage = VolumeStage::ALL.get(index).map_or("", |stage| stage.as_str());
                (vec![("operation", stage)], cell.value())
            }),
        )?;
        self.write_preemption(page)
    }

    fn write_preemption(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let outcome = |index: usize| vec![("result", Outcome::ALL.get(index).map_or("", |outcome| outcome.as_str()))];
        page.counters(
            "scheduler_preemption_attempts",
            "[STABLE] Times that preemption was tried",
            [(Vec::new(), self.preemption_attempts.value())],
        )?;
        page.histograms(
            "scheduler_preemption_victims",
            "[STABLE] Pods chosen as victims, by preemption",
            [(Vec::new(), self.preemption_victims.view())],
        )?;
        page.histograms(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Time until the evictions of one preemption were sent",
            self.eviction_duration
                .used()
                .map(|(index, cell)| (outcome(index), cell.view())),
        )?;
        page.counters(
            "scheduler_preemption_goroutines_execution",
            "[ALPHA] Preemptions whose evictions were sent, by result",
            self.evictions
                .used()
                .map(|(index, cell)| (outcome(index), cell.value())),
        )
    }
}

fn attempts_label(index: usize) -> &'static str {
    const LABELS: [&str; SLI_ATTEMPTS] = [
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15+",
    ];
    LABELS.get(index).copied().unwrap_or("15+")
}

impl Metrics {
    /// One attempt ended; `duration` is decision and binding together.
    pub fn schedule_attempt(&self, profile: usize, result: AttemptResult, duration: Duration) {
        let Some(index) = table_index(&[(profile, MAX_PROFILES), (result.index(), AttemptResult::ALL.len())]) else {
            return;
        };
        if let Some(cell) = self.scheduling.attempts.cell(index, Counter::default) {
            cell.add(1);
        }
        if let Some(cell) = self
            .scheduling
            .attempt_duration
            .cell(index, || Histogram::new(&ATTEMPT_SECONDS))
        {
            cell.observe(duration);
        }
    }

    /// The decision of one pod took `duration`.
    pub fn scheduling_algorithm(&self, duration: Duration) {
        self.scheduling.algorithm_duration.observe(duration);
    }

    /// A pod was bound after `attempts` attempts (from 1), `since_first_queued` after it first became schedulable.
    pub fn pod_scheduled(&self, attempts: u32, since_first_queued: Duration) {
        self.scheduling.pod_attempts.observe_steps(u64::from(attempts));
        let index = usize::try_from(attempts.saturating_sub(1))
            .unwrap_or(SLI_ATTEMPTS)
            .min(SLI_ATTEMPTS - 1);
        if let Some(cell) = self
            .scheduling
            .sli_duration
            .cell(index, || Histogram::new(&SLI_SECONDS))
        {
            cell.observe(since_first_queued);
        }
    }

    /// A pod was scheduled right after the periodic flush of the unschedulable pods moved it.
    pub fn pod_scheduled_after_flush(&self) {
        self.scheduling.after_flush.add(1);
    }

    /// A pod's wait at Permit ended.
    pub fn permit_wait(&self, result: StatusLabel, duration: Duration) {
        let cell = self
            .scheduling
            .permit_wait
            .cell(result.index(), || Histogram::new(&ATTEMPT_SECONDS));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// DefaultPreemption's PostFilter ran.
    pub fn preemption_attempt(&self) {
        self.scheduling.preemption_attempts.add(1);
    }

    /// Something failed with a pod's volumes.
    pub fn volume_stage_failed(&self, stage: VolumeStage) {
        if let Some(cell) = self
            .scheduling
            .volume_stage_errors
            .cell(stage.index(), Counter::default)
        {
            cell.add(1);
        }
    }

    /// A preemption chose `victims` pods.
    pub fn preemption_victims(&self, victims: u64) {
        self.scheduling.preemption_victims.observe_steps(victims);
    }

    /// All evictions of one preemption were sent, or could not be.
    pub fn preemption_evictions(&self, outcome: Outcome, duration: Duration) {
        if let Some(cell) = self.scheduling.evictions.cell(outcome.index(), Counter::default) {
            cell.add(1);
        }
        let cell = self
            .scheduling
            .eviction_duration
            .cell(outcome.index(), || Histogram::new(&SLI_SECONDS));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }
}
