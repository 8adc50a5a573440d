//! Checks of a node affinity in args.
//!
//! Source: `component-helpers/scheduling/corev1/nodeaffinity`, `apimachinery/pkg/labels`.

use super::check::Cx;
use crate::decode::item;
use crate::error::FieldError;
use crate::names::{label_value_error, qualified_name_error};
use crate::selectors::{
    NodeAffinity, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm,
};
use crate::wire::{WireNodeAffinity, WireNodeSelectorTerm, WireRequirement};

/// The effective affinity. With errors noted in `cx` the result is not to be used.
pub(super) fn check(wire: WireNodeAffinity, path: &str, cx: &mut Cx<'_>) -> NodeAffinity {
    let required = wire.required.map(|required| {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        let terms = required.terms.unwrap_or_default();
        let check = |(index, wire)| term(wire, &item(&path, index), cx);
        NodeSelector {
            node_selector_terms: terms.into_iter().enumerate().map(check).collect(),
        }
    });
    let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution");
    let preferred = wire.preferred.unwrap_or_default().into_iter().enumerate();
    let preferred = preferred.map(|(index, wire)| {
        let path = item(&path, index);
        PreferredSchedulingTerm {
            weight: wire.weight.unwrap_or(0),
            preference: term(wire.preference.unwrap_or_default(), &format!("{path}.preference"), cx),
        }
    });
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred.collect(),
    }
}

fn term(wire: WireNodeSelectorTerm, path: &str, cx: &mut Cx<'_>) -> NodeSelectorTerm {
    let mut match_expressions = Vec::new();
    for (index, wire) in wire.match_expressions.unwrap_or_default().into_iter().enumerate() {
        match_expressions.extend(expression(wire, &item(&format!("{path}.matchExpressions"), index), cx));
    }
    let mut match_fields = Vec::new();
    for (index, wire) in wire.match_fields.unwrap_or_default().into_iter().enumerate() {
        match_fields.extend(field(wire, &item(&format!("{path}.matchFields"), index), cx));
    }
    NodeSelectorTerm {
        match_expressions,
        match_fields,
    }
}

/// The operator, or an error and `None`.
fn operator(name: &str, allowed: &[NodeSelectorOperator], path: &str, cx: &mut Cx<'_>) -> Option<NodeSelectorOperator> {
    let found = allowed.iter().copied().find(|operator| operator.as_str() == name);
    if found.is_none() {
        let names: Vec<&str> = allowed.iter().map(|operator| operator.as_str()).collect();
        cx.push(FieldError::not_supported(format!("{path}.operator"), name, &names));
    }
    found
}

fn expression(wire: WireRequirement, path: &str, cx: &mut Cx<'_>) -> Option<NodeSelectorRequirement> {
    use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let key = wire.key.unwrap_or_default();
    if let Some(detail) = qualified_name_error(&key) {
        cx.invalid(&format!("{path}.key"), &key, detail);
    }
    let values = wire.values.unwrap_or_default();
    let values_path = format!("{path}.values");
    for (index, value) in values.iter().enumerate() {
        if let Some(detail) = label_value_error(value) {
            cx.invalid(&item(&values_path, index), value, detail);
        }
    }
    let operator = operator(&wire.operator.unwrap_or_default(), &NodeSelectorOperator::ALL, path, cx)?;
    match operator {
        In | NotIn if values.is_empty() => {
            cx.invalid(
                &values_path,
                "[]",
                "for 'in', 'notin' operators, values set can't be empty",
            );
        }
        Exists | DoesNotExist if !values.is_empty() => {
            let shown = format!("{values:?}");
            cx.invalid(
                &values_path,
                &shown,
                "values set must be empty for exists and does not exist",
            );
        }
        Gt | Lt => match values.as_slice() {
            [value] if value.parse::<i64>().is_ok() => {}
            [value] => {
                let path = item(&values_path, 0);
                cx.invalid(&path, value, "for 'Gt', 'Lt' operators, the value must be an integer");
            }
            _ => {
                let shown = format!("{values:?}");
                cx.invalid(
                    &values_path,
                    &shown,
                    "for 'Gt', 'Lt' operators, exactly one value is required",
                );
            }
        },
        In | NotIn | Exists | DoesNotExist => {}
    }
    Some(NodeSelectorRequirement { key, operator, values })
}

fn field(wire: WireRequirement, path: &str, cx: &mut Cx<'_>) -> Option<NodeSelectorRequirement> {
    let key = wire.key.unwrap_or_default();
    if key != "metadata.name" {
        cx.push(FieldError::not_supported(
            format!("{path}.key"),
            &key,
            &["metadata.name"],
        ));
    }
    let values = wire.values.unwrap_or_default();
    if values.len() != 1 {
        cx.invalid(
            &format!("{path}.values"),
            &format!("{values:?}"),
            "must have one element",
        );
    }
    let allowed = [NodeSelectorOperator::In, NodeSelectorOperator::NotIn];
    let operator = operator(&wire.operator.unwrap_or_default(), &allowed, path, cx)?;
    Some(NodeSelectorRequirement { key, operator, values })
}
