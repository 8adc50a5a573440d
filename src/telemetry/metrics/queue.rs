//! Pods that wait, the events that move them, and the size of what is known.

use std::sync::LazyLock;
use std::time::Duration;

use super::super::cells::{Buckets, Counter, Gauge, Histogram, Table};
use super::super::encode::Page;
use super::super::labels::{CacheKind, HintOutcome, QueueKind};
use super::super::names::Names;
use super::framework::PLUGIN_SECONDS;
use super::{MAX_PROFILES, Metrics, split_index, table_index};

/// Most events told apart. kube-scheduler knows about 40 (resource × action); 96 leaves room for resources that plugins
/// add.
const MAX_EVENTS: usize = 96;

const QUEUES: usize = QueueKind::ALL.len();
const HINTS: usize = HintOutcome::ALL.len();

static EVENT_SECONDS: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential_seconds(0.0001, 2.0, 12));

/// A cluster event or another reason to move a pod, found once by [`Metrics::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLabel(usize);

#[derive(Debug)]
pub(super) struct Cells {
    plugin_count: usize,
    events: Names,
    /// `[queue]`
    pending: [Gauge; QUEUES],
    /// `[queue][event]`
    incoming: Table<Counter>,
    /// `[event]`
    inflight: Table<Gauge>,
    /// `[profile][plugin]`
    unschedulable: Table<Gauge>,
    /// `[plugin][event][hint]`
    hints: Table<Histogram>,
    /// `[event]`
    handling: Table<Histogram>,
    /// `[kind]`
    cache: [Gauge; CacheKind::ALL.len()],
}

impl Cells {
    pub(super) fn new(plugin_count: usize) -> Self {
        Self {
            plugin_count,
            events: Names::new(MAX_EVENTS),
            pending: std::array::from_fn(|_| Gauge::default()),
            incoming: Table::new(QUEUES * MAX_EVENTS),
            inflight: Table::new(MAX_EVENTS),
            unschedulable: Table::new(MAX_PROFILES * plugin_count),
            hints: Table::new(plugin_count * MAX_EVENTS * HINTS),
            handling: Table::new(MAX_EVENTS),
            cache: std::array::from_fn(|_| Gauge::default()),
        }
    }

    fn event_name(&self, index: usize) -> &str {
        self.events.get(index).unwrap_or_default()
    }

    pub(super) fn write(&self, page: &mut Page<'_>, profiles: &Names, plugins: &Names) -> std::fmt::Result {
        page.gauges(
            "scheduler_pending_pods",
            "[STABLE] Pods that are not placed yet, by the queue in which they wait",
            QueueKind::ALL
                .iter()
                .zip(&self.pending)
                .map(|(queue, cell)| (vec![("queue", queue.as_str())], cell.value())),
        )?;
        page.counters(
            "scheduler_queue_incoming_pods",
            "[STABLE] Pods that entered a queue, by queue and the event that moved them",
            self.incoming.used().map(|(index, cell)| {
                let (queue, [event]) = split_index(index, [MAX_EVENTS]);
                let queue = QueueKind::ALL.get(queue).map_or("", |queue| queue.as_str());
                (vec![("queue", queue), ("event", self.event_name(event))], cell.value())
            }),
        )?;
        page.gauges(
            "scheduler_inflight_events",
            "[ALPHA] Events kept because a pod in a cycle may still need them",
            self.inflight
                .used()
                .map(|(index, cell)| (vec![("event", self.event_name(index))], cell.value())),
        )?;
        page.gauges(
            "scheduler_unschedulable_pods",
            "[BETA] Pods that wait because of a plugin, by plugin and profile",
            self.unschedulable.used().map(|(index, cell)| {
                let (profile, [plugin]) = split_index(index, [self.plugin_count]);
                let labels = vec![
                    ("plugin", plugins.get(plugin).unwrap_or_default()),
                    ("profile", profiles.get(profile).unwrap_or_default()),
                ];
                (labels, cell.value())
            }),
        )?;
        self.write_events(page, plugins)
    }

