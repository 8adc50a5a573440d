//! What the filter rests on: pods by domain of every hard constraint, and the lowest domain.
//!
//! Counts follow single changes at a cost that does not depend on the number of domains, save that a copy is made of
//! counts that somebody else still holds. Trials (nominated pods, preemption) keep their changes beside the counts.
//!
//! The lowest domain is exact after any changes. Upstream follows two domains only, which is the same as long as one
//! domain changes, and a trial changes one node.
//!
//! Source: `pkg/scheduler/framework/plugins/podtopologyspread/filtering.go`, Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::constraints::{Constraint, has_all_keys};
use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::DomainKey;
use crate::ids::Symbol;

/// What a constraint without any domain takes for the lowest.
const NO_DOMAIN: i64 = i32::MAX as i64;

/// No domain: the node does not take part.
const NOWHERE: u32 = u32::MAX;

/// In a key: the node lacks the label.
pub(super) const NO_LABEL: u64 = u64::MAX;

/// In a key, above every number of a value: what follows is a number of pods.
const COUNTED: u64 = 1 << 32;

/// What of its domain an answer for a node rests on. A domain of several nodes is told by its value, whose count may
/// change without a change of the node. The domain of a single node is told by its count, so that such nodes are alike
/// when their counts are.
pub(super) fn key_of(value: Symbol, holders: u32, count: i64) -> u64 {
    if holders == 1 {
        COUNTED + u64::try_from(count).unwrap_or(0)
    } else {
        value.index().into()
    }
}

/// Counts by domain for a pod's hard constraints; there is at least one.
#[derive(Clone, Debug)]
pub(super) struct HardState {
    constraints: Arc<[Constraint]>,
    /// `[constraint]`
    tables: SmallVec<[Table; 2]>,
}

/// Why a node does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rejection {
    /// It lacks a constraint's label.
    NoLabel,
    /// Its domain has too many pods.
    Skew,
}

impl HardState {
    /// Counts over all placed pods.
    pub(super) fn count_all(cluster: &ClusterView<'_>, pod: &PodInfo, constraints: Arc<[Constraint]>) -> Self {
        let width = constraints.len();
        let mut columns: Vec<Column> = constraints.iter().map(|_| Column::default()).collect();
        // `[slot][constraint]`: the domain.
        let mut places = vec![NOWHERE; cluster.nodes.slot_count() * width];
        for node in cluster.nodes.iter() {
            let takes_part = has_all_keys(node, &constraints);
            let row = places.iter_mut().skip(node.idx.at() * width);
            for ((constraint, column), place) in constraints.iter().zip(&mut columns).zip(row) {
                if let Some(value) = node.label(constraint.key) {
                    *place = column.place(value, takes_part && constraint.admits(pod, node));
                }
            }
        }
        for placed in cluster.placed.classes() {
            if !is_peer(pod, &placed.class) {
                continue;
            }
            for (at, (constraint, column)) in constraints.iter().zip(&mut columns).enumerate() {
                if constraint.counts(&placed.class.labels) {
                    for (node, count) in placed.nodes() {
                        let domain = places.get(node.at() * width + at).copied().unwrap_or(NOWHERE);
                        column.add(domain, count);
                    }
                }
            }
        }
        let tables = constraints.iter().zip(columns);
        let tables = tables
            .map(|(constraint, column)| Table::new(constraint, column, pod))
            .collect();
        Self { constraints, tables }
    }

    /// What the filter says of a node.
    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        for (constraint, table) in self.constraints.iter().zip(&self.tables) {
            let Some(value) = node.label(constraint.key) else {
                return Err(Rejection::NoLabel);
            };
            if table.count(value) + table.own - table.lowest > constraint.max_skew {
                return Err(Rejection::Skew);
            }
        }
        Ok(())
    }

    /// `by` more pods of `other` are on `node`. False: the node's domain is not known.
    pub(super) fn count(&mut self, pod: &PodInfo, other: &PodClass, node: &NodeInfo, by: i64) -> bool {
        if !is_peer(pod, other) || !has_all_keys(node, &self.constraints) {
            return true;
        }
        let mut known = true;
        for (constraint, table) in self.constraints.iter().zip(&mut self.tables) {
            if constraint.counts(&other.labels) && constraint.admits(pod, node) {
                let value = node.label(constraint.key);
                match value.and_then(|value| table.domain(value)) {
                    Some(domain) => table.shift(domain, by),
                    None => known = false,
                }
            }
        }
        known
    }

    /// As if `by` more of `other` were on `node`, for this copy of the state. Pods that terminate and pods that an
    /// empty selector matches do count here.
    pub(super) fn suppose(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        if other.namespace != pod.namespace || !has_all_keys(node, &self.constraints) {
            return;
        }
        for (constraint, table) in self.constraints.iter().zip(&mut self.tables) {
            if constraint.selector.matches(&other.labels)
                && constraint.admits(pod, node)
                && let Some(value) = node.label(constraint.key)
                && let Some(domain) = table.domain(value)
            {
                table.suppose(domain, by);
            }
        }
    }

    /// Pushes what of `node` [`Self::check`] rests on.
    pub(super) fn key(&self, node: &NodeInfo, key: &mut DomainKey) {
        for (constraint, table) in self.constraints.iter().zip(&self.tables) {
            key.push(match node.label(constraint.key) {
                Some(value) => key_of(value, table.holders(value), table.count(value)),
                None => NO_LABEL,
            });
        }
    }

    /// For each constraint: counts by domain, and the lowest.
    #[cfg(test)]
    pub(super) fn picture(&self) -> Vec<(BTreeMap<&'static str, i64>, i64)> {
        let picture = |table: &Table| {
            let taking_part = table.domains.keys().filter(|value| table.domain(**value).is_some());
            let counts = taking_part.map(|value| (value.as_str(), table.count(*value)));
            (counts.collect(), table.lowest)
        };
        self.tables.iter().map(picture).collect()
    }
}

