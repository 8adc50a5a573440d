//! A node's entry: what it offers, who is counted on it, for whom room is kept, and the sums of these.
//!
//! Does not: lock itself or tell anybody of changes; the ledger does both around every call here.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::charge::{Capacity, Charge, Checks, NodeUse, Nomination, NonZero};
use super::error::Shortage;
use crate::check_invariant;
use crate::ids::{Incarnation, PodUid, Symbol};
use crate::invariants::Invariant;
use crate::resources::{HostPort, HostPorts, Resource, Resources};

/// Debug builds recompute an entry's sums after every change while it has at most this many charges.
const AUDITED_CHARGES: usize = 128;

/// A nomination and the number of the call that made it.
#[derive(Debug)]
pub(super) struct Nominated {
    pub(super) ticket: u64,
    pub(super) nomination: Nomination,
}

#[derive(Debug)]
pub(super) struct NodeEntry {
    usage: NodeUse,
    capacity: Capacity,
    charges: IndexMap<PodUid, Arc<Charge>, FxBuildHasher>,
    nominations: Vec<Nominated>,
    /// Whether any incarnation was seen.
    known: bool,
}

impl NodeEntry {
    /// A node not seen yet; its first change makes version `floor + 1`.
    pub(super) fn ghost(floor: u64) -> Self {
        Self {
            usage: NodeUse {
                version: floor,
                ..NodeUse::default()
            },
            capacity: Capacity::default(),
            charges: IndexMap::default(),
            nominations: Vec::new(),
            known: false,
        }
    }

    pub(super) fn usage(&self) -> &NodeUse {
        &self.usage
    }

    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    pub(super) fn charges(&self) -> Vec<Arc<Charge>> {
        self.charges.values().map(Arc::clone).collect()
    }

    pub(super) fn nominations(&self) -> &[Nominated] {
        &self.nominations
    }

    pub(super) fn holds(&self, uid: PodUid) -> bool {
        self.charges.contains_key(&uid)
    }

    /// The pods of lower priority than `priority`, in no order.
    pub(super) fn below(&self, priority: i32) -> impl Iterator<Item = PodUid> {
        let lower = self.charges.values().filter(move |charge| charge.priority < priority);
        lower.map(|charge| charge.uid)
    }

    /// Whether nothing depends on the entry any more.
    pub(super) fn is_forgettable(&self) -> bool {
        !self.usage.live && self.charges.is_empty() && self.nominations.is_empty()
    }

    pub(super) fn is_live_as(&self, incarnation: Incarnation) -> bool {
        self.usage.live && self.usage.incarnation == incarnation
    }

    /// Whether `incarnation` was seen to go, or one after it was seen.
    pub(super) fn is_past(&self, incarnation: Incarnation) -> bool {
        self.known
            && (incarnation < self.usage.incarnation || !self.usage.live && incarnation == self.usage.incarnation)
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.usage.version += 1;
        self.usage.version
    }

    pub(super) fn set_live(&mut self, incarnation: Incarnation, capacity: Capacity) {
        self.usage.live = true;
        self.usage.incarnation = incarnation;
        self.capacity = capacity;
        self.known = true;
    }

    /// Ends the incarnation and gives the nominations that end with it.
    pub(super) fn set_gone(&mut self) -> Vec<Nominated> {
        self.usage.live = false;
        self.usage.nominated = 0;
        self.capacity = Capacity::default();
        std::mem::take(&mut self.nominations)
    }

    /// Whether all that `checks` asks for is free, next to the charges and to the nominations of other pods of the
    /// same or higher priority. `any` is the symbol of the wildcard address. O(checks × (1 + nominations)), and
    /// O(ports²) where ports are checked.
    pub(super) fn check(&self, charge: &Charge, checks: &Checks, any: Symbol) -> Result<(), Shortage> {
        for (resource, amount) in &checks.resources {
            let promised = self
                .claims(charge)
                .fold(self.usage.requested.get(*resource), |sum, claim| {
                    sum.saturating_add(claim.request.get(*resource))
                });
            if promised.saturating_add(*amount) > self.capacity.resources.get(*resource) {
                return Err(Shortage::Resource(*resource));
            }
        }
        if checks.pod_slot {
            let claims = i64::try_from(self.claims(charge).count()).unwrap_or(i64::MAX);
            if self.usage.pods.saturating_add(claims) >= self.capacity.pods {
                return Err(Shortage::PodSlot);
            }
        }
        for port in &checks.ports {
            let taken = |held: &HostPort| held.conflicts(port, any);
            if self.usage.ports.iter().any(taken) || self.claims(charge).any(|claim| claim.ports.iter().any(taken)) {
                return Err(Shortage::Port(*port));
            }
        }
        Ok(())
    }

    /// The nominations that hold room against `charge`.
    fn claims<'a>(&'a self, charge: &'a Charge) -> impl Iterator<Item = &'a Charge> {
        self.nominations
            .iter()
            .map(|nominated| &*nominated.nomination.charge)
            .filter(|claim| claim.priority >= charge.priority && claim.uid != charge.uid)
    }

