//! What one pod needs of the network.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::apps::AppMember;
use crate::cluster::LabelSelector;
use crate::ids::Symbol;

/// Bits per second into a pod and out of it; not negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bandwidth {
    /// Into the pod.
    pub ingress: i64,
    /// Out of the pod.
    pub egress: i64,
}

impl Bandwidth {
    /// Whether none is needed.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.ingress == 0 && self.egress == 0
    }
}

/// Where the other end of a pod's traffic is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PeerTarget {
    /// Wherever these pods are.
    Pods {
        /// Their namespace.
        namespace: Symbol,
        /// Their labels.
        selector: LabelSelector,
    },
    /// In the place of this name at this level.
    Place {
        /// The level's label key.
        level: Symbol,
        /// The place's name.
        name: Symbol,
    },
}

/// Somebody that a pod talks to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// Who.
    pub target: PeerTarget,
    /// How much of the pod's traffic it has, in proportion to those of the other peers; at least 1.
    pub weight: u32,
    /// What is promised between the two, both ways, on every link of the path.
    pub bandwidth: Bandwidth,
    /// The longest way that is accepted, µs; `None`: as the plugin's threshold says.
    pub max_latency_micros: Option<u32>,
}

/// The addresses that a pod asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AddressRequest {
    /// These, at most one of a family.
    pub addresses: SmallVec<[IpAddr; 2]>,
    /// From this pool.
    pub pool: Option<Symbol>,
}

/// What a pod needs of the network.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodNetwork {
    /// What it is shaped to, `kubernetes.io/ingress-bandwidth` and `-egress-bandwidth`.
    pub bandwidth: Bandwidth,
    /// Whom it talks to, by its own annotation.
    pub peers: Box<[Peer]>,
    /// Its part in an AppGroup.
    pub app: Option<AppMember>,
    /// The addresses it asks for; `None`: any.
    pub addresses: Option<AddressRequest>,
    /// What of its annotations cannot be read.
    pub faults: NetworkFaults,
}

/// What of a pod's annotations cannot be read, by whom it concerns, and what would be right.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct NetworkFaults {
    /// Of its bandwidth.
    pub bandwidth: Option<Box<str>>,
    /// Of its peers.
    pub peers: Option<Box<str>>,
    /// Of the addresses it asks for.
    pub addresses: Option<Box<str>>,
}
