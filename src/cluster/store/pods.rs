//! What happens to pods.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::Cluster;
use crate::cluster::PodInfo;
use crate::ids::{PodUid, Symbol};
use crate::ledger::PromiseState;

/// What became of a pod.
#[derive(Clone, Debug)]
pub enum PodChange {
    /// A pending pod of ours is new or changed.
    Pending {
        /// Before, if it was known.
        old: Option<Arc<PodInfo>>,
        /// After.
        new: Arc<PodInfo>,
        /// A node is reserved for it already: it is being bound.
        assumed: bool,
    },
    /// A pod was seen on a node for the first time, or changed there.
    Assigned {
        /// Before, if it was on a node before.
        old: Option<Arc<PodInfo>>,
        /// After.
        new: Arc<PodInfo>,
    },
    /// A pod is gone or has ended.
    Removed {
        /// As last seen; on the node that was reserved for it, if one was.
        pod: Arc<PodInfo>,
        /// It was on a node or a node was reserved for it: room became free.
        freed: bool,
        /// A node's room was kept for it that its status did not tell of yet; `pod` names that node as nominated.
        claimed: bool,
    },
}

/// The changes that one delivery makes: a pod re-created under its name is a removal and an addition.
pub type PodChanges = SmallVec<[PodChange; 2]>;

impl Cluster {
    /// Takes in a pod as the watch delivers it.
    pub fn apply_pod(&self, pod: PodInfo) -> PodChanges {
        let mut changes = PodChanges::new();
        let key = (pod.namespace, pod.name.clone());
        let namesake = self.uids.get(&key).map(|uid| *uid).filter(|uid| *uid != pod.uid);
        changes.extend(namesake.and_then(|uid| self.remove_pod(uid)));
        if pod.terminal {
            changes.extend(self.remove_pod(pod.uid));
            return changes;
        }
        self.show_labels_of(&pod.spec);
        self.uids.insert(key, pod.uid);
        let known = self.pod(pod.uid);
        if self.has_live_rules(&pod) && !known.is_some_and(|known| self.has_live_rules(&known)) {
            self.add_rules(&pod.spec);
        }
        let pod = self.current(&Arc::new(pod));
        let old = self.pods.insert(pod.uid, Arc::clone(&pod));
        changes.extend(match pod.bound_to {
            Some(node) => Some(self.assign(old, pod, node)),
            None => self.note_pending(old, pod),
        });
        changes
    }

    fn assign(&self, old: Option<Arc<PodInfo>>, new: Arc<PodInfo>, node: Symbol) -> PodChange {
        let from = old.as_ref().and_then(|old| old.bound_to).filter(|from| *from != node);
        let idx = self.slot(node);
        if let Some(old) = &old {
            self.forget_nominee(old);
        }
        self.ledger.confirm(&new.charge, idx);
        if let Some(from) = from {
            self.free_slot_if_empty(self.slot(from), from);
        }
        PodChange::Assigned {
            old: old.filter(|old| old.bound_to.is_some()),
            new,
        }
    }

    fn note_pending(&self, old: Option<Arc<PodInfo>>, new: Arc<PodInfo>) -> Option<PodChange> {
        if !self.is_ours(&new) {
            return None;
        }
        let assumed = self
            .ledger
            .promise(new.uid)
            .is_some_and(|promise| promise.state != PromiseState::Bound);
        self.note_nomination(old.as_deref(), &new);
        Some(PodChange::Pending { old, new, assumed })
    }

    /// Notes that a pod is gone.
    pub fn remove_pod(&self, uid: PodUid) -> Option<PodChange> {
        let (_, pod) = self.pods.remove(&uid)?;
        self.uids
            .remove_if(&(pod.namespace, pod.name.clone()), |_, have| *have == uid);
        self.forget_nominee(&pod);
        let claim = self.ledger.nominated_node(uid).filter(|_| pod.nominated_node.is_none());
        let claim = claim.and_then(|idx| self.node(idx));
        let counted_on = self.ledger.remove(uid);
        if self.has_live_rules(&pod) {
            self.remove_rules(&pod.spec);
        }
        if let Some(node) = pod.bound_to
            && self.find_node(node).is_none()
        {
            self.free_slot_if_empty(self.slot(node), node);
        }
        let freed = counted_on.is_some();
        let reserved = counted_on
            .filter(|_| pod.bound_to.is_none())
            .and_then(|idx| self.node(idx));
        let claimed = claim.is_some();
        let pod = match (reserved, claim) {
            (None, None) => pod,
            (reserved, claim) => Arc::new(PodInfo {
                bound_to: pod.bound_to.or_else(|| reserved.map(|node| node.name)),
                nominated_node: pod.nominated_node.or_else(|| claim.map(|node| node.name)),
                ..PodInfo::clone(&pod)
            }),
        };
        Some(PodChange::Removed { pod, freed, claimed })
    }

    /// After a relist: removes every pod that was not listed.
    pub fn retain_pods(&self, listed: &FxHashSet<PodUid>) -> Vec<PodChange> {
        let gone: Vec<PodUid> = self
            .pods
            .iter()
            .map(|pod| pod.uid)
            .filter(|uid| !listed.contains(uid))
            .collect();
        gone.into_iter().filter_map(|uid| self.remove_pod(uid)).collect()
    }
}
