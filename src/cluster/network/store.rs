//! What is known of the network as a whole.
//!
//! Threads: any may read. Writers: whoever applies what the watches deliver; a change is logged after it was made.

use std::sync::Arc;

use super::apps::{AppGroup, Apps};
use crate::cluster::{Labels, NodeSpec};
use crate::ids::{DomainIdx, Symbol};
use crate::ledger::{Change, ChangeKind, ChangeSink};
use crate::sync::RwLock;
use crate::topology::{Source, Step, Topology};

/// Label keys of the levels of the tree, widest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkLevels(pub Vec<Symbol>);

impl Default for NetworkLevels {
    fn default() -> Self {
        Self(vec![
            Symbol::new("topology.kubernetes.io/region"),
            Symbol::new("topology.kubernetes.io/zone"),
        ])
    }
}

impl NetworkLevels {
    /// The path of a node by its labels: a level that it has no label for is left out.
    #[must_use]
    pub fn path(&self, labels: &Labels) -> Vec<Step> {
        let steps = self.0.iter().filter_map(|level| {
            let name = labels.get(*level)?;
            Some(Step { level: *level, name })
        });
        steps.collect()
    }
}

/// The tree, the latencies in it and AppGroups, as they are now.
pub struct Network {
    topology: Topology,
    apps: Apps,
    levels: RwLock<NetworkLevels>,
    sink: Arc<dyn ChangeSink>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// Nothing known yet; changes go to `sink`.
    #[must_use]
    pub fn new(levels: NetworkLevels, sink: Arc<dyn ChangeSink>) -> Self {
        Self {
            topology: Topology::default(),
            apps: Apps::default(),
            levels: RwLock::new(levels),
            sink,
        }
    }

    /// The tree and the latencies.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Where a node lies.
    #[must_use]
    pub fn place_of(&self, node: &NodeSpec) -> DomainIdx {
        let path = self.levels.read().path(&node.labels);
        let (place, grew) = self.topology.place(&path);
        self.logged(grew);
        place
    }

    /// The levels as of now.
    #[must_use]
    pub fn levels(&self) -> NetworkLevels {
        self.levels.read().clone()
    }

    /// Takes in what one source says of latencies; false: nothing changed.
    pub fn set_source(&self, source: Source) -> bool {
        self.logged(self.topology.set_source(source))
    }

    /// Forgets a source of latencies; false: it was not known.
    pub fn remove_source(&self, name: Symbol) -> bool {
        self.logged(self.topology.remove_source(name))
    }

    /// An AppGroup.
    #[must_use]
    pub fn app(&self, namespace: Symbol, name: Symbol) -> Option<Arc<AppGroup>> {
        self.apps.get(namespace, name)
    }

    /// Takes an AppGroup in; false: nothing changed.
    pub fn put_app(&self, namespace: Symbol, name: Symbol, group: AppGroup) -> bool {
        self.logged(self.apps.put(namespace, name, group))
    }

    /// Forgets an AppGroup; false: it was not known.
    pub fn remove_app(&self, namespace: Symbol, name: Symbol) -> bool {
        self.logged(self.apps.remove(namespace, name))
    }

    /// Namespaces and names of all AppGroups.
    #[must_use]
    pub fn app_keys(&self) -> Vec<(Symbol, Symbol)> {
        self.apps.keys()
    }

    fn logged(&self, changed: bool) -> bool {
        if changed {
            self.sink.append(Change::global(ChangeKind::Network));
        }
        changed
    }
}
