//! Compiles what annotations and labels say about the network.
//!
//! Annotations are written by users: a fault in one is kept as text, to be told to whoever asks why the pod waits, and
//! never fails the object. Sources: `kubernetes.io/ingress-bandwidth` and `-egress-bandwidth` with their limits from
//! `pkg/util/bandwidth/utils.go`, Kubernetes 1.36; labels of `appgroup.diktyo.x-k8s.io`; the rest is ours.
//!
//! Does not: decide whether a fault matters.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::cluster::watch::text::Pairs;
use crate::cluster::watch::text::Text;
use crate::cluster::{
    AddressRequest, AppMember, Bandwidth, LabelSelector, NetworkFaults, NodeNetwork, Peer, PeerTarget, PodNetwork,
};
use crate::ids::Symbol;
use crate::ledger::{AddressRange, Family, number};
use crate::resources::Quantity;

/// What a pod is shaped to, in and out.
const POD_BANDWIDTH: [&str; 2] = ["kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"];
/// What a node's interface carries, in and out.
const NODE_BANDWIDTH: [&str; 2] = [
    "network.supercargo.io/ingress-bandwidth",
    "network.supercargo.io/egress-bandwidth",
];
/// Whom a pod talks to.
const PEERS: &str = "network.supercargo.io/peers";
/// Addresses that a pod asks for: ours and Calico's.
const ADDRESSES: [&str; 2] = ["network.supercargo.io/addresses", "cni.projectcalico.org/ipAddrs"];
/// The pool that a pod asks for an address of.
const POOL: &str = "network.supercargo.io/pool";
/// Round-trip times measured from a node.
const MEASURED: &str = "network.supercargo.io/rtt-ms";
/// The AppGroup that a pod is part of, and its workload in it.
const APP: [&str; 2] = ["appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"];
/// The keys of the two levels that a peer may name for short.
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Bits/s that a pod may be shaped to: 1k to 1P.
const POD_LIMITS: (i64, i64) = (1_000, 1_000_000_000_000_000);
/// Peers of one pod at most; each costs a walk over the tree for each place.
const MAX_PEERS: usize = 64;
/// Places that a node may have measured at most.
const MAX_MEASURED: usize = 1024;

/// One peer as it stands in the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WirePeer {
    selector: Option<std::collections::BTreeMap<String, String>>,
    namespace: Option<String>,
    region: Option<String>,
    zone: Option<String>,
    weight: Option<u32>,
    bandwidth: Option<String>,
    max_latency_ms: Option<f64>,
}

type Fault = String;

fn find<'p>(pairs: Option<&'p Pairs<'_, Text<'_>>>, key: &str) -> Option<&'p str> {
    let pairs = pairs?.0.iter();
    pairs
        .filter(|(name, _)| name.as_str() == key)
        .map(|(_, value)| value.as_str())
        .next()
}

/// What the keys that are read have in common: annotations without any of it are not taken apart.
const SIGNS: [&str; 3] = [
    "network.supercargo.io/",
    "gress-bandwidth",
    "cni.projectcalico.org/ipAddrs",
];

/// The annotations, if some of them may be about the network.
fn taken_apart(raw: Option<&RawValue>) -> Option<Pairs<'_, Text<'_>>> {
    let text = raw?.get();
    let is_of_interest = SIGNS.iter().any(|sign| text.contains(sign));
    // The API server lets no annotation pass whose value is not a string.
    is_of_interest.then(|| serde_json::from_str(text).ok()).flatten()
}

