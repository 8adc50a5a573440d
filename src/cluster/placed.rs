//! Pods on nodes, by class: what plugins with cluster-wide reads count over.
//!
//! A selector is evaluated once a class and not once a pod. How many pods of which classes are on a node stands in the
//! node's use ([`crate::ledger::NodeUse::classes`]); here stands the other direction, from a class to its nodes.
//!
//! Threads: one worker each.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::{PodClass, PodVolume};
use crate::ids::{ClassId, NodeIdx, Symbol};

/// Where the pods of one class are.
#[derive(Clone, Debug)]
pub struct PlacedClass {
    /// The class.
    pub class: Arc<PodClass>,
    total: u32,
    by_node: FxHashMap<NodeIdx, u32>,
}

impl PlacedClass {
    /// Number of its pods on nodes.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// The nodes that have pods of it, and how many; in no order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, u32)> {
        self.by_node.iter().map(|(node, count)| (*node, *count))
    }
}

/// All classes that have pods on nodes.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    classes: FxHashMap<ClassId, PlacedClass>,
    claims: ClaimsInUse,
}

/// For each namespace and claim in use there: how many classes use it. A volume of a class that names the claim twice
/// counts twice; generic ephemeral volumes do not count.
#[derive(Clone, Debug, Default)]
struct ClaimsInUse(FxHashMap<Symbol, FxHashMap<Box<str>, u32>>);

impl ClaimsInUse {
    fn add(&mut self, class: &PodClass) {
        for name in claims_of(class) {
            let claims = self.0.entry(class.namespace).or_default();
            *claims.entry(name.clone()).or_insert(0) += 1;
        }
    }

    fn remove(&mut self, class: &PodClass) {
        for name in claims_of(class) {
            let Some(claims) = self.0.get_mut(&class.namespace) else {
                return;
            };
            match claims.get_mut(name) {
                Some(users) if *users > 1 => *users -= 1,
                _ => {
                    claims.remove(name);
                }
            }
            if claims.is_empty() {
                self.0.remove(&class.namespace);
            }
        }
    }

    fn has(&self, namespace: Symbol, name: &str) -> bool {
        self.0.get(&namespace).is_some_and(|claims| claims.contains_key(name))
    }
}

fn claims_of(class: &PodClass) -> impl Iterator<Item = &Box<str>> {
    class.spec.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Claim(name) => Some(name),
        PodVolume::Ephemeral(_) | PodVolume::Inline(_) | PodVolume::Csi(_) => None,
    })
}

impl Placed {
    /// Classes that have pods on nodes, in no order.
    pub fn classes(&self) -> impl Iterator<Item = &PlacedClass> {
        self.classes.values()
    }

    /// One class.
    #[must_use]
    pub fn get(&self, class: ClassId) -> Option<&PlacedClass> {
        self.classes.get(&class)
    }

    /// Whether a pod on any node names this claim among its volumes.
    #[must_use]
    pub fn is_claim_in_use(&self, namespace: Symbol, claim: &str) -> bool {
        self.claims.has(namespace, claim)
    }

    /// Counts pods that came to a node (or left it: negative). `class` is asked for a class that had no pods.
    pub fn add(&mut self, id: ClassId, node: NodeIdx, by: i64, class: impl FnOnce() -> Option<Arc<PodClass>>) {
        let placed = match self.classes.entry(id) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(vacant) => {
                let Some(class) = class() else { return };
                self.claims.add(&class);
                vacant.insert(PlacedClass {
                    class,
                    total: 0,
                    by_node: FxHashMap::default(),
                })
            }
        };
        let shift = |count: u32| u32::try_from((i64::from(count) + by).max(0)).unwrap_or(u32::MAX);
        placed.total = shift(placed.total);
        let here = placed.by_node.entry(node).or_insert(0);
        *here = shift(*here);
        if *here == 0 {
            placed.by_node.remove(&node);
        }
        if placed.by_node.is_empty()
            && let Some(gone) = self.classes.remove(&id)
        {
            self.claims.remove(&gone.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Labels, PodSpec};

    fn class(id: u32, namespace: &str, claims: &[&str]) -> Arc<PodClass> {
        let claim = |name: &&str| PodVolume::Claim((*name).into());
        let spec = PodSpec {
            volumes: claims.iter().map(claim).collect(),
            ..PodSpec::default()
        };
        Arc::new(PodClass {
            id: ClassId(id),
            namespace: Symbol::new(namespace),
            labels: Labels::default(),
            spec: Arc::new(spec),
            terminating: false,
        })
    }

    #[test]
    fn a_claim_is_in_use_as_long_as_any_class_that_names_it_has_pods() {
        let classes = [
            class(1, "a", &["x", "x"]),
            class(2, "a", &["x", "y"]),
            class(3, "b", &["x"]),
        ];
        let mut placed = Placed::default();
        let add = |placed: &mut Placed, at: usize, by: i64| {
            let class: &Arc<PodClass> = &classes[at];
            placed.add(class.id, NodeIdx(7), by, || Some(Arc::clone(class)));
        };
        let in_use = |placed: &Placed| {
            let all = [("a", "x"), ("a", "y"), ("b", "x")];
            all.map(|(namespace, claim)| placed.is_claim_in_use(Symbol::new(namespace), claim))
        };
        add(&mut placed, 0, 2);
        assert_eq!(in_use(&placed), [true, false, false]);
        add(&mut placed, 1, 1);
        add(&mut placed, 0, -1);
        add(&mut placed, 0, -1);
        assert_eq!(in_use(&placed), [true, true, false]);
        add(&mut placed, 2, 1);
        add(&mut placed, 1, -1);
        assert_eq!(in_use(&placed), [false, false, true]);
        add(&mut placed, 2, -1);
        assert_eq!(in_use(&placed), [false; 3]);
        assert!(placed.claims.0.is_empty());
    }
}
