//! Which pending pods say that they are nominated to a node, by the node's name: a nomination counts as soon as the node
//! is known, whichever is seen first, and again when the node comes back.
//!
//! Writers: as the store's; the ledger keeps what counts.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Cluster;
use crate::cluster::PodInfo;
use crate::ids::{NodeIdx, PodUid, Symbol};
use crate::sync::Mutex;

/// Pods by the node that their status names.
#[derive(Debug, Default)]
pub(super) struct Nominees(Mutex<FxHashMap<Symbol, FxHashSet<PodUid>>>);

impl Nominees {
    fn insert(&self, node: Symbol, pod: PodUid) {
        self.0.lock().entry(node).or_default().insert(pod);
    }

    fn remove(&self, node: Symbol, pod: PodUid) {
        let mut by_node = self.0.lock();
        if let Some(pods) = by_node.get_mut(&node) {
            pods.remove(&pod);
            if pods.is_empty() {
                by_node.remove(&node);
            }
        }
    }

    fn of(&self, node: Symbol) -> Vec<PodUid> {
        let by_node = self.0.lock();
        let mut pods: Vec<_> = by_node.get(&node).into_iter().flatten().copied().collect();
        // In the same order in every run.
        pods.sort_unstable();
        pods
    }
}

impl Cluster {
    /// A pending pod of ours was seen, or seen to have changed.
    pub(super) fn note_nomination(&self, old: Option<&PodInfo>, new: &PodInfo) {
        let before = old.and_then(|old| old.nominated_node);
        if before == new.nominated_node {
            if old.is_some_and(|old| *old.charge != *new.charge) {
                self.ledger.update_nomination(&new.charge);
            }
            return;
        }
        if let Some(before) = before {
            self.nominees.remove(before, new.uid);
        }
        if let Some(node) = new.nominated_node {
            self.nominees.insert(node, new.uid);
            if let Some(idx) = self.find_node(node) {
                self.follow_nomination(new, idx);
                return;
            }
            // A nomination for a node that is unknown has no effect yet.
        }
        // One that we have made for another node since is newer than what was seen.
        if before.is_some_and(|before| self.ledger.nominated_node(new.uid) == self.find_node(before)) {
            self.ledger.clear_nomination(new.uid);
        }
    }

    /// The pod's status says that it is nominated to the node.
    fn follow_nomination(&self, pod: &PodInfo, node: NodeIdx) {
        let known = self.ledger.nominated_node(pod.uid);
        // What the status says is our own word, perhaps an earlier one.
        if known == Some(node) || self.ledger.awaited_node(pod.uid).is_some() {
            return;
        }
        if let Err(error) = self.ledger.nominate(&pod.charge, node, &[], None) {
            tracing::debug!(pod = pod.full_name(), ?node, %error, "a nomination has no effect");
        }
    }

    /// A node is known from now on.
    pub(super) fn nominate_waiting(&self, name: Symbol, node: NodeIdx) {
        for uid in self.nominees.of(name) {
            if let Some(pod) = self.pod(uid).filter(|pod| pod.bound_to.is_none()) {
                self.follow_nomination(&pod, node);
            }
        }
    }

    /// The pod is bound, gone, or not ours any more.
    pub(super) fn forget_nominee(&self, pod: &PodInfo) {
        if let Some(node) = pod.nominated_node {
            self.nominees.remove(node, pod.uid);
        }
    }
}
