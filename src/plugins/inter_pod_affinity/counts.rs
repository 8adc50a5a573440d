//! Keeps what was counted up to date while pods come and go.
//!
//! The state must be computed anew where a change reaches beyond numbers: where the plugin had skipped and now would
//! not, or the other way round, and where a placed pod's term brings in a topology key that did not matter before, which
//! divides the nodes into other groups.

use smallvec::SmallVec;

use super::InterPodAffinity;
use super::filtering::{self, FilterState};
use super::scoring::{self, ScoreState};
use super::terms::Seen;
use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{CycleState, DomainCounts, DomainKey};
use crate::ids::Symbol;

impl DomainCounts for InterPodAffinity {
    fn concerns(&self, cluster: &ClusterView<'_>, pod: &PodInfo, other: &PodClass) -> bool {
        let (pod, other) = (Seen::from(pod), Seen::from(other));
        filtering::concerns(cluster, pod, other) || scoring::concerns(self, cluster, pod, other)
    }

    fn count(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodClass,
        node: &NodeInfo,
        by: i64,
    ) -> bool {
        let (pod, other) = (Seen::from(pod), Seen::from(other));
        if let Some(kept) = state.read_mut::<FilterState>()
            && !kept.count(cluster, (pod, other), (node, by))
        {
            return false;
        }
        let kept = state.read_mut::<ScoreState>();
        kept.is_none_or(|kept| kept.count(self, cluster, (pod, other), (node, by)))
    }

    fn domains(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo, key: &mut DomainKey) {
        let filtering = state.read::<FilterState>().and_then(|kept| kept.0.as_ref());
        let scoring = state.read::<ScoreState>().and_then(|kept| kept.0.as_ref());
        let keys = filtering.into_iter().flat_map(|filtering| filtering.keys());
        let mut pushed: SmallVec<[Symbol; 8]> = SmallVec::new();
        for label in keys.chain(scoring.into_iter().flat_map(|scoring| scoring.keys())) {
            if !pushed.contains(&label) {
                pushed.push(label);
                key.push(node.label(label).map_or(0, |value| u64::from(value.index()) + 1));
            }
        }
    }

    fn release(&self, state: &mut CycleState) {
        state.remove::<FilterState>();
        state.remove::<ScoreState>();
    }
}
