//! `supercargo_*`: what kube-scheduler has no name for.

use std::sync::LazyLock;
use std::time::Duration;

use super::super::cells::{Buckets, Counter, Gauge, Histogram, Table};
use super::super::encode::Page;
use super::super::labels::EngineMode;
use super::super::names::Names;
use super::Metrics;

/// Most kinds of objects told apart; the scheduler watches about 25.
const MAX_KINDS: usize = 48;

/// Most reasons for a repeated bind told apart; the binding pool has six classes of error.
const MAX_REASONS: usize = 16;

/// From 1 ms to 33 s.
static CALL_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.001, 2.0, 16));

static DECISION_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.000_001, 2.0, 20));

/// What an extender is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtenderVerb {
    /// Which nodes can take the pod.
    Filter,
    /// How good they are.
    Prioritize,
    /// Which pods should go.
    Preempt,
    /// To bind.
    Bind,
}

impl ExtenderVerb {
    const ALL: [&'static str; 4] = ["filter", "prioritize", "preempt", "bind"];
    const RESULTS: [&'static str; 2] = ["success", "error"];
}

#[derive(Debug)]
pub(super) struct Cells {
    conflicts: Counter,
    commit_evaluations: Counter,
    snapshot_publishes: Counter,
    snapshot_publish_duration: Histogram,
    change_log_length: Gauge,
    kinds: Names,
    /// `[kind]`
    malformed: Table<Counter>,
    /// `[kind]`
    relists: Table<Counter>,
    reasons: Names,
    /// `[reason]`
    bind_retries: Table<Counter>,
    events_written: Counter,
    events_dropped: Counter,
    /// `[mode]`
    evaluations: [Counter; EngineMode::ALL.len()],
    /// `[mode]`
    evaluation_duration: Table<Histogram>,
    self_checks: Counter,
    self_check_mismatches: Counter,
    /// `[verb][result]`
    extender_calls: Table<Histogram>,
    panics: Counter,
    bindings_in_flight: Gauge,
}

impl Cells {
    pub(super) fn new() -> Self {
        Self {
            conflicts: Counter::default(),
            commit_evaluations: Counter::default(),
            snapshot_publishes: Counter::default(),
            snapshot_publish_duration: Histogram::new(&DECISION_SECONDS),
            change_log_length: Gauge::default(),
            kinds: Names::new(MAX_KINDS),
            malformed: Table::new(MAX_KINDS),
            relists: Table::new(MAX_KINDS),
            reasons: Names::new(MAX_REASONS),
            bind_retries: Table::new(MAX_REASONS),
            events_written: Counter::default(),
            events_dropped: Counter::default(),
            evaluations: std::array::from_fn(|_| Counter::default()),
            evaluation_duration: Table::new(EngineMode::ALL.len()),
            self_checks: Counter::default(),
            self_check_mismatches: Counter::default(),
            extender_calls: Table::new(ExtenderVerb::ALL.len() * ExtenderVerb::RESULTS.len()),
            panics: Counter::default(),
            bindings_in_flight: Gauge::default(),
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let plain: [(&str, &str, &Counter); 8] = [
            (
                "supercargo_conflicts",
                "Reserves refused because another worker took the room first",
                &self.conflicts,
            ),
            (
                "supercargo_commit_evaluations",
                "Evaluations under the commit lock, after repeated conflicts",
                &self.commit_evaluations,
            ),
            (
                "supercargo_snapshot_publishes",
                "Snapshots published",
                &self.snapshot_publishes,
            ),
            (
                "supercargo_events_written",
                "Events written to the API server",
                &self.events_written,
            ),
            (
                "supercargo_events_dropped",
                "Events dropped because their queue was full",
                &self.events_dropped,
            ),
            (
                "supercargo_engine_self_checks",
                "Decisions compared with a full evaluation",
                &self.self_checks,
            ),
            (
                "supercargo_engine_self_check_mismatches",
                "Decisions that differed from a full evaluation",
                &self.self_check_mismatches,
            ),
            (
                "supercargo_panics",
                "Cycles and binds that ended in a panic of a plugin",
                &self.panics,
            ),
        ];
        for (name, help, counter) in plain {
            page.counters(name, help, [(Vec::new(), counter.value())])?;
        }
        page.counters(
            "supercargo_engine_evaluations",
            "Evaluations of pods, by how the nodes were evaluated",
            EngineMode::ALL
                .iter()
                .zip(&self.evaluations)
                .map(|(mode, cell)| (vec![("mode", mode.as_str())], cell.value())),
        )?;
        page.histograms(
            "supercargo_engine_evaluation_duration_seconds",
            "Time of one evaluation, by how the nodes were evaluated",
            self.evaluation_duration.used().map(|(index, cell)| {
                (
                    vec![("mode", EngineMode::ALL.get(index).map_or("", |mode| mode.as_str()))],
                    cell.view(),
                )
            }),
        )?;
        self.write_flow(page)
    }

    fn write_flow(&self, page: &mut Page<'_>) -> std::fmt::Result {
        page.histograms(
            "supercargo_extender_call_duration_seconds",
            "Time of one call of an extender, by verb and result",
            self.extender_calls.used().map(|(index, cell)| {
                let (verb, result) = (index / ExtenderVerb::RESULTS.len(), index % ExtenderVerb::RESULTS.len());
                let name = |names: &[&'static str], at: usize| names.get(at).copied().unwrap_or_default();
                let labels = vec![
                    ("result", name(&ExtenderVerb::RESULTS, result)),
                    ("verb", name(&ExtenderVerb::ALL, verb)),
                ];
                (labels, cell.view())
            }),
        )?;
        page.histograms(
            "supercargo_snapshot_publish_duration_seconds",
            "Time to publish one snapshot",
            [(Vec::new(), self.snapshot_publish_duration.view())],
        )?;
        page.gauges(
            "supercargo_change_log_length",
            "Changes that the newest snapshot does not contain yet",
            [(Vec::new(), self.change_log_length.value())],
        )?;
        page.gauges(
            "supercargo_bindings_in_flight",
            "Pods handed to binding and neither bound nor unreserved yet",
            [(Vec::new(), self.bindings_in_flight.value())],
        )?;
        page.counters(
            "supercargo_objects_malformed",
            "Objects skipped because they could not be read, by kind",
            self.malformed
                .used()
                .map(|(index, cell)| (vec![("kind", self.kinds.get(index).unwrap_or_default())], cell.value())),
        )?;
        page.counters(
            "supercargo_watch_relists",
            "Times that a watch had to list anew, by kind",
            self.relists
                .used()
                .map(|(index, cell)| (vec![("kind", self.kinds.get(index).unwrap_or_default())], cell.value())),
        )?;
        page.counters(
            "supercargo_bind_retries",
            "Bind calls repeated, by reason",
            self.bind_retries.used().map(|(index, cell)| {
                (
                    vec![("reason", self.reasons.get(index).unwrap_or_default())],
                    cell.value(),
                )
            }),
        )
    }
}

impl Metrics {
    /// A reserve met a conflict.
    pub fn conflict(&self) {
        self.own.conflicts.add(1);
    }

    /// A pod was evaluated under the commit lock after repeated conflicts.
    pub fn commit_evaluation(&self) {
        self.own.commit_evaluations.add(1);
    }

    /// A snapshot was published in `duration`.
    pub fn snapshot_published(&self, duration: Duration) {
        self.own.snapshot_publishes.add(1);
        self.own.snapshot_publish_duration.observe(duration);
    }

    /// The number of changes that the newest snapshot does not contain.
    pub fn change_log_length(&self, changes: u64) {
        self.own
            .change_log_length
            .set(i64::try_from(changes).unwrap_or(i64::MAX));
    }

    /// An object of `kind` could not be read and was skipped. O(kinds).
    pub fn object_malformed(&self, kind: &str) {
        let cell = self
            .own
            .kinds
            .index(kind)
            .and_then(|index| self.own.malformed.cell(index, Counter::default));
        if let Some(cell) = cell {
            cell.add(1);
        }
    }

    /// A watch of `kind` had to list anew. O(kinds).
    pub fn watch_relisted(&self, kind: &str) {
        let cell = self
            .own
            .kinds
            .index(kind)
            .and_then(|index| self.own.relists.cell(index, Counter::default));
        if let Some(cell) = cell {
            cell.add(1);
        }
    }

    /// A bind call is repeated because of `reason` (a fixed word for a class of error). O(reasons).
    pub fn bind_retry(&self, reason: &str) {
        let cell = self
            .own
            .reasons
            .index(reason)
            .and_then(|index| self.own.bind_retries.cell(index, Counter::default));
        if let Some(cell) = cell {
            cell.add(1);
        }
    }

    /// `count` events were written.
    pub fn events_written(&self, count: u64) {
        self.own.events_written.add(count);
    }

    /// Events written so far.
    #[must_use]
    pub fn events_written_total(&self) -> u64 {
        self.own.events_written.value()
    }

    /// `count` events were dropped because their queue was full.
    pub fn events_dropped(&self, count: u64) {
        self.own.events_dropped.add(count);
    }

    /// A pod was evaluated in `duration`.
    pub fn engine_evaluation(&self, mode: EngineMode, duration: Duration) {
        if let Some(cell) = self.own.evaluations.get(mode.index()) {
            cell.add(1);
        }
        let cell = self
            .own
            .evaluation_duration
            .cell(mode.index(), || Histogram::new(&DECISION_SECONDS));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// A decision was compared with a full evaluation; `matched` says whether they agreed.
    pub fn engine_self_check(&self, matched: bool) {
        self.own.self_checks.add(1);
        if !matched {
            self.own.self_check_mismatches.add(1);
        }
    }

    /// An extender was called.
    pub fn extender_call(&self, verb: ExtenderVerb, succeeded: bool, duration: Duration) {
        let index = verb as usize * ExtenderVerb::RESULTS.len() + usize::from(!succeeded);
        let cell = self.own.extender_calls.cell(index, || Histogram::new(&CALL_SECONDS));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// A cycle or bind ended in a panic.
    pub fn panicked(&self) {
        self.own.panics.add(1);
    }

    /// `delta` more pods are between the hand-over to binding and its end.
    pub fn bindings_in_flight_add(&self, delta: i64) {
        self.own.bindings_in_flight.add(delta);
    }

    /// Pods between the hand-over to binding and its end.
    #[must_use]
    pub fn bindings_in_flight(&self) -> i64 {
        self.own.bindings_in_flight.value()
    }
}
