//! Required affinity and anti-affinity, of the pod and of those that are placed.
//!
//! Source: `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`, Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

use super::InterPodAffinity;
use super::tally::Tally;
use super::terms::{Resolved, Seen};
use crate::cluster::{ClusterView, Labels, NodeInfo, PodAffinityTerm, PodInfo};
use crate::framework::{CycleState, Filter, PreFilter, PreFilterExtensions, PreFilterOutcome, Reads, Status};
use crate::ids::Symbol;

static AFFINITY_REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) didn't match pod affinity rules"));
static ANTI_AFFINITY_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match pod anti-affinity rules"));
static EXISTING_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't satisfy existing pods anti-affinity rules"));

/// What PreFilter keeps; nothing when it skipped.
#[derive(Clone, Debug)]
pub(super) struct FilterState(pub(super) Option<Filtering>);

/// Counts of placed pods by domain.
#[derive(Clone, Debug)]
pub(super) struct Filtering {
    own: Arc<Own>,
    /// Pods that all terms of the pod's required affinity mean, once for each term.
    affinity: Tally,
    /// Pods that a term of the pod's required anti-affinity means, once for each such term.
    anti: Tally,
    /// Terms of required anti-affinity of placed pods that mean the pod.
    existing: Tally,
}

/// What stays as it is while pods come and go.
#[derive(Debug)]
struct Own {
    affinity: Resolved,
    anti: Resolved,
    namespace_labels: Option<Arc<Labels>>,
    /// All terms of its required affinity mean the pod itself: it may be the first of its group.
    matches_itself: bool,
    has_terms: bool,
}

/// Which of the counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    Affinity,
    Anti,
    Existing,
}

/// What one pod adds, wherever it is: which count under which key.
type Shares = SmallVec<[(Count, Symbol); 4]>;

impl Own {
    fn new(cluster: &ClusterView<'_>, pod: Seen<'_>) -> Self {
        let (affinity, anti) = (pod.required_affinity(), pod.required_anti_affinity());
        let resolved = Resolved::new(cluster, affinity.iter());
        Self {
            matches_itself: resolved.all_mean(affinity, pod),
            has_terms: !affinity.is_empty() || !anti.is_empty(),
            affinity: resolved,
            anti: Resolved::new(cluster, anti.iter()),
            namespace_labels: cluster.namespaces.labels(pod.namespace),
        }
    }

    fn shares(&self, pod: Seen<'_>, other: Seen<'_>) -> Shares {
        let mut shares = Shares::new();
        let affinity = pod.required_affinity();
        if self.affinity.all_mean(affinity, other) {
            shares.extend(affinity.iter().map(|term| (Count::Affinity, term.topology_key)));
        }
        let anti = pod.required_anti_affinity().iter().enumerate();
        let anti = anti.filter(|(at, term)| self.anti.means(*at, term, other));
        shares.extend(anti.map(|(_, term)| (Count::Anti, term.topology_key)));
        let namespace_labels = self.namespace_labels.as_deref();
        let existing = other.required_anti_affinity().iter();
        let existing = existing.filter(|term| pod.is_meant_by(term, namespace_labels));
        shares.extend(existing.map(|term| (Count::Existing, term.topology_key)));
        shares
    }
}

impl Filtering {
    fn new(cluster: &ClusterView<'_>, pod: Seen<'_>) -> Self {
        let keys = |terms: &[PodAffinityTerm]| Tally::of(terms.iter().map(|term| term.topology_key));
        let mut filtering = Self {
            own: Arc::new(Own::new(cluster, pod)),
            affinity: keys(pod.required_affinity()),
            anti: keys(pod.required_anti_affinity()),
            existing: Tally::default(),
        };
        for placed in cluster.placed.classes() {
            let other = Seen::from(&*placed.class);
            if !filtering.own.has_terms && other.required_anti_affinity().is_empty() {
                continue;
            }
            let shares = filtering.own.shares(pod, other);
            if shares.is_empty() {
                continue;
            }
            for (idx, count) in placed.nodes() {
                if let Some(node) = cluster.nodes.get(idx) {
                    filtering.add(&shares, node, i64::from(count));
                }
            }
        }
        filtering
    }

    fn tally(&mut self, count: Count) -> &mut Tally {
        match count {
            Count::Affinity => &mut self.affinity,
            Count::Anti => &mut self.anti,
            Count::Existing => &mut self.existing,
        }
    }

