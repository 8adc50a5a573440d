//! Watching and decoding of API objects: from JSON to compiled form.
//!
//! JSON → slim wire types that borrow from it → checked and compiled types. Only what scheduling reads is looked at.
//! A field that is wrong fails its object with the object's name and the field's path; a quantity that cannot be read
//! is never taken for zero.
//!
//! Does not: keep objects or find a pod's class by itself.
//!
//! Children in reading order: `error`, `locate`, `text` (small pieces); `wire` (the objects as JSON has them), `parse`;
//! `requests`, `affinity`, `selectors`, `ports`, `pod_volumes`, `pod`, `node`, `budget`, `owners`, `volumes`
//! (compilation); `object` (items of kube-runtime's watchers); `stream` (the watch of one
//! kind).

mod affinity;
mod budget;
mod error;
mod locate;
mod network;
mod node;
mod object;
mod owners;
mod parse;
mod pod;
mod pod_volumes;
mod ports;
mod requests;
mod selectors;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod volumes;
mod wire;

use crate::cluster::{ClassTable, PodInfo};

pub use budget::decode_budget;
pub use error::DecodeError;
pub use node::decode_node;
pub use object::{BudgetObject, NodeObject, Object, PodObject, Served, Watched, WithText};
pub use owners::{OwnerObject, OwnerOf, ReplicaSets, ReplicationControllers, StatefulSets};
pub use pod::DecodedPod;
pub use stream::{Alarm, Delivery, WatchParts, WatchStatus, watch};
pub use volumes::{VolumeResource, decode_volume_object};

/// Decodes a pod from JSON, compiles it and finds its class.
///
/// # Errors
/// The JSON has not the shape of a pod, or a field that scheduling reads is wrong.
pub fn decode_pod(json: &str, classes: &ClassTable) -> Result<PodInfo, DecodeError> {
    Ok(DecodedPod::from_json(json)?.classify(classes))
}
