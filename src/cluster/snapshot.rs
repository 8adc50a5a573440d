//! All nodes at one moment, immutable and cheap to publish.
//!
//! A tree of fixed shape (root → branches → leaves of 64) whose unchanged parts are shared between a snapshot and the
//! next: a publish after k changes copies at most k leaves and k branches, and the root's one pointer for every 4,096
//! slots.
//!
//! Does not: hold pods; those of a node are asked of the ledger.

use std::sync::Arc;

use crate::cluster::change_log::Seq;
use crate::cluster::{Images, NodeInfo};
use crate::ids::NodeIdx;

const WIDTH: usize = 64;

type Leaf = Vec<Option<Arc<NodeInfo>>>;
type Branch = Vec<Arc<Leaf>>;

/// Nodes, images and the change up to which they are complete.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    root: Vec<Arc<Branch>>,
    /// Images over all nodes.
    pub images: Arc<Images>,
    /// Number of nodes.
    pub node_count: usize,
    /// The first change that is not contained; all before are.
    pub next_change: Seq,
}

impl Snapshot {
    /// The node in a slot.
    #[must_use]
    pub fn get(&self, idx: NodeIdx) -> Option<&Arc<NodeInfo>> {
        let at = idx.at();
        self.root
            .get(at / (WIDTH * WIDTH))?
            .get(at / WIDTH % WIDTH)?
            .get(at % WIDTH)?
            .as_ref()
    }

    /// Nodes in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.root
            .iter()
            .flat_map(|branch| branch.iter())
            .flat_map(|leaf| leaf.iter())
            .flatten()
    }

    /// Puts a node into its slot, or empties the slot. Parts shared with other snapshots are copied.
    pub fn set(&mut self, idx: NodeIdx, node: Option<Arc<NodeInfo>>) {
        let at = idx.at();
        let branch = Arc::make_mut(entry(&mut self.root, at / (WIDTH * WIDTH)));
        let leaf = Arc::make_mut(entry(branch, at / WIDTH % WIDTH));
        let slot = entry(leaf, at % WIDTH);
        self.node_count += usize::from(node.is_some());
        self.node_count -= usize::from(slot.is_some());
        *slot = node;
    }
}

fn entry<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeSpec;
    use crate::ids::{DomainIdx, Incarnation, Symbol};
    use crate::ledger::NodeUse;

    fn node(idx: u32) -> Arc<NodeInfo> {
        Arc::new(NodeInfo {
            idx: NodeIdx(idx),
            name: Symbol::new(&format!("n{idx}")),
            incarnation: Incarnation(1),
            place: DomainIdx::ROOT,
            spec: Arc::new(NodeSpec::default()),
            used: NodeUse::default(),
        })
    }

    #[test]
    fn a_later_snapshot_shares_what_did_not_change() {
        let mut first = Snapshot::default();
        for idx in 0..10_000 {
            first.set(NodeIdx(idx), Some(node(idx)));
        }
        let mut second = first.clone();
        second.set(NodeIdx(5000), None);
        second.set(NodeIdx(5001), Some(node(5001)));
        assert_eq!((first.node_count, second.node_count), (10_000, 9999));
        assert!(first.get(NodeIdx(5000)).is_some());
        assert!(second.get(NodeIdx(5000)).is_none());
        let shared = |idx| Arc::ptr_eq(first.get(NodeIdx(idx)).unwrap(), second.get(NodeIdx(idx)).unwrap());
        assert!(shared(0) && shared(9999) && !shared(5001));
        let leaves = |s: &Snapshot| {
            s.root
                .iter()
                .flat_map(|b| b.iter().map(Arc::as_ptr))
                .collect::<Vec<_>>()
        };
        let differing = leaves(&first)
            .iter()
            .zip(leaves(&second))
            .filter(|(a, b)| **a != *b)
            .count();
        assert_eq!(differing, 1);
        assert_eq!(second.iter().count(), 9999);
    }
}
