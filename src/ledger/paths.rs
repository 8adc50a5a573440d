//! What happens to links and pools of addresses: pods are charged and discharged, capacities and ranges change.
//!
//! Does not: know which links a pod's traffic goes over, or which pools a node draws from; the callers compile that.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Ledger;
use super::change::{Change, ChangeKind};
use super::error::Shortage;
use super::link::LinkEntry;
use super::network::{AddressNeed, Excess, Flow, LinkUse, NetworkCharge, NetworkNeeds};
use super::pool::{PoolEntry, PoolSpec};
use super::promise::Placed;
use crate::check_invariant;
use crate::clock::Nanos;
use crate::ids::{DomainIdx, PodUid, PoolIdx};
use crate::invariants::Invariant;
use crate::sync::primitives::{After, Primitives, Table};

/// What becomes of the addresses of a pod that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// The pod never ran: they are free at once.
    None,
    /// It may have run: others may still have its address in mind, so it rests for the grace.
    Grace,
}

/// What a pool has, for metrics and for filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolUse {
    /// Addresses that can be had.
    pub free: u128,
    /// Addresses that it offers.
    pub size: u128,
    /// Addresses of pods that it does not offer any more.
    pub outside: usize,
}

impl<P: Primitives> Ledger<P> {
    /// Sets what a link carries, bits/s outwards and inwards (`None`: no limit). A capacity below the use is accepted:
    /// it blocks further reserves.
    pub fn set_link(&self, link: DomainIdx, egress: Option<i64>, ingress: Option<i64>) {
        self.links.upsert(link, LinkEntry::default, |entry| {
            if entry.set_capacity(egress, ingress) {
                self.sink.append(Change::global(ChangeKind::Link(link)));
            }
            (Self::keep_link(entry), ())
        });
    }

    /// What is promised on a link and what it carries.
    #[must_use]
    pub fn link_use(&self, link: DomainIdx) -> LinkUse {
        self.links.read(link, |entry| *entry.usage()).unwrap_or_default()
    }

    /// Links that something is known of, at some moment, in no order. O(links).
    #[must_use]
    pub fn links(&self) -> Vec<DomainIdx> {
        self.links.keys()
    }

    /// Sets what a pool offers; addresses that it does not offer any more stay with their pods.
    pub fn set_pool(&self, pool: PoolIdx, spec: &PoolSpec) {
        self.pools.upsert(
            pool,
            || PoolEntry::new(spec.clone()),
            |entry| {
                entry.set_spec(spec.clone());
                self.sink.append(Change::global(ChangeKind::Pool(pool)));
                (After::Keep, ())
            },
        );
    }

    /// Forgets a pool of which no pod has an address; otherwise it offers nothing from now on and false is returned.
    pub fn remove_pool(&self, pool: PoolIdx) -> bool {
        let removed = self.pools.update(pool, |entry| {
            self.sink.append(Change::global(ChangeKind::Pool(pool)));
            if entry.is_unused() {
                return (After::Remove, true);
            }
            let family = entry.spec().family;
            entry.set_spec(PoolSpec {
                family,
                ranges: Box::default(),
                excluded: Box::default(),
            });
            (After::Keep, false)
        });
        removed.unwrap_or(true)
    }

    /// What a pool has; nothing when it is not known.
    #[must_use]
    pub fn pool_use(&self, pool: PoolIdx) -> PoolUse {
        let look = |entry: &PoolEntry| PoolUse {
            free: entry.free(),
            size: entry.spec().size(),
            outside: entry.outside(),
        };
        self.pools.read(pool, look).unwrap_or_default()
    }

    /// Whether a pool has an address to give: this one, or any.
    #[must_use]
    pub fn has_address(&self, pool: PoolIdx, wanted: Option<IpAddr>) -> bool {
        let look = |entry: &PoolEntry| match wanted {
            Some(address) => entry.spec().offers(address) && !entry.is_taken(address),
            None => entry.free() > 0,
        };
        self.pools.read(pool, look).unwrap_or(false)
    }

    /// The pods that have an address of a pool.
    #[must_use]
    pub fn holders(&self, pool: PoolIdx, address: IpAddr) -> SmallVec<[PodUid; 1]> {
        let look = |entry: &PoolEntry| SmallVec::from_slice(entry.holders_of(address));
        self.pools.read(pool, look).unwrap_or_default()
    }

    /// Frees the addresses that have rested for `grace`; how many. The grace of one begins with the first call after
    /// its pod's end. O(pools + resting addresses).
    pub fn wake_addresses(&self, now: Nanos, grace: Duration) -> usize {
        let wake = |pool: PoolIdx| {
            let woken = self.pools.update(pool, |entry| {
                let woken = entry.wake(now, grace);
                if woken > 0 {
                    self.sink.append(Change::global(ChangeKind::Pool(pool)));
                }
                (After::Keep, woken)
            });
            woken.unwrap_or_default()
        };
        self.pools.keys().into_iter().map(wake).sum()
    }

    /// What of the network is promised to a pod; `None`: nothing.
    #[must_use]
    pub fn network(&self, uid: PodUid) -> Option<Arc<NetworkCharge>> {
        let look = |record: &super::promise::Record| record.placed.as_ref()?.network.clone();
        self.promises.read(uid, look).flatten()
    }

