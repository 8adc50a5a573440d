//! Compiles node affinity.

use crate::cluster::watch::text::{Text, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::cluster::{NodeSelectorTerm, PreferredTerm};

/// The terms of required affinity; absent when there is none.
pub(super) fn required(affinity: &wire::NodeAffinity<'_>) -> Option<Box<[NodeSelectorTerm]>> {
    let selector = affinity.required.as_ref()?;
    Some(items(&selector.node_selector_terms).iter().map(term).collect())
}

/// Preferred terms that can add to a score: those without a weight or a requirement are left out.
pub(super) fn preferred(affinity: &wire::NodeAffinity<'_>) -> Option<Box<[PreferredTerm]>> {
    let terms = affinity.preferred.as_deref()?.iter().filter_map(|preferred| {
        let term = term(preferred.preference.as_ref()?);
        (preferred.weight != 0 && !term.is_empty()).then_some(PreferredTerm {
            weight: preferred.weight,
            term,
        })
    });
    Some(terms.collect())
}

pub(super) fn term(term: &wire::SelectorTerm<'_>) -> NodeSelectorTerm {
    NodeSelectorTerm::compile(
        &requirements(items(&term.match_expressions)),
        &requirements(items(&term.match_fields)),
    )
}

pub(super) fn requirements<'t>(expressions: &'t [wire::Expression<'_>]) -> Vec<(&'t str, &'t str, Vec<&'t str>)> {
    let raw = |e: &'t wire::Expression<'_>| {
        let values = items(&e.values).iter().map(Text::as_str).collect();
        (text_of(&e.key), text_of(&e.operator), values)
    };
    expressions.iter().map(raw).collect()
}
