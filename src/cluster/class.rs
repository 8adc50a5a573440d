//! Classes: pods that scheduling cannot tell apart.
//!
//! A class is everything that any enabled plugin may read of a pod: its spec, its namespace and those labels that
//! somebody can see. Labels that nobody reads (a StatefulSet's pod name, a Job's index) are left out, or every pod
//! would be a class of its own.
//!
//! Threads: any. Classes are never forgotten within a process; a class costs its spec's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::{DashMap, Entry};
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

/// All that scheduling, and the selectors and terms of other pods, can see of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodClass {
    /// Which class it is.
    pub id: ClassId,
    /// The namespace.
    pub namespace: Symbol,
    /// Those labels that somebody can see.
    pub labels: Labels,
    /// What scheduling reads of its pods.
    pub spec: Arc<PodSpec>,
    /// Its pods have a deletion timestamp.
    pub terminating: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct ClassKey {
    spec: Arc<PodSpec>,
    namespace: Symbol,
    labels: Labels,
    terminating: bool,
}

/// What a pod is classified by.
#[derive(Clone, Copy, Debug)]
pub struct Classified<'a> {
    /// The namespace.
    pub namespace: Symbol,
    /// All labels.
    pub labels: &'a Labels,
    /// Has a deletion timestamp.
    pub terminating: bool,
}

/// The table of classes.
pub struct ClassTable {
    visibility: RwLock<LabelVisibility>,
    epoch: AtomicU64,
    by_key: DashMap<ClassKey, ClassId, FxBuildHasher>,
    list: RwLock<Vec<Arc<PodClass>>>,
    specs: DashMap<Arc<PodSpec>, (), FxBuildHasher>,
}

impl std::fmt::Debug for ClassTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClassTable")
            .field("classes", &self.by_key.len())
            .finish_non_exhaustive()
    }
}

impl ClassTable {
    /// An empty table.
    #[must_use]
    pub fn new(visibility: LabelVisibility) -> Self {
        Self {
            visibility: RwLock::new(visibility),
            epoch: AtomicU64::new(0),
            by_key: DashMap::default(),
            list: RwLock::default(),
            specs: DashMap::default(),
        }
    }

    /// The shared copy of `spec` and the class of a pod with it.
    #[must_use]
    pub fn classify(&self, spec: PodSpec, pod: Classified<'_>) -> (Arc<PodSpec>, ClassId) {
        let spec = self.share(spec);
        let class = self.class_of(&spec, pod);
        (spec, class)
    }

    /// The class of a pod whose spec is shared already.
    #[must_use]
    pub fn class_of(&self, spec: &Arc<PodSpec>, pod: Classified<'_>) -> ClassId {
        let key = ClassKey {
            spec: Arc::clone(spec),
            namespace: pod.namespace,
            labels: self.visibility.read().visible(pod.labels),
            terminating: pod.terminating,
        };
        if let Some(found) = self.by_key.get(&key) {
            return *found;
        }
        let entry = self.by_key.entry(key);
        let class = |key: &ClassKey| {
            let mut list = self.list.write();
            let id = ClassId(u32::try_from(list.len()).unwrap_or(u32::MAX));
            list.push(Arc::new(PodClass {
                id,
                namespace: key.namespace,
                labels: key.labels.clone(),
                spec: Arc::clone(&key.spec),
                terminating: key.terminating,
            }));
            id
        };
        match entry {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(vacant) => {
                let id = class(vacant.key());
                *vacant.insert(id)
            }
        }
    }

    /// A class.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<Arc<PodClass>> {
        let at = usize::try_from(id.0).ok()?;
        self.list.read().get(at).map(Arc::clone)
    }

    /// How often the set of visible keys has grown: a class of an older epoch may put pods together that a newer one
    /// keeps apart.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether classes carry all of these keys.
    #[must_use]
    pub fn shows(&self, keys: &[Symbol]) -> bool {
        match &*self.visibility.read() {
            LabelVisibility::All => true,
            LabelVisibility::Keys(visible) => keys.iter().all(|key| visible.contains(key)),
        }
    }

    /// Makes classes carry these keys from now on; pods classified before must be classified again.
    pub fn show(&self, keys: &[Symbol]) {
        if let LabelVisibility::Keys(visible) = &mut *self.visibility.write() {
            visible.extend(keys);
        }
        self.epoch.fetch_add(1, Ordering::Release);
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

    fn of<'a>(namespace: &str, labels: &'a Labels) -> Classified<'a> {
        Classified {
            namespace: Symbol::new(namespace),
            labels,
            terminating: false,
        }
    }

    #[test]
    fn a_key_that_becomes_visible_splits_classes() {
        let table = ClassTable::new(LabelVisibility::Keys(FxHashSet::default()));
        let labels = |app: &str| -> Labels { [("app", app)].into_iter().collect() };
        let class = |app: &str| table.classify(PodSpec::default(), of("ns", &labels(app))).1;
        assert_eq!(class("a"), class("b"));
        let app = Symbol::new("app");
        assert!(!table.shows(&[app]));
        table.show(&[app]);
        assert!(table.shows(&[app]) && table.epoch() == 1);
        assert_ne!(class("a"), class("b"));
        let class = table.get(class("a")).unwrap();
        assert_eq!(class.labels, labels("a"));
    }

    #[test]
    fn labels_that_nobody_reads_do_not_split_a_class() {
        let app = Symbol::new("app");
        let table = ClassTable::new(LabelVisibility::Keys([app].into_iter().collect()));
        let class = |pairs: &[(&str, &str)]| {
            let labels = pairs.iter().copied().collect();
            table.classify(PodSpec::default(), of("ns", &labels)).1
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
        let labels = Labels::default();
        let (a, class_a) = table.classify(PodSpec::default(), of("ns", &labels));
        let (b, class_b) = table.classify(PodSpec::default(), of("other", &labels));
        assert!(Arc::ptr_eq(&a, &b));
        assert_ne!(class_a, class_b);
    }
}
