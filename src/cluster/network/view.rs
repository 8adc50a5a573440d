//! The network as a worker sees it.

use std::sync::Arc;

use super::store::Network;
use crate::ids::{DomainIdx, PoolIdx};
use crate::ledger::{Ledger, LinkUse};
use crate::topology::{Latencies, Tree};

/// The network as of the last change that was replayed. `[place]` arrays.
#[derive(Clone, Debug, Default)]
pub struct NetworkView {
    tree: Arc<Tree>,
    latencies: Arc<Latencies>,
    links: Vec<LinkUse>,
    /// Rises with every change of a link, a pool, the tree, latencies or AppGroups.
    version: u64,
}

impl NetworkView {
    /// Takes in the tree and the latencies as of now.
    pub(crate) fn refresh(&mut self, network: &Network) {
        self.tree = network.topology().tree();
        self.latencies = network.topology().latencies();
        self.version += 1;
    }

    /// Reads every link anew. O(links).
    pub(crate) fn refresh_links(&mut self, ledger: &Ledger) {
        self.links.clear();
        for link in ledger.links() {
            self.refresh_link(ledger, link);
        }
    }

    /// Reads a link anew.
    pub(crate) fn refresh_link(&mut self, ledger: &Ledger, link: DomainIdx) {
        if self.links.len() <= link.at() {
            self.links.resize(link.at() + 1, LinkUse::default());
        }
        self.links[link.at()] = ledger.link_use(link);
        self.version += 1;
    }

    /// Notes that a pool has changed; pools are read as of now.
    pub(crate) const fn note_pool(&mut self, _pool: PoolIdx) {
        self.version += 1;
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The latencies.
    #[must_use]
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// What is promised on a link and what it carries.
    #[must_use]
    pub fn link(&self, link: DomainIdx) -> LinkUse {
        self.links.get(link.at()).copied().unwrap_or_default()
    }

    /// Rises with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }
}
