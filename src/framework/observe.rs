//! What a profile's points and plugins take, for metrics.
//!
//! An observed profile records by itself; one that nobody observes (tests, tools) reads no clock.
//!
//! - Each extension point that ran: once a cycle. A point without plugins counts with no time and reads no clock.
//! - Single plugins: in a sample of the cycles (see [`CycleState::sample`]), one call a plugin. Filters are timed on the
//!   first node alone and scores as the mean over all nodes, so that nothing is read once a node.
//! - The plugins that took part in a decision: one addition a cycle, whatever their number.
//!
//! Does not: decide anything; and where no metrics are kept, nothing at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::{Clock, Nanos};
use crate::framework::{Code, CycleState, Profile};
use crate::ids::Symbol;
use crate::telemetry::{EngineMode, EvaluationPoint, EvaluationSet, ExtensionPoint, Metrics, StatusLabel};

/// Who wants to know, and by which clock.
#[derive(Clone, Debug)]
pub struct Observer {
    /// Recorders that know the profiles and plugins by name.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: Clock,
}

/// What an observed profile keeps.
#[derive(Debug)]
pub(super) struct Probe {
    observer: Observer,
    /// The profile's index in metrics.
    profile: usize,
    /// The plugins' indices in metrics.
    plugins: FxHashMap<Symbol, usize>,
    /// Calls outside of cycles, to sample them.
    calls: AtomicU32,
}

/// How far a decision came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// PreFilter rejected the pod.
    PreFilter,
    /// Nodes were filtered.
    Filter,
    /// Nodes were scored.
    Score,
}

/// Times the work of a profile; without an observer it does nothing.
#[derive(Debug)]
pub(crate) struct Stopwatch<'p> {
    probe: Option<&'p Probe>,
    /// Absent where nothing takes time.
    clock: Option<&'p Clock>,
    begun: Nanos,
    lap: Nanos,
}

impl Stopwatch<'_> {
    /// The time since the last lap, or since the start.
    pub(crate) fn lap(&mut self) -> Duration {
        let Some(clock) = self.clock else { return Duration::ZERO };
        let now = clock.now();
        let took = now.since(self.lap);
        self.lap = now;
        took
    }

    /// Ends a lap and records it as the time of a point.
    pub(crate) fn point(&mut self, point: ExtensionPoint, code: Code) {
        let took = self.lap();
        self.record(point, code, took);
    }

    /// Records the time of a point.
    pub(crate) fn record(&self, point: ExtensionPoint, code: Code, took: Duration) {
        if let Some(probe) = self.probe {
            let metrics = &probe.observer.metrics;
            metrics.extension_point(probe.profile, point, label(code), took);
        }
    }

    /// Ends a lap and records it as one call of a plugin.
    pub(crate) fn plugin(&mut self, plugin: Symbol, point: ExtensionPoint, code: Code) {
        self.plugin_calls(plugin, point, code, 1);
    }

    /// Ends a lap of so many calls of a plugin and records their mean as one call.
    pub(crate) fn plugin_calls(&mut self, plugin: Symbol, point: ExtensionPoint, code: Code, calls: usize) {
        let Some(probe) = self.probe else { return };
        let took = self.lap() / u32::try_from(calls.max(1)).unwrap_or(u32::MAX);
        if let Some(plugin) = probe.plugins.get(&plugin) {
            probe
                .observer
                .metrics
                .plugin_execution(*plugin, point, label(code), took);
        }
    }

    /// Records the time from the start to the last lap as that of one evaluation.
    pub(crate) fn evaluation(&self, mode: EngineMode) {
        if let Some(probe) = self.probe {
            let metrics = &probe.observer.metrics;
            metrics.engine_evaluation(mode, self.lap.since(self.begun));
        }
    }
}

impl Profile {
    /// Has its points and plugins recorded from now on.
    #[must_use]
    pub fn observed_by(mut self, observer: &Observer) -> Self {
        let metrics = &observer.metrics;
        let names = self.plugin_names().into_iter();
        self.probe = metrics.profile_index(self.name.as_str()).map(|profile| Probe {
            profile,
            plugins: names
                .filter_map(|name| Some((name, metrics.plugin_index(name.as_str())?)))
                .collect(),
            calls: AtomicU32::new(0),
            observer: observer.clone(),
        });
        self
    }

