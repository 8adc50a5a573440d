//! A worker's view: all nodes as of the last change that it replayed, and what changed lately.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::cluster::{Cluster, ClusterView, Cursor, Images, NetworkView, NodeInfo, NodeTable, Placed, Replay, Seq};
use crate::cycle::Recent;
use crate::ids::{ClassId, NodeIdx};
use crate::ledger::{Change, ChangeKind};

/// How many touched nodes a view remembers; a class that missed more evaluates every node anew. 256 KiB.
const MAX_TOUCHES: usize = 1 << 16;

/// How many arrivals and departures of pods a view remembers; a class that missed more counts anew. 1 MiB.
const MAX_MOVES: usize = 1 << 16;

/// Pods of a class that came to a node, or left it (negative).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The node.
    pub node: NodeIdx,
    /// The class.
    pub class: ClassId,
    /// How many.
    pub by: i64,
}

/// What memoised answers rest on beside single nodes: each rises when answers that rest on it are void.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Epochs {
    /// Images, or the number of nodes.
    pub images: u64,
    /// What nodes belong to which domains; labels of namespaces; selectors of owners.
    pub domains: u64,
    /// The view was made anew.
    pub rebuilds: u64,
}

/// Nodes as of the last replay.
#[derive(Debug)]
pub struct View {
    nodes: NodeTable,
    images: Arc<Images>,
    cursor: Cursor,
    placed: Placed,
    network: NetworkView,
    touches: Recent<NodeIdx>,
    moves: Recent<Move>,
    epochs: Epochs,
    nominated: FxHashSet<NodeIdx>,
    changes: Vec<Change>,
    /// Classes of the node at hand before its use was read again.
    before: Classes,
}

/// How many pods of which class, sorted by class.
type Classes = SmallVec<[(ClassId, u32); 4]>;