/// Whether pods of a class can count for `pod` at all.
pub(super) fn is_peer(pod: &PodInfo, other: &PodClass) -> bool {
    other.namespace == pod.namespace && !other.terminating
}

/// Nodes with one value of a constraint's label.
#[derive(Clone, Copy, Debug)]
struct Domain {
    /// Where its count stands; none of its nodes takes part: nowhere.
    at: u32,
    /// How many nodes have the value.
    holders: u32,
}

/// A constraint's counts while they are added up.
#[derive(Default)]
struct Column {
    domains: FxHashMap<Symbol, Domain>,
    counts: Vec<i64>,
}

impl Column {
    /// Where the count of a node with this value stands, if it takes part.
    fn place(&mut self, value: Symbol, takes_part: bool) -> u32 {
        let new = Domain {
            at: NOWHERE,
            holders: 0,
        };
        let domain = self.domains.entry(value).or_insert(new);
        domain.holders += 1;
        if !takes_part {
            return NOWHERE;
        }
        if domain.at == NOWHERE {
            domain.at = u32::try_from(self.counts.len()).unwrap_or(NOWHERE);
            self.counts.push(0);
        }
        domain.at
    }

    fn add(&mut self, domain: u32, count: u32) {
        if let Some(sum) = self.counts.get_mut(domain as usize) {
            *sum += i64::from(count);
        }
    }
}

/// One constraint's counts.
#[derive(Clone, Debug)]
struct Table {
    domains: Arc<FxHashMap<Symbol, Domain>>,
    counts: Arc<Counts>,
    /// What a trial added to domains.
    supposed: SmallVec<[(u32, i64); 1]>,
    min_domains: i64,
    /// The pod counts for itself (1) or not (0).
    own: i64,
    /// Of the lowest domain.
    lowest: i64,
}

#[derive(Clone, Debug)]
struct Counts {
    by_domain: Vec<i64>,
    /// How many domains have each count.
    levels: BTreeMap<i64, u32>,
}

impl Table {
    fn new(constraint: &Constraint, column: Column, pod: &PodInfo) -> Self {
        let mut levels = BTreeMap::new();
        for count in &column.counts {
            *levels.entry(*count).or_insert(0) += 1;
        }
        let mut table = Self {
            domains: Arc::new(column.domains),
            counts: Arc::new(Counts {
                by_domain: column.counts,
                levels,
            }),
            supposed: SmallVec::new(),
            min_domains: constraint.min_domains,
            own: i64::from(constraint.selector.matches(&pod.labels)),
            lowest: 0,
        };
        table.lowest = table.find_lowest();
        table
    }

    /// The domain of a value, if a node with it takes part.
    fn domain(&self, value: Symbol) -> Option<u32> {
        let domain = self.domains.get(&value)?;
        (domain.at != NOWHERE).then_some(domain.at)
    }

    fn holders(&self, value: Symbol) -> u32 {
        self.domains.get(&value).map_or(0, |domain| domain.holders)
    }

    fn count(&self, value: Symbol) -> i64 {
        let Some(domain) = self.domain(value) else { return 0 };
        self.counts.of(domain) + self.supposed_for(domain)
    }

    fn supposed_for(&self, domain: u32) -> i64 {
        let found = self.supposed.iter().find(|(of, _)| *of == domain);
        found.map_or(0, |(_, by)| *by)
    }

    fn shift(&mut self, domain: u32, by: i64) {
        Arc::make_mut(&mut self.counts).shift(domain, by);
        self.lowest = self.find_lowest();
    }

    fn suppose(&mut self, domain: u32, by: i64) {
        match self.supposed.iter_mut().find(|(of, _)| *of == domain) {
            Some((_, sum)) => *sum += by,
            None => self.supposed.push((domain, by)),
        }
        self.lowest = self.find_lowest();
    }

    fn find_lowest(&self) -> i64 {
        let domain_count = i64::try_from(self.counts.by_domain.len()).unwrap_or(i64::MAX);
        if domain_count < self.min_domains {
            return 0;
        }
        let supposed_at = |level: i64| {
            let supposed = self.supposed.iter();
            supposed.filter(|(domain, _)| self.counts.of(*domain) == level).count()
        };
        let mut others = self.counts.levels.iter();
        let untouched = others.find(|(level, domains)| **domains as usize > supposed_at(**level));
        let supposed = self.supposed.iter().map(|(domain, by)| self.counts.of(*domain) + by);
        supposed
            .chain(untouched.map(|(level, _)| *level))
            .min()
            .unwrap_or(NO_DOMAIN)
    }
}

impl Counts {
    fn of(&self, domain: u32) -> i64 {
        self.by_domain.get(domain as usize).copied().unwrap_or(0)
    }

    fn shift(&mut self, domain: u32, by: i64) {
        let Some(count) = self.by_domain.get_mut(domain as usize) else {
            return;
        };
        if let Some(domains) = self.levels.get_mut(count) {
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(count);
            }
        }
        *count += by;
        *self.levels.entry(*count).or_insert(0) += 1;
    }
}
