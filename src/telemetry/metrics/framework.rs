//! Extension points, plugins and work in flight.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use super::super::cells::{Buckets, Counter, Gauge, Histogram, Table};
use super::super::encode::Page;
use super::super::labels::{EvaluationPoint, ExtensionPoint, StatusLabel};
use super::super::names::Names;
use super::{MAX_PROFILES, Metrics, split_index, table_index};

/// Most operations that `goroutines` tells apart: the points and a few tasks of binding; 64 leaves room for plugins.
const MAX_OPERATIONS: usize = 64;

/// Most sets of plugins that take part in decisions. A set follows from a profile and from what its plugins skip, of
/// which a cluster sees a few dozen; a set takes under 1 KB.
const MAX_SETS: usize = 512;

const POINTS: usize = ExtensionPoint::ALL.len();
const STATUSES: usize = StatusLabel::ALL.len();

static POINT_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.0001, 2.0, 12));
pub(super) static PLUGIN_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.000_01, 1.5, 20));

/// An operation whose concurrency is shown, found once by [`Metrics::operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationLabel(usize);

/// Plugins that take part in a decision together, found once by [`Metrics::evaluation_set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationSet(usize);

/// Plugins, by index, with the points at which they take part.
type Members = Vec<(usize, EvaluationPoint)>;

/// Counts an operation as running until it is dropped.
#[derive(Debug)]
pub struct OperationGuard {
    metrics: Arc<Metrics>,
    operation: OperationLabel,
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        self.metrics.framework.add_running(self.operation, -1);
    }
}

#[derive(Debug)]
pub(super) struct Cells {
    plugin_count: usize,
    /// `[profile][point][status]`
    points: Table<Histogram>,
    /// `[plugin][point][status]`
    plugins: Table<Histogram>,
    /// `[set]`: profile and members
    sets: Box<[OnceLock<(usize, Members)>]>,
    /// `[set]`
    evaluations: Table<Counter>,
    operations: Names,
    /// `[operation]`
    running: Table<Gauge>,
}

impl Cells {
    pub(super) fn new(plugin_count: usize) -> Self {
        Self {
            plugin_count,
            points: Table::new(MAX_PROFILES * POINTS * STATUSES),
            plugins: Table::new(plugin_count * POINTS * STATUSES),
            sets: (0..MAX_SETS).map(|_| OnceLock::new()).collect(),
            evaluations: Table::new(MAX_SETS),
            operations: Names::new(MAX_OPERATIONS),
            running: Table::new(MAX_OPERATIONS),
        }
    }

    fn add_running(&self, operation: OperationLabel, delta: i64) {
        if let Some(cell) = self.running.cell(operation.0, Gauge::default) {
            cell.add(delta);
        }
    }

    /// The sets' counters, added up by (profile, plugin, point).
    fn evaluations_by_plugin(&self) -> BTreeMap<(usize, usize, &'static str), u64> {
        let mut sums = BTreeMap::new();
        for (index, cell) in self.evaluations.used() {
            let Some((profile, members)) = self.sets.get(index).and_then(OnceLock::get) else {
                continue;
            };
            for (plugin, point) in members {
                *sums.entry((*profile, *plugin, point.as_str())).or_default() += cell.value();
            }
        }
        sums
    }