impl View {
    /// The view of a cluster as of now.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let mut view = Self {
            nodes: NodeTable::default(),
            images: Arc::default(),
            cursor: Cursor::default(),
            placed: Placed::default(),
            network: NetworkView::default(),
            touches: Recent::new(MAX_TOUCHES),
            moves: Recent::new(MAX_MOVES),
            epochs: Epochs::default(),
            nominated: FxHashSet::default(),
            changes: Vec::new(),
            before: Classes::new(),
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
            self.placed = Placed::default();
            for node in snapshot.iter() {
                self.put(cluster, NodeInfo::clone(node));
            }
            self.images = Arc::clone(&snapshot.images);
            self.network.refresh(&cluster.network);
            self.network.refresh_links(&cluster.ledger);
            self.cursor = Cursor::at(snapshot.next_change);
            self.touches.forget();
            self.moves.forget();
            self.epochs.images += 1;
            self.epochs.rebuilds += 1;
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
                self.epochs.images += 1;
            }
            ChangeKind::Usage | ChangeKind::PodAdded | ChangeKind::PodRemoved | ChangeKind::Nomination => {
                self.refresh_use(cluster, change);
            }
            ChangeKind::Spec | ChangeKind::NodeAdded(_) | ChangeKind::NodeRemoved(_) => {
                self.refresh_node(cluster, change.node);
            }
            ChangeKind::NamespaceLabels | ChangeKind::OwnerSelectors => self.epochs.domains += 1,
            ChangeKind::Link(link) => self.network.refresh_link(&cluster.ledger, link),
            ChangeKind::Pool(pool) => self.network.note_pool(pool),
            ChangeKind::Network => {
                self.network.refresh(&cluster.network);
                self.epochs.domains += 1;
            }
            // Read by plugins that are evaluated in full.
            ChangeKind::Volumes | ChangeKind::Rules => {}
        }
    }

    fn refresh_use(&mut self, cluster: &Cluster, change: &Change) {
        let idx = change.node;
        let Some(node) = self.nodes.get_mut(idx) else { return };
        if change.version <= node.used.version {
            return;
        }
        self.before.clone_from(&node.used.classes);
        let known = cluster.ledger.read_into(idx, &mut node.used);
        let there = known && node.used.live && node.used.incarnation == node.incarnation;
        let (nominated, now) = (node.used.nominated > 0, node.used.classes.clone());
        self.note_nominated(idx, nominated);
        let before = std::mem::take(&mut self.before);
        self.note_moves(cluster, idx, &before, &now);
        self.before = before;
        if there {
            self.touches.push(idx);
        } else {
            // The node's end or successor lies ahead in the log; it is gone already.
            self.drop_node(cluster, idx);
        }
    }

    fn refresh_node(&mut self, cluster: &Cluster, idx: NodeIdx) {
        match cluster.node_info(idx) {
            Some(node) => {
                self.put(cluster, node);
                self.touches.push(idx);
            }
            None => self.drop_node(cluster, idx),
        }
    }

    fn put(&mut self, cluster: &Cluster, node: NodeInfo) {
        let (idx, now) = (node.idx, node.used.classes.clone());
        self.note_nominated(idx, node.used.nominated > 0);
        let before = self.nodes.remove(idx);
        if before.is_none() {
            self.epochs.images += 1;
        }
        let same_domains = |before: &NodeInfo| {
            before.spec.labels == node.spec.labels && before.spec.taints == node.spec.taints && before.name == node.name
        };
        if !before.as_ref().is_some_and(same_domains) {
            self.epochs.domains += 1;
        }
        self.nodes.insert(node);
        let before = before.map(|node| node.used.classes).unwrap_or_default();
        self.note_moves(cluster, idx, &before, &now);
    }

    fn drop_node(&mut self, cluster: &Cluster, idx: NodeIdx) {
        let Some(node) = self.nodes.remove(idx) else { return };
        self.note_nominated(idx, false);
        self.note_moves(cluster, idx, &node.used.classes, &[]);
        self.epochs.images += 1;
        self.epochs.domains += 1;
        self.touches.push(idx);
    }

    fn note_nominated(&mut self, idx: NodeIdx, nominated: bool) {
        if nominated {
            self.nominated.insert(idx);
        } else {
            self.nominated.remove(&idx);
        }
    }

    /// Notes the difference between two lists sorted by class.
    fn note_moves(&mut self, cluster: &Cluster, node: NodeIdx, before: &[(ClassId, u32)], now: &[(ClassId, u32)]) {
        let (mut old, mut new) = (before.iter().peekable(), now.iter().peekable());
        loop {
            let (class, by) = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some((a, had)), Some((b, have))) if a == b => {
                    let moved = (*a, i64::from(*have) - i64::from(*had));
                    old.next();
                    new.next();
                    moved
                }
                (Some((a, had)), other) if other.is_none_or(|(b, _)| a < b) => {
                    let moved = (*a, -i64::from(*had));
                    old.next();
                    moved
                }
                (_, Some((b, have))) => {
                    let moved = (*b, i64::from(*have));
                    new.next();
                    moved
                }
                // A class that is only there before is less than none.
                (Some(_), None) => return,
            };
            if by != 0 {
                self.placed.add(class, node, by, || cluster.classes.get(class));
                self.moves.push(Move { node, class, by });
            }
        }
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
            placed: &self.placed,
            classes: &cluster.classes,
            namespaces: &cluster.namespaces,
            owners: &cluster.owners,
            volumes: &cluster.volumes,
            network: &self.network,
            apps: &cluster.network,
            ledger: &cluster.ledger,
        }
    }

    /// The network.
    #[must_use]
    pub const fn network(&self) -> &NetworkView {
        &self.network
    }

    /// Nodes that changed lately.
    #[must_use]
    pub const fn touches(&self) -> &Recent<NodeIdx> {
        &self.touches
    }

    /// Pods that came and went lately.
    #[must_use]
    pub const fn moves(&self) -> &Recent<Move> {
        &self.moves
    }

    /// How far the change log is replayed.
    #[must_use]
    pub const fn position(&self) -> Seq {
        self.cursor.position()
    }

    /// See [`Epochs`].
    #[must_use]
    pub const fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Nodes that pods are nominated to.
    #[must_use]
    pub const fn nominated_nodes(&self) -> &FxHashSet<NodeIdx> {
        &self.nominated
    }
}
