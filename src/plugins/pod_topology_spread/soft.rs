//! What the score rests on: pods by domain of every soft constraint, and how much each constraint counts.
//!
//! Source: `pkg/scheduler/framework/plugins/podtopologyspread/scoring.go`, Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::constraints::{Constraint, has_all_keys};
use super::hard::{NO_LABEL, is_peer, key_of};
use super::logarithm::ln;
use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{CycleState, DomainKey, NormalizeScore, Status};
use crate::ids::{NodeIdx, Symbol};

/// The domain of nodes without the label, where such nodes take part; the same as that of nodes with an empty value.
static NO_VALUE: LazyLock<Symbol> = LazyLock::new(|| Symbol::new(""));

/// The raw score of a node that takes no part; no sum is negative. Becomes 0 and moves no other score.
pub(super) const LEFT_OUT: i64 = -1;

const HIGHEST: i64 = 100;

/// Counts for a pod's soft constraints; there is at least one.
#[derive(Clone, Debug)]
pub(super) struct SoftState {
    constraints: Arc<[Constraint]>,
    /// Nodes without one of the labels take no part.
    needs_all_keys: bool,
    /// `[constraint]`
    tables: SmallVec<[Table; 2]>,
}

#[derive(Clone, Debug)]
struct Table {
    /// Grows with the number of domains among the feasible nodes, so that many small domains count like few large ones.
    weight: f64,
    tally: Tally,
}

#[derive(Clone, Debug)]
enum Tally {
    /// `[slot]`: a host is a domain, whatever its label says.
    #[expect(
        clippy::rc_buffer,
        reason = "a vector is copied when it is shared and then changed in place"
    )]
    Hosts(Arc<Vec<i64>>),
    /// By value of the label.
    Values(Arc<FxHashMap<Symbol, Domain>>),
}

/// Nodes with one value of a constraint's label.
#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    /// Pods on those that take part.
    count: i64,
    /// How many nodes have the value.
    holders: u32,
}

impl Tally {
    fn empty(cluster: &ClusterView<'_>, constraint: &Constraint) -> Self {
        if constraint.is_by_host() {
            return Self::Hosts(Arc::new(vec![0; cluster.nodes.slot_count()]));
        }
        let mut domains: FxHashMap<Symbol, Domain> = FxHashMap::default();
        for node in cluster.nodes.iter() {
            domains.entry(value_of(node, constraint)).or_default().holders += 1;
        }
        Self::Values(Arc::new(domains))
    }

    fn is_alone(&self, value: Symbol) -> bool {
        match self {
            Self::Hosts(_) => true,
            Self::Values(domains) => domains.get(&value).is_some_and(|domain| domain.holders == 1),
        }
    }

    fn count(&self, node: &NodeInfo, value: Symbol) -> i64 {
        match self {
            Self::Hosts(counts) => counts.get(node.idx.at()).copied().unwrap_or(0),
            Self::Values(domains) => domains.get(&value).map_or(0, |domain| domain.count),
        }
    }
}

fn value_of(node: &NodeInfo, constraint: &Constraint) -> Symbol {
    node.label(constraint.key).unwrap_or(*NO_VALUE)
}

impl SoftState {
    /// Counts over all placed pods; the weights are still to come.
    pub(super) fn count_all(
        cluster: &ClusterView<'_>,
        pod: &PodInfo,
        constraints: Arc<[Constraint]>,
        needs_all_keys: bool,
    ) -> Self {
        let tables = constraints.iter().map(|constraint| Table {
            weight: 0.0,
            tally: Tally::empty(cluster, constraint),
        });
        let mut state = Self {
            tables: tables.collect(),
            constraints,
            needs_all_keys,
        };
        for placed in cluster.placed.classes() {
            if is_peer(pod, &placed.class) {
                let which = state.which_count(&placed.class);
                for (node, count) in placed.nodes().filter(|_| !which.is_empty()) {
                    if let Some(node) = cluster.nodes.get(node) {
                        state.add(&which, pod, node, count.into());
                    }
                }
            }
        }
        state
    }

    /// Constraints for which pods of a class count.
    fn which_count(&self, class: &PodClass) -> SmallVec<[usize; 4]> {
        let counting = self.constraints.iter().enumerate();
        let counting = counting.filter(|(_, constraint)| constraint.counts(&class.labels));
        counting.map(|(at, _)| at).collect()
    }

