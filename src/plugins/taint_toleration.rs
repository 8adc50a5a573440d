//! `TaintToleration`: keeps pods off nodes with taints that they do not tolerate, and scores nodes lower the more
//! `PreferNoSchedule` taints the pod does not tolerate.
//!
//! The score needs no preparation: a toleration for another effect than `PreferNoSchedule` never tolerates a taint of
//! that effect.
//!
//! Source: `pkg/scheduler/framework/plugins/tainttoleration`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, Effect, NodeInfo, PodInfo, first_untolerated};
use crate::framework::{
    ActionType, CycleState, EventHint, EventObject, EventResource, Filter, LabelsRead, NormalizeScore, Plugin, Reads,
    Score, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{Hint, changed_node, changed_pod, queue_if};
use crate::plugins::normalize::ByGreatest;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("TaintToleration"));
static REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) had untolerated taint(s)"));

/// The plugin.
pub(super) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(
                EventResource::Node,
                ActionType::ADD.or(ActionType::UPDATE_NODE_TAINT),
                after_node_change,
            )
            .by_class(),
            EventHint::when(EventResource::Pod, ActionType::UPDATE_POD_TOLERATION, |pod, event| {
                queue_if(changed_pod(event)?.uid == pod.uid)
            })
            .by_class(),
        ])
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

fn after_node_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_node(event)?;
    let repels = |taints| first_untolerated(taints, &pod.spec.tolerations).is_some();
    queue_if(!repels(&new.taints) && old.is_none_or(|old| repels(&old.taints)))
}

impl Filter for TaintToleration {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if first_untolerated(&node.spec.taints, &pod.spec.tolerations).is_none() {
            Status::SUCCESS
        } else {
            Status::unresolvable(*REASON)
        }
    }
}

impl Score for TaintToleration {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        let soft = node
            .spec
            .taints
            .iter()
            .filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let mut untolerated = 0;
        for taint in soft {
            if !pod
                .spec
                .tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
            {
                untolerated += 1;
            }
        }
        Ok(untolerated)
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(&ByGreatest::Reversed)
    }
}
