//! Plugin args back to the file format.
//!
//! Does not: check them.

mod network;

use serde_json::{Value, json};

use super::duration;
use crate::plugin_args::{
    NodeAffinityArgs, NodeResourcesFitArgs, PluginArgs, ResourceSpec, ScoringStrategyKind, ShapePoint,
    SpreadConstraint, SpreadDefaulting, VolumeBindingArgs,
};
use crate::types::API_VERSION;

/// The args of a plugin, with `apiVersion` and `kind` when they have a type.
pub(super) fn print(plugin: &str, args: &PluginArgs) -> Value {
    let mut value = match args {
        PluginArgs::Raw(raw) => return raw.clone(),
        PluginArgs::DefaultPreemption(args) => json!({
            "minCandidateNodesPercentage": args.min_candidate_nodes_percentage,
            "minCandidateNodesAbsolute": args.min_candidate_nodes_absolute,
        }),
        PluginArgs::DynamicResources(args) => json!({
            "filterTimeout": duration(args.filter_timeout),
            "bindingTimeout": duration(args.binding_timeout),
        }),
        PluginArgs::InterPodAffinity(args) => json!({
            "hardPodAffinityWeight": args.hard_pod_affinity_weight,
            "ignorePreferredTermsOfExistingPods": args.ignore_preferred_terms_of_existing_pods,
        }),
        PluginArgs::NodeAffinity(args) => node_affinity(args),
        PluginArgs::NodeResourcesBalancedAllocation(args) => json!({"resources": resources(&args.resources)}),
        PluginArgs::NodeResourcesFit(args) => fit(args),
        PluginArgs::PodTopologySpread(args) => match &args.defaulting {
            SpreadDefaulting::System => json!({"defaultingType": "System"}),
            SpreadDefaulting::List(constraints) => json!({
                "defaultingType": "List",
                "defaultConstraints": constraints.iter().map(constraint).collect::<Vec<_>>(),
            }),
        },
        PluginArgs::TopologyAware(args) => network::topology_aware(args),
        PluginArgs::VolumeBinding(args) => volume_binding(args),
    };
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), API_VERSION.into());
        object.insert("kind".to_owned(), format!("{plugin}Args").into());
    }
    value
}

fn node_affinity(args: &NodeAffinityArgs) -> Value {
    let affinity = args
        .added_affinity
        .as_ref()
        .and_then(|affinity| serde_json::to_value(affinity).ok());
    affinity.map_or_else(|| json!({}), |affinity| json!({"addedAffinity": affinity}))
}

fn resources(resources: &[ResourceSpec]) -> Value {
    resources
        .iter()
        .map(|resource| json!({"name": resource.name, "weight": resource.weight}))
        .collect()
}

fn shape(points: &[ShapePoint]) -> Value {
    points
        .iter()
        .map(|point| json!({"utilization": point.utilization, "score": point.score}))
        .collect()
}

fn fit(args: &NodeResourcesFitArgs) -> Value {
    let mut strategy = json!({
        "type": args.scoring_strategy.kind.as_str(),
        "resources": resources(&args.scoring_strategy.resources),
    });
    if let (ScoringStrategyKind::RequestedToCapacityRatio(points), Some(object)) =
        (&args.scoring_strategy.kind, strategy.as_object_mut())
    {
        object.insert("requestedToCapacityRatio".to_owned(), json!({"shape": shape(points)}));
    }
    let mut object = json!({"scoringStrategy": strategy});
    for (field, names) in [
        ("ignoredResources", &args.ignored_resources),
        ("ignoredResourceGroups", &args.ignored_resource_groups),
    ] {
        if let (false, Some(object)) = (names.is_empty(), object.as_object_mut()) {
            object.insert(field.to_owned(), json!(names));
        }
    }
    object
}

fn constraint(constraint: &SpreadConstraint) -> Value {
    let mut value = json!({
        "maxSkew": constraint.max_skew,
        "topologyKey": constraint.topology_key,
        "whenUnsatisfiable": constraint.when_unsatisfiable.as_str(),
    });
    let optional = [
        ("minDomains", constraint.min_domains.map(Value::from)),
        (
            "nodeAffinityPolicy",
            constraint.node_affinity_policy.map(|policy| policy.as_str().into()),
        ),
        (
            "nodeTaintsPolicy",
            constraint.node_taints_policy.map(|policy| policy.as_str().into()),
        ),
        (
            "matchLabelKeys",
            (!constraint.match_label_keys.is_empty()).then(|| json!(constraint.match_label_keys)),
        ),
    ];
    for (field, given) in optional {
        if let (Some(given), Some(object)) = (given, value.as_object_mut()) {
            object.insert(field.to_owned(), given);
        }
    }
    value
}

fn volume_binding(args: &VolumeBindingArgs) -> Value {
    match &args.shape {
        None => json!({"bindTimeoutSeconds": args.bind_timeout.as_secs()}),
        Some(points) => json!({"bindTimeoutSeconds": args.bind_timeout.as_secs(), "shape": shape(points)}),
    }
}