    fn add(&mut self, which: &[usize], pod: &PodInfo, node: &NodeInfo, by: i64) {
        let takes_part = !self.needs_all_keys || has_all_keys(node, &self.constraints);
        for at in which {
            let (Some(constraint), Some(table)) = (self.constraints.get(*at), self.tables.get_mut(*at)) else {
                continue;
            };
            match &mut table.tally {
                Tally::Hosts(counts) => {
                    let counts = Arc::make_mut(counts);
                    if counts.len() <= node.idx.at() {
                        counts.resize(node.idx.at() + 1, 0);
                    }
                    counts[node.idx.at()] += by;
                }
                Tally::Values(domains) => {
                    if takes_part && constraint.admits(pod, node) {
                        let domains = Arc::make_mut(domains);
                        domains.entry(value_of(node, constraint)).or_default().count += by;
                    }
                }
            }
        }
    }

    /// `by` more pods of `other` are on `node`.
    pub(super) fn count(&mut self, pod: &PodInfo, other: &PodClass, node: &NodeInfo, by: i64) {
        if is_peer(pod, other) {
            let which = self.which_count(other);
            self.add(&which, pod, node, by);
        }
    }

    /// Weighs the constraints by the number of domains among the feasible nodes: one node of each group of nodes with
    /// equal keys, and how many there are.
    pub(super) fn weigh(&mut self, cluster: &ClusterView<'_>, groups: impl Iterator<Item = (NodeIdx, usize)>) {
        let nodes = groups.filter_map(|(idx, count)| Some((cluster.nodes.get(idx)?, count)));
        let taking_part: Vec<(&NodeInfo, usize)> = nodes
            .filter(|(node, _)| !self.needs_all_keys || has_all_keys(node, &self.constraints))
            .collect();
        let mut shared: FxHashSet<Symbol> = FxHashSet::default();
        for (constraint, table) in self.constraints.iter().zip(&mut self.tables) {
            shared.clear();
            let mut domain_count = 0;
            for (node, count) in &taking_part {
                let value = value_of(node, constraint);
                if table.tally.is_alone(value) {
                    domain_count += count;
                } else if shared.insert(value) {
                    domain_count += 1;
                }
            }
            table.weight = ln(float(i64::try_from(domain_count + 2).unwrap_or(i64::MAX)));
        }
    }

    /// Pushes what of `node` [`Self::score`] rests on.
    pub(super) fn key(&self, node: &NodeInfo, key: &mut DomainKey) {
        for (constraint, table) in self.constraints.iter().zip(&self.tables) {
            key.push(match (node.label(constraint.key), &table.tally) {
                (None, _) => NO_LABEL,
                (Some(value), Tally::Hosts(_)) => key_of(value, 1, table.tally.count(node, value)),
                (Some(value), Tally::Values(domains)) => {
                    let domain = domains.get(&value).copied().unwrap_or_default();
                    key_of(value, domain.holders, domain.count)
                }
            });
        }
    }

    /// The raw score of a node: the lower, the better.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a sum of pod counts and skews, far below 2^63"
    )]
    pub(super) fn score(&self, node: &NodeInfo) -> i64 {
        let mut sum = 0.0;
        for (constraint, table) in self.constraints.iter().zip(&self.tables) {
            match node.label(constraint.key) {
                Some(value) => {
                    sum += float(table.tally.count(node, value)) * table.weight + float(constraint.max_skew - 1);
                }
                None if self.needs_all_keys => return LEFT_OUT,
                None => {}
            }
        }
        sum.round() as i64
    }

    /// Everything but counts of 0, in an order.
    #[cfg(test)]
    pub(super) fn picture(&self) -> Vec<(u64, Vec<(String, i64)>)> {
        let picture = |table: &Table| {
            let mut counts: Vec<(String, i64)> = match &table.tally {
                Tally::Hosts(counts) => counts.iter().enumerate().map(|(at, n)| (at.to_string(), *n)).collect(),
                Tally::Values(domains) => domains.iter().map(|(value, d)| (value.to_string(), d.count)).collect(),
            };
            counts.retain(|(_, count)| *count != 0);
            counts.sort_unstable();
            (table.weight.to_bits(), counts)
        };
        self.tables.iter().map(picture).collect()
    }
}

fn float(number: i64) -> f64 {
    number as f64
}

/// Turns the order round: the lowest raw score becomes the highest.
pub(super) struct Lowest;

impl NormalizeScore for Lowest {
    fn by_value(&self) -> bool {
        true
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [i64]) -> Status {
        let taking_part = || scores.iter().copied().filter(|score| *score != LEFT_OUT);
        let (lowest, greatest) = (
            taking_part().min().unwrap_or(i64::MAX),
            taking_part().max().unwrap_or(0),
        );
        for score in scores {
            *score = if *score == LEFT_OUT {
                0
            } else if greatest == 0 {
                HIGHEST
            } else {
                HIGHEST * (greatest + lowest - *score) / greatest
            };
        }
        Status::SUCCESS
    }
}
