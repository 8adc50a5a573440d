//! Preferred affinity and anti-affinity, of the pod and of those that are placed, and how much placed pods that require
//! affinity draw the pod towards them.
//!
//! Source: `pkg/scheduler/framework/plugins/interpodaffinity/scoring.go`, Kubernetes 1.36.

use std::sync::Arc;

use smallvec::SmallVec;

use super::InterPodAffinity;
use super::tally::Tally;
use super::terms::{Resolved, Seen};
use crate::cluster::{ClusterView, Labels, NodeInfo, PodInfo, WeightedTerm};
use crate::framework::{CycleState, NormalizeScore, PreScore, Reads, Score, Status};
use crate::ids::{NodeIdx, Symbol};

const HIGHEST: f64 = 100.0;

/// What PreScore keeps; nothing when it skipped.
#[derive(Clone, Debug)]
pub(super) struct ScoreState(pub(super) Option<Scoring>);

/// Sums of weights by domain.
#[derive(Clone, Debug)]
pub(super) struct Scoring {
    own: Arc<Own>,
    sums: Tally,
    /// How many weights are in the sums, those that cancel each other out too.
    recorded: i64,
}

/// What stays as it is while pods come and go.
#[derive(Debug)]
struct Own {
    affinity: Resolved,
    anti: Resolved,
    namespace_labels: Option<Arc<Labels>>,
}

/// What one pod adds, wherever it is: a weight under a key.
type Shares = SmallVec<[(Symbol, i64); 4]>;

fn preferred_affinity(pod: Seen<'_>) -> &[WeightedTerm] {
    pod.affinity.map_or(&[], |affinity| &affinity.preferred_affinity)
}

fn preferred_anti_affinity(pod: Seen<'_>) -> &[WeightedTerm] {
    pod.affinity.map_or(&[], |affinity| &affinity.preferred_anti_affinity)
}

fn has_preferences(pod: Seen<'_>) -> bool {
    !preferred_affinity(pod).is_empty() || !preferred_anti_affinity(pod).is_empty()
}

fn add_weights<'t>(shares: &mut Shares, terms: impl Iterator<Item = &'t WeightedTerm>, sign: i64) {
    shares.extend(terms.map(|weighted| (weighted.term.topology_key, sign * i64::from(weighted.weight))));
}

impl Own {
    fn new(cluster: &ClusterView<'_>, pod: Seen<'_>) -> Self {
        let resolve = |terms: &[WeightedTerm]| Resolved::new(cluster, terms.iter().map(|weighted| &weighted.term));
        Self {
            affinity: resolve(preferred_affinity(pod)),
            anti: resolve(preferred_anti_affinity(pod)),
            namespace_labels: cluster.namespaces.labels(pod.namespace),
        }
    }

    fn shares(&self, hard_weight: i64, pod: Seen<'_>, other: Seen<'_>) -> Shares {
        let mut shares = Shares::new();
        let sides = [
            (preferred_affinity(pod), &self.affinity, 1),
            (preferred_anti_affinity(pod), &self.anti, -1),
        ];
        for (terms, resolved, sign) in sides {
            let meant = terms.iter().enumerate();
            let meant = meant.filter(|(at, weighted)| resolved.means(*at, &weighted.term, other));
            add_weights(&mut shares, meant.map(|(_, weighted)| weighted), sign);
        }
        if other.affinity.is_none() {
            return shares;
        }
        let namespace_labels = self.namespace_labels.as_deref();
        if hard_weight > 0 {
            let required = other.required_affinity().iter();
            let required = required.filter(|term| pod.is_meant_by(term, namespace_labels));
            shares.extend(required.map(|term| (term.topology_key, hard_weight)));
        }
        for (terms, sign) in [(preferred_affinity(other), 1), (preferred_anti_affinity(other), -1)] {
            let meant = terms.iter();
            let meant = meant.filter(|weighted| pod.is_meant_by(&weighted.term, namespace_labels));
            add_weights(&mut shares, meant, sign);
        }
        shares
    }
}

impl Scoring {
    fn new(cluster: &ClusterView<'_>, hard_weight: i64, pod: Seen<'_>) -> Self {
        let mut scoring = Self {
            own: Arc::new(Own::new(cluster, pod)),
            sums: Tally::default(),
            recorded: 0,
        };
        let sees_all = has_preferences(pod);
        for placed in cluster.placed.classes() {
            let other = Seen::from(&*placed.class);
            if !sees_all && other.affinity.is_none() {
                continue;
            }
            let shares = scoring.own.shares(hard_weight, pod, other);
            if shares.is_empty() {
                continue;
            }
            for (idx, count) in placed.nodes() {
                if let Some(node) = cluster.nodes.get(idx) {
                    scoring.add(&shares, node, i64::from(count));
                }
            }
        }
        scoring
    }

