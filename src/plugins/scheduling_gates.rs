//! `SchedulingGates`: keeps pods out of the queue while they have scheduling gates.
//!
//! Source: `pkg/scheduler/framework/plugins/schedulinggates`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::PodInfo;
use crate::framework::{ActionType, EventHint, EventResource, LabelsRead, Plugin, PreEnqueue, Status};
use crate::ids::Symbol;
use crate::plugins::hints::after_own_change;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("SchedulingGates"));

/// The plugin.
pub(super) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(
                EventResource::Pod,
                ActionType::UPDATE_POD_GATES_ELIMINATED,
                after_own_change,
            )
            .by_class(),
        ])
    }

    fn pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        Some(self)
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue_pod(&self, pod: &PodInfo) -> Status {
        if pod.gates.is_empty() {
            return Status::SUCCESS;
        }
        let gates: Vec<&str> = pod.gates.iter().map(AsRef::as_ref).collect();
        Status::unresolvable(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::framework::{ActionType, EventResource};
    use crate::plugins::check::{built, hint, plugin, told, updated};
    use crate::testing::{PodBuilder, pod};

    #[test]
    fn gates_are_named_in_order() {
        let plugin = plugin("SchedulingGates");
        let answer = |pod: &PodBuilder| told(&plugin.pre_enqueue().unwrap().pre_enqueue_pod(&built(pod)));
        let gated = pod("a").gate("foo").gate("bar");
        assert_eq!(answer(&gated), "UU waiting for scheduling gates: [foo bar]");
        assert_eq!(answer(&pod("a")), "fits");
    }

    #[test]
    fn only_the_pod_without_gates_itself_comes_back() {
        let plugin = plugin("SchedulingGates");
        let gated = pod("a").gate("foo");
        let after =
            |action, other: &PodBuilder| hint(&*plugin, &gated, EventResource::Pod, action, &updated(&gated, other));
        let eliminated = ActionType::UPDATE_POD_GATES_ELIMINATED;
        assert_eq!(after(eliminated, &pod("a")), Some(Queue));
        assert_eq!(after(eliminated, &pod("b")), Some(QueueSkip));
        assert_eq!(after(ActionType::UPDATE_POD_LABEL, &gated), None);
        assert!(plugin.filter().is_none());
    }
}
