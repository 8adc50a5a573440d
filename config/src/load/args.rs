//! Defaults and checks of plugin args.
//!
//! `NodeResourcesFitArgs` are checked here like all others; kube-scheduler 1.36 checks them only when the plugin is
//! built, which ends in the same refused start.
//!
//! Does not: decode text, or know what a plugin does with its args.
//!
//! Source: `apis/config/v1/defaults.go`, `apis/config/validation/validation_pluginargs.go`.

mod network;
mod resources;
mod spread;

use std::time::Duration;

use super::affinity;
use super::check::Cx;
use crate::decode::Decode;
use crate::gates::FeatureGates;
use crate::plugin_args::{
    DefaultPreemptionArgs, DynamicResourcesArgs, InterPodAffinityArgs, NodeAffinityArgs, PluginArgs, ShapePoint,
    VolumeBindingArgs,
};
use crate::tree::{Node, Scalar};
use crate::types::API_VERSION;
use crate::wire::{
    WireDefaultPreemptionArgs, WireDynamicResourcesArgs, WireInterPodAffinityArgs, WireNodeAffinityArgs,
    WireVolumeBindingArgs,
};

/// Gate that gives `VolumeBinding` a scoring function.
const STORAGE_CAPACITY_SCORING: &str = "StorageCapacityScoring";

/// The args of an in-tree plugin that the file does not mention.
pub(super) fn default_for(plugin: &str, gates: &FeatureGates) -> Option<PluginArgs> {
    let mut args = PluginArgs::default_for(plugin)?;
    if let PluginArgs::VolumeBinding(args) = &mut args
        && gates.enabled(STORAGE_CAPACITY_SCORING)
    {
        args.shape = Some(default_shape());
    }
    Some(args)
}

fn default_shape() -> Vec<ShapePoint> {
    vec![
        ShapePoint {
            utilization: 0,
            score: 10,
        },
        ShapePoint {
            utilization: 100,
            score: 0,
        },
    ]
}

/// The args of an entry of `pluginConfig`, checked. With errors noted in `cx` the result is not to be used.
pub(super) fn check(plugin: &str, node: Option<&Node>, path: &str, cx: &mut Cx<'_>) -> PluginArgs {
    let Some(default) = default_for(plugin, &cx.gates) else {
        let raw = node.and_then(|node| serde_json::Value::decode(node, path, &mut cx.errors));
        return PluginArgs::Raw(raw.unwrap_or(serde_json::Value::Null));
    };
    let Some(node) = node else { return default };
    if !check_kind(plugin, node, path, cx) {
        return default;
    }
    match default {
        PluginArgs::DefaultPreemption(_) => {
            PluginArgs::DefaultPreemption(default_preemption(&decode(node, path, cx), path, cx))
        }
        PluginArgs::DynamicResources(_) => {
            PluginArgs::DynamicResources(dynamic_resources(&decode(node, path, cx), path, cx))
        }
        PluginArgs::InterPodAffinity(_) => {
            PluginArgs::InterPodAffinity(inter_pod_affinity(&decode(node, path, cx), path, cx))
        }
        PluginArgs::NodeAffinity(_) => PluginArgs::NodeAffinity(node_affinity(decode(node, path, cx), path, cx)),
        PluginArgs::NodeResourcesBalancedAllocation(_) => {
            PluginArgs::NodeResourcesBalancedAllocation(resources::balanced(decode(node, path, cx), path, cx))
        }
        PluginArgs::NodeResourcesFit(_) => {
            PluginArgs::NodeResourcesFit(resources::fit(decode(node, path, cx), path, cx))
        }
        PluginArgs::PodTopologySpread(_) => {
            PluginArgs::PodTopologySpread(spread::check(decode(node, path, cx), path, cx))
        }
        PluginArgs::TopologyAware(_) => {
            PluginArgs::TopologyAware(network::topology_aware(decode(node, path, cx), path, cx))
        }
        PluginArgs::VolumeBinding(_) => PluginArgs::VolumeBinding(volume_binding(decode(node, path, cx), path, cx)),
        PluginArgs::Raw(raw) => PluginArgs::Raw(raw),
    }
}

fn decode<T: Decode + Default>(node: &Node, path: &str, cx: &mut Cx<'_>) -> T {
    T::decode(node, path, &mut cx.errors).unwrap_or_default()
}

/// Checks `kind` and `apiVersion` inside args; both may be left out. False when the args are another plugin's.
fn check_kind(plugin: &str, node: &Node, path: &str, cx: &mut Cx<'_>) -> bool {
    let text = |field: &str| match node.get(field).map(|entry| &entry.node).and_then(Node::scalar) {
        Some(Scalar::Text(text)) => Some(text.to_owned()),
        _ => None,
    };
    if let Some(version) = text("apiVersion").filter(|version| version != API_VERSION) {
        let detail = format!("args have to be of version {API_VERSION:?}");
        cx.invalid(&format!("{path}.apiVersion"), &version, detail);
    }
    let wanted = format!("{plugin}Args");
    let Some(kind) = text("kind").filter(|kind| *kind != wanted) else {
        return true;
    };
    let group = "kubescheduler.config.k8s.io";
    let detail = format!("args for plugin {plugin} were not of type {wanted}.{group}, got {kind}.{group}");
    cx.invalid(&format!("{path}.kind"), &kind, detail);
    false
}

