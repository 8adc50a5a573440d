//! Compiles a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use smallvec::SmallVec;

use crate::cluster::watch::error::{DecodeError, Fault};
use crate::cluster::watch::network;
use crate::cluster::watch::parse::{identity, parse};
use crate::cluster::watch::pod::labels_of;
use crate::cluster::watch::text::{RawAmounts, Text, quantity, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::cluster::{Effect, Image, NodeSpec, Taint};
use crate::ids::Symbol;
use crate::ledger::Capacity;
use crate::resources::Resource;

/// Decodes a node from JSON and compiles it.
///
/// # Errors
/// The JSON has not the shape of a node, or a field that scheduling reads is wrong.
pub fn decode_node(json: &str) -> Result<NodeSpec, DecodeError> {
    decode_with_identity(json).map(|(node, _)| node)
}

pub(super) fn decode_with_identity(json: &str) -> Result<(NodeSpec, ObjectMeta), DecodeError> {
    let node: wire::Node<'_> = parse("node", json)?;
    let meta = node.metadata.unwrap_or_default();
    let identity = identity("node", &meta)?;
    let compiled = compile(&meta, &node.spec.unwrap_or_default(), &node.status.unwrap_or_default())
        .map_err(|fault| fault.of("node", "", text_of(&meta.name)))?;
    Ok((compiled, identity))
}

fn compile(
    meta: &wire::RawMeta<'_>,
    spec: &wire::NodeSpec<'_>,
    status: &wire::NodeStatus<'_>,
) -> Result<NodeSpec, Fault> {
    let mut declared_features: Box<[Symbol]> = items(&status.declared_features).iter().map(Text::symbol).collect();
    declared_features.sort_unstable();
    let mut conditions: SmallVec<[(Symbol, Symbol); 4]> = items(&status.conditions)
        .iter()
        .map(|c| (Symbol::new(text_of(&c.kind)), Symbol::new(text_of(&c.status))))
        .collect();
    conditions.sort_unstable();
    Ok(NodeSpec {
        name: Some(Symbol::new(text_of(&meta.name))),
        uid: text_of(&meta.uid).into(),
        labels: labels_of(meta.labels.as_ref()),
        taints: items(&spec.taints).iter().map(taint).collect(),
        unschedulable: spec.unschedulable.unwrap_or_default(),
        allocatable: allocatable(status.allocatable.as_ref())?,
        images: images(status),
        declared_features,
        conditions,
        network: network::node(meta.annotations, items(&spec.pod_cidrs).iter().map(Text::as_str)),
        annotations_hash: meta
            .annotations
            .map_or(0, |raw| xxhash_rust::xxh3::xxh3_64(raw.get().as_bytes())),
    })
}

fn taint(taint: &wire::Taint<'_>) -> Taint {
    Taint {
        key: Symbol::new(text_of(&taint.key)),
        value: Symbol::new(text_of(&taint.value)),
        effect: Effect::parse(text_of(&taint.effect)),
    }
}

fn images(status: &wire::NodeStatus<'_>) -> Box<[Image]> {
    let mut images = Vec::new();
    for image in items(&status.images) {
        let size = image.size_bytes.unwrap_or_default();
        images.extend(items(&image.names).iter().map(|name| Image {
            name: name.symbol(),
            size,
        }));
    }
    images.into()
}

fn allocatable(raw: Option<&RawAmounts<'_>>) -> Result<Capacity, Fault> {
    let mut capacity = Capacity::default();
    for (name, raw) in raw.map(|pairs| pairs.0.as_slice()).unwrap_or_default() {
        let name = name.as_str();
        let at = |message| Fault::new(format!("status.allocatable[{name}]"), message);
        let amount = quantity(raw).map_err(at)?;
        if amount.is_negative() {
            return Err(at(format!("{} is negative", raw.get())));
        }
        if name == "pods" {
            capacity.pods = amount.value();
        } else if let Some(resource) = Resource::parse(name) {
            capacity.resources.set(resource, resource.amount(amount));
        }
    }
    Ok(capacity)
}
