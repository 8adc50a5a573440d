//! What happens to nodes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Cluster, NodeRecord};
use crate::cluster::{NodeSpec, ObjectText};
use crate::ids::{Incarnation, NodeIdx, Symbol};
use crate::ledger::ChangeKind;

/// Which slot belongs to which name.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_name: FxHashMap<Symbol, NodeIdx>,
    free: Vec<NodeIdx>,
    used: u32,
    incarnations: u64,
}

impl Slots {
    /// The slot of a name, given on first mention: also pods on unknown nodes need one.
    fn slot(&mut self, name: Symbol) -> NodeIdx {
        let Self {
            by_name, free, used, ..
        } = self;
        *by_name.entry(name).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                let idx = NodeIdx(*used);
                *used += 1;
                idx
            })
        })
    }
}

/// What became of a node.
#[derive(Clone, Debug)]
pub enum NodeChange {
    /// It is new.
    Added(Arc<NodeSpec>),
    /// It changed.
    Updated {
        /// Before.
        old: Arc<NodeSpec>,
        /// After.
        new: Arc<NodeSpec>,
    },
    /// It is gone.
    Removed(Arc<NodeSpec>),
}

impl Cluster {
    /// The slot of a node that is known.
    #[must_use]
    pub fn find_node(&self, name: Symbol) -> Option<NodeIdx> {
        let idx = self.slots.lock().by_name.get(&name).copied()?;
        self.records.contains_key(&idx).then_some(idx)
    }

    /// Names of all nodes known.
    #[must_use]
    pub fn node_names(&self) -> Vec<Symbol> {
        self.records.iter().map(|record| record.name).collect()
    }

    pub(super) fn slot(&self, name: Symbol) -> NodeIdx {
        self.slots.lock().slot(name)
    }

    /// Takes in a node as the watch delivers it. A node re-created under its name (another UID) is removed first.
    pub fn apply_node(&self, spec: NodeSpec) -> Vec<NodeChange> {
        let Some(name) = spec.name else { return Vec::new() };
        let spec = Arc::new(spec);
        let idx = self.slot(name);
        let before = self.node(idx);
        match before {
            Some(record) if record.spec.uid == spec.uid => self.update_node(idx, &record, spec).into_iter().collect(),
            Some(_) => self
                .remove_node(name)
                .into_iter()
                .chain([self.add_node(name, spec)])
                .collect(),
            None => vec![self.add_node(name, spec)],
        }
    }

    fn add_node(&self, name: Symbol, spec: Arc<NodeSpec>) -> NodeChange {
        let (idx, incarnation) = {
            let mut slots = self.slots.lock();
            slots.incarnations += 1;
            (slots.slot(name), Incarnation(slots.incarnations))
        };
        self.records.insert(
            idx,
            NodeRecord {
                name,
                incarnation,
                place: self.network.place_of(&spec),
                spec: Arc::clone(&spec),
            },
        );
        self.change_images(None, Some(&spec));
        self.ledger.upsert_node(idx, incarnation, spec.allocatable.clone());
        self.nominate_waiting(name, idx);
        NodeChange::Added(spec)
    }

    fn update_node(&self, idx: NodeIdx, before: &NodeRecord, spec: Arc<NodeSpec>) -> Option<NodeChange> {
        if *before.spec == *spec {
            return None;
        }
        self.records.insert(
            idx,
            NodeRecord {
                place: self.network.place_of(&spec),
                spec: Arc::clone(&spec),
                ..before.clone()
            },
        );
        if before.spec.images != spec.images {
            self.change_images(Some(&before.spec), Some(&spec));
        }
        if before.spec.allocatable == spec.allocatable {
            self.ledger.touch(idx, ChangeKind::Spec);
        } else {
            self.ledger
                .upsert_node(idx, before.incarnation, spec.allocatable.clone());
        }
        Some(NodeChange::Updated {
            old: Arc::clone(&before.spec),
            new: spec,
        })
    }

    /// Notes that a node is gone. Its pods stay counted, on no node that anybody sees, until each is gone.
    pub fn remove_node(&self, name: Symbol) -> Option<NodeChange> {
        let idx = self.slots.lock().by_name.get(&name).copied()?;
        let (_, record) = self.records.remove(&idx)?;
        self.node_texts.remove(&name);
        self.change_images(Some(&record.spec), None);
        self.ledger.remove_node(idx, record.incarnation);
        self.free_slot_if_empty(idx, name);
        Some(NodeChange::Removed(record.spec))
    }

    /// Keeps the whole object of a node that is known, for those who are sent whole nodes.
    pub fn keep_node_text(&self, name: Symbol, text: Arc<ObjectText>) {
        if self.find_node(name).is_some() {
            self.node_texts.insert(name, text);
        }
    }

    /// The whole object of a node, where it is kept.
    #[must_use]
    pub fn node_text(&self, name: Symbol) -> Option<Arc<ObjectText>> {
        self.node_texts.get(&name).map(|text| Arc::clone(&text))
    }

    /// After a relist: removes every node that was not listed.
    pub fn retain_nodes(&self, listed: &FxHashSet<Symbol>) -> Vec<NodeChange> {
        let gone: Vec<Symbol> = self
            .node_names()
            .into_iter()
            .filter(|name| !listed.contains(name))
            .collect();
        gone.into_iter().filter_map(|name| self.remove_node(name)).collect()
    }

    /// Gives a slot back once neither a node nor a pod needs it. The change that removed the node is in the log before
    /// any that a next tenant makes.
    pub(super) fn free_slot_if_empty(&self, idx: NodeIdx, name: Symbol) {
        let mut slots = self.slots.lock();
        if !self.records.contains_key(&idx) && self.ledger.read(idx).is_none() && slots.by_name.get(&name) == Some(&idx)
        {
            slots.by_name.remove(&name);
            slots.free.push(idx);
        }
    }

    fn change_images(&self, old: Option<&NodeSpec>, new: Option<&NodeSpec>) {
        if old.is_none_or(|node| node.images.is_empty()) && new.is_none_or(|node| node.images.is_empty()) {
            return;
        }
        let mut guard = self.images.lock();
        if let Some(old) = old {
            guard.images.remove_node(old);
        }
        if let Some(new) = new {
            guard.images.add_node(new);
        }
        guard.shared = None;
        drop(guard);
        self.log.append_global(ChangeKind::ImageCounts);
    }
}
