//! `SchedulingGates`: keeps pods out of the queue while they have scheduling gates.
//!
//! Source: `pkg/scheduler/framework/plugins/schedulinggates`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::PodInfo;
use crate::framework::{ActionType, EventHint, EventResource, LabelsRead, Plugin, PreEnqueue, Status};
use crate::ids::Symbol;
use crate::plugins::hints::{changed_pod, queue_if};

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
                |pod, event| queue_if(changed_pod(event)?.uid == pod.uid),
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
