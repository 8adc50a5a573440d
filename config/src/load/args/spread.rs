//! `PodTopologySpreadArgs`.

use crate::decode::item;
use crate::error::FieldError;
use crate::load::check::Cx;
use crate::names::qualified_name_error;
use crate::plugin_args::{
    NodeInclusionPolicy, PodTopologySpreadArgs, SpreadConstraint, SpreadDefaulting, WhenUnsatisfiable,
};
use crate::wire::{WireSpreadArgs, WireSpreadConstraint};

/// Checks and defaults the args.
pub(super) fn check(wire: WireSpreadArgs, path: &str, cx: &mut Cx<'_>) -> PodTopologySpreadArgs {
    let constraints_path = format!("{path}.defaultConstraints");
    let mut constraints: Vec<SpreadConstraint> = Vec::new();
    for (index, wire) in wire.default_constraints.unwrap_or_default().into_iter().enumerate() {
        let path = item(&constraints_path, index);
        let constraint = constraint(wire, &path, cx);
        let same = |other: &SpreadConstraint| {
            other.topology_key == constraint.topology_key && other.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if constraints.iter().any(same) {
            let value = format!(
                "{{{}, {}}}",
                constraint.topology_key,
                constraint.when_unsatisfiable.as_str()
            );
            let detail = "topologyKey and whenUnsatisfiable stand together once";
            cx.push(FieldError::duplicate(
                format!("{path}.{{topologyKey, whenUnsatisfiable}}"),
                &value,
                detail,
            ));
        }
        constraints.push(constraint);
    }
    let type_path = format!("{path}.defaultingType");
    let defaulting = match wire.defaulting_type.as_deref().unwrap_or("") {
        "" | "System" => {
            if !constraints.is_empty() {
                cx.invalid(&type_path, "System", "when .defaultConstraints are not empty; use List");
            }
            SpreadDefaulting::System
        }
        "List" => SpreadDefaulting::List(constraints),
        other => {
            cx.push(FieldError::not_supported(type_path, other, &["List", "System"]));
            SpreadDefaulting::System
        }
    };
    PodTopologySpreadArgs { defaulting }
}

fn constraint(wire: WireSpreadConstraint, path: &str, cx: &mut Cx<'_>) -> SpreadConstraint {
    let skew_path = format!("{path}.maxSkew");
    let max_skew = cx.ranged(
        &skew_path,
        wire.max_skew.unwrap_or(0),
        (1, u32::MAX),
        "not in valid range (0, inf)",
    );
    let topology_key = wire.topology_key.unwrap_or_default();
    let key_path = format!("{path}.topologyKey");
    if topology_key.is_empty() {
        cx.push(FieldError::required(key_path, "can not be empty"));
    } else if let Some(detail) = qualified_name_error(&topology_key) {
        cx.invalid(&key_path, &topology_key, detail);
    }
    if wire.label_selector.is_some() {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        cx.push(FieldError::forbidden(format!("{path}.labelSelector"), detail));
    }
    let min_domains = wire.min_domains.map(|domains| {
        cx.ranged(
            &format!("{path}.minDomains"),
            domains,
            (1, u32::MAX),
            "not in valid range (0, inf)",
        )
    });
    SpreadConstraint {
        max_skew,
        topology_key,
        when_unsatisfiable: when_unsatisfiable(
            wire.when_unsatisfiable.as_deref(),
            &format!("{path}.whenUnsatisfiable"),
            cx,
        ),
        min_domains,
        node_affinity_policy: policy(
            wire.node_affinity_policy.as_deref(),
            &format!("{path}.nodeAffinityPolicy"),
            cx,
        ),
        node_taints_policy: policy(
            wire.node_taints_policy.as_deref(),
            &format!("{path}.nodeTaintsPolicy"),
            cx,
        ),
        match_label_keys: wire.match_label_keys.unwrap_or_default(),
    }
}

fn when_unsatisfiable(value: Option<&str>, path: &str, cx: &mut Cx<'_>) -> WhenUnsatisfiable {
    match value.unwrap_or("") {
        "DoNotSchedule" => return WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => return WhenUnsatisfiable::ScheduleAnyway,
        "" => cx.push(FieldError::required(
            path,
            "can not be empty; DoNotSchedule or ScheduleAnyway",
        )),
        other => cx.push(FieldError::not_supported(
            path,
            other,
            &["DoNotSchedule", "ScheduleAnyway"],
        )),
    }
    WhenUnsatisfiable::DoNotSchedule
}

fn policy(value: Option<&str>, path: &str, cx: &mut Cx<'_>) -> Option<NodeInclusionPolicy> {
    match value? {
        "Ignore" => Some(NodeInclusionPolicy::Ignore),
        "Honor" => Some(NodeInclusionPolicy::Honor),
        other => {
            cx.push(FieldError::not_supported(path, other, &["Ignore", "Honor"]));
            None
        }
    }
}
