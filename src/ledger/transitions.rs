//! What happens to a pod: reserve, confirm, unreserve, remove.
//!
//! A call goes through three steps: *begin* (one lock on the pod's record), *work* (locks on node entries, one at a
//! time, each change logged under its lock), *settle* (the record's lock again; wishes left by others are fulfilled
//! first). Calls that need no work on entries end at the first step.
//!
//! Does not: wait for another call, ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Ledger;
use super::change::ChangeKind;
use super::charge::{Charge, Checks};
use super::entry::NodeEntry;
use super::error::{Confirmed, Conflict, ReserveError};
use super::network::NetworkNeeds;
use super::paths::Rest;
use super::promise::{Placed, Promise, PromiseState, Record, Wish};
use crate::check_invariant;
use crate::ids::{Incarnation, NodeIdx, PodUid};
use crate::invariants::Invariant;
use crate::sync::primitives::{After, Primitives, Table, Word};

/// What the first step of a confirmation found.
enum Begin {
    Done(Confirmed),
    Work(Option<Placed>),
}

impl<P: Primitives> Ledger<P> {
    /// Charges a node for a pod if all that `checks` asks for is free at this moment, and gives the version of the
    /// node's entry then. The pod stays charged, however long its bind takes, until [`Self::unreserve`] or
    /// [`Self::remove`]. Its nomination, if it has one, ends.
    ///
    /// # Errors
    /// See [`ReserveError`]; this call has charged nothing then.
    pub fn reserve(
        &self,
        charge: &Arc<Charge>,
        checks: &Checks,
        node: NodeIdx,
        incarnation: Incarnation,
    ) -> Result<u64, ReserveError> {
        self.reserve_all(charge, checks, &NetworkNeeds::default(), node, incarnation)
    }

    /// [`Self::reserve`] of a node and of what the pod needs of the network, all or nothing: first the node, then links
    /// in their order, then addresses.
    ///
    /// # Errors
    /// See [`ReserveError`]; this call has charged nothing then.
    pub fn reserve_all(
        &self,
        charge: &Arc<Charge>,
        checks: &Checks,
        needs: &NetworkNeeds,
        node: NodeIdx,
        incarnation: Incarnation,
    ) -> Result<u64, ReserveError> {
        let placed = |state, network| Placed {
            promise: Promise {
                state,
                node,
                incarnation,
            },
            charge: Arc::clone(charge),
            network,
        };
        let begun = self.promises.upsert(charge.uid, Record::nowhere, |record| {
            let free = !record.busy && record.placed.is_none();
            if free {
                record.busy = true;
                record.placed = Some(placed(PromiseState::Reserving, None));
            }
            (After::Keep, free)
        });
        if !begun {
            return Err(ReserveError::AlreadyPromised);
        }
        let on_node = self
            .nodes
            .update(node, |entry| {
                (
                    After::Keep,
                    self.charge_checked(entry, charge, checks, node, incarnation),
                )
            })
            .unwrap_or(Err(ReserveError::NodeGone));
        let result = on_node.and_then(|version| {
            let network = self.charge_network(charge.uid, needs);
            let network = network.map_err(|shortage| {
                self.discharge_node(node, charge.uid);
                ReserveError::Conflict(Conflict { shortage, version })
            })?;
            Ok((version, network))
        });
        let (result, end) = match result {
            Ok((version, network)) => (Ok(version), Some(placed(PromiseState::Assumed, network))),
            Err(error) => (Err(error), None),
        };
        let overtaken = self.settle(charge.uid, end);
        if overtaken {
            return Err(ReserveError::Overtaken);
        }
        // Only the pod's own worker nominates it, so a nomination that matters here is no newer than this count.
        if result.is_ok() && self.nominated_count.load(Ordering::Relaxed) > 0 {
            self.clear_nomination(charge.uid);
        }
        result
    }

    fn charge_checked(
        &self,
        entry: &mut NodeEntry,
        charge: &Arc<Charge>,
        checks: &Checks,
        node: NodeIdx,
        incarnation: Incarnation,
    ) -> Result<u64, ReserveError> {
        if !entry.is_live_as(incarnation) {
            return Err(ReserveError::NodeGone);
        }
        if let Err(shortage) = entry.check(charge, checks, self.any_address) {
            return Err(ReserveError::Conflict(Conflict {
                shortage,
                version: entry.usage().version,
            }));
        }
        entry.add_checked(charge, checks);
        Ok(self.log(entry, node, ChangeKind::PodAdded, Some(charge.class)))
    }

