//! Whom a pod talks to: by its own annotation and by its AppGroup; and who talks to it.
//!
//! Does not: know where they are.

use smallvec::SmallVec;

use crate::cluster::{
    AppMember, Bandwidth, ClusterView, LabelSelector, Labels, Peer, PeerTarget, PodClass, PodInfo, PodNetwork,
};
use crate::ids::Symbol;

/// What selectors, and AppGroups, see of a pod.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    namespace: Symbol,
    labels: &'a Labels,
    network: Option<&'a PodNetwork>,
}

impl<'a> From<&'a PodInfo> for Seen<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        Self {
            namespace: pod.namespace,
            labels: &pod.labels,
            network: pod.spec.network.as_deref(),
        }
    }
}

impl<'a> From<&'a PodClass> for Seen<'a> {
    fn from(class: &'a PodClass) -> Self {
        Self {
            namespace: class.namespace,
            labels: &class.labels,
            network: class.spec.network.as_deref(),
        }
    }
}

impl Seen<'_> {
    fn member(&self) -> Option<AppMember> {
        self.network.and_then(|network| network.app)
    }
}

/// Who is meant.
#[derive(Clone, PartialEq, Debug)]
enum Who {
    Selected { namespace: Symbol, selector: LabelSelector },
    Workload { namespace: Symbol, member: AppMember },
    Place { level: Symbol, name: Symbol },
}

/// Somebody that a pod talks to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Partner {
    who: Who,
    /// Its part of the traffic, in proportion.
    pub(super) weight: i64,
    /// What is promised between the two, both ways.
    pub(super) bandwidth: Bandwidth,
    /// The longest way that is accepted, µs.
    pub(super) max_latency_micros: Option<u32>,
}

impl Partner {
    /// Whether pods like `other` are meant.
    pub(super) fn means(&self, other: Seen<'_>) -> bool {
        match &self.who {
            Who::Selected { namespace, selector } => *namespace == other.namespace && selector.matches(other.labels),
            Who::Workload { namespace, member } => *namespace == other.namespace && Some(*member) == other.member(),
            Who::Place { .. } => false,
        }
    }

    /// The place that is meant, if it is one: level and name.
    pub(super) fn place(&self) -> Option<(Symbol, Symbol)> {
        match self.who {
            Who::Place { level, name } => Some((level, name)),
            Who::Selected { .. } | Who::Workload { .. } => None,
        }
    }
}

impl From<&Peer> for Partner {
    fn from(peer: &Peer) -> Self {
        let who = match &peer.target {
            PeerTarget::Pods { namespace, selector } => Who::Selected {
                namespace: *namespace,
                selector: selector.clone(),
            },
            PeerTarget::Place { level, name } => Who::Place {
                level: *level,
                name: *name,
            },
        };
        Self {
            who,
            weight: i64::from(peer.weight),
            bandwidth: peer.bandwidth,
            max_latency_micros: peer.max_latency_micros,
        }
    }
}

/// A pod's partners: those that it calls, its own annotation's first.
pub(super) fn callees(cluster: &ClusterView<'_>, pod: Seen<'_>) -> SmallVec<[Partner; 2]> {
    let Some(network) = pod.network else {
        return SmallVec::new();
    };
    let mut partners: SmallVec<[Partner; 2]> = network.peers.iter().map(Partner::from).collect();
    let Some(member) = network.app else { return partners };
    if let Some(group) = cluster.apps.app(pod.namespace, member.group) {
        partners.extend(group.dependencies(member.workload).iter().map(|dependency| Partner {
            who: Who::Workload {
                namespace: pod.namespace,
                member: AppMember {
                    workload: dependency.callee,
                    ..member
                },
            },
            weight: 1,
            bandwidth: dependency.bandwidth,
            max_latency_micros: None,
        }));
    }
    partners
}

/// How much of the traffic of pods like `other` goes to `pod`; 0: they do not call it. Allocates nothing.
pub(super) fn weight_of_calls(cluster: &ClusterView<'_>, pod: Seen<'_>, other: Seen<'_>) -> i64 {
    let Some(network) = other.network else { return 0 };
    let selects = |peer: &&Peer| match &peer.target {
        PeerTarget::Pods { namespace, selector } => *namespace == pod.namespace && selector.matches(pod.labels),
        PeerTarget::Place { .. } => false,
    };
    let selected = network.peers.iter().filter(selects);
    let by_peers: i64 = selected.map(|peer| i64::from(peer.weight)).sum();
    let (Some(caller), Some(called)) = (network.app, pod.member()) else {
        return by_peers;
    };
    if caller.group != called.group || other.namespace != pod.namespace {
        return by_peers;
    }
    let group = cluster.apps.app(other.namespace, caller.group);
    let calls = group.is_some_and(|group| {
        let mut dependencies = group.dependencies(caller.workload).iter();
        dependencies.any(|dependency| dependency.callee == called.workload)
    });
    by_peers + i64::from(calls)
}