    /// Replaces what is promised to a pod by what is a fact, or follows from facts: nothing is checked, and what went
    /// over a limit is returned. The new is charged before the old is taken back. `None`, and nothing changes, when the
    /// pod is counted nowhere or another call is at work on it.
    pub fn recharge_network(&self, uid: PodUid, charge: NetworkCharge) -> Option<Vec<Excess>> {
        let begun = self.promises.update(uid, |record| {
            let free = !record.busy && record.placed.is_some();
            record.busy |= free;
            (After::Keep, if free { record.placed.clone() } else { None })
        });
        let before = begun.flatten()?;
        let excess = self.note_network(uid, &charge);
        if let Some(old) = &before.network {
            self.take_back_all_but(uid, old, &charge);
        }
        let network = Some(charge).filter(|charge| !charge.is_empty()).map(Arc::new);
        self.settle(uid, Some(Placed { network, ..before }));
        Some(excess)
    }

    /// Charges all of `needs`, or nothing.
    pub(super) fn charge_network(
        &self,
        uid: PodUid,
        needs: &NetworkNeeds,
    ) -> Result<Option<Arc<NetworkCharge>>, Shortage> {
        if needs.is_empty() {
            return Ok(None);
        }
        let mut charge = NetworkCharge::default();
        let result = self.charge_into(uid, needs, &mut charge);
        match result {
            Ok(()) => Ok(Some(Arc::new(charge))),
            Err(shortage) => {
                self.discharge_network(uid, &charge, Rest::None);
                Err(shortage)
            }
        }
    }

    fn charge_into(&self, uid: PodUid, needs: &NetworkNeeds, charge: &mut NetworkCharge) -> Result<(), Shortage> {
        for (link, flow) in needs.flows.iter() {
            if !self.charge_link(uid, link, flow) {
                return Err(Shortage::Link(link));
            }
            charge.flows.add(link, flow);
        }
        for need in &needs.addresses {
            charge.addresses.push(self.charge_address(uid, need)?);
        }
        Ok(())
    }

    fn charge_link(&self, uid: PodUid, link: DomainIdx, flow: Flow) -> bool {
        self.links.upsert(link, LinkEntry::default, |entry| {
            let charged = entry.add_checked(uid, flow);
            if charged {
                self.sink.append(Change::global(ChangeKind::Link(link)));
            }
            (Self::keep_link(entry), charged)
        })
    }

    fn charge_address(&self, uid: PodUid, need: &AddressNeed) -> Result<(PoolIdx, IpAddr), Shortage> {
        for pool in &need.pools {
            let taken = self.pools.update(*pool, |entry| {
                let taken = entry.take(uid, need.wanted).ok();
                if taken.is_some() {
                    self.sink.append(Change::global(ChangeKind::Pool(*pool)));
                }
                (After::Keep, taken)
            });
            if let Some(address) = taken.flatten() {
                return Ok((*pool, address));
            }
        }
        Err(Shortage::Address(
            need.pools.first().copied().unwrap_or(PoolIdx(u32::MAX)),
        ))
    }

    /// Charges facts.
    fn note_network(&self, uid: PodUid, charge: &NetworkCharge) -> Vec<Excess> {
        let mut excess = Vec::new();
        for (link, flow) in charge.flows.iter() {
            let over = self.links.upsert(link, LinkEntry::default, |entry| {
                entry.add(flow);
                self.sink.append(Change::global(ChangeKind::Link(link)));
                (After::Keep, entry.usage().is_over())
            });
            if over {
                excess.push(Excess::Link(link));
            }
        }
        for (pool, address) in &charge.addresses {
            let other = self.pools.update(*pool, |entry| {
                let other = entry.note(uid, *address);
                self.sink.append(Change::global(ChangeKind::Pool(*pool)));
                (After::Keep, other)
            });
            if let Some(other) = other.flatten() {
                excess.push(Excess::Address(*address, other));
            }
        }
        excess
    }

    /// Takes back `old`, except the addresses that are in `new` too: those were only noted again.
    fn take_back_all_but(&self, uid: PodUid, old: &NetworkCharge, new: &NetworkCharge) {
        let mut gone = old.clone();
        gone.addresses.retain(|address| !new.addresses.contains(address));
        self.discharge_network(uid, &gone, Rest::Grace);
    }

    pub(super) fn discharge_network(&self, uid: PodUid, charge: &NetworkCharge, rest: Rest) {
        for (pool, address) in charge.addresses.iter().rev() {
            let had = self.pools.update(*pool, |entry| {
                let had = entry.give_back(uid, *address, rest == Rest::Grace);
                self.sink.append(Change::global(ChangeKind::Pool(*pool)));
                (After::Keep, had)
            });
            check_invariant!(
                Invariant::OnePromise,
                had == Some(true),
                "{uid:?} did not hold the address {address} that it was promised"
            );
        }
        for (link, flow) in charge.flows.iter().rev() {
            let found = self.links.update(link, |entry| {
                entry.take(uid, flow);
                self.sink.append(Change::global(ChangeKind::Link(link)));
                (Self::keep_link(entry), ())
            });
            check_invariant!(
                Invariant::OnePromise,
                found.is_some(),
                "{uid:?} was not charged on the link {link:?} that it was promised"
            );
        }
    }

    const fn keep_link(entry: &LinkEntry) -> After {
        if entry.is_forgettable() {
            After::Remove
        } else {
            After::Keep
        }
    }
}
