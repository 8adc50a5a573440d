//! The network as one tree: the cluster, in it regions, zones, racks or whatever levels a cluster has, and in the
//! innermost of them the nodes. Every place but the cluster has a link to the place around it, with a capacity and a
//! cost; beside the tree stand tables of latencies between places of one level.
//!
//! Rows go in (*this node lies in region r, zone z*; *from r to s it takes 40 ms*), flat arrays come out. What a place is
//! called in which dialect of objects is the business of who makes the rows.
//!
//! Does not: know objects or plugins; keep what is in use on a link (that is the ledger's); read the time.
//!
//! Threads: any may read: [`Topology::tree`] and [`Topology::latencies`] give immutable values. Writers take turns. A
//! change copies the arrays of one of the two, O(places), and only if something differs; numbers of places are never
//! used again, so that a reader with an old tree is at worst ignorant, not wrong.
//!
//! Children in reading order: `tree`, `latency` (one table), `latencies` (all sources' tables together).

mod latencies;
mod latency;
mod tree;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub use latencies::{Latencies, Latency, Source};
pub(crate) use latency::micros;
pub use latency::{Figure, LatencyError, LatencyRow, LatencyTable, MAX_LATENCY_MS};
pub use tree::{Link, MAX_DOMAINS, Step, Tree};

use crate::ids::{DomainIdx, Symbol};
use crate::sync::Mutex;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Topology {
    tree: ArcSwap<Tree>,
    latencies: ArcSwap<Latencies>,
    /// Held by whoever changes either.
    writing: Mutex<()>,
}

impl Topology {
    /// The tree as of now.
    #[must_use]
    pub fn tree(&self) -> Arc<Tree> {
        self.tree.load_full()
    }

    /// The tables of latencies as of now.
    #[must_use]
    pub fn latencies(&self) -> Arc<Latencies> {
        self.latencies.load_full()
    }

    /// The place at the end of a path from the cluster inwards, made if it is not known yet. With [`MAX_DOMAINS`]
    /// places in the tree it is the innermost one known. Also whether the tree grew.
    pub fn place(&self, path: &[Step]) -> (DomainIdx, bool) {
        if let Some(found) = self.tree.load().find(path) {
            return (found, false);
        }
        let _turn = self.writing.lock();
        let mut tree = Tree::clone(&self.tree.load());
        let before = tree.len();
        let place = tree.insert(path);
        let grew = tree.len() != before;
        if grew {
            self.tree.store(Arc::new(tree));
        }
        (place, grew)
    }

    /// Sets the link of a place to the place around it; false: it was so before, or there is no such place.
    pub fn set_link(&self, place: DomainIdx, link: Link) -> bool {
        let _turn = self.writing.lock();
        let before = self.tree.load();
        if place == DomainIdx::ROOT || before.link(place).is_none_or(|known| *known == link) {
            return false;
        }
        let mut tree = Tree::clone(&before);
        tree.set_link(place, link);
        self.tree.store(Arc::new(tree));
        true
    }

    /// Takes in what one source says now, in place of what it said before; false: nothing changed.
    pub fn set_source(&self, source: Source) -> bool {
        self.change_latencies(|latencies| latencies.put(source))
    }

    /// Forgets a source; false: it was not known.
    pub fn remove_source(&self, name: Symbol) -> bool {
        self.change_latencies(|latencies| latencies.remove(name))
    }

    fn change_latencies(&self, change: impl FnOnce(&mut Latencies) -> bool) -> bool {
        let _turn = self.writing.lock();
        let mut latencies = Latencies::clone(&self.latencies.load());
        let changed = change(&mut latencies);
        if changed {
            self.latencies.store(Arc::new(latencies));
        }
        changed
    }
}
