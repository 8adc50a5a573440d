//! The choice among candidates.

use std::cmp::Reverse;

use crate::cluster::PodInfo;
use crate::preemption::Candidate;

/// The candidates that no criterion tells apart any more: fewest broken budgets, then least important top victim, then
/// smallest sum of the victims' priorities, then fewest victims, then the one whose most important victims started
/// last. Any of them is right; none only if there are no candidates.
#[must_use]
pub fn best_candidates(candidates: &[Candidate]) -> Vec<&Candidate> {
    let mut best: Vec<&Candidate> = candidates.iter().collect();
    keep_least(&mut best, |c| c.pdb_violations);
    keep_least(&mut best, |c| c.victims.first().map_or(i32::MIN, |pod| pod.priority()));
    keep_least(&mut best, |c| c.victims.iter().map(|pod| weight(pod)).sum::<i64>());
    keep_least(&mut best, |c| c.victims.len());
    keep_least(&mut best, |c| Reverse(start(c)));
    best
}

fn keep_least<K: Ord>(best: &mut Vec<&Candidate>, key: impl Fn(&Candidate) -> K) {
    if best.len() < 2 {
        return;
    }
    if let Some(least) = best.iter().map(|candidate| key(candidate)).min() {
        best.retain(|candidate| key(candidate) == least);
    }
}

/// Shifted so that no pod makes the sum smaller.
fn weight(pod: &PodInfo) -> i64 {
    i64::from(pod.priority()) + (1 << 31)
}

/// When the first of the victims of highest priority started, in microseconds since 1970.
fn start(candidate: &Candidate) -> i64 {
    let top = candidate.victims.iter().map(|pod| pod.priority()).max();
    let tops = candidate.victims.iter().filter(|pod| Some(pod.priority()) == top);
    tops.map(|pod| pod.start_time_micros.unwrap_or(i64::MAX))
        .min()
        .unwrap_or(i64::MAX)
}
