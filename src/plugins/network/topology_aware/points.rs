//! The extension points.

use std::sync::LazyLock;

use super::TopologyAware;
use super::located::{Located, Verdict};
use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{
    Code, CycleState, DomainCounts, DomainKey, Filter, NormalizeScore, PreFilter, PreFilterOutcome, PreScore, Reads,
    Score, Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::network::peers::{Seen, callees, weight_of_calls};

static UNREACHABLE: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node not reachable from pod's network zone"));

/// Raw scores are thousandths of a point.
const POINT: i64 = 1000;
const HIGHEST: i64 = 100;
/// The raw score of a node of which nothing is known: neither near nor far.
const NEUTRAL: i64 = 50 * POINT;

impl PreFilter for TopologyAware {
    fn pre_filter_reads(&self) -> Reads {
        Reads::TOPOLOGY
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        let fault = pod
            .spec
            .network
            .as_deref()
            .and_then(|network| network.faults.peers.as_deref());
        if let Some(fault) = fault {
            return Status::new(Code::UnschedulableAndUnresolvable, fault.to_owned()).into();
        }
        let located = Located::new(self, cluster, Seen::from(pod));
        let status = if located.has_callees() {
            Status::SUCCESS
        } else {
            Status::SKIP
        };
        state.write(located);
        status.into()
    }
}

impl Filter for TopologyAware {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::TOPOLOGY)
    }

    fn filter_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Status {
        let verdict = match state.read::<Located>() {
            Some(located) => located.verdict(self, node.place),
            None => Verdict::Near,
        };
        match verdict {
            Verdict::Near => Status::SUCCESS,
            Verdict::Unreachable => Status::new(Code::Unschedulable, *UNREACHABLE),
            Verdict::TooFar { micros, allowed } => Status::new(
                Code::Unschedulable,
                format!(
                    "latency of {} ms to pod's network zone is above the threshold of {} ms",
                    millis(micros),
                    millis(allowed)
                ),
            ),
        }
    }
}

/// µs as milliseconds, without needless digits.
fn millis(micros: i64) -> String {
    if micros % 1000 == 0 {
        (micros / 1000).to_string()
    } else {
        format!("{}.{:03}", micros / 1000, micros % 1000)
            .trim_end_matches('0')
            .to_owned()
    }
}

impl PreScore for TopologyAware {
    fn pre_score_reads(&self) -> Reads {
        Reads::TOPOLOGY
    }

    fn pre_score_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo, _: &[NodeIdx]) -> Status {
        if state.read::<Located>().is_none() {
            state.write(Located::new(self, cluster, Seen::from(pod)));
        }
        match state.read::<Located>() {
            Some(located) if !located.is_nowhere() => Status::SUCCESS,
            _ => Status::SKIP,
        }
    }
}

impl Score for TopologyAware {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::TOPOLOGY)
    }

    /// `max(0, 100 - latency_ms / divisor)`, in thousandths.
    fn score_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        let latency = state
            .read::<Located>()
            .and_then(|located| located.latency(self, node.place));
        Ok(latency.map_or(NEUTRAL, |micros| (HIGHEST * POINT - micros / self.divisor).max(0)))
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(self)
    }
}

impl NormalizeScore for TopologyAware {
    fn by_value(&self) -> bool {
        true
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [i64]) -> Status {
        let (Some(lowest), Some(highest)) = (scores.iter().copied().min(), scores.iter().copied().max()) else {
            return Status::SUCCESS;
        };
        for score in scores {
            *score = if self.stretches && highest > lowest {
                HIGHEST * (*score - lowest) / (highest - lowest)
            } else {
                *score / POINT
            };
        }
        Status::SUCCESS
    }
}

impl DomainCounts for TopologyAware {
    fn concerns(&self, cluster: &ClusterView<'_>, pod: &PodInfo, other: &PodClass) -> bool {
        let (pod, other) = (Seen::from(pod), Seen::from(other));
        callees(cluster, pod).iter().any(|partner| partner.means(other))
            || self.counts_callers && weight_of_calls(cluster, pod, other) > 0
    }

    /// The state is made anew where a partner's first pod comes or its last one goes: the filter or the score had
    /// nothing to do before, or has nothing to do from now on.
    fn count(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodClass,
        node: &NodeInfo,
        by: i64,
    ) -> bool {
        let Some(located) = state.read_mut::<Located>() else {
            return false;
        };
        let before = (located.has_callees(), located.is_nowhere());
        located.count(self, cluster, (Seen::from(pod), Seen::from(other)), (node, by));
        before == (located.has_callees(), located.is_nowhere())
    }

    fn domains(&self, _: &CycleState, _: &PodInfo, node: &NodeInfo, key: &mut DomainKey) {
        key.push(u64::from(node.place.0));
    }

    fn weigh(&self, _: &ClusterView<'_>, state: &mut CycleState, _: &PodInfo, _: &[(NodeIdx, usize)]) -> bool {
        state.read::<Located>().is_some()
    }

    fn release(&self, state: &mut CycleState) {
        state.remove::<Located>();
    }
}
