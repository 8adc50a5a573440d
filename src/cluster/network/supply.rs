//! What one node offers of the network.

use crate::ids::Symbol;
use crate::ledger::AddressRange;

/// What a node offers of the network, as its object says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeNetwork {
    /// What its interface takes in, bits/s, by annotation.
    pub ingress: Option<i64>,
    /// What its interface sends, bits/s, by annotation.
    pub egress: Option<i64>,
    /// `spec.podCIDRs`, IPv4 ones.
    pub pod_ranges_v4: Box<[AddressRange]>,
    /// `spec.podCIDRs`, IPv6 ones.
    pub pod_ranges_v6: Box<[AddressRange]>,
    /// Round-trip times that were measured from it, place and milliseconds, by annotation.
    pub measured: Box<[(Symbol, f64)]>,
    /// What of its annotations cannot be read, and what would be right.
    pub fault: Option<Box<str>>,
}
