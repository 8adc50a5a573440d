//! How far it is from every place to all partners of a class of pods.

use std::sync::Arc;

use smallvec::SmallVec;
use supercargo_config::plugin_args::{Aggregation, FigureMeaning};

use super::TopologyAware;
use super::reach::{Distance, Reach};
use crate::cluster::{ClusterView, NodeInfo};
use crate::ids::DomainIdx;
use crate::plugins::network::peers::{Partner, Seen, callees, weight_of_calls};

/// Why a place does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It does.
    Near,
    /// Some partner is not to be reached from there.
    Unreachable,
    /// It is so far, where at most so much is allowed: µs.
    TooFar { micros: i64, allowed: i64 },
}

/// What PreFilter keeps.
#[derive(Clone, Debug)]
pub(super) struct Located {
    partners: Arc<[Partner]>,
    /// `[partner]`.
    reaches: SmallVec<[Reach; 2]>,
    /// Those who call the pod, each as often as the weight of its calls says. Together they count for the score like one
    /// partner of weight 1.
    callers: Reach,
    missing: FigureMeaning,
}

impl Located {
    pub(super) fn new(plugin: &TopologyAware, cluster: &ClusterView<'_>, pod: Seen<'_>) -> Self {
        let partners: Arc<[Partner]> = callees(cluster, pod).into_iter().collect();
        let mut located = Self {
            reaches: partners.iter().map(|_| Reach::default()).collect(),
            partners,
            callers: Reach::default(),
            missing: plugin.missing,
        };
        located.count_places(cluster);
        for placed in cluster.placed.classes() {
            let other = Seen::from(&*placed.class);
            if !located.is_about(plugin, cluster, pod, other) {
                continue;
            }
            for (idx, count) in placed.nodes() {
                if let Some(node) = cluster.nodes.get(idx) {
                    located.count(plugin, cluster, (pod, other), (node, i64::from(count)));
                }
            }
        }
        located
    }

    /// Places that are named count like a pod in each of them.
    fn count_places(&mut self, cluster: &ClusterView<'_>) {
        let network = cluster.network;
        for (partner, reach) in self.partners.iter().zip(&mut self.reaches) {
            let Some((level, name)) = partner.place() else { continue };
            let tree = network.tree();
            let named = |place: &DomainIdx| {
                tree.step(*place)
                    .is_some_and(|step| step.level == level && step.name == name)
            };
            for place in tree.places().filter(named) {
                reach.count(network, self.missing, place, 1);
            }
        }
    }

    fn is_about(&self, plugin: &TopologyAware, cluster: &ClusterView<'_>, pod: Seen<'_>, other: Seen<'_>) -> bool {
        self.partners.iter().any(|partner| partner.means(other))
            || plugin.counts_callers && weight_of_calls(cluster, pod, other) > 0
    }

    /// Notes that `by` more pods like `other` are on a node.
    pub(super) fn count(
        &mut self,
        plugin: &TopologyAware,
        cluster: &ClusterView<'_>,
        (pod, other): (Seen<'_>, Seen<'_>),
        (node, by): (&NodeInfo, i64),
    ) {
        let (network, missing) = (cluster.network, self.missing);
        for (partner, reach) in self.partners.iter().zip(&mut self.reaches) {
            if partner.means(other) {
                reach.count(network, missing, node.place, by);
            }
        }
        if plugin.counts_callers {
            let weight = weight_of_calls(cluster, pod, other);
            if weight > 0 {
                self.callers.count(network, missing, node.place, by * weight);
            }
        }
    }

    /// Whether there is nobody to be near to.
    pub(super) fn is_nowhere(&self) -> bool {
        !self.has_callees() && !self.callers.is_somewhere()
    }

    /// Whether any partner that the pod calls is somewhere.
    pub(super) fn has_callees(&self) -> bool {
        self.reaches.iter().any(Reach::is_somewhere)
    }

    /// What the filter says about a place.
    pub(super) fn verdict(&self, plugin: &TopologyAware, place: DomainIdx) -> Verdict {
        for (partner, reach) in self.partners.iter().zip(&self.reaches) {
            let allowed = partner.max_latency_micros.map(i64::from);
            match (reach.from(place, plugin.aggregation), allowed) {
                (Distance::Unreachable, _) => return Verdict::Unreachable,
                (Distance::Micros(micros), Some(allowed)) if micros > allowed => {
                    return Verdict::TooFar { micros, allowed };
                }
                _ => {}
            }
        }
        match self.to_callees(plugin, place) {
            Some(micros) if plugin.threshold_micros > 0 && micros > plugin.threshold_micros => Verdict::TooFar {
                micros,
                allowed: plugin.threshold_micros,
            },
            _ => Verdict::Near,
        }
    }

    /// µs to those that the pod calls; `None`: not known, or they are nowhere.
    fn to_callees(&self, plugin: &TopologyAware, place: DomainIdx) -> Option<i64> {
        let (sum, weights) = self.sums(plugin, place);
        average(plugin, sum, weights)
    }

    /// µs that the score goes by; `None`: not known, or nobody is anywhere.
    pub(super) fn latency(&self, plugin: &TopologyAware, place: DomainIdx) -> Option<i64> {
        let (mut sum, mut weights) = self.sums(plugin, place);
        if let Distance::Micros(micros) = self.callers.from(place, plugin.aggregation) {
            match plugin.aggregation {
                Aggregation::Mean => sum += micros,
                Aggregation::Max => sum = sum.max(micros),
            }
            weights += 1;
        }
        average(plugin, sum, weights)
    }

    /// The sum of partners' latencies by weight and the sum of weights; with `Max` the greatest latency instead.
    fn sums(&self, plugin: &TopologyAware, place: DomainIdx) -> (i64, i64) {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (partner, reach) in self.partners.iter().zip(&self.reaches) {
            let Distance::Micros(micros) = reach.from(place, plugin.aggregation) else {
                continue;
            };
            match plugin.aggregation {
                Aggregation::Mean => sum = sum.saturating_add(micros.saturating_mul(partner.weight)),
                Aggregation::Max => sum = sum.max(micros),
            }
            weights = weights.saturating_add(partner.weight);
        }
        (sum, weights)
    }
}

fn average(plugin: &TopologyAware, sum: i64, weights: i64) -> Option<i64> {
    match plugin.aggregation {
        _ if weights == 0 => None,
        Aggregation::Mean => Some(sum / weights),
        Aggregation::Max => Some(sum),
    }
}
