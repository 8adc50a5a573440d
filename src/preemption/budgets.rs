//! Which potential victims PodDisruptionBudgets protect.

use std::sync::Arc;

use crate::cluster::{Budget, PodInfo};

/// Which of `pods`, which are in order of importance, could not be evicted without breaking a budget: one answer a pod,
/// or none at all where nobody has a budget. Every budget that covers a pod is charged for it, also when another one is
/// already exhausted.
pub(super) fn protected(pods: &[Arc<PodInfo>], budgets: &[Arc<Budget>]) -> Vec<bool> {
    if budgets.is_empty() {
        return Vec::new();
    }
    let mut left: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut breaks = |pod: &Arc<PodInfo>| {
        let mut broken = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if budget.covers(pod) {
                *left = left.saturating_sub(1);
                broken |= *left < 0;
            }
        }
        broken
    };
    pods.iter().map(&mut breaks).collect()
}
