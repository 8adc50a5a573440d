//! What happens to a node: it comes, changes and goes; pods come to be nominated to it.
//!
//! Does not: decide who is nominated, nor evict anybody.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Ledger;
use super::change::ChangeKind;
use super::charge::{Capacity, Charge, Nomination};
use super::entry::{NodeEntry, Nominated};
use super::error::NominateError;
use crate::ids::{Incarnation, NodeIdx, PodUid};
use crate::sync::primitives::{After, Primitives, Table, Word};

/// Where a pod is nominated, and by which call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NominatedTo {
    node: NodeIdx,
    ticket: u64,
}

/// Whose nomination, and which.
type NominatedPod = (PodUid, u64);

impl<P: Primitives> Ledger<P> {
    /// A node was added or its object changed. Pods seen on it before are counted already. A capacity below the use is
    /// accepted: it blocks further reserves of the quantities exceeded. An incarnation that is past is ignored.
    pub fn upsert_node(&self, node: NodeIdx, incarnation: Incarnation, capacity: Capacity) {
        self.nodes.upsert(
            node,
            || self.ghost(),
            |entry| {
                if !entry.is_past(incarnation) {
                    let is_same = entry.is_live_as(incarnation);
                    entry.set_live(incarnation, capacity);
                    let kind = if is_same {
                        ChangeKind::Spec
                    } else {
                        ChangeKind::NodeAdded(incarnation)
                    };
                    self.log(entry, node, kind, None);
                }
                (self.keep_or_forget(entry), ())
            },
        );
    }

    /// This incarnation of the node was deleted: nothing can be reserved on it from now on, and nominations to it end.
    /// Its pods stay counted until each is removed; then nothing is kept. Another incarnation is left alone.
    pub fn remove_node(&self, node: NodeIdx, incarnation: Incarnation) {
        let ended = self.nodes.update(node, |entry| {
            let ended = if entry.is_live_as(incarnation) {
                let ended = entry.set_gone();
                self.log(entry, node, ChangeKind::NodeRemoved(incarnation), None);
                ended
            } else {
                Vec::new()
            };
            (self.keep_or_forget(entry), ended)
        });
        for nominated in ended.unwrap_or_default() {
            self.nominated_count.fetch_sub(1, Ordering::Relaxed);
            self.forget_nomination(nominated.nomination.charge.uid, nominated.ticket);
        }
    }

    /// Logs a change of the node that the ledger keeps nothing of (its labels, its volumes' limits), so that it has a
    /// version. `None` when the node is unknown.
    pub fn touch(&self, node: NodeIdx, kind: ChangeKind) -> Option<u64> {
        self.nodes
            .update(node, |entry| (After::Keep, self.log(entry, node, kind, None)))
    }

