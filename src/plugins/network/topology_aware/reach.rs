//! How far it is from every place to the pods of one partner.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use supercargo_config::plugin_args::{Aggregation, FigureMeaning};

use crate::cluster::NetworkView;
use crate::ids::DomainIdx;
use crate::topology::Latency;

/// One way's figure, as the plugin takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// So many µs.
    Takes(u32),
    /// There is none.
    Closed,
    /// It does not count.
    Ignored,
}

/// What a latency means.
const fn way_of(latency: Latency, missing: FigureMeaning) -> Way {
    match (latency, missing) {
        (Latency::Micros(micros), _) => Way::Takes(micros),
        (Latency::Missing, FigureMeaning::Neutral) => Way::Ignored,
        (Latency::Missing, FigureMeaning::Unreachable) => Way::Closed,
    }
}

/// Sums over the pods that one place reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cell {
    /// µs.
    sum: i64,
    /// Pods that the sum is over.
    reached: i64,
    /// Pods that cannot be reached.
    closed: i64,
}

/// What is known of one partner from one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distance {
    /// So many µs.
    Micros(i64),
    /// It is somewhere, but not to be reached from here.
    Unreachable,
    /// Nothing is known, or it is nowhere yet.
    Unknown,
}

/// Latencies to the pods of one partner. `[place]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    cells: Vec<Cell>,
    /// Ways from all places to one where there are pods, and how many there are.
    by_place: FxHashMap<DomainIdx, (Arc<[Way]>, i64)>,
}

impl Reach {
    /// Whether there are pods anywhere.
    pub(super) fn is_somewhere(&self) -> bool {
        !self.by_place.is_empty()
    }

    /// Notes that `by` more pods are at a place. O(places).
    pub(super) fn count(&mut self, network: &NetworkView, missing: FigureMeaning, place: DomainIdx, by: i64) {
        let (tree, latencies) = (network.tree(), network.latencies());
        let (ways, pods) = self.by_place.entry(place).or_insert_with(|| {
            let ways = tree
                .places()
                .map(|from| way_of(latencies.between(tree, from, place), missing));
            (ways.collect(), 0)
        });
        *pods += by;
        let (ways, left) = (Arc::clone(ways), *pods);
        if left == 0 {
            self.by_place.remove(&place);
        }
        if self.cells.len() < ways.len() {
            self.cells.resize(ways.len(), Cell::default());
        }
        for (cell, way) in self.cells.iter_mut().zip(ways.iter()) {
            match way {
                Way::Takes(micros) => {
                    cell.sum += by * i64::from(*micros);
                    cell.reached += by;
                }
                Way::Closed => cell.closed += by,
                Way::Ignored => {}
            }
        }
    }

    /// How far it is from a place: to the mean of the pods that can be reached, or to the furthest.
    pub(super) fn from(&self, place: DomainIdx, aggregation: Aggregation) -> Distance {
        let cell = self.cells.get(place.at()).copied().unwrap_or_default();
        match (cell.reached > 0, aggregation) {
            (false, _) if cell.closed > 0 => Distance::Unreachable,
            (false, _) => Distance::Unknown,
            (true, Aggregation::Mean) => Distance::Micros(cell.sum / cell.reached),
            (true, Aggregation::Max) => Distance::Micros(self.furthest(place)),
        }
    }

    /// O(places with pods).
    fn furthest(&self, place: DomainIdx) -> i64 {
        let takes = |(ways, _): &(Arc<[Way]>, i64)| match ways.get(place.at()) {
            Some(Way::Takes(micros)) => i64::from(*micros),
            _ => 0,
        };
        self.by_place.values().map(takes).max().unwrap_or_default()
    }
}
