//! What all sources say about latencies.
//!
//! Does not: watch sources.

use std::sync::Arc;

use super::latency::{Figure, LatencyTable};
use super::tree::Tree;
use crate::ids::{DomainIdx, Symbol};

/// A source's tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// What it is called in metrics and messages.
    pub name: Symbol,
    /// Asked in ascending order: the first with a figure wins.
    pub rank: u8,
    /// Level and table, widest level first.
    pub tables: Vec<(Symbol, Arc<LatencyTable>)>,
}

/// All sources, as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// By rank, then by name.
    sources: Vec<Source>,
}

/// What is known of the way from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// So many µs.
    Micros(u32),
    /// No source has a figure.
    Missing,
}

impl Latencies {
    /// All sources.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub(super) fn put(&mut self, source: Source) -> bool {
        let known = self.sources.iter_mut().find(|known| known.name == source.name);
        match known {
            Some(known) if *known == source => return false,
            Some(known) => *known = source,
            None => self.sources.push(source),
        }
        self.sources.sort_by_key(|source| (source.rank, source.name.as_str()));
        true
    }

    pub(super) fn remove(&mut self, name: Symbol) -> bool {
        let before = self.sources.len();
        self.sources.retain(|source| source.name != name);
        self.sources.len() != before
    }

    /// What one way between two places takes: by the innermost level that has a figure, of the first source that has one;
    /// else by the costs of the links. One place is at 0 from itself unless a table says otherwise.
    /// O(sources × levels × depth).
    #[must_use]
    pub fn between(&self, tree: &Tree, from: DomainIdx, to: DomainIdx) -> Latency {
        let mut figures = self.sources.iter().filter_map(|source| source.figure(tree, from, to));
        match figures.next().or_else(|| tree.cost_micros(from, to)) {
            Some(micros) => Latency::Micros(micros),
            None => Latency::Missing,
        }
    }
}

impl Source {
    fn figure(&self, tree: &Tree, from: DomainIdx, to: DomainIdx) -> Option<u32> {
        self.tables.iter().rev().find_map(|(level, table)| {
            let (from, to) = (tree.name_at(from, *level)?, tree.name_at(to, *level)?);
            match table.figure(from, to) {
                Figure::Known(micros) => Some(micros),
                Figure::Missing | Figure::Foreign => None,
            }
        })
    }
}