/// What a pod says about the network; `None`: nothing.
pub(super) fn pod(
    namespace: Symbol,
    labels: Option<&Pairs<'_, Text<'_>>>,
    annotations: Option<&RawValue>,
) -> Option<Box<PodNetwork>> {
    let (mut of_bandwidth, mut of_peers, mut of_addresses) = (Vec::new(), Vec::new(), Vec::new());
    let annotations = taken_apart(annotations);
    let annotations = annotations.as_ref();
    let [ingress, egress] = POD_BANDWIDTH.map(|key| {
        let text = find(annotations, key)?;
        kept(key, bits(text, POD_LIMITS), &mut of_bandwidth)
    });
    let network = PodNetwork {
        bandwidth: Bandwidth {
            ingress: ingress.unwrap_or_default(),
            egress: egress.unwrap_or_default(),
        },
        peers: find(annotations, PEERS)
            .and_then(|text| kept(PEERS, peers(text, namespace), &mut of_peers))
            .unwrap_or_default(),
        app: find(labels, APP[0])
            .filter(|name| !name.is_empty())
            .map(|name| AppMember {
                group: Symbol::new(name),
                workload: Symbol::new(find(labels, APP[1]).unwrap_or_default()),
            }),
        addresses: address_request(annotations, &mut of_addresses),
        faults: NetworkFaults::default(),
    };
    let network = PodNetwork {
        faults: NetworkFaults {
            bandwidth: joined(&of_bandwidth),
            peers: joined(&of_peers),
            addresses: joined(&of_addresses),
        },
        ..network
    };
    (network != PodNetwork::default()).then(|| Box::new(network))
}

/// What a node says about the network.
pub(super) fn node<'c>(annotations: Option<&RawValue>, pod_cidrs: impl Iterator<Item = &'c str>) -> NodeNetwork {
    let mut faults = Vec::new();
    let annotations = taken_apart(annotations);
    let annotations = annotations.as_ref();
    let [ingress, egress] = NODE_BANDWIDTH.map(|key| {
        let text = find(annotations, key)?;
        kept(key, bits(text, (0, i64::MAX)), &mut faults)
    });
    let measured = find(annotations, MEASURED).and_then(|text| kept(MEASURED, measured(text), &mut faults));
    let mut ranges: [Vec<AddressRange>; 2] = Default::default();
    for cidr in pod_cidrs {
        match AddressRange::parse(cidr) {
            Ok((Family::V4, range)) => ranges[0].push(range),
            Ok((Family::V6, range)) => ranges[1].push(range),
            Err(fault) => faults.push(format!("spec.podCIDRs: {fault}")),
        }
    }
    let [v4, v6] = ranges;
    NodeNetwork {
        ingress,
        egress,
        pod_ranges_v4: v4.into(),
        pod_ranges_v6: v6.into(),
        measured: measured.unwrap_or_default(),
        fault: joined(&faults),
    }
}

fn kept<T>(key: &str, read: Result<T, Fault>, faults: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(fault) => {
            faults.push(format!("annotation {key}: {fault}"));
            None
        }
    }
}

fn joined(faults: &[String]) -> Option<Box<str>> {
    (!faults.is_empty()).then(|| faults.join("; ").into())
}

/// A quantity of bits per second within limits.
fn bits(text: &str, (least, most): (i64, i64)) -> Result<i64, Fault> {
    let quantity = Quantity::parse(text)
        .map_err(|error| format!("{text:?} is not a quantity of bits per second, such as 10M ({error})"))?;
    let value = quantity.value();
    // A value at the limit of the type may stand for a greater one.
    if quantity.is_negative() || value < least || value > most || value == i64::MAX {
        return Err(format!("{text:?} must be from {least} to {most} bits per second"));
    }
    Ok(value)
}

fn peers(text: &str, namespace: Symbol) -> Result<Box<[Peer]>, Fault> {
    let wire: Vec<WirePeer> = serde_json::from_str(text).map_err(|error| {
        format!("{error}; it must be a list such as [{{\"selector\":{{\"app\":\"db\"}},\"weight\":2}}]")
    })?;
    if wire.len() > MAX_PEERS {
        return Err(format!("{} peers; there may be {MAX_PEERS}", wire.len()));
    }
    let compiled = wire.iter().enumerate();
    compiled
        .map(|(at, peer)| compile_peer(peer, namespace).map_err(|fault| format!("[{at}]: {fault}")))
        .collect()
}

