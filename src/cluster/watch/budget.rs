//! Compiles a PodDisruptionBudget.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::Budget;
use crate::cluster::watch::error::DecodeError;
use crate::cluster::watch::parse::{identity, parse};
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
    let budget: wire::Budget<'_> = parse(KIND, json)?;
    let meta = budget.metadata.unwrap_or_default();
    let identity = identity(KIND, &meta)?;
    let status = budget.status.unwrap_or_default();
    let disrupted = status.disrupted_pods.map(|pods| pods.0).unwrap_or_default();
    let mut disrupted: Box<[Box<str>]> = disrupted.iter().map(|(pod, _)| pod.as_str().into()).collect();
    disrupted.sort_unstable();
    let compiled = Budget {
        namespace: Symbol::new(text_of(&meta.namespace)),
        name: text_of(&meta.name).into(),
        selector: selectors::lenient(budget.spec.unwrap_or_default().selector.as_ref()),
        allowed: status.disruptions_allowed.unwrap_or_default(),
        disrupted,
    };
    Ok((compiled, identity))
}
