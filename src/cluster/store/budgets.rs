//! PodDisruptionBudgets: read by trials of preemption only.

use std::sync::Arc;

use super::Cluster;
use crate::cluster::Budget;
use crate::ids::Symbol;

/// Namespace and name.
pub type BudgetKey = (Symbol, Box<str>);

impl Cluster {
    /// Takes in a budget.
    pub fn apply_budget(&self, budget: Budget) {
        self.budgets
            .lock()
            .insert((budget.namespace, budget.name.clone()), Arc::new(budget));
    }

    /// Notes that a budget is gone.
    pub fn remove_budget(&self, key: &BudgetKey) {
        self.budgets.lock().remove(key);
    }

    /// Namespace and name of every budget.
    #[must_use]
    pub fn budget_keys(&self) -> Vec<BudgetKey> {
        self.budgets.lock().keys().cloned().collect()
    }
}
