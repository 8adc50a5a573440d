//! Why nodes are not feasible for a class: what a full evaluation would find out anew for every pod that fits nowhere.
//!
//! Many nodes say the same, so that each status is kept once.

use rustc_hash::FxHashMap;

use crate::cluster::NodeTable;
use crate::framework::{NodeStatuses, Status};
use crate::ids::NodeIdx;

/// Distinct statuses that are remembered; texts with names of nodes or pods in them could make one a node. Then nothing
/// is remembered until the class is evaluated anew.
const MAX_KINDS: usize = 4096;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Kind {
    status: Status,
    nodes: usize,
}

/// Rejections by node.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    kinds: Vec<Kind>,
    by_status: FxHashMap<Status, u32>,
    /// `[node]`: its kind.
    by_node: Vec<u32>,
    overflown: bool,
}

impl Reasons {
    /// The node is rejected with this status, or is not, or is not there.
    pub(super) fn set(&mut self, node: NodeIdx, status: Option<Status>) {
        if self.by_node.len() <= node.at() {
            if status.is_none() {
                return;
            }
            self.by_node.resize(node.at() + 1, NONE);
        }
        let now = status.map_or(NONE, |status| self.kind(status));
        let before = std::mem::replace(&mut self.by_node[node.at()], now);
        for (kind, more) in [(before, false), (now, true)] {
            if let Some(kind) = self.kinds.get_mut(kind as usize) {
                kind.nodes = if more {
                    kind.nodes + 1
                } else {
                    kind.nodes.saturating_sub(1)
                };
            }
        }
    }

    fn kind(&mut self, status: Status) -> u32 {
        if let Some(known) = self.by_status.get(&status) {
            return *known;
        }
        let Some(kind) = u32::try_from(self.kinds.len())
            .ok()
            .filter(|_| self.kinds.len() < MAX_KINDS)
        else {
            self.overflown = true;
            return NONE;
        };
        self.by_status.insert(status.clone(), kind);
        self.kinds.push(Kind { status, nodes: 0 });
        kind
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The status of every node when all are rejected: that of most of them as the one of nodes that are not listed.
    /// `None`: not every node's is known, or there is no node. O(nodes) where there are several kinds.
    pub(super) fn statuses(&self, nodes: &NodeTable) -> Option<NodeStatuses> {
        let all: usize = self.kinds.iter().map(|kind| kind.nodes).sum();
        if self.overflown || all == 0 || all != nodes.len() {
            return None;
        }
        let (most, common) = (0_u32..).zip(&self.kinds).max_by_key(|(_, kind)| kind.nodes)?;
        let mut explicit = Vec::with_capacity(all - common.nodes);
        if common.nodes < all {
            let others = (0_u32..)
                .zip(&self.by_node)
                .filter(|(_, kind)| **kind != NONE && **kind != most);
            explicit.extend(others.filter_map(|(node, kind)| {
                let kind = self.kinds.get(*kind as usize)?;
                Some((NodeIdx(node), kind.status.clone()))
            }));
        }
        Some(NodeStatuses {
            explicit,
            absent: common.status.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Symbol;
    use crate::testing::{World, node};

    fn status(text: &str) -> Status {
        Status::unschedulable(Symbol::new(text))
    }

    fn world(nodes: u32) -> World {
        let mut world = World::default();
        for number in 0..nodes {
            world.add_node(node(&format!("n{number}")).build());
        }
        world
    }

    #[test]
    fn the_most_frequent_status_stands_for_nodes_that_are_not_listed() {
        let world = world(4);
        let mut reasons = Reasons::default();
        for (node, text) in [(0, "a"), (1, "b"), (2, "b"), (3, "b")] {
            reasons.set(NodeIdx(node), Some(status(text)));
        }
        let told = |reasons: &Reasons| {
            let statuses = reasons.statuses(world.nodes())?;
            let explicit: Vec<_> = statuses
                .explicit
                .iter()
                .map(|(node, status)| (node.0, status.message()))
                .collect();
            Some((statuses.absent.message(), explicit))
        };
        assert_eq!(told(&reasons), Some(("b".to_owned(), vec![(0, "a".to_owned())])));
        reasons.set(NodeIdx(0), Some(status("b")));
        assert_eq!(told(&reasons), Some(("b".to_owned(), vec![])));
        reasons.set(NodeIdx(2), None);
        assert_eq!(told(&reasons), None, "one of them is feasible");
        for node in 0..4 {
            reasons.set(NodeIdx(node), None);
        }
        assert!(
            reasons.statuses(World::default().nodes()).is_none(),
            "the last node went, and with it what it said"
        );
        reasons.clear();
        assert_eq!(told(&reasons), None);
    }

    #[test]
    fn texts_without_end_are_not_kept() {
        let world = world(1);
        let mut reasons = Reasons::default();
        for number in 0..=MAX_KINDS {
            reasons.set(NodeIdx(0), Some(status(&number.to_string())));
        }
        assert!(reasons.statuses(world.nodes()).is_none());
        assert!(reasons.kinds.len() <= MAX_KINDS);
    }
}
