//! A link's entry: what it carries and what is promised on it.
//!
//! Does not: lock itself or tell anybody of changes; the ledger does both around every call here.

use super::network::{Flow, LinkUse};
use crate::check_invariant;
use crate::ids::PodUid;
use crate::invariants::Invariant;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkEntry {
    usage: LinkUse,
    /// How many pods are charged.
    pods: u64,
}

impl LinkEntry {
    pub(super) const fn usage(&self) -> &LinkUse {
        &self.usage
    }

    /// Sets what it carries, bits/s outwards and inwards; false: it was so before.
    pub(super) fn set_capacity(&mut self, egress: Option<i64>, ingress: Option<i64>) -> bool {
        let before = (self.usage.egress_capacity, self.usage.ingress_capacity);
        self.usage.egress_capacity = egress;
        self.usage.ingress_capacity = ingress;
        before != (egress, ingress)
    }

    /// Charges a pod's flow if there is room; false, and nothing changes, if there is none.
    pub(super) fn add_checked(&mut self, uid: PodUid, flow: Flow) -> bool {
        if !self.usage.has_room(flow) {
            return false;
        }
        self.add(flow);
        let within = |used: i128, more: i64, capacity: Option<i64>| {
            more == 0 || capacity.is_none_or(|capacity| used <= i128::from(capacity))
        };
        let usage = &self.usage;
        check_invariant!(
            Invariant::NoOvercommit,
            within(usage.egress, flow.egress, usage.egress_capacity)
                && within(usage.ingress, flow.ingress, usage.ingress_capacity),
            "a reserve of {uid:?} took a link to {usage:?}"
        );
        true
    }

    /// Charges a pod's flow, whether or not there is room.
    pub(super) fn add(&mut self, flow: Flow) {
        self.pods += 1;
        self.usage.egress += i128::from(flow.egress);
        self.usage.ingress += i128::from(flow.ingress);
    }

    /// Takes a pod's flow back.
    pub(super) fn take(&mut self, uid: PodUid, flow: Flow) {
        let usage = &mut self.usage;
        usage.egress -= i128::from(flow.egress);
        usage.ingress -= i128::from(flow.ingress);
        let holds = self.pods > 0 && usage.egress >= 0 && usage.ingress >= 0;
        check_invariant!(
            Invariant::OnePromise,
            holds,
            "{uid:?} gave back more than was promised on a link: {usage:?}"
        );
        self.pods = self.pods.saturating_sub(1);
    }

    /// Whether nothing depends on the entry.
    pub(super) const fn is_forgettable(&self) -> bool {
        self.pods == 0 && self.usage.egress_capacity.is_none() && self.usage.ingress_capacity.is_none()
    }
}
