//! Pods on nodes, by class: what plugins with cluster-wide reads count over.
//!
//! A selector is evaluated once a class and not once a pod. How many pods of which classes are on a node stands in the
//! node's use ([`crate::ledger::NodeUse::classes`]); here stands the other direction, from a class to its nodes.
//!
//! Threads: one worker each.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::PodClass;
use crate::ids::{ClassId, NodeIdx};

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

    /// Counts pods that came to a node (or left it: negative). `class` is asked for a class that had no pods.
    pub fn add(&mut self, id: ClassId, node: NodeIdx, by: i64, class: impl FnOnce() -> Option<Arc<PodClass>>) {
        let placed = match self.classes.entry(id) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(vacant) => {
                let Some(class) = class() else { return };
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
        if placed.by_node.is_empty() {
            self.classes.remove(&id);
        }
    }
}
