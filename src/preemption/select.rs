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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NodeIdx, Symbol};
    use crate::testing::pod;

    const HIGH: i32 = 1000;
    const MID: i32 = 100;
    const LOW: i32 = 0;
    const NEG: i32 = -100;

    /// Priorities and start times.
    type Victims<'a> = &'a [(i32, u8)];

    fn candidate(node: u32, victims: Victims<'_>, pdb_violations: usize) -> Candidate {
        let victims = victims.iter().map(|(priority, second)| {
            pod("v")
                .priority(*priority)
                .started(&format!("2026-01-01T00:00:{second:02}Z"))
                .build()
        });
        Candidate {
            node: NodeIdx(node),
            name: Symbol::new("n"),
            version: 0,
            victims: victims.collect(),
            pdb_violations,
        }
    }

    /// Positions of the best among candidates given by the priorities and start times of their victims.
    fn best(all: &[Victims<'_>]) -> Vec<u32> {
        let candidates: Vec<_> = all
            .iter()
            .zip(0..)
            .map(|(victims, at)| candidate(at, victims, 0))
            .collect();
        best_candidates(&candidates).iter().map(|c| c.node.0).collect()
    }

    #[test]
    fn each_criterion_decides_where_those_before_it_tie() {
        let table: [(&[Victims<'_>], &[u32]); 10] = [
            (&[], &[]),
            (&[&[(MID, 0)], &[(MID, 0)], &[(LOW, 0)]], &[2]),
            (
                &[&[(MID, 0), (MID, 0)], &[(MID, 0), (LOW, 0)], &[(MID, 0), (MID, 0)]],
                &[1],
            ),
            (&[&[(MID, 0), (NEG, 0), (NEG, 0)], &[(MID, 0), (NEG, 0)]], &[1]),
            (
                &[
                    &[(MID, 0), (LOW, 0), (LOW, 0)],
                    &[(HIGH, 0)],
                    &[(MID, 0), (LOW, 0), (LOW, 0), (LOW, 0)],
                    &[(MID, 0), (MID, 0), (MID, 0), (NEG, 0)],
                ],
                &[0],
            ),
            (
                &[&[(LOW, 2), (LOW, 2)], &[(LOW, 3), (LOW, 3)], &[(LOW, 1), (LOW, 1)]],
                &[1],
            ),
            (
                &[&[(LOW, 4), (LOW, 2)], &[(LOW, 5), (LOW, 1)], &[(LOW, 3), (LOW, 6)]],
                &[2],
            ),
            (
                &[&[(MID, 2), (LOW, 4)], &[(MID, 6), (LOW, 1)], &[(MID, 5), (LOW, 3)]],
                &[1],
            ),
            (&[&[(MID, 0), (LOW, 0)], &[(MID, 0)]], &[1]),
            (&[&[(LOW, 1)], &[(LOW, 1)], &[(LOW, 0)]], &[0, 1]),
        ];
        for (candidates, expected) in table {
            assert_eq!(best(candidates), expected, "{candidates:?}");
        }
    }

    #[test]
    fn broken_budgets_weigh_more_than_priority() {
        let candidates = [candidate(0, &[(LOW, 0)], 1), candidate(1, &[(MID, 0)], 0)];
        let best: Vec<_> = best_candidates(&candidates).iter().map(|c| c.node.0).collect();
        assert_eq!(best, [1]);
    }
}
