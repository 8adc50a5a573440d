//! How long a change of the cluster takes to be taken in, by event.
//!
//! A batch of deliveries needs one look at the clock each: where one ends the next begins. What changed nothing that the
//! scheduler reads is not an event and is not recorded.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::cluster::{NodeChange, PodChange};
use crate::telemetry::{EventLabel, Metrics};

/// An object's life, as events name it.
#[derive(Clone, Copy, Debug)]
struct Labels {
    add: EventLabel,
    update: EventLabel,
    delete: EventLabel,
}

impl Labels {
    fn new(metrics: &Metrics, object: &str) -> Self {
        let label = |action: &str| metrics.event(&format!("{object}{action}"));
        Self {
            add: label("Add"),
            update: label("Update"),
            delete: label("Delete"),
        }
    }
}

/// Times deliveries.
#[derive(Debug)]
pub(super) struct Handling {
    metrics: Arc<Metrics>,
    nodes: Labels,
    unscheduled: Labels,
    assigned: Labels,
    began: Nanos,
    seen: Option<EventLabel>,
}

impl Handling {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            nodes: Labels::new(&metrics, "Node"),
            unscheduled: Labels::new(&metrics, "UnscheduledPod"),
            assigned: Labels::new(&metrics, "AssignedPod"),
            began: Nanos::default(),
            seen: None,
            metrics,
        }
    }

    /// A batch begins.
    pub(super) const fn begin(&mut self, now: Nanos) {
        self.began = now;
        self.seen = None;
    }

    /// A pod changed. Of several changes in one delivery the last one names it.
    pub(super) const fn pod(&mut self, change: &PodChange) {
        self.seen = Some(match change {
            PodChange::Pending { old: None, .. } => self.unscheduled.add,
            PodChange::Pending { .. } => self.unscheduled.update,
            PodChange::Assigned { old: None, .. } => self.assigned.add,
            PodChange::Assigned { .. } => self.assigned.update,
            PodChange::Removed { freed: true, .. } => self.assigned.delete,
            PodChange::Removed { .. } => self.unscheduled.delete,
        });
    }

    /// A node changed.
    pub(super) const fn node(&mut self, change: &NodeChange) {
        self.seen = Some(match change {
            NodeChange::Added(_) => self.nodes.add,
            NodeChange::Updated { .. } => self.nodes.update,
            NodeChange::Removed(_) => self.nodes.delete,
        });
    }

    /// A delivery is taken in.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some(event) = self.seen.take() {
            self.metrics.event_handled(event, now.since(self.began));
        }
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::{Cluster, LabelVisibility, NodeSpec};
    use crate::ids::Symbol;
    use crate::telemetry::MetricsOptions;
    use crate::testing::node;

    #[test]
    fn deliveries_are_timed_by_event_and_those_without_one_are_not() {
        let metrics = Arc::new(Metrics::new(&MetricsOptions::default()));
        let mut handling = Handling::new(Arc::clone(&metrics));
        let cluster = Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All);
        let mut now = Nanos(0);
        handling.begin(now);
        for cpu in [1000, 1000, 2000] {
            for change in cluster.apply_node(NodeSpec::clone(&node("n").cpu(cpu).build())) {
                handling.node(&change);
            }
            now = now.after(Duration::from_millis(1));
            handling.end(now);
        }
        let page = metrics.exposition();
        for line in [
            "scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"} 1",
            "scheduler_event_handling_duration_seconds_sum{event=\"NodeAdd\"} 0.001",
            "scheduler_event_handling_duration_seconds_count{event=\"NodeUpdate\"} 1",
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line} is not on:\n{page}");
        }
    }
}
