//! All nodes by slot, and what is counted over all of them: one consistent view for a decision.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::{
    Budget, ClassTable, Namespaces, Network, NetworkView, NodeInfo, NodeSpec, Owners, Placed, PodInfo, VolumeCatalogue,
};
use crate::ids::{NodeIdx, PodUid, Symbol};
use crate::ledger::Ledger;

/// How an image is spread over the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageState {
    /// Bytes: as the first node that reported the name said.
    pub size: i64,
    /// Number of nodes that have it.
    pub nodes: u32,
}

/// Images by the name under which nodes report them.
///
/// Source: `pkg/scheduler/backend/cache/cache.go` (`addNodeImageStates`), Kubernetes 1.36.
#[derive(Clone, Debug, Default)]
pub struct Images {
    by_name: FxHashMap<Symbol, ImageState>,
}

impl Images {
    /// The image called `name`, if any node has it.
    #[must_use]
    pub fn get(&self, name: Symbol) -> Option<ImageState> {
        self.by_name.get(&name).copied()
    }

    /// Counts the images of a node that came or changed; a name counts once a node.
    pub fn add_node(&mut self, node: &NodeSpec) {
        for (at, image) in node.images.iter().enumerate() {
            if is_first(node, at, image.name) {
                let state = self.by_name.entry(image.name).or_insert(ImageState {
                    size: image.size,
                    nodes: 0,
                });
                state.nodes += 1;
            }
        }
    }

    /// Undoes [`Self::add_node`] of the same node.
    pub fn remove_node(&mut self, node: &NodeSpec) {
        for (at, image) in node.images.iter().enumerate() {
            if !is_first(node, at, image.name) {
                continue;
            }
            if let Some(state) = self.by_name.get_mut(&image.name) {
                state.nodes = state.nodes.saturating_sub(1);
                if state.nodes == 0 {
                    self.by_name.remove(&image.name);
                }
            }
        }
    }
}

fn is_first(node: &NodeSpec, at: usize, name: Symbol) -> bool {
    node.images.iter().take(at).all(|before| before.name != name)
}

/// Nodes by slot. Slots of nodes that are gone are empty.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    slots: Vec<Option<NodeInfo>>,
    by_name: FxHashMap<Symbol, NodeIdx>,
}

impl NodeTable {
    /// The node in a slot.
    #[must_use]
    pub fn get(&self, idx: NodeIdx) -> Option<&NodeInfo> {
        self.slots.get(idx.at())?.as_ref()
    }

    /// The same, to change its use.
    #[must_use]
    pub fn get_mut(&mut self, idx: NodeIdx) -> Option<&mut NodeInfo> {
        self.slots.get_mut(idx.at())?.as_mut()
    }

    /// The slot of a node that is there.
    #[must_use]
    pub fn find(&self, name: Symbol) -> Option<NodeIdx> {
        self.by_name.get(&name).copied()
    }

    /// Puts a node into its slot; what was there goes.
    pub fn insert(&mut self, node: NodeInfo) {
        let at = node.idx.at();
        self.remove(node.idx);
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.by_name.insert(node.name, node.idx);
        self.slots[at] = Some(node);
    }

    /// Empties a slot.
    pub fn remove(&mut self, idx: NodeIdx) -> Option<NodeInfo> {
        let node = self.slots.get_mut(idx.at())?.take()?;
        if self.by_name.get(&node.name) == Some(&idx) {
            self.by_name.remove(&node.name);
        }
        Some(node)
    }

    /// Nodes in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &NodeInfo> + Clone {
        self.slots.iter().flatten()
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// One more than the highest slot ever used: the length of arrays by slot.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }
}

/// Pods by node and the budgets that guard them, for the few questions that need the pods themselves.
pub trait PodLister: Send + Sync {
    /// Pods on a node, assumed ones included.
    fn on_node(&self, node: NodeIdx) -> Vec<Arc<PodInfo>>;
    /// Puts the pods of lower priority than `priority` on a node into `into`, in place of what was there: what preemption
    /// asks about every node that it looks at.
    fn below(&self, node: NodeIdx, priority: i32, into: &mut Vec<Arc<PodInfo>>) {
        into.clear();
        into.extend(self.on_node(node).into_iter().filter(|pod| pod.priority() < priority));
    }
    /// The node to which a pod is nominated although its status need not say so yet.
    fn nominated_node(&self, _pod: PodUid) -> Option<NodeIdx> {
        None
    }
    /// The node to which a pod is nominated, if pods that we had evicted for it are still there.
    fn awaited_node(&self, _pod: PodUid) -> Option<NodeIdx> {
        None
    }
    /// Pods nominated to a node.
    fn nominated_to(&self, node: NodeIdx) -> Vec<Arc<PodInfo>>;
    /// All PodDisruptionBudgets; asked for by preemption alone.
    fn budgets(&self) -> Vec<Arc<Budget>>;
}

/// No pods anywhere.
#[derive(Clone, Copy, Debug)]
pub struct NoPods;

impl PodLister for NoPods {
    fn on_node(&self, _: NodeIdx) -> Vec<Arc<PodInfo>> {
        Vec::new()
    }

    fn nominated_to(&self, _: NodeIdx) -> Vec<Arc<PodInfo>> {
        Vec::new()
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        Vec::new()
    }
}

/// What a plugin may look at beside the pod and the node at hand.
#[derive(Clone, Copy)]
pub struct ClusterView<'a> {
    /// All nodes.
    pub nodes: &'a NodeTable,
    /// Images over all nodes.
    pub images: &'a Images,
    /// Pods by node.
    pub pods: &'a dyn PodLister,
    /// Pods on nodes by class.
    pub placed: &'a Placed,
    /// All classes.
    pub classes: &'a ClassTable,
    /// Labels of namespaces.
    pub namespaces: &'a Namespaces,
    /// Services and controllers.
    pub owners: &'a Owners,
    /// Claims, volumes, StorageClasses and CSI objects, as of now.
    pub volumes: &'a VolumeCatalogue,
    /// The network.
    pub network: &'a NetworkView,
    /// AppGroups, as of now.
    pub apps: &'a Network,
    /// Pools of addresses, as of now.
    pub ledger: &'a Ledger,
}

impl std::fmt::Debug for ClusterView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterView").field("nodes", &self.nodes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;

    #[test]
    fn an_image_has_the_size_that_was_told_first_as_long_as_a_node_has_it() {
        let mut images = Images::default();
        let [a, b] = [("a", 100), ("b", 900)].map(|(name, size)| node(name).image("x:1", size).build());
        let state = |images: &Images| images.get(Symbol::new("x:1")).map(|state| (state.size, state.nodes));
        images.add_node(&a);
        images.add_node(&b);
        assert_eq!(state(&images), Some((100, 2)));
        images.remove_node(&a);
        assert_eq!(state(&images), Some((100, 1)));
        images.remove_node(&b);
        assert_eq!(state(&images), None);
        images.add_node(&b);
        assert_eq!(state(&images), Some((900, 1)));
    }

    #[test]
    fn an_image_that_a_node_lists_twice_counts_once() {
        let mut images = Images::default();
        let twice = node("a").image("x:1", 5).image("x:1", 7).build();
        images.add_node(&twice);
        assert_eq!(
            images.get(Symbol::new("x:1")).map(|state| (state.size, state.nodes)),
            Some((5, 1))
        );
        images.remove_node(&twice);
        assert!(images.get(Symbol::new("x:1")).is_none());
    }
}