    pub(super) fn write(&self, page: &mut Page<'_>, profiles: &Names, plugins: &Names) -> std::fmt::Result {
        let point = |index: usize| ExtensionPoint::ALL.get(index).map_or("", |point| point.as_str());
        let status = |index: usize| StatusLabel::ALL.get(index).map_or("", |status| status.as_str());
        page.histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Time of all plugins of an extension point, by point, status and profile",
            self.points.used().map(|(index, cell)| {
                let (profile, [point_idx, status_idx]) = split_index(index, [POINTS, STATUSES]);
                let labels = vec![
                    ("extension_point", point(point_idx)),
                    ("status", status(status_idx)),
                    ("profile", profiles.get(profile).unwrap_or_default()),
                ];
                (labels, cell.view())
            }),
        )?;
        page.histograms(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Time of one plugin at one extension point, from a sample of the cycles",
            self.plugins.used().map(|(index, cell)| {
                let (plugin, [point_idx, status_idx]) = split_index(index, [POINTS, STATUSES]);
                let labels = vec![
                    ("plugin", plugins.get(plugin).unwrap_or_default()),
                    ("extension_point", point(point_idx)),
                    ("status", status(status_idx)),
                ];
                (labels, cell.view())
            }),
        )?;
        page.counters(
            "scheduler_plugin_evaluation",
            "[BETA] Cycles in which a plugin took part, by plugin, extension point and profile",
            self.evaluations_by_plugin()
                .into_iter()
                .map(|((profile, plugin, point), value)| {
                    let labels = vec![
                        ("plugin", plugins.get(plugin).unwrap_or_default()),
                        ("extension_point", point),
                        ("profile", profiles.get(profile).unwrap_or_default()),
                    ];
                    (labels, value)
                }),
        )?;
        page.gauges(
            "scheduler_goroutines",
            "[BETA] Tasks running, by the operation that they do",
            self.running.used().map(|(index, cell)| {
                (
                    vec![("operation", self.operations.get(index).unwrap_or_default())],
                    cell.value(),
                )
            }),
        )
    }
}

impl Metrics {
    /// Share of cycles, in percent, in which plugins are timed one by one (kube-scheduler's figure).
    pub const PLUGIN_SAMPLE_PERCENT: u32 = 10;

    /// Whether a cycle that drew the number `random` times its plugins one by one.
    #[must_use]
    pub const fn samples_plugins(random: u32) -> bool {
        random % 100 < Self::PLUGIN_SAMPLE_PERCENT
    }

    /// All plugins of one extension point ran for one pod.
    pub fn extension_point(&self, profile: usize, point: ExtensionPoint, status: StatusLabel, duration: Duration) {
        let parts = [
            (profile, MAX_PROFILES),
            (point.index(), POINTS),
            (status.index(), STATUSES),
        ];
        let cell =
            table_index(&parts).and_then(|index| self.framework.points.cell(index, || Histogram::new(&POINT_SECONDS)));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// One plugin ran at one extension point; only in cycles for which [`Metrics::samples_plugins`] holds.
    pub fn plugin_execution(&self, plugin: usize, point: ExtensionPoint, status: StatusLabel, duration: Duration) {
        let parts = [
            (plugin, self.framework.plugin_count),
            (point.index(), POINTS),
            (status.index(), STATUSES),
        ];
        let cell = table_index(&parts)
            .and_then(|index| self.framework.plugins.cell(index, || Histogram::new(&PLUGIN_SECONDS)));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// Finds or adds plugins that take part in a decision together, in this order, for [`Metrics::plugins_evaluated`].
    /// O(sets); beyond 512 sets the answer is one that records nothing.
    #[must_use]
    pub fn evaluation_set(&self, profile: usize, members: Vec<(usize, EvaluationPoint)>) -> EvaluationSet {
        let wanted = (profile, members);
        let position = self
            .framework
            .sets
            .iter()
            .position(|set| set.get_or_init(|| wanted.clone()) == &wanted);
        EvaluationSet(position.unwrap_or(usize::MAX))
    }

    /// All plugins of a set took part in a decision (they were not skipped).
    pub fn plugins_evaluated(&self, set: EvaluationSet) {
        if let Some(cell) = self.framework.evaluations.cell(set.0, Counter::default) {
            cell.add(1);
        }
    }

    /// Finds or adds an operation for [`Metrics::start_operation`]; resolve it once. Beyond 64 operations the label is
    /// one that records nothing.
    #[must_use]
    pub fn operation(&self, name: &str) -> OperationLabel {
        OperationLabel(self.framework.operations.index(name).unwrap_or(usize::MAX))
    }

    /// Counts `operation` as running until the guard is dropped.
    #[must_use]
    pub fn start_operation(self: &Arc<Self>, operation: OperationLabel) -> OperationGuard {
        self.framework.add_running(operation, 1);
        OperationGuard {
            metrics: Arc::clone(self),
            operation,
        }
    }
}
