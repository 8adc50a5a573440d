//! From an object's text to its wire type and its identity: what every kind needs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::cluster::watch::error::{DecodeError, Fault, Salvaged, shape_error};
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::wire;

/// The object that `json` holds.
///
/// # Errors
/// The JSON has not the shape of the kind.
pub(super) fn parse<'a, T: Deserialize<'a>>(kind: &'static str, json: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|error| shape_error(kind, json, &error))
}

/// Name, namespace, UID and resource version of an object.
///
/// # Errors
/// It has no name.
pub(super) fn identity<A>(kind: &'static str, meta: &wire::Meta<'_, A>) -> Result<ObjectMeta, DecodeError> {
    let (namespace, name) = (text_of(&meta.namespace), text_of(&meta.name));
    if name.is_empty() {
        return Err(Fault::new("metadata.name", "missing").of(kind, namespace, name));
    }
    Ok(Salvaged {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: text_of(&meta.uid).to_owned(),
        resource_version: text_of(&meta.resource_version).to_owned(),
    }
    .into_meta())
}