fn compile_peer(peer: &WirePeer, own_namespace: Symbol) -> Result<Peer, Fault> {
    let target = match (&peer.selector, &peer.region, &peer.zone) {
        (Some(selector), None, None) => {
            if selector.is_empty() {
                return Err("selector is empty: name a label".to_owned());
            }
            let pairs: Vec<(&str, &str)> = selector
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            PeerTarget::Pods {
                namespace: peer.namespace.as_deref().map_or(own_namespace, Symbol::new),
                selector: LabelSelector::compile(&pairs, &[]).map_err(|error| format!("selector: {error}"))?,
            }
        }
        (None, Some(region), None) => place(REGION, region),
        (None, None, Some(zone)) => place(ZONE, zone),
        _ => return Err("name exactly one of selector, region and zone".to_owned()),
    };
    if peer.namespace.is_some() && matches!(target, PeerTarget::Place { .. }) {
        return Err("namespace goes with selector alone".to_owned());
    }
    let bandwidth = peer.bandwidth.as_deref().map_or(Ok(0), |text| {
        bits(text, POD_LIMITS).map_err(|fault| format!("bandwidth: {fault}"))
    })?;
    let weight = peer.weight.unwrap_or(1);
    if weight == 0 {
        return Err("weight must be at least 1".to_owned());
    }
    Ok(Peer {
        target,
        weight,
        bandwidth: Bandwidth {
            ingress: bandwidth,
            egress: bandwidth,
        },
        max_latency_micros: peer.max_latency_ms.map(latency).transpose()?,
    })
}

fn place(level: &str, name: &str) -> PeerTarget {
    PeerTarget::Place {
        level: Symbol::new(level),
        name: Symbol::new(name),
    }
}

fn latency(millis: f64) -> Result<u32, Fault> {
    crate::topology::micros(millis)
        .ok_or_else(|| format!("maxLatencyMs: {millis} is not a number of milliseconds from 0"))
}

fn measured(text: &str) -> Result<Box<[(Symbol, f64)]>, Fault> {
    let wire: std::collections::BTreeMap<String, f64> = serde_json::from_str(text)
        .map_err(|error| format!("{error}; it must be an object such as {{\"zone-b\":1.5}}"))?;
    if wire.len() > MAX_MEASURED {
        return Err(format!("{} places; there may be {MAX_MEASURED}", wire.len()));
    }
    Ok(wire.iter().map(|(name, millis)| (Symbol::new(name), *millis)).collect())
}

/// What a pod asks for. It is a wish and proves nothing: whoever has an address is written down elsewhere.
fn address_request(annotations: Option<&Pairs<'_, Text<'_>>>, faults: &mut Vec<String>) -> Option<AddressRequest> {
    let mut request = AddressRequest {
        pool: find(annotations, POOL).filter(|name| !name.is_empty()).map(Symbol::new),
        ..AddressRequest::default()
    };
    for key in ADDRESSES {
        let Some(text) = find(annotations, key) else { continue };
        match kept(key, addresses(text), faults) {
            Some(found) if request.addresses.is_empty() || request.addresses == found => request.addresses = found,
            Some(_) => faults.push(format!(
                "annotation {key}: it asks for other addresses than {}",
                ADDRESSES[0]
            )),
            None => {}
        }
    }
    (request != AddressRequest::default()).then_some(request)
}

/// A JSON list of addresses, or addresses with commas between them.
fn addresses(text: &str) -> Result<SmallVec<[IpAddr; 2]>, Fault> {
    let parts: Vec<String> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|error| format!("{error}; it must be a list of addresses"))?
    } else {
        text.split(',').map(|part| part.trim().to_owned()).collect()
    };
    let mut found = SmallVec::<[IpAddr; 2]>::new();
    for part in parts {
        let address: IpAddr = part.parse().map_err(|_| format!("{part:?} is not an IP address"))?;
        if found.iter().any(|known| Family::of(*known) == Family::of(address)) {
            return Err("there is more than one address of a family".to_owned());
        }
        found.push(address);
    }
    found.sort_by_key(|address| (Family::of(*address) == Family::V6, number(*address)));
    Ok(found)
}

#[cfg(test)]
mod tests;
