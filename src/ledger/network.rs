//! The values of the network that the ledger is asked with and answers in: what a pod sends over links, which addresses
//! it wants and has.
//!
//! Does not: know the tree that the links are part of, or what a pool's addresses are for.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::error::Shortage;
use crate::ids::{DomainIdx, PodUid, PoolIdx};

/// Bits per second over a link, outwards and inwards; not negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flow {
    /// Out of the place.
    pub egress: i64,
    /// Into the place.
    pub ingress: i64,
}

impl Flow {
    /// Whether nothing flows.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.egress == 0 && self.ingress == 0
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            egress: self.egress.saturating_add(other.egress),
            ingress: self.ingress.saturating_add(other.ingress),
        }
    }
}

/// What all pods together send over a link, and what it carries. Sums are wide enough never to overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkUse {
    /// In use outwards, bits/s.
    pub egress: i128,
    /// In use inwards, bits/s.
    pub ingress: i128,
    /// What may be promised outwards, bits/s; `None`: no limit.
    pub egress_capacity: Option<i64>,
    /// What may be promised inwards, bits/s; `None`: no limit.
    pub ingress_capacity: Option<i64>,
}

impl LinkUse {
    /// Whether so much more has room. What flows nowhere always has, also over a link that is over its capacity.
    #[must_use]
    pub fn has_room(&self, flow: Flow) -> bool {
        let fits = |used: i128, more: i64, capacity: Option<i64>| {
            more == 0 || capacity.is_none_or(|capacity| used + i128::from(more) <= i128::from(capacity))
        };
        fits(self.egress, flow.egress, self.egress_capacity) && fits(self.ingress, flow.ingress, self.ingress_capacity)
    }

    /// Whether more is promised than it carries.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let over = |used: i128, capacity: Option<i64>| capacity.is_some_and(|capacity| used > i128::from(capacity));
        over(self.egress, self.egress_capacity) || over(self.ingress, self.ingress_capacity)
    }
}

/// Flows by link, each link once, in the links' order: the order in which they are charged.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flows(SmallVec<[(DomainIdx, Flow); 4]>);

impl Flows {
    /// Adds a flow over a link.
    pub fn add(&mut self, link: DomainIdx, flow: Flow) {
        if flow.is_zero() {
            return;
        }
        match self.0.binary_search_by_key(&link, |(known, _)| *known) {
            Ok(at) => self.0[at].1 = self.0[at].1.plus(flow),
            Err(at) => self.0.insert(at, (link, flow)),
        }
    }

    /// Links and flows, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (DomainIdx, Flow)> {
        self.0.iter().copied()
    }

    /// Whether nothing flows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An address that a pod wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressNeed {
    /// From one of these pools, of one family: the first that has one.
    pub pools: SmallVec<[PoolIdx; 2]>,
    /// This one; `None`: any.
    pub wanted: Option<IpAddr>,
}

/// What of the network must be free for a pod on the node it is given. Part of one promise with the node's room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkNeeds {
    /// What it sends.
    pub flows: Flows,
    /// Addresses.
    pub addresses: SmallVec<[AddressNeed; 2]>,
}

impl NetworkNeeds {
    /// Whether it needs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.addresses.is_empty()
    }
}

/// What of the network is promised to one pod.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkCharge {
    /// What it sends.
    pub flows: Flows,
    /// Its addresses, in the order of the needs.
    pub addresses: SmallVec<[(PoolIdx, IpAddr); 2]>,
}

impl NetworkCharge {
    /// Whether nothing is promised.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.addresses.is_empty()
    }
}

/// What went over a limit when facts were taken in that nobody asked us about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Excess {
    /// More is promised on the link than it carries.
    Link(DomainIdx),
    /// The address is held by another pod too.
    Address(IpAddr, PodUid),
}

impl Excess {
    /// What it would have been called if it had been asked for.
    #[must_use]
    pub fn shortage(&self, pool: PoolIdx) -> Shortage {
        match self {
            Self::Link(link) => Shortage::Link(*link),
            Self::Address(..) => Shortage::Address(pool),
        }
    }
}
