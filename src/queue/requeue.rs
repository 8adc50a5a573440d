//! The two questions on a pod's way back: is it worth another try, and may it enter the active queue.
//!
//! Source: `pkg/scheduler/backend/queue/scheduling_queue.go` (`isPodWorthRequeuing`, `runPreEnqueuePlugins`),
//! Kubernetes 1.36. A hint or PreEnqueue plugin that panics counts as one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::{Plan, PlannedHint};
use super::pod::{QueuedPodInfo, insert};
use crate::clock::Clock;
use crate::cluster::PodInfo;
use crate::framework::{Code, EventObject, Plugin, QueueingHint};
use crate::ids::{PodUid, Symbol};
use crate::telemetry::{ExtensionPoint, HintOutcome, Metrics};

/// Whether an event is a reason to try a pod again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Worth {
    /// It is not.
    Skip,
    /// It is, once its backoff is over.
    AfterBackoff,
    /// It is, at once.
    Immediately,
}

/// What is needed to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) clock: &'a Clock,
    pub(super) metrics: &'a Metrics,
}

/// An event that has happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happened<'a> {
    pub(super) plan: &'a Plan,
    pub(super) object: &'a EventObject,
    /// Only this pod is concerned.
    pub(super) only: Option<PodUid>,
}

impl Happened<'_> {
    /// Whether every hint that would be asked about the pod gives all pods of its group one answer.
    pub(super) fn is_by_class(&self, queued: &QueuedPodInfo) -> bool {
        let hints = self.plan.hints(&queued.profile);
        self.only.is_none()
            && hints
                .iter()
                .filter(|hint| is_rejector(queued, hint.plugin))
                .all(|hint| hint.by_class || hint.hint.is_none())
    }

    /// Whether it is a reason to try a waiting pod again.
    pub(super) fn worth(&self, queued: &QueuedPodInfo, asking: Asking<'_>) -> Worth {
        if self.only.is_some_and(|only| only != queued.pod.uid) {
            return Worth::Skip;
        }
        if let Some(gating) = queued.gating_plugin
            && !self.plan.concerns(&queued.profile, gating)
        {
            return Worth::Skip;
        }
        if queued.rejectors.is_empty() || self.plan.event.is_wildcard() {
            return Worth::AfterBackoff;
        }
        let mut worth = Worth::Skip;
        for planned in self.plan.hints(&queued.profile) {
            let is_pending = queued.rejectors.pending.contains(&planned.plugin);
            if !is_pending && !queued.rejectors.unschedulable.contains(&planned.plugin) {
                continue;
            }
            if self.ask(planned, &queued.pod, asking) == QueueingHint::QueueSkip {
                continue;
            }
            if is_pending {
                return Worth::Immediately;
            }
            worth = Worth::AfterBackoff;
            if queued.rejectors.pending.is_empty() {
                return worth;
            }
        }
        worth
    }

    fn ask(&self, planned: &PlannedHint, pod: &PodInfo, asking: Asking<'_>) -> QueueingHint {
        let Some(hint) = &planned.hint else {
            return QueueingHint::Queue;
        };
        let begin = asking.clock.now();
        let answer = catch_unwind(AssertUnwindSafe(|| hint(pod, self.object)));
        let answer = answer.unwrap_or_else(|_| {
            asking.metrics.panicked();
            Err("the hint panicked".to_owned())
        });
        let outcome = match answer {
            Ok(QueueingHint::Queue) => HintOutcome::Queue,
            Ok(QueueingHint::QueueSkip) => HintOutcome::QueueSkip,
            Err(_) => HintOutcome::Error,
        };
        let took = asking.clock.now().since(begin);
        asking
            .metrics
            .queueing_hint(planned.metrics_index, self.plan.label, outcome, took);
        answer.unwrap_or_else(|error| {
            tracing::warn!(
                plugin = %planned.plugin,
                event = ?self.plan.event,
                pod = pod.full_name(),
                error,
                "a queueing hint failed; the pod is queued"
            );
            QueueingHint::Queue
        })
    }
}

fn is_rejector(queued: &QueuedPodInfo, plugin: Symbol) -> bool {
    queued.rejectors.unschedulable.contains(&plugin) || queued.rejectors.pending.contains(&plugin)
}

/// Asks the PreEnqueue plugins, the one that gated the pod last first, and notes who holds it back; true: somebody does.
pub(super) fn is_gated(queued: &mut QueuedPodInfo, metrics: &Metrics) -> bool {
    let profile = &queued.profile;
    let refusing = profile.timed(
        ExtensionPoint::PreEnqueue,
        profile.pre_enqueue_plugins().len(),
        || refusing(queued, metrics),
        |refusing| refusing.map_or(Code::Success, |(_, code)| code),
    );
    let refusing = refusing.map(|(plugin, _)| plugin);
    queued.gating_plugin = refusing;
    if let Some(plugin) = refusing {
        insert(&mut queued.rejectors.unschedulable, plugin);
    }
    refusing.is_some()
}

/// The plugin that holds the pod back and what it says.
fn refusing(queued: &QueuedPodInfo, metrics: &Metrics) -> Option<(Symbol, Code)> {
    let plugins = queued.profile.pre_enqueue_plugins();
    let was_refusing = |plugin: &&std::sync::Arc<dyn Plugin>| Some(plugin.name()) == queued.gating_plugin;
    let last = plugins.iter().filter(was_refusing);
    let others = plugins.iter().filter(|plugin| !was_refusing(plugin));
    let mut laps = queued.profile.call_stopwatch();
    for plugin in last.chain(others) {
        let code = ask_in(&**plugin, &queued.pod, metrics);
        laps.plugin(plugin.name(), ExtensionPoint::PreEnqueue, code);
        if code != Code::Success {
            return Some((plugin.name(), code));
        }
    }
    None
}

/// Whether a plugin lets the pod in.
fn ask_in(plugin: &dyn Plugin, pod: &PodInfo, metrics: &Metrics) -> Code {
    let Some(pre_enqueue) = plugin.pre_enqueue() else {
        return Code::Success;
    };
    let status = catch_unwind(AssertUnwindSafe(|| pre_enqueue.pre_enqueue_pod(pod)));
    status.map_or_else(
        |_panic| {
            metrics.panicked();
            tracing::error!(plugin = %plugin.name(), pod = pod.full_name(), "a PreEnqueue plugin panicked; the pod is held back");
            Code::Error
        },
        |status| status.code,
    )
}
