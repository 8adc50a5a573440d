//! A worker's view: all nodes as of the last change that it replayed, and which nodes changed lately.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::cluster::{Cluster, ClusterView, Cursor, Images, NodeInfo, NodeTable, Replay};
use crate::ids::NodeIdx;
use crate::ledger::{Change, ChangeKind};

/// How many touched nodes a view remembers; a class that missed more evaluates every node anew. 256 KiB.
const MAX_TOUCHES: usize = 1 << 16;

/// Number of a touch: one node changed. Counts from 0 in a view's life.
pub type TouchSeq = u64;

/// Nodes as of the last replay.
#[derive(Debug)]
pub struct View {
    nodes: NodeTable,
    images: Arc<Images>,
    cursor: Cursor,
    touches: VecDeque<NodeIdx>,
    first_touch: TouchSeq,
    /// Rises when images or the number of nodes change: what image scores rest on.
    images_epoch: u64,
    /// Rises when the view is made anew: every memoised answer is void.
    rebuilds: u64,
    nominated: FxHashSet<NodeIdx>,
    changes: Vec<Change>,
}

impl View {
    /// The view of a cluster as of now.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let mut view = Self {
            nodes: NodeTable::default(),
            images: Arc::default(),
            cursor: Cursor::default(),
            touches: VecDeque::new(),
            first_touch: 0,
            images_epoch: 0,
            rebuilds: 0,
            nominated: FxHashSet::default(),
            changes: Vec::new(),
        };
        view.rebuild(cluster);
        view
    }

    /// Starts anew from the newest snapshot and replays what came after it.
    fn rebuild(&mut self, cluster: &Cluster) {
        loop {
            let snapshot = cluster.snapshot();
            self.nodes = NodeTable::default();
            self.nominated.clear();
            for node in snapshot.iter() {
                self.put(NodeInfo::clone(node));
            }
            self.images = Arc::clone(&snapshot.images);
            self.cursor = Cursor::at(snapshot.next_change);
            self.first_touch += self.touches.len() as u64;
            self.touches.clear();
            self.images_epoch += 1;
            self.rebuilds += 1;
            // The publisher runs often enough that this fails only if a snapshot came out in between.
            if self.replay_log(cluster) {
                return;
            }
        }
    }

    /// Takes in all changes so far, at a cost in changes.
    pub fn replay(&mut self, cluster: &Cluster) {
        if !self.replay_log(cluster) {
            self.rebuild(cluster);
        }
    }

    fn replay_log(&mut self, cluster: &Cluster) -> bool {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        let replay = cluster
            .log
            .replay_to_end(&mut self.cursor, |_, change| changes.push(*change));
        for change in &changes {
            self.apply(cluster, change);
        }
        self.changes = changes;
        replay != Replay::FellBehind
    }

    fn apply(&mut self, cluster: &Cluster, change: &Change) {
        match change.kind {
            ChangeKind::ImageCounts => {
                self.images = cluster.images();
                self.images_epoch += 1;
            }
            ChangeKind::Usage | ChangeKind::PodAdded | ChangeKind::PodRemoved | ChangeKind::Nomination => {
                self.refresh_use(cluster, change);
            }
            ChangeKind::Spec | ChangeKind::NodeAdded(_) | ChangeKind::NodeRemoved(_) => {
                self.refresh_node(cluster, change.node);
            }
            // Read by plugins that are evaluated in full.
            ChangeKind::NamespaceLabels
            | ChangeKind::OwnerSelectors
            | ChangeKind::Volumes
            | ChangeKind::Links
            | ChangeKind::Rules => {}
        }
    }

    fn refresh_use(&mut self, cluster: &Cluster, change: &Change) {
        let idx = change.node;
        let Some(node) = self.nodes.get_mut(idx) else { return };
        if change.version <= node.used.version {
            return;
        }
        let known = cluster.ledger.read_into(idx, &mut node.used);
        if !known || !node.used.live || node.used.incarnation != node.incarnation {
            // The node's end or successor lies ahead in the log; it is gone already.
            self.drop_node(idx);
            return;
        }
        if node.used.nominated > 0 {
            self.nominated.insert(idx);
        } else {
            self.nominated.remove(&idx);
        }
        self.touch(idx);
    }

    fn refresh_node(&mut self, cluster: &Cluster, idx: NodeIdx) {
        match cluster.node_info(idx) {
            Some(node) => {
                if self.nodes.get(idx).is_none() {
                    self.images_epoch += 1;
                }
                self.put(node);
                self.touch(idx);
            }
            None => self.drop_node(idx),
        }
    }

    fn put(&mut self, node: NodeInfo) {
        if node.used.nominated > 0 {
            self.nominated.insert(node.idx);
        } else {
            self.nominated.remove(&node.idx);
        }
        self.nodes.insert(node);
    }

    fn drop_node(&mut self, idx: NodeIdx) {
        if self.nodes.remove(idx).is_some() {
            self.nominated.remove(&idx);
            self.images_epoch += 1;
            self.touch(idx);
        }
    }

    fn touch(&mut self, idx: NodeIdx) {
        if self.touches.len() == MAX_TOUCHES {
            self.touches.pop_front();
            self.first_touch += 1;
        }
        self.touches.push_back(idx);
    }

    /// All nodes.
    #[must_use]
    pub const fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// What plugins see.
    #[must_use]
    pub fn cluster_view<'a>(&'a self, cluster: &'a Cluster) -> ClusterView<'a> {
        ClusterView {
            nodes: &self.nodes,
            images: &self.images,
            pods: cluster,
        }
    }

    /// The number that the next touch will have.
    #[must_use]
    pub fn next_touch(&self) -> TouchSeq {
        self.first_touch + self.touches.len() as u64
    }

    /// The nodes touched since `seen`; `None`: some are forgotten.
    pub fn touched_since(&self, seen: TouchSeq) -> Option<impl Iterator<Item = NodeIdx>> {
        let skip = usize::try_from(seen.checked_sub(self.first_touch)?).ok()?;
        Some(self.touches.iter().copied().skip(skip))
    }

    /// Moves when answers that rest on images, or all answers, are void.
    #[must_use]
    pub const fn epochs(&self) -> (u64, u64) {
        (self.images_epoch, self.rebuilds)
    }

    /// Nodes that pods are nominated to.
    #[must_use]
    pub const fn nominated_nodes(&self) -> &FxHashSet<NodeIdx> {
        &self.nominated
    }
}
