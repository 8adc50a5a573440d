//! Which potential victims PodDisruptionBudgets protect.

use std::sync::Arc;

use crate::cluster::{Budget, PodInfo};

/// Splits `pods`, which are in order of importance, into those whose eviction would break a budget and the others.
/// Every budget that covers a pod is charged for it, also when another one is already exhausted.
pub(super) fn split(pods: Vec<Arc<PodInfo>>, budgets: &[Arc<Budget>]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    if budgets.is_empty() {
        return (Vec::new(), pods);
    }
    let mut left: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut broken = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if budget.covers(pod) {
                *left = left.saturating_sub(1);
                broken |= *left < 0;
            }
        }
        broken
    })
}