    /// Keeps room on `node` for a pod, against pods of the same or lower priority, and gives the entry's version. An
    /// earlier nomination of the pod ends. With `expected`, the entry must still have that version: nothing happened
    /// on the node since the dry run that chose `victims`, so no two preemptors count on the same room. A victim may
    /// well go for two of them, if both need it gone.
    ///
    /// Callers: the pod's own worker, under the commit lock; and whoever reads a nomination back from the API, without
    /// victims or version. A pod that was deleted meanwhile stays nominated until [`Self::clear_nomination`].
    ///
    /// # Errors
    /// See [`NominateError`]; nothing is recorded then, and an earlier nomination stays.
    pub fn nominate(
        &self,
        charge: &Arc<Charge>,
        node: NodeIdx,
        victims: &[PodUid],
        expected: Option<u64>,
    ) -> Result<u64, NominateError> {
        let uid = charge.uid;
        if self.promise(uid).is_some() {
            return Err(NominateError::AlreadyPromised);
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let nomination = Nomination {
            charge: Arc::clone(charge),
            victims: SmallVec::from_slice(victims),
        };
        let version = self
            .nodes
            .update(node, |entry| {
                let recorded = may_nominate(entry, expected);
                let version = recorded.map(|()| {
                    let before = entry.nominations().len();
                    entry.nominate(Nominated { ticket, nomination });
                    if entry.nominations().len() > before {
                        self.nominated_count.fetch_add(1, Ordering::Relaxed);
                    }
                    self.log(entry, node, ChangeKind::Nomination, Some(charge.class))
                });
                (After::Keep, version)
            })
            .unwrap_or(Err(NominateError::NodeGone))?;
        self.index_nomination(uid, NominatedTo { node, ticket });
        if self.promise(uid).is_some() {
            // Seen bound meanwhile: whoever saw it may have looked for this nomination too early.
            self.clear_nomination(uid);
            return Err(NominateError::AlreadyPromised);
        }
        Ok(version)
    }

    /// Makes the nomination findable by its pod and ends the one before.
    fn index_nomination(&self, uid: PodUid, now: NominatedTo) {
        let before = self
            .nominated
            .upsert(uid, || now, |to| (After::Keep, std::mem::replace(to, now)));
        if before.ticket != now.ticket {
            self.denominate(before);
        }
        let is_there = |entry: &NodeEntry| entry.nominations().iter().any(|other| other.ticket == now.ticket);
        if self.nodes.read(now.node, is_there) != Some(true) {
            // The node went between record and index.
            self.forget_nomination(uid, now.ticket);
        }
    }

    /// Ends a pod's nomination and gives the node that it was for.
    pub fn clear_nomination(&self, uid: PodUid) -> Option<NodeIdx> {
        let to = self.nominated.update(uid, |to| (After::Remove, *to))?;
        self.denominate(to);
        Some(to.node)
    }

    /// Ends the nominations for `node` of pods of lower priority than `priority`, and gives these pods.
    pub fn clear_lower_nominations(&self, node: NodeIdx, priority: i32) -> SmallVec<[PodUid; 2]> {
        let lower = |entry: &NodeEntry| -> SmallVec<[NominatedPod; 2]> {
            let lower = entry
                .nominations()
                .iter()
                .filter(|it| it.nomination.charge.priority < priority);
            lower.map(|it| (it.nomination.charge.uid, it.ticket)).collect()
        };
        let mut ended = SmallVec::new();
        for (uid, ticket) in self.nodes.read(node, lower).unwrap_or_default() {
            // One that was renewed or ended meanwhile is another nomination, or none.
            if self.denominate(NominatedTo { node, ticket }) {
                self.forget_nomination(uid, ticket);
                ended.push(uid);
            }
        }
        ended
    }

    /// A nominated pod's use or priority changed.
    pub fn update_nomination(&self, charge: &Arc<Charge>) {
        let Some(to) = self.nominated.read(charge.uid, |to| *to) else {
            return;
        };
        self.nodes.update(to.node, |entry| {
            if entry.replace_nominated(to.ticket, charge) {
                self.log(entry, to.node, ChangeKind::Nomination, Some(charge.class));
            }
            (After::Keep, ())
        });
    }

    /// The node to which a pod is nominated, if some of the pods that were to go for it are still counted there.
    #[must_use]
    pub fn awaited_node(&self, uid: PodUid) -> Option<NodeIdx> {
        let to = self.nominated.read(uid, |to| *to)?;
        let awaits = |entry: &NodeEntry| {
            let nominated = entry.nominations().iter().find(|it| it.ticket == to.ticket);
            nominated.is_some_and(|it| it.nomination.victims.iter().any(|victim| entry.holds(*victim)))
        };
        (self.nodes.read(to.node, awaits) == Some(true)).then_some(to.node)
    }

    /// The pods that were to go for a nominated pod will not, or not for sure. Its nomination stays.
    pub fn forget_victims(&self, uid: PodUid) {
        let Some(to) = self.nominated.read(uid, |to| *to) else {
            return;
        };
        // No change of the node: what fits there is the same.
        self.nodes.update(to.node, |entry| {
            entry.forget_victims(to.ticket);
            (After::Keep, ())
        });
    }

    /// The node to which a pod is nominated.
    #[must_use]
    pub fn nominated_node(&self, uid: PodUid) -> Option<NodeIdx> {
        self.nominated.read(uid, |to| to.node)
    }

    /// Ends a nomination; false: it had ended.
    fn denominate(&self, to: NominatedTo) -> bool {
        let ended = self.nodes.update(to.node, |entry| {
            let class = entry.nominations().iter().find(|other| other.ticket == to.ticket);
            let class = class.map(|found| found.nomination.charge.class);
            let ended = entry.denominate(to.ticket);
            if ended {
                self.nominated_count.fetch_sub(1, Ordering::Relaxed);
                self.log(entry, to.node, ChangeKind::Nomination, class);
            }
            (self.keep_or_forget(entry), ended)
        });
        ended == Some(true)
    }

    fn forget_nomination(&self, uid: PodUid, ticket: u64) {
        self.nominated.update(uid, |to| {
            (
                if to.ticket == ticket {
                    After::Remove
                } else {
                    After::Keep
                },
                (),
            )
        });
    }
}

fn may_nominate(entry: &NodeEntry, expected: Option<u64>) -> Result<(), NominateError> {
    if !entry.usage().live {
        return Err(NominateError::NodeGone);
    }
    let version = entry.usage().version;
    if expected.is_some_and(|expected| expected != version) {
        return Err(NominateError::Moved { version });
    }
    Ok(())
}