    /// A watch for a point with so many plugins; without any it stands still and reads no clock.
    pub(crate) fn point_stopwatch(&self, plugins: usize) -> Stopwatch<'_> {
        match plugins {
            0 => Stopwatch {
                probe: self.probe.as_ref(),
                clock: None,
                begun: Nanos(0),
                lap: Nanos(0),
            },
            _ => self.stopwatch(),
        }
    }

    /// A watch that runs.
    pub(crate) fn stopwatch(&self) -> Stopwatch<'_> {
        started(self.probe.as_ref())
    }

    /// A watch for the plugins of a sampled cycle, one lap a plugin; it does nothing in any other cycle.
    pub(crate) fn plugin_stopwatch(&self, state: &CycleState) -> Stopwatch<'_> {
        started(self.probe.as_ref().filter(|_| state.is_sampled()))
    }

    /// The same for calls outside of cycles: the sample is one call in ten.
    pub(crate) fn call_stopwatch(&self) -> Stopwatch<'_> {
        let sampled = |probe: &&Probe| Metrics::samples_plugins(probe.calls.fetch_add(7, Ordering::Relaxed));
        started(self.probe.as_ref().filter(sampled))
    }

    /// Runs the `plugins` plugins of a point and records its time; `code` reads the answer. Without plugins no clock is
    /// read.
    pub(crate) fn timed<T>(
        &self,
        point: ExtensionPoint,
        plugins: usize,
        run: impl FnOnce() -> T,
        code: impl FnOnce(&T) -> Code,
    ) -> T {
        let mut watch = self.point_stopwatch(plugins);
        let answer = run();
        watch.point(point, code(&answer));
        answer
    }

    /// The plugins that take part in a decision that comes so far, as [`Self::count_evaluation`] wants it.
    pub(crate) fn evaluation_set(&self, state: &CycleState, reached: Reached) -> Option<EvaluationSet> {
        let probe = self.probe.as_ref()?;
        let mut names: Vec<(Symbol, EvaluationPoint)> = Vec::new();
        let filters = |position: Option<usize>| position.is_none_or(|at| !state.is_filter_skipped(at));
        let scores = |position: Option<usize>| position.is_none_or(|at| !state.is_score_skipped(at));
        let pre_filters = self.pre_filter.iter().filter(|preparing| filters(preparing.follows));
        names.extend(pre_filters.map(|preparing| (preparing.plugin.name(), EvaluationPoint::PreFilter)));
        if reached != Reached::PreFilter {
            let plugins = self.filter.iter().enumerate().filter(|(at, _)| filters(Some(*at)));
            names.extend(plugins.map(|(_, plugin)| (plugin.name(), EvaluationPoint::Filter)));
        }
        if reached == Reached::Score {
            let pre_scores = self.pre_score.iter().filter(|preparing| scores(preparing.follows));
            names.extend(pre_scores.map(|preparing| (preparing.plugin.name(), EvaluationPoint::PreScore)));
            let scorers = self.score.iter().enumerate().filter(|(at, _)| scores(Some(*at)));
            names.extend(scorers.map(|(_, scorer)| (scorer.plugin.name(), EvaluationPoint::Score)));
        }
        let members = names
            .into_iter()
            .filter_map(|(name, point)| Some((*probe.plugins.get(&name)?, point)));
        Some(probe.observer.metrics.evaluation_set(probe.profile, members.collect()))
    }

    /// The plugins of `set` took part in a decision, be it by an answer that was kept.
    pub(crate) fn count_evaluation(&self, set: Option<EvaluationSet>) {
        if let (Some(probe), Some(set)) = (&self.probe, set) {
            probe.observer.metrics.plugins_evaluated(set);
        }
    }

    /// Preemption was tried for a pod.
    pub(crate) fn count_preemption_attempt(&self) {
        if let Some(probe) = &self.probe {
            probe.observer.metrics.preemption_attempt();
        }
    }
}

fn started(probe: Option<&Probe>) -> Stopwatch<'_> {
    let clock = probe.map(|probe| &probe.observer.clock);
    let now = clock.map_or(Nanos(0), Clock::now);
    Stopwatch {
        probe,
        clock,
        begun: now,
        lap: now,
    }
}

const fn label(code: Code) -> StatusLabel {
    match code {
        Code::Success => StatusLabel::Success,
        Code::Error => StatusLabel::Error,
        Code::Unschedulable => StatusLabel::Unschedulable,
        Code::UnschedulableAndUnresolvable => StatusLabel::UnschedulableAndUnresolvable,
        Code::Wait => StatusLabel::Wait,
        Code::Skip => StatusLabel::Skip,
        Code::Pending => StatusLabel::Pending,
    }
}
