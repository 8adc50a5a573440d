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
use crate::plugins::hints::{Hint, after_own_change, changed_node, queue_if};
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
            EventHint::when(EventResource::Pod, ActionType::UPDATE_POD_TOLERATION, after_own_change).by_class(),
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
            if !taint.is_tolerated_by(&pod.spec.tolerations) {
                untolerated += 1;
            }
        }
        Ok(untolerated)
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(&ByGreatest::Reversed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::plugins::check::{self, hint, node_event, plugin, updated, world};
    use crate::testing::{NodeBuilder, PodBuilder, node, pod};

    const TAINTED: &str = "UU node(s) had untolerated taint(s)";

    #[test]
    fn taints_keep_pods_off_unless_tolerated() {
        let plugin = plugin("TaintToleration");
        let told = |taint: (&str, &str, &str), pod: &PodBuilder| {
            let node = node("n").taint(taint.0, taint.1, taint.2);
            check::filter(&*plugin, pod, &world(&[node], &[])).join("; ")
        };
        let foo_bar = ("foo", "bar", "NoSchedule");
        let table = [
            (foo_bar, pod("p"), TAINTED),
            (
                foo_bar,
                pod("p").toleration("foo", "", "bar", "PreferNoSchedule"),
                TAINTED,
            ),
            (foo_bar, pod("p").toleration("foo", "", "bar", ""), "fits"),
            (foo_bar, pod("p").toleration("foo", "Exists", "", "NoSchedule"), "fits"),
            (foo_bar, pod("p").toleration("foo", "Equal", "blah", ""), TAINTED),
            (foo_bar, pod("p").toleration("", "Equal", "bar", ""), "fits"),
            (("foo", "blah", "PreferNoSchedule"), pod("p"), "fits"),
            (("foo", "bar", "NoExecute"), pod("p"), TAINTED),
            (
                ("n", "950", "NoSchedule"),
                pod("p").toleration("n", "Gt", "750", ""),
                TAINTED,
            ),
        ];
        for (taint, pod, expected) in table {
            assert_eq!(told(taint, &pod), expected, "{taint:?} {}", pod.json());
        }
    }

    #[test]
    fn soft_taints_that_are_not_tolerated_lower_the_score() {
        let plugin = plugin("TaintToleration");
        let scores =
            |pod: &PodBuilder, nodes: &[NodeBuilder]| check::scores(&*plugin, pod, &world(nodes, &[])).unwrap();
        let soft = |name: &str, taints: &[(&str, &str)]| {
            let with = |node: NodeBuilder, taint: &(&str, &str)| node.taint(taint.0, taint.1, "PreferNoSchedule");
            taints.iter().fold(node(name), with)
        };
        let tolerating = pod("p").toleration("foo", "", "bar", "PreferNoSchedule");
        let bar_and_blah = [soft("a", &[("foo", "bar")]), soft("b", &[("foo", "blah")])];
        assert_eq!(scores(&tolerating, &bar_and_blah), [100, 0]);
        let counts = [
            soft("a", &[]),
            soft("b", &[("x", "1")]),
            soft("c", &[("x", "1"), ("y", "1")]),
        ];
        assert_eq!(scores(&pod("p"), &counts), [100, 50, 0]);
        let hard = pod("p")
            .toleration("x", "", "1", "NoSchedule")
            .toleration("y", "", "1", "NoSchedule");
        let mixed = [
            node("a").taint("x", "1", "NoSchedule"),
            soft("b", &[("x", "1"), ("y", "1")]),
        ];
        assert_eq!(scores(&hard, &mixed), [100, 0]);
        let all = pod("p").toleration("", "Exists", "", "");
        assert_eq!(scores(&all, &counts), [100, 100, 100]);
    }

    #[test]
    fn a_node_that_no_longer_repels_is_worth_another_try() {
        let plugin = plugin("TaintToleration");
        let tainted = node("n").taint("k", "v", "NoSchedule");
        let after = |old: Option<&NodeBuilder>, new: &NodeBuilder| {
            let action = old.map_or(ActionType::ADD, |_| ActionType::UPDATE_NODE_TAINT);
            hint(&*plugin, &pod("p"), EventResource::Node, action, &node_event(old, new))
        };
        assert_eq!(after(Some(&tainted), &node("n")), Some(Queue));
        assert_eq!(after(Some(&node("n")), &node("n")), Some(QueueSkip));
        assert_eq!(after(None, &tainted), Some(QueueSkip));
        assert_eq!(after(None, &node("n")), Some(Queue));
        let own = |name| {
            let event = updated(&pod(name), &pod(name));
            hint(
                &*plugin,
                &pod("p"),
                EventResource::Pod,
                ActionType::UPDATE_POD_TOLERATION,
                &event,
            )
        };
        assert_eq!((own("p"), own("q")), (Some(Queue), Some(QueueSkip)));
    }
}
