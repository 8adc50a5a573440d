//! Args of the resource plugins: resources with weights, strategies, shapes.

use crate::decode::item;
use crate::error::FieldError;
use crate::load::check::Cx;
use crate::names::qualified_name_error;
use crate::plugin_args::{
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, ResourceSpec, ScoringStrategy, ScoringStrategyKind,
    ShapePoint, default_resources,
};
use crate::wire::{
    WireBalancedAllocationArgs, WireFitArgs, WireRatio, WireResource, WireScoringStrategy, WireShapePoint,
};

/// Names of the strategies.
const STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

/// `NodeResourcesBalancedAllocationArgs`.
pub(super) fn balanced(
    wire: WireBalancedAllocationArgs,
    path: &str,
    cx: &mut Cx<'_>,
) -> NodeResourcesBalancedAllocationArgs {
    let path = format!("{path}.resources");
    let mut resources: Vec<ResourceSpec> = Vec::new();
    for (index, wire) in wire.resources.unwrap_or_default().into_iter().enumerate() {
        let path = item(&path, index);
        let (name, weight) = name_and_weight(wire, &path, cx);
        if weight != 1 {
            cx.invalid(&format!("{path}.weight"), weight, "must be 1");
        }
        if resources.iter().any(|resource| resource.name == name) {
            cx.push(FieldError::duplicate(format!("{path}.name"), &name, ""));
        }
        resources.push(ResourceSpec { name, weight: 1 });
    }
    if resources.is_empty() {
        resources = default_resources();
    }
    NodeResourcesBalancedAllocationArgs { resources }
}

/// `NodeResourcesFitArgs`.
pub(super) fn fit(wire: WireFitArgs, path: &str, cx: &mut Cx<'_>) -> NodeResourcesFitArgs {
    let ignored_resources = wire.ignored_resources.unwrap_or_default();
    for (index, name) in ignored_resources.iter().enumerate() {
        if let Some(detail) = qualified_name_error(name) {
            cx.invalid(&item(&format!("{path}.ignoredResources"), index), name, detail);
        }
    }
    let ignored_resource_groups = wire.ignored_resource_groups.unwrap_or_default();
    for (index, group) in ignored_resource_groups.iter().enumerate() {
        let path = item(&format!("{path}.ignoredResourceGroups"), index);
        if group.contains('/') {
            cx.invalid(&path, group, "resource group name can't contain '/'");
        } else if let Some(detail) = qualified_name_error(group) {
            cx.invalid(&path, group, detail);
        }
    }
    let scoring_strategy = match wire.scoring_strategy {
        None => ScoringStrategy::default(),
        Some(wire) => strategy(wire, &format!("{path}.scoringStrategy"), cx),
    };
    NodeResourcesFitArgs {
        ignored_resources,
        ignored_resource_groups,
        scoring_strategy,
    }
}

fn strategy(wire: WireScoringStrategy, path: &str, cx: &mut Cx<'_>) -> ScoringStrategy {
    let name = wire.kind.unwrap_or_default();
    let ratio_path = format!("{path}.requestedToCapacityRatio");
    let ratio = wire.requested_to_capacity_ratio;
    if ratio.is_some() && name != "RequestedToCapacityRatio" {
        cx.invalid(
            &ratio_path,
            name.as_str(),
            "must be nil when type is not RequestedToCapacityRatio",
        );
    }
    let kind = match name.as_str() {
        "LeastAllocated" => ScoringStrategyKind::LeastAllocated,
        "MostAllocated" => ScoringStrategyKind::MostAllocated,
        "RequestedToCapacityRatio" => match ratio {
            Some(WireRatio { shape: points }) => {
                let points = shape(points.unwrap_or_default(), &format!("{ratio_path}.shape"), cx);
                ScoringStrategyKind::RequestedToCapacityRatio(points)
            }
            None => {
                let detail = "must be specified when type is RequestedToCapacityRatio";
                cx.push(FieldError::required(ratio_path, detail));
                ScoringStrategyKind::RequestedToCapacityRatio(Vec::new())
            }
        },
        _ => {
            cx.push(FieldError::not_supported(format!("{path}.type"), &name, &STRATEGIES));
            ScoringStrategyKind::LeastAllocated
        }
    };
    let mut resources = Vec::new();
    for (index, wire) in wire.resources.unwrap_or_default().into_iter().enumerate() {
        let path = item(&format!("{path}.resources"), index);
        let (name, weight) = name_and_weight(wire, &path, cx);
        let detail = format!("resource weight of {name} not in valid range (0, 100]");
        let weight = cx.ranged(&format!("{path}.weight"), weight, (1, 100), &detail);
        resources.push(ResourceSpec { name, weight });
    }
    if resources.is_empty() {
        resources = default_resources();
    }
    ScoringStrategy { kind, resources }
}

/// A resource as given; weight 0 and no weight mean 1.
fn name_and_weight(wire: WireResource, path: &str, cx: &mut Cx<'_>) -> (String, i64) {
    let name = wire.name.unwrap_or_default();
    if name.is_empty() {
        cx.push(FieldError::required(format!("{path}.name"), "the name of a resource"));
    }
    (name, wire.weight.filter(|weight| *weight != 0).unwrap_or(1))
}

/// The corners of a scoring function.
pub(super) fn shape(points: Vec<WireShapePoint>, path: &str, cx: &mut Cx<'_>) -> Vec<ShapePoint> {
    if points.is_empty() {
        cx.push(FieldError::required(path, "at least one point must be specified"));
    }
    let mut previous: Option<i32> = None;
    let mut corners = Vec::with_capacity(points.len());
    for (index, point) in points.into_iter().enumerate() {
        let path = item(path, index);
        let (utilization, score) = (point.utilization.unwrap_or(0), point.score.unwrap_or(0));
        let utilization_path = format!("{path}.utilization");
        if previous.is_some_and(|previous| previous >= utilization) {
            cx.invalid(
                &utilization_path,
                utilization,
                "values must be sorted in increasing order",
            );
        }
        previous = Some(utilization);
        corners.push(ShapePoint {
            utilization: cx.ranged(&utilization_path, utilization, (0, 100), "not in valid range [0, 100]"),
            score: cx.ranged(&format!("{path}.score"), score, (0, 10), "not in valid range [0, 10]"),
        });
    }
    corners
}
