//! Labels of namespaces.
//!
//! Threads: any; readers see each namespace as of now. Writers log `NamespaceLabels` after a change.

use std::sync::Arc;

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use crate::cluster::Labels;
use crate::ids::Symbol;

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceLabels {
    /// The name.
    pub name: Symbol,
    /// All labels.
    pub labels: Labels,
}

/// All namespaces.
#[derive(Debug, Default)]
pub struct Namespaces {
    by_name: DashMap<Symbol, Arc<Labels>, FxBuildHasher>,
}

impl Namespaces {
    /// The labels of a namespace that is known.
    #[must_use]
    pub fn labels(&self, name: Symbol) -> Option<Arc<Labels>> {
        self.by_name.get(&name).map(|labels| Arc::clone(&labels))
    }

    /// Names of the namespaces whose labels pass, sorted.
    #[must_use]
    pub fn matching(&self, passes: impl Fn(&Labels) -> bool) -> Vec<Symbol> {
        let found = self.by_name.iter().filter(|namespace| passes(namespace.value()));
        let mut names: Vec<Symbol> = found.map(|namespace| *namespace.key()).collect();
        names.sort_unstable();
        names
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> Vec<Symbol> {
        self.by_name.iter().map(|namespace| *namespace.key()).collect()
    }

    /// Takes in a namespace; false: nothing changed.
    pub fn put(&self, namespace: NamespaceLabels) -> bool {
        let labels = Arc::new(namespace.labels);
        let before = self.by_name.insert(namespace.name, Arc::clone(&labels));
        before.is_none_or(|before| before != labels)
    }

    /// Forgets a namespace; false: it was not there.
    pub fn remove(&self, name: Symbol) -> bool {
        self.by_name.remove(&name).is_some()
    }
}
