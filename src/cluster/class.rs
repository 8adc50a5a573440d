//! Classes: pods that scheduling cannot tell apart.
//!
//! A class is everything that any enabled plugin may read of a pod: its spec, its namespace and those labels that
//! somebody can see. Labels that nobody reads (a StatefulSet's pod name, a Job's index) are left out, or every pod
//! would be a class of its own.
//!
//! Threads: any. Classes are never forgotten within a process; a class costs its spec's memory.

use std::sync::Arc;

use dashmap::DashMap;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::cluster::{Labels, PodSpec};
use crate::ids::{ClassId, Symbol};
use crate::sync::RwLock;

/// Which labels of a pod its class carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelVisibility {
    /// All: some plugin does not say what it reads.
    All,
    /// Only these keys.
    Keys(FxHashSet<Symbol>),
}

impl LabelVisibility {
    fn visible(&self, labels: &Labels) -> Labels {
        match self {
            Self::All => labels.clone(),
            Self::Keys(keys) => labels.filtered(|key| keys.contains(&key)),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct ClassKey {
    spec: Arc<PodSpec>,
    namespace: Symbol,
    labels: Labels,
}

/// The table of classes.
pub struct ClassTable {
    visibility: RwLock<LabelVisibility>,
    by_key: DashMap<ClassKey, ClassId, FxBuildHasher>,
    specs: DashMap<Arc<PodSpec>, (), FxBuildHasher>,
    next: std::sync::atomic::AtomicU32,
}

impl std::fmt::Debug for ClassTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClassTable")
            .field("classes", &self.by_key.len())
            .finish()
    }
}

impl ClassTable {
    /// An empty table.
    #[must_use]
    pub fn new(visibility: LabelVisibility) -> Self {
        Self {
            visibility: RwLock::new(visibility),
            by_key: DashMap::default(),
            specs: DashMap::default(),
            next: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// The shared copy of `spec` and the class of a pod with it.
    #[must_use]
    pub fn classify(&self, spec: PodSpec, namespace: Symbol, labels: &Labels) -> (Arc<PodSpec>, ClassId) {
        let spec = self.share(spec);
        let labels = self.visibility.read().visible(labels);
        let key = ClassKey {
            spec: Arc::clone(&spec),
            namespace,
            labels,
        };
        if let Some(found) = self.by_key.get(&key) {
            return (spec, *found);
        }
        let class = *self
            .by_key
            .entry(key)
            .or_insert_with(|| ClassId(self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        (spec, class)
    }

    fn share(&self, spec: PodSpec) -> Arc<PodSpec> {
        if let Some(found) = self.specs.get(&spec) {
            return Arc::clone(found.key());
        }
        let shared = Arc::new(spec);
        Arc::clone(self.specs.entry(shared).or_insert(()).key())
    }

    /// Number of classes seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no pod was seen yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_nobody_reads_do_not_split_a_class() {
        let app = Symbol::new("app");
        let table = ClassTable::new(LabelVisibility::Keys([app].into_iter().collect()));
        let class = |pairs: &[(&str, &str)]| {
            table
                .classify(PodSpec::default(), Symbol::new("ns"), &pairs.iter().copied().collect())
                .1
        };
        assert_eq!(
            class(&[("app", "a"), ("pod-name", "a-0")]),
            class(&[("app", "a"), ("pod-name", "a-1")])
        );
        assert_ne!(class(&[("app", "a")]), class(&[("app", "b")]));
    }

    #[test]
    fn equal_specs_are_one_allocation() {
        let table = ClassTable::new(LabelVisibility::All);
        let (a, class_a) = table.classify(PodSpec::default(), Symbol::new("ns"), &Labels::default());
        let (b, class_b) = table.classify(PodSpec::default(), Symbol::new("other"), &Labels::default());
        assert!(Arc::ptr_eq(&a, &b));
        assert_ne!(class_a, class_b);
    }
}