    /// Notes that a pod was seen bound to `node`, which need not be known or have room: a reserved pod becomes a fact,
    /// an unknown one is counted, one on another node moves (counted twice for a moment, never in neither place), a
    /// resized one is counted by its new use. Its nomination, if it has one, ends.
    ///
    /// Callers: the watch, in the order of the pod's events; a call after the pod's [`Self::remove`] counts it again.
    pub fn confirm(&self, charge: &Arc<Charge>, node: NodeIdx) -> Confirmed {
        let begin = self.promises.upsert(charge.uid, Record::nowhere, |record| {
            (After::Keep, self.begin_confirm(record, charge, node))
        });
        let outcome = match begin {
            Begin::Done(outcome) => outcome,
            Begin::Work(before) => {
                let (placed, outcome) = self.place_bound(before, charge, node);
                self.settle(charge.uid, Some(placed));
                outcome
            }
        };
        self.clear_nomination(charge.uid);
        outcome
    }

    fn begin_confirm(&self, record: &mut Record, charge: &Arc<Charge>, node: NodeIdx) -> Begin {
        if record.busy {
            record.wish = Some(Box::new(Wish::Confirm {
                charge: Arc::clone(charge),
                node,
            }));
            return Begin::Done(Confirmed::Deferred);
        }
        let was_assumed = record.is_assumed();
        match &mut record.placed {
            Some(placed) if placed.promise.node == node && *placed.charge == **charge => {
                placed.promise.state = PromiseState::Bound;
                self.count_assumed(was_assumed, false);
                Begin::Done(if was_assumed {
                    Confirmed::Flipped
                } else {
                    Confirmed::Unchanged
                })
            }
            placed => {
                record.busy = true;
                Begin::Work(placed.clone())
            }
        }
    }

    /// Counts a pod on `node` as bound, wherever it was before.
    fn place_bound(&self, before: Option<Placed>, charge: &Arc<Charge>, node: NodeIdx) -> (Placed, Confirmed) {
        let mut network = None;
        let (incarnation, outcome) = match before {
            Some(before) if before.promise.node == node => {
                self.recharge(&before, charge);
                network = before.network;
                (before.promise.incarnation, Confirmed::Replaced)
            }
            Some(before) => {
                let incarnation = self.charge_unchecked(charge, node);
                self.discharge(&before, Rest::Grace);
                (
                    incarnation,
                    Confirmed::Moved {
                        from: before.promise.node,
                    },
                )
            }
            None => (self.charge_unchecked(charge, node), Confirmed::Added),
        };
        let promise = Promise {
            state: PromiseState::Bound,
            node,
            incarnation,
        };
        (
            Placed {
                promise,
                charge: Arc::clone(charge),
                network,
            },
            outcome,
        )
    }

    fn charge_unchecked(&self, charge: &Arc<Charge>, node: NodeIdx) -> Incarnation {
        self.nodes.upsert(
            node,
            || self.ghost(),
            |entry| {
                entry.add(charge);
                self.log(entry, node, ChangeKind::PodAdded, Some(charge.class));
                (After::Keep, entry.usage().incarnation)
            },
        )
    }

    fn recharge(&self, before: &Placed, charge: &Arc<Charge>) {
        let node = before.promise.node;
        if *before.charge == **charge {
            return;
        }
        let replaced = self.nodes.update(node, |entry| {
            let old = entry.replace(charge);
            if charge.class == before.charge.class {
                self.log(entry, node, ChangeKind::Usage, Some(charge.class));
            } else {
                self.log(entry, node, ChangeKind::PodRemoved, Some(before.charge.class));
                self.log(entry, node, ChangeKind::PodAdded, Some(charge.class));
            }
            (After::Keep, old.is_some())
        });
        let held = replaced == Some(true);
        check_invariant!(
            Invariant::OnePromise,
            held,
            "pod {:?} was not counted where promised",
            charge.uid
        );
    }

    /// Counts a pod by a new charge where it is counted, if it is: its class was found anew. Nothing changes while
    /// another call is at work on the pod.
    pub fn recharge_placed(&self, charge: &Arc<Charge>) {
        let begun = self.promises.update(charge.uid, |record| {
            let free = !record.busy && record.placed.is_some();
            record.busy |= free;
            (After::Keep, if free { record.placed.clone() } else { None })
        });
        let Some(before) = begun.flatten() else { return };
        self.recharge(&before, charge);
        let placed = Placed {
            charge: Arc::clone(charge),
            ..before
        };
        self.settle(charge.uid, Some(placed));
    }

