//! Why a pod fits nowhere, and the text that says so.

use std::collections::BTreeMap;

use crate::framework::{Code, NodeStatuses, Status};
use crate::ids::Symbol;

/// What was found out about a pod that fits nowhere.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// The status of every node.
    pub statuses: NodeStatuses,
    /// Plugins that rejected it: their hints decide when it is tried again.
    pub unschedulable_plugins: Vec<Symbol>,
    /// Those among them that answered [`Code::Pending`].
    pub pending_plugins: Vec<Symbol>,
    /// Set when PreFilter rejected the pod for all nodes.
    pub pre_filter_message: Option<String>,
}

impl Diagnosis {
    /// Records a node's rejection and who is behind it.
    pub fn blame(&mut self, status: &Status) {
        let Some(plugin) = status.plugin else { return };
        let list = if status.code == Code::Pending {
            &mut self.pending_plugins
        } else {
            &mut self.unschedulable_plugins
        };
        if !list.contains(&plugin) {
            list.push(plugin);
        }
    }
}

/// A pod that fits nowhere.
#[derive(Clone, Debug, Default)]
pub struct FitError {
    /// Number of nodes.
    pub node_count: usize,
    /// Why.
    pub diagnosis: Diagnosis,
    /// What PostFilter said; empty after a successful preemption.
    pub post_filter_message: String,
}

impl FitError {
    /// The text for events and the pod's condition: `0/N nodes are available: …`.
    ///
    /// Source: `pkg/scheduler/framework/types.go` (`FitError.Error`), Kubernetes 1.36.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = fit_text(self.node_count, &self.diagnosis);
        if !self.post_filter_message.is_empty() {
            text.push(' ');
            text.push_str(&self.post_filter_message);
        }
        text
    }
}

fn fit_text(node_count: usize, diagnosis: &Diagnosis) -> String {
    let head = format!("0/{node_count} nodes are available:");
    if let Some(message) = diagnosis
        .pre_filter_message
        .as_deref()
        .filter(|message| !message.is_empty())
    {
        return format!("{head} {message}.");
    }
    let histogram = histogram(node_count, &diagnosis.statuses);
    if histogram.is_empty() {
        head
    } else {
        format!("{head} {}.", histogram.join(", "))
    }
}

/// `<count> <reason>` for every reason, sorted as text.
fn histogram(node_count: usize, statuses: &NodeStatuses) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in statuses.explicit.iter().flat_map(|(_, status)| &status.reasons) {
        *counts.entry(reason.as_str()).or_default() += 1;
    }
    let others = node_count.saturating_sub(statuses.explicit.len());
    if others > 0 {
        for reason in &statuses.absent.reasons {
            *counts.entry(reason.as_str()).or_default() += others;
        }
    }
    let mut items: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    items.sort_unstable();
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::Reason;
    use crate::ids::NodeIdx;

    fn rejected(nodes: std::ops::Range<u32>, reasons: &[&str]) -> Vec<(NodeIdx, Status)> {
        let status = Status {
            code: Code::Unschedulable,
            reasons: reasons.iter().map(|r| Reason::Known(Symbol::new(r))).collect(),
            plugin: None,
        };
        nodes.map(|n| (NodeIdx(n), status.clone())).collect()
    }

    fn message(node_count: usize, explicit: Vec<(NodeIdx, Status)>) -> String {
        let statuses = NodeStatuses {
            explicit,
            absent: Status::SUCCESS,
        };
        FitError {
            node_count,
            diagnosis: Diagnosis {
                statuses,
                ..Default::default()
            },
            ..Default::default()
        }
        .message()
    }

    #[test]
    fn reasons_are_counted_per_node_and_sorted_as_text() {
        assert_eq!(
            message(100, rejected(0..100, &["Insufficient cpu", "Insufficient memory"])),
            "0/100 nodes are available: 100 Insufficient cpu, 100 Insufficient memory."
        );
        let mut mixed = rejected(0..2, &["b"]);
        mixed.extend(rejected(2..12, &["c"]));
        assert_eq!(message(12, mixed), "0/12 nodes are available: 10 c, 2 b.");
    }

    #[test]
    fn nodes_without_a_status_count_with_the_absent_one() {
        let statuses = NodeStatuses {
            explicit: rejected(0..1, &["a"]),
            absent: Status::unresolvable(Symbol::new("b")),
        };
        let diagnosis = Diagnosis {
            statuses,
            ..Default::default()
        };
        let error = FitError {
            node_count: 3,
            diagnosis,
            post_filter_message: "preemption: no".to_owned(),
        };
        assert_eq!(error.message(), "0/3 nodes are available: 1 a, 2 b. preemption: no");
    }

    #[test]
    fn a_rejection_by_pre_filter_replaces_the_counts() {
        let diagnosis = Diagnosis {
            pre_filter_message: Some("no such claim".to_owned()),
            ..Default::default()
        };
        let error = FitError {
            node_count: 5,
            diagnosis,
            post_filter_message: "not found".to_owned(),
        };
        assert_eq!(error.message(), "0/5 nodes are available: no such claim. not found");
    }
}
