//! Compiles a PodDisruptionBudget.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::Budget;
use crate::cluster::watch::error::{DecodeError, Fault, Salvaged, shape_error};
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::{selectors, wire};
use crate::ids::Symbol;

const KIND: &str = "poddisruptionbudget";

/// Decodes a PodDisruptionBudget from JSON and compiles it.
///
/// # Errors
/// The JSON has not the shape of a budget, or it has no name.
pub fn decode_budget(json: &str) -> Result<Budget, DecodeError> {
    decode_with_identity(json).map(|(budget, _)| budget)
}

pub(super) fn decode_with_identity(json: &str) -> Result<(Budget, ObjectMeta), DecodeError> {
    let budget: wire::Budget<'_> = serde_json::from_str(json).map_err(|error| shape_error(KIND, json, &error))?;
    let meta = budget.metadata.unwrap_or_default();
    let (namespace, name) = (text_of(&meta.namespace), text_of(&meta.name));
    if name.is_empty() {
        return Err(Fault::new("metadata.name", "missing").of(KIND, namespace, name));
    }
    let status = budget.status.unwrap_or_default();
    let disrupted = status.disrupted_pods.map(|pods| pods.0).unwrap_or_default();
    let mut disrupted: Box<[Box<str>]> = disrupted.iter().map(|(pod, _)| pod.as_str().into()).collect();
    disrupted.sort_unstable();
    let compiled = Budget {
        namespace: Symbol::new(namespace),
        name: name.into(),
        selector: selectors::lenient(budget.spec.unwrap_or_default().selector.as_ref()),
        allowed: status.disruptions_allowed.unwrap_or_default(),
        disrupted,
    };
    let identity = Salvaged {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: text_of(&meta.uid).to_owned(),
        resource_version: text_of(&meta.resource_version).to_owned(),
    };
    Ok((compiled, identity.into_meta()))
}