    fn add(&mut self, shares: &Shares, node: &NodeInfo, by: i64) {
        for (count, key) in shares {
            if let Some(value) = node.label(*key) {
                self.tally(*count).add(*key, value, by);
            }
        }
    }

    fn has_nothing_to_do(&self) -> bool {
        !self.own.has_terms && self.existing.is_empty()
    }

    fn check(&self, node: &NodeInfo) -> Status {
        if !self.satisfies_affinity(node) {
            return Status::unresolvable(*AFFINITY_REASON);
        }
        let holds = |tally: &Tally| tally.on(node).flatten().any(|count| count > 0);
        if holds(&self.anti) {
            return Status::unschedulable(*ANTI_AFFINITY_REASON);
        }
        if holds(&self.existing) {
            return Status::unschedulable(*EXISTING_REASON);
        }
        Status::SUCCESS
    }

    /// Every key must be there, and in every domain a pod that all terms mean; or no such pod is anywhere, and the pod
    /// is the first of its group.
    fn satisfies_affinity(&self, node: &NodeInfo) -> bool {
        let mut all = true;
        for count in self.affinity.on(node) {
            match count {
                None => return false,
                Some(count) => all &= count > 0,
            }
        }
        all || (self.own.matches_itself && self.affinity.is_empty())
    }

    /// Keys whose values on a node decide.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> {
        self.affinity.keys().chain(self.anti.keys()).chain(self.existing.keys())
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [std::collections::BTreeMap<(&'static str, &'static str), i64>; 3] {
        [self.affinity.counts(), self.anti.counts(), self.existing.counts()]
    }
}

impl FilterState {
    /// Notes that `by` more pods like `other` are on the node; false: PreFilter must run anew.
    pub(super) fn count(
        &mut self,
        cluster: &ClusterView<'_>,
        (pod, other): (Seen<'_>, Seen<'_>),
        (node, by): (&NodeInfo, i64),
    ) -> bool {
        let Some(filtering) = &mut self.0 else {
            // It had skipped: the pod has no terms, and pods without one that means it leave that as it is.
            let shares = Own::new(cluster, pod).shares(pod, other);
            return shares.iter().all(|(_, key)| node.label(*key).is_none());
        };
        let shares = filtering.own.shares(pod, other);
        let matters = |key: Symbol| filtering.keys().any(|have| have == key);
        if shares
            .iter()
            .any(|(_, key)| node.label(*key).is_some() && !matters(*key))
        {
            return false;
        }
        filtering.add(&shares, node, by);
        !filtering.has_nothing_to_do()
    }

    fn trial(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        if let Some(filtering) = &mut self.0 {
            let shares = filtering.own.shares(pod.into(), other.into());
            filtering.add(&shares, node, by);
        }
    }
}

/// Whether pods like `other` count for any filter of `pod` at all, on whatever node.
pub(super) fn concerns(cluster: &ClusterView<'_>, pod: Seen<'_>, other: Seen<'_>) -> bool {
    let has_terms = !pod.required_affinity().is_empty() || !pod.required_anti_affinity().is_empty();
    (has_terms || !other.required_anti_affinity().is_empty()) && !Own::new(cluster, pod).shares(pod, other).is_empty()
}

impl PreFilter for InterPodAffinity {
    fn pre_filter_reads(&self) -> Reads {
        Reads::TOPOLOGY.and(Reads::NAMESPACES)
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if let Some(error) = pod
            .spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.error.as_deref())
        {
            return Status::unresolvable(format!("parsing pod: {error}")).into();
        }
        let filtering = Filtering::new(cluster, pod.into());
        let skips = filtering.has_nothing_to_do();
        state.write(FilterState((!skips).then_some(filtering)));
        if skips { Status::SKIP } else { Status::SUCCESS }.into()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for InterPodAffinity {
    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        if let Some(kept) = state.read_mut::<FilterState>() {
            kept.trial(pod, other, node, 1);
        }
        Status::SUCCESS
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        if let Some(kept) = state.read_mut::<FilterState>() {
            kept.trial(pod, other, node, -1);
        }
        Status::SUCCESS
    }
}

impl Filter for InterPodAffinity {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::TOPOLOGY).and(Reads::NAMESPACES)
    }

    fn filter_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Status {
        match state.read::<FilterState>() {
            Some(FilterState(Some(filtering))) => filtering.check(node),
            _ => Status::SUCCESS,
        }
    }
}
