//! `PrioritySort`: higher priority first, then the pod that was put into the queue earlier.
//!
//! Source: `pkg/scheduler/framework/plugins/queuesort`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::framework::{EventHint, LabelsRead, Plugin, QueueSort, SortKey};
use crate::ids::Symbol;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("PrioritySort"));

/// The plugin.
pub(super) struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(Vec::new())
    }

    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        Some(self)
    }
}

impl QueueSort for PrioritySort {
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool {
        let (first, second) = (a.pod.priority(), b.pod.priority());
        first > second || (first == second && a.timestamp < b.timestamp)
    }

    fn rank(&self, key: SortKey<'_>) -> Option<u128> {
        let below_highest = i64::from(i32::MAX) - i64::from(key.pod.priority());
        Some(u128::from(below_highest.unsigned_abs()) << 64 | u128::from(key.timestamp.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;
    use crate::plugins::check::built;
    use crate::testing::pod;

    #[test]
    fn priority_goes_before_time_in_the_queue() {
        let less = |a: (i32, u64), b: (i32, u64)| {
            let (pod_a, pod_b) = (built(&pod("a").priority(a.0)), built(&pod("b").priority(b.0)));
            let key = |pod, time| SortKey {
                pod,
                timestamp: Nanos(time),
            };
            PrioritySort.less(key(&pod_a, a.1), key(&pod_b, b.1))
        };
        assert!(less((2, 9), (1, 1)) && !less((1, 1), (2, 9)));
        assert!(less((1, 1), (1, 2)) && !less((1, 2), (1, 1)));
        assert!(!less((1, 1), (1, 1)));
        assert!(less((0, 1), (-1, 0)));
    }

    #[test]
    fn rank_and_comparison_agree_up_to_the_limits() {
        let keys: Vec<_> = [i32::MIN, -1, 0, 1, 2_000_001_000, i32::MAX]
            .into_iter()
            .flat_map(|priority| [0, 1, u64::MAX].map(|time| (built(&pod("p").priority(priority)), Nanos(time))))
            .collect();
        for (pod_a, time_a) in &keys {
            for (pod_b, time_b) in &keys {
                let key = |pod, time: &Nanos| SortKey { pod, timestamp: *time };
                let (a, b) = (key(pod_a, time_a), key(pod_b, time_b));
                let by_rank = PrioritySort.rank(key(pod_a, time_a)) < PrioritySort.rank(key(pod_b, time_b));
                assert_eq!(
                    PrioritySort.less(a, b),
                    by_rank,
                    "{} {time_a:?}, {} {time_b:?}",
                    pod_a.priority(),
                    pod_b.priority()
                );
            }
        }
    }
}
