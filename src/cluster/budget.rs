//! PodDisruptionBudgets: how many pods of a set may be evicted.

use crate::cluster::{LabelSelector, PodInfo};
use crate::ids::Symbol;

/// A PodDisruptionBudget, compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The namespace: only pods there are meant.
    pub namespace: Symbol,
    /// The name.
    pub name: Box<str>,
    /// Which pods. One that is wrong or absent matches none.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// Names of pods whose eviction is already counted, sorted.
    pub disrupted: Box<[Box<str>]>,
}

impl Budget {
    /// Whether evicting `pod` costs a disruption: it is one of the set and not yet counted. A budget without
    /// requirements, and a pod without labels, do not count.
    ///
    /// Source: `pkg/scheduler/framework/preemption/preemption.go` (`filterPodsWithPDBViolation`), Kubernetes 1.36.
    #[must_use]
    pub fn covers(&self, pod: &PodInfo) -> bool {
        self.namespace == pod.namespace
            && !pod.labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches(&pod.labels)
            && self
                .disrupted
                .binary_search_by(|have| (**have).cmp(&*pod.name))
                .is_err()
    }
}