    fn add(&mut self, shares: &Shares, node: &NodeInfo, by: i64) {
        for (key, weight) in shares {
            if let Some(value) = node.label(*key) {
                self.sums.add(*key, value, weight * by);
                self.recorded += by;
            }
        }
    }

    /// Keys whose values on a node decide.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> {
        self.sums.keys()
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (std::collections::BTreeMap<(&'static str, &'static str), i64>, i64) {
        (self.sums.counts(), self.recorded)
    }
}

impl ScoreState {
    /// Notes that `by` more pods like `other` are on the node; false: PreScore must run anew.
    pub(super) fn count(
        &mut self,
        plugin: &InterPodAffinity,
        cluster: &ClusterView<'_>,
        (pod, other): (Seen<'_>, Seen<'_>),
        (node, by): (&NodeInfo, i64),
    ) -> bool {
        if plugin.ignores(pod) {
            return true;
        }
        let shares = match &self.0 {
            None => Own::new(cluster, pod).shares(plugin.hard_weight, pod, other),
            Some(scoring) => scoring.own.shares(plugin.hard_weight, pod, other),
        };
        let counted = |key: Symbol| node.label(key).is_some();
        let Some(scoring) = &mut self.0 else {
            return !shares.iter().any(|(key, _)| counted(*key));
        };
        if shares.iter().any(|(key, _)| counted(*key) && !scoring.sums.knows(*key)) {
            return false;
        }
        scoring.add(&shares, node, by);
        scoring.recorded != 0
    }
}

/// Whether pods like `other` count for the score of `pod` at all, on whatever node.
pub(super) fn concerns(plugin: &InterPodAffinity, cluster: &ClusterView<'_>, pod: Seen<'_>, other: Seen<'_>) -> bool {
    !plugin.ignores(pod)
        && (has_preferences(pod) || other.affinity.is_some())
        && !Own::new(cluster, pod).shares(plugin.hard_weight, pod, other).is_empty()
}

impl InterPodAffinity {
    /// Whether the score of the pod is left out by configuration.
    fn ignores(&self, pod: Seen<'_>) -> bool {
        self.ignores_placed_preferences && !has_preferences(pod)
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score_reads(&self) -> Reads {
        Reads::TOPOLOGY.and(Reads::NAMESPACES)
    }

    fn pre_score_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo, _: &[NodeIdx]) -> Status {
        let seen = Seen::from(pod);
        if let Some(error) = seen.affinity.and_then(|affinity| affinity.error.as_deref()) {
            return Status::error(format!("failed to parse pod: {error}"));
        }
        let status = |skips: bool| if skips { Status::SKIP } else { Status::SUCCESS };
        if let Some(ScoreState(kept)) = state.read() {
            // Of an earlier call, and kept up to date since; which nodes are feasible does not matter.
            return status(kept.is_none());
        }
        let scoring = (!self.ignores(seen)).then(|| Scoring::new(cluster, self.hard_weight, seen));
        let scoring = scoring.filter(|scoring| scoring.recorded != 0);
        let skips = scoring.is_none();
        state.write(ScoreState(scoring));
        status(skips)
    }
}

impl Score for InterPodAffinity {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::TOPOLOGY).and(Reads::NAMESPACES)
    }

    fn score_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        Ok(match state.read::<ScoreState>() {
            Some(ScoreState(Some(scoring))) => scoring.sums.on(node).flatten().sum(),
            _ => 0,
        })
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(&Spread)
    }
}

/// The lowest raw score becomes 0 and the highest 100; all become 0 when they are equal.
struct Spread;

impl NormalizeScore for Spread {
    fn by_value(&self) -> bool {
        true
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number from 0 to 100, cut off as upstream does"
    )]
    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [i64]) -> Status {
        let (Some(lowest), Some(highest)) = (scores.iter().copied().min(), scores.iter().copied().max()) else {
            return Status::SUCCESS;
        };
        for score in scores {
            // The division goes first, as upstream's does: otherwise some results would be one higher.
            *score = if highest == lowest {
                0
            } else {
                (HIGHEST * ((*score - lowest) as f64 / (highest - lowest) as f64)) as i64
            };
        }
        Status::SUCCESS
    }
}