fn default_preemption(wire: &WireDefaultPreemptionArgs, path: &str, cx: &mut Cx<'_>) -> DefaultPreemptionArgs {
    let defaults = DefaultPreemptionArgs::default();
    let (share_path, count_path) = (
        format!("{path}.minCandidateNodesPercentage"),
        format!("{path}.minCandidateNodesAbsolute"),
    );
    let share = wire.min_candidate_nodes_percentage;
    let count = wire.min_candidate_nodes_absolute;
    let args = DefaultPreemptionArgs {
        min_candidate_nodes_percentage: share.map_or(defaults.min_candidate_nodes_percentage, |share| {
            cx.ranged(&share_path, share, (0, 100), "not in valid range [0, 100]")
        }),
        min_candidate_nodes_absolute: count.map_or(defaults.min_candidate_nodes_absolute, |count| {
            cx.ranged(&count_path, count, (0, u32::MAX), "not in valid range [0, inf)")
        }),
    };
    if share == Some(0) && count == Some(0) {
        cx.invalid(
            &share_path,
            0,
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        );
        cx.invalid(
            &count_path,
            0,
            "cannot be zero at the same time as minCandidateNodesPercentage",
        );
    }
    args
}

fn dynamic_resources(wire: &WireDynamicResourcesArgs, path: &str, cx: &mut Cx<'_>) -> DynamicResourcesArgs {
    let defaults = DynamicResourcesArgs::default();
    let filter_timeout = wire.filter_timeout.map_or(defaults.filter_timeout, |timeout| {
        cx.not_negative(&format!("{path}.filterTimeout"), timeout, "must be zero or positive")
    });
    let binding_timeout = match wire.binding_timeout {
        None => defaults.binding_timeout,
        Some(timeout) => timeout
            .to_std()
            .filter(|timeout| *timeout >= Duration::from_secs(1))
            .unwrap_or_else(|| {
                cx.invalid(&format!("{path}.bindingTimeout"), timeout, "must be at least 1 second");
                defaults.binding_timeout
            }),
    };
    DynamicResourcesArgs {
        filter_timeout,
        binding_timeout,
    }
}

fn inter_pod_affinity(wire: &WireInterPodAffinityArgs, path: &str, cx: &mut Cx<'_>) -> InterPodAffinityArgs {
    let weight = wire.hard_pod_affinity_weight.unwrap_or(1);
    InterPodAffinityArgs {
        hard_pod_affinity_weight: cx.ranged(
            &format!("{path}.hardPodAffinityWeight"),
            weight,
            (0, 100),
            "not in valid range [0, 100]",
        ),
        ignore_preferred_terms_of_existing_pods: wire.ignore_preferred_terms_of_existing_pods.unwrap_or(false),
    }
}

fn node_affinity(wire: WireNodeAffinityArgs, path: &str, cx: &mut Cx<'_>) -> NodeAffinityArgs {
    let path = format!("{path}.addedAffinity");
    NodeAffinityArgs {
        added_affinity: wire.added_affinity.map(|wire| affinity::check(wire, &path, cx)),
    }
}

fn volume_binding(wire: WireVolumeBindingArgs, path: &str, cx: &mut Cx<'_>) -> VolumeBindingArgs {
    let seconds = wire.bind_timeout_seconds.unwrap_or(600);
    // Beyond Go's range of durations a timeout could not be kept.
    let largest = i64::MAX / 1_000_000_000;
    let bind_timeout = match u64::try_from(seconds) {
        Ok(value) if seconds <= largest => Duration::from_secs(value),
        _ => {
            let detail = match seconds < 0 {
                true => "invalid BindTimeoutSeconds, should not be a negative value".to_owned(),
                false => format!("invalid BindTimeoutSeconds, at most {largest}"),
            };
            cx.invalid(&format!("{path}.bindTimeoutSeconds"), seconds, detail);
            Duration::ZERO
        }
    };
    let shape_path = format!("{path}.shape");
    let shape = match (cx.gates.enabled(STORAGE_CAPACITY_SCORING), wire.shape) {
        (true, Some(points)) if !points.is_empty() => Some(resources::shape(points, &shape_path, cx)),
        (true, _) => Some(default_shape()),
        (false, None) => None,
        (false, Some(points)) => {
            let value = format!("{} points", points.len());
            let detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
            cx.invalid(&shape_path, &value, detail);
            None
        }
    };
    VolumeBindingArgs { bind_timeout, shape }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loader, PluginCatalogue};

    /// The scores of the shape that a profile has, by the text of `args`.
    fn scores(args: &str) -> Option<Vec<i64>> {
        let catalogue = PluginCatalogue::in_tree();
        let gates = FeatureGates::parse("StorageCapacityScoring=true").unwrap();
        let file = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles: [{{pluginConfig: [{args}]}}]\n"
        );
        let loaded = Loader::new(&catalogue).gates(gates).load_str("f", &file).unwrap();
        match loaded.configuration.profiles[0].args("VolumeBinding") {
            Some(PluginArgs::VolumeBinding(args)) => {
                let points = args.shape.as_ref()?;
                Some(points.iter().map(|point| i64::from(point.score)).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn volumes_are_scored_by_capacity_where_the_gate_is_on() {
        assert_eq!(scores(""), Some(vec![10, 0]));
        assert_eq!(scores("{name: VolumeBinding, args: {shape: []}}"), Some(vec![10, 0]));
        let own = "{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 7}]}}";
        assert_eq!(scores(own), Some(vec![0, 7]));
    }
}
