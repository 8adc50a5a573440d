//! Compiles what a pod says about other pods, and label selectors wherever they stand.

use crate::cluster::watch::affinity::requirements;
use crate::cluster::watch::text::{Text, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::cluster::{
    LabelSelector, OwnerKind, OwnerRef, PodAffinity, PodAffinityTerm, SelectorError, SpreadConstraint, WeightedTerm,
};
use crate::ids::Symbol;

/// A selector; one that is absent matches nothing.
pub(super) fn compile(raw: Option<&wire::LabelSelector<'_>>) -> Result<LabelSelector, SelectorError> {
    let Some(raw) = raw else {
        return Ok(LabelSelector::Nothing);
    };
    let pairs = raw.match_labels.as_ref().map(|pairs| pairs.0.as_slice());
    let labels: Vec<_> = pairs
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    LabelSelector::compile(&labels, &requirements(items(&raw.match_expressions)))
}

/// A selector; one that is absent or wrong matches nothing.
pub(super) fn lenient(raw: Option<&wire::LabelSelector<'_>>) -> LabelSelector {
    compile(raw).unwrap_or(LabelSelector::Nothing)
}

/// All affinity and anti-affinity of a pod in `namespace` to other pods; absent when there is none.
pub(super) fn pod_affinity(affinity: Option<&wire::Affinity<'_>>, namespace: Symbol) -> Option<Box<PodAffinity>> {
    let affinity = affinity?;
    let mut compiled = PodAffinity::default();
    let mut faults = Vec::new();
    if let Some(raw) = &affinity.pod_affinity {
        compiled.required_affinity = note("requiredAffinityTerms", required(raw, namespace), &mut faults);
        compiled.preferred_affinity = note("preferredAffinityTerms", preferred(raw, namespace), &mut faults);
    }
    if let Some(raw) = &affinity.pod_anti_affinity {
        compiled.required_anti_affinity = note("requiredAntiAffinityTerms", required(raw, namespace), &mut faults);
        compiled.preferred_anti_affinity = note("preferredAntiAffinityTerms", preferred(raw, namespace), &mut faults);
    }
    compiled.error = match faults.as_slice() {
        [] => None,
        [one] => Some(one.as_str().into()),
        several => Some(format!("[{}]", several.join(", ")).into()),
    };
    (compiled != PodAffinity::default()).then(|| Box::new(compiled))
}

fn required(raw: &wire::PodAffinity<'_>, namespace: Symbol) -> Result<Box<[PodAffinityTerm]>, SelectorError> {
    items(&raw.required).iter().map(|raw| term(raw, namespace)).collect()
}

fn preferred(raw: &wire::PodAffinity<'_>, namespace: Symbol) -> Result<Box<[WeightedTerm]>, SelectorError> {
    items(&raw.preferred)
        .iter()
        .map(|raw| weighted(raw, namespace))
        .collect()
}

/// A list that could be compiled, or none and why.
fn note<T>(list: &str, compiled: Result<Box<[T]>, SelectorError>, faults: &mut Vec<String>) -> Box<[T]> {
    compiled.unwrap_or_else(|fault| {
        let fault = format!("{list}: {fault}");
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        Box::default()
    })
}

fn term(raw: &wire::PodAffinityTerm<'_>, namespace: Symbol) -> Result<PodAffinityTerm, SelectorError> {
    let mut namespaces: Vec<Symbol> = items(&raw.namespaces).iter().map(Text::symbol).collect();
    if namespaces.is_empty() && raw.namespace_selector.is_none() {
        namespaces.push(namespace);
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(PodAffinityTerm {
        namespaces: namespaces.into(),
        namespace_selector: compile(raw.namespace_selector.as_ref())?,
        selector: compile(raw.label_selector.as_ref())?,
        topology_key: Symbol::new(text_of(&raw.topology_key)),
    })
}

fn weighted(raw: &wire::WeightedTerm<'_>, namespace: Symbol) -> Result<WeightedTerm, SelectorError> {
    let absent = wire::PodAffinityTerm::default();
    Ok(WeightedTerm {
        weight: raw.weight,
        term: term(raw.pod_affinity_term.as_ref().unwrap_or(&absent), namespace)?,
    })
}

/// One topology spread constraint.
pub(super) fn spread(raw: &wire::SpreadConstraint<'_>) -> SpreadConstraint {
    let (selector, error) = match compile(raw.label_selector.as_ref()) {
        Ok(selector) => (selector, None),
        Err(fault) => (LabelSelector::Nothing, Some(fault.0)),
    };
    SpreadConstraint {
        max_skew: raw.max_skew,
        topology_key: Symbol::new(text_of(&raw.topology_key)),
        hard: text_of(&raw.when_unsatisfiable) == "DoNotSchedule",
        selector,
        min_domains: raw.min_domains,
        honor_affinity: text_of(&raw.node_affinity_policy) != "Ignore",
        honor_taints: text_of(&raw.node_taints_policy) == "Honor",
        match_label_keys: items(&raw.match_label_keys).iter().map(Text::symbol).collect(),
        error,
    }
}

/// A pod's controller, if its kind says by a selector which pods belong together.
pub(super) fn controller<A>(meta: &wire::Meta<'_, A>) -> Option<OwnerRef> {
    let owner = meta.controller()?;
    let kind = match (text_of(&owner.api_version), text_of(&owner.kind)) {
        ("v1", "ReplicationController") => OwnerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
        _ => return None,
    };
    Some(OwnerRef {
        kind,
        name: Symbol::new(text_of(&owner.name)),
    })
}