    /// Counts a pod, whether or not there is room.
    pub(super) fn add(&mut self, charge: &Arc<Charge>) {
        let before = self.charges.insert(charge.uid, Arc::clone(charge));
        check_invariant!(
            Invariant::OnePromise,
            before.is_none(),
            "pod {:?} is counted twice on a node",
            charge.uid
        );
        match before {
            None => self.usage.add(charge),
            Some(_) => self.recount(),
        }
        self.audit();
    }

    /// Counts a pod for which [`Self::check`] has just found room.
    pub(super) fn add_checked(&mut self, charge: &Arc<Charge>, checks: &Checks) {
        self.add(charge);
        for (resource, _) in &checks.resources {
            let (used, capacity) = (
                self.usage.requested.get(*resource),
                self.capacity.resources.get(*resource),
            );
            check_invariant!(
                Invariant::NoOvercommit,
                used <= capacity,
                "a reserve of {:?} took {} to {used} of {capacity}",
                charge.uid,
                resource.name()
            );
        }
        let slots = !checks.pod_slot || self.usage.pods <= self.capacity.pods;
        check_invariant!(
            Invariant::NoOvercommit,
            slots,
            "a reserve of {:?} took a slot too many",
            charge.uid
        );
    }

    /// Stops counting a pod.
    pub(super) fn take(&mut self, uid: PodUid) -> Option<Arc<Charge>> {
        let charge = self.charges.swap_remove(&uid)?;
        if self.is_saturated() {
            self.recount();
        } else {
            self.usage.remove(&charge);
        }
        self.audit();
        Some(charge)
    }

    /// Counts a pod that is already counted by a new charge, and gives the old one.
    pub(super) fn replace(&mut self, charge: &Arc<Charge>) -> Option<Arc<Charge>> {
        let before = self.charges.insert(charge.uid, Arc::clone(charge));
        self.recount();
        self.audit();
        before
    }

    pub(super) fn nominate(&mut self, nominated: Nominated) {
        let uid = nominated.nomination.charge.uid;
        self.nominations.retain(|other| other.nomination.charge.uid != uid);
        self.nominations.push(nominated);
        self.count_nominations();
    }

    /// Removes the nomination that call `ticket` made; false when it is no longer there.
    pub(super) fn denominate(&mut self, ticket: u64) -> bool {
        let before = self.nominations.len();
        self.nominations.retain(|nominated| nominated.ticket != ticket);
        self.count_nominations();
        self.nominations.len() != before
    }

    /// The pod of nomination `ticket` uses as `charge` says from now on; false: nothing changes.
    pub(super) fn replace_nominated(&mut self, ticket: u64, charge: &Arc<Charge>) -> bool {
        let found = self.nominations.iter_mut().find(|nominated| nominated.ticket == ticket);
        let Some(found) = found.filter(|found| *found.nomination.charge != **charge) else {
            return false;
        };
        found.nomination.charge = Arc::clone(charge);
        true
    }

    pub(super) fn forget_victims(&mut self, ticket: u64) {
        for found in self
            .nominations
            .iter_mut()
            .filter(|nominated| nominated.ticket == ticket)
        {
            found.nomination.victims.clear();
        }
    }

    fn count_nominations(&mut self) {
        self.usage.nominated = u32::try_from(self.nominations.len()).unwrap_or(u32::MAX);
    }

    /// Whether some sum reached its limit, where subtraction no longer undoes addition.
    fn is_saturated(&self) -> bool {
        let (requested, non_zero) = (&self.usage.requested, self.usage.non_zero);
        [
            requested.milli_cpu,
            requested.memory,
            requested.ephemeral_storage,
            non_zero.milli_cpu,
            non_zero.memory,
        ]
        .into_iter()
        .chain(requested.scalars.iter().map(|(_, amount)| *amount))
        .any(|sum| sum == i64::MAX)
    }

    /// Computes the sums anew. O(charges).
    fn recount(&mut self) {
        self.usage.pods = 0;
        self.usage.requested = Resources::default();
        self.usage.non_zero = NonZero::default();
        self.usage.ports.clear();
        self.usage.classes.clear();
        for charge in self.charges.values() {
            self.usage.add(charge);
        }
    }

    /// Checks in debug builds that the sums are those of the charges.
    fn audit(&self) {
        if cfg!(debug_assertions) && self.charges.len() <= AUDITED_CHARGES {
            self.check_sums();
        }
    }

    fn check_sums(&self) {
        let mut fresh = Self::ghost(self.usage.version);
        for charge in self.charges.values() {
            fresh.usage.add(charge);
        }
        let sorted = |entry: &Self| {
            let mut ports: HostPorts = entry.usage.ports.clone();
            ports.sort_unstable();
            (
                entry.usage.requested.clone(),
                entry.usage.non_zero,
                entry.usage.pods,
                ports,
                entry.usage.classes.clone(),
            )
        };
        let holds = sorted(self) == sorted(&fresh) && self.usage.requested.get(Resource::Cpu) >= 0;
        check_invariant!(
            Invariant::NoOvercommit,
            holds,
            "use is not the sum of the charges: {:?}",
            self.usage
        );
    }
}