    /// Takes back a promise that is not a fact: its room is free when this returns. False, and nothing changes, when
    /// the pod is bound, gone, unknown, or another call is about to make it so.
    ///
    /// Callers: whoever reserved it, once, before it is tried again.
    pub fn unreserve(&self, uid: PodUid) -> bool {
        let begun = self.promises.update(uid, |record| {
            let ours = !record.busy && record.is_assumed();
            record.busy |= ours;
            (After::Keep, if ours { record.placed.clone() } else { None })
        });
        let Some(placed) = begun.flatten() else { return false };
        self.discharge(&placed, Rest::None);
        self.settle(uid, None);
        true
    }

    /// Stops counting a pod that was deleted or has ended, whatever its state, and gives the node that it was counted
    /// on. Its nomination, if it has one, ends. Repeated calls, and an [`Self::unreserve`] that comes late, change
    /// nothing.
    pub fn remove(&self, uid: PodUid) -> Option<NodeIdx> {
        let begun = self.promises.update(uid, |record| {
            let placed = record.placed.clone();
            if record.busy {
                record.wish = Some(Box::new(Wish::Remove));
            }
            let was_busy = std::mem::replace(&mut record.busy, true);
            (After::Keep, (placed, was_busy))
        });
        let node = begun.and_then(|(placed, was_busy)| {
            let node = placed.as_ref().map(|placed| placed.promise.node);
            if !was_busy {
                if let Some(placed) = &placed {
                    self.discharge(placed, Rest::Grace);
                }
                self.settle(uid, None);
            }
            node
        });
        self.clear_nomination(uid);
        node
    }

    /// Takes back all that a pod is charged with, in reverse.
    fn discharge(&self, placed: &Placed, rest: Rest) {
        if let Some(network) = &placed.network {
            self.discharge_network(placed.charge.uid, network, rest);
        }
        self.discharge_node(placed.promise.node, placed.charge.uid);
    }

    fn discharge_node(&self, node: NodeIdx, uid: PodUid) {
        let taken = self.nodes.update(node, |entry| {
            let taken = entry.take(uid);
            if let Some(charge) = &taken {
                self.log(entry, node, ChangeKind::PodRemoved, Some(charge.class));
            }
            (self.keep_or_forget(entry), taken.is_some())
        });
        let held = taken == Some(true);
        check_invariant!(
            Invariant::OnePromise,
            held,
            "pod {uid:?} was not counted where promised"
        );
    }

    /// Ends a call: fulfils what others wished meanwhile, then writes down where the pod is. True when there was a
    /// wish. Each round serves a call made by another thread since the last, so the loop ends when they do.
    pub(super) fn settle(&self, uid: PodUid, mut placed: Option<Placed>) -> bool {
        let mut overtaken = false;
        loop {
            let wish = self.promises.update(uid, |record| match record.wish.take() {
                Some(wish) => (After::Keep, Some(wish)),
                None => (self.write_down(record, placed.clone()), None),
            });
            check_invariant!(
                Invariant::OnePromise,
                wish.is_some(),
                "the promise of {uid:?} went while busy"
            );
            match wish.flatten().map(|wish| *wish) {
                None => return overtaken,
                Some(Wish::Remove) => {
                    if let Some(placed) = placed.take() {
                        self.discharge(&placed, Rest::Grace);
                    }
                }
                Some(Wish::Confirm { charge, node }) => {
                    placed = Some(self.place_bound(placed.take(), &charge, node).0);
                }
            }
            overtaken = true;
        }
    }

    fn write_down(&self, record: &mut Record, placed: Option<Placed>) -> After {
        let was_assumed = record.is_assumed();
        record.placed = placed;
        record.busy = false;
        self.count_assumed(was_assumed, record.is_assumed());
        if record.placed.is_some() {
            After::Keep
        } else {
            After::Remove
        }
    }

    fn count_assumed(&self, before: bool, now: bool) {
        match (before, now) {
            (false, true) => {
                self.assumed_count.fetch_add(1, Ordering::Relaxed);
            }
            (true, false) => {
                let count = self.assumed_count.fetch_sub(1, Ordering::Relaxed);
                check_invariant!(Invariant::AssumedEnds, count > 0, "more assumed pods ended than began");
            }
            _ => {}
        }
    }
}