    fn write_events(&self, page: &mut Page<'_>, plugins: &Names) -> std::fmt::Result {
        page.histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Time of one queueing hint, by plugin, event and answer",
            self.hints.used().map(|(index, cell)| {
                let (plugin, [event, hint]) = split_index(index, [MAX_EVENTS, HINTS]);
                let labels = vec![
                    ("plugin", plugins.get(plugin).unwrap_or_default()),
                    ("event", self.event_name(event)),
                    ("hint", HintOutcome::ALL.get(hint).map_or("", |hint| hint.as_str())),
                ];
                (labels, cell.view())
            }),
        )?;
        page.histograms(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Time to take in one change of the cluster, by event",
            self.handling
                .used()
                .map(|(index, cell)| (vec![("event", self.event_name(index))], cell.view())),
        )?;
        page.gauges(
            "scheduler_cache_size",
            "[ALPHA] Nodes, pods and assumed pods that are known",
            CacheKind::ALL
                .iter()
                .zip(&self.cache)
                .map(|(kind, cell)| (vec![("type", kind.as_str())], cell.value())),
        )
    }
}

impl Metrics {
    /// Finds or adds an event by its label, for example `NodeAdd` or `ScheduleAttemptFailure`; resolve it once. Beyond
    /// 96 events the label is one that records nothing.
    #[must_use]
    pub fn event(&self, name: &str) -> EventLabel {
        EventLabel(self.queue.events.index(name).unwrap_or(usize::MAX))
    }

    /// `delta` pods entered (or, below zero, left) a queue.
    pub fn pending_pods_add(&self, queue: QueueKind, delta: i64) {
        if let Some(cell) = self.queue.pending.get(queue.index()) {
            cell.add(delta);
        }
    }

    /// The present number of pods in a queue.
    #[must_use]
    pub fn pending_pods(&self, queue: QueueKind) -> i64 {
        self.queue.pending.get(queue.index()).map_or(0, Gauge::value)
    }

    /// `pods` pods entered `queue` because of `event`.
    pub fn queue_incoming(&self, queue: QueueKind, event: EventLabel, pods: u64) {
        let cell = table_index(&[(queue.index(), QUEUES), (event.0, MAX_EVENTS)])
            .and_then(|index| self.queue.incoming.cell(index, Counter::default));
        if let Some(cell) = cell {
            cell.add(pods);
        }
    }

    /// `delta` more events are kept for pods in their cycle.
    pub fn inflight_events_add(&self, event: EventLabel, delta: i64) {
        if let Some(cell) = self.queue.inflight.cell(event.0, Gauge::default) {
            cell.add(delta);
        }
    }

    /// `delta` more pods wait because `plugin` rejected them.
    pub fn unschedulable_pods_add(&self, profile: usize, plugin: usize, delta: i64) {
        let cell = table_index(&[(profile, MAX_PROFILES), (plugin, self.queue.plugin_count)])
            .and_then(|index| self.queue.unschedulable.cell(index, Gauge::default));
        if let Some(cell) = cell {
            cell.add(delta);
        }
    }

    /// A queueing hint of `plugin` answered for `event`.
    pub fn queueing_hint(&self, plugin: usize, event: EventLabel, hint: HintOutcome, duration: Duration) {
        let parts = [
            (plugin, self.queue.plugin_count),
            (event.0, MAX_EVENTS),
            (hint.index(), HINTS),
        ];
        let cell =
            table_index(&parts).and_then(|index| self.queue.hints.cell(index, || Histogram::new(&PLUGIN_SECONDS)));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// A change seen on a watch was taken in.
    pub fn event_handled(&self, event: EventLabel, duration: Duration) {
        if let Some(cell) = self.queue.handling.cell(event.0, || Histogram::new(&EVENT_SECONDS)) {
            cell.observe(duration);
        }
    }

    /// The present size of a cache; set about once a second.
    pub fn cache_size(&self, kind: CacheKind, size: usize) {
        if let Some(cell) = self.queue.cache.get(kind.index()) {
            cell.set(i64::try_from(size).unwrap_or(i64::MAX));
        }
    }
}
