//! The in-tree plugins: what each implements, and the default list.

use super::{EnabledPlugin, ExtensionPoint, PluginLookup, Plugins};
use crate::gates::FeatureGates;

use ExtensionPoint as P;

/// In-tree plugins in the order of the default list: name, default weight (0 where it does not matter), points.
const IN_TREE: [(&str, u32, &[ExtensionPoint]); 20] = [
    ("SchedulingGates", 0, &[P::PreEnqueue]),
    ("PrioritySort", 0, &[P::QueueSort]),
    ("NodeUnschedulable", 0, &[P::Filter]),
    ("NodeName", 0, &[P::Filter]),
    ("TaintToleration", 3, &[P::Filter, P::PreScore, P::Score]),
    ("NodeAffinity", 2, &[P::PreFilter, P::Filter, P::PreScore, P::Score]),
    ("NodePorts", 0, &[P::PreFilter, P::Filter]),
    ("NodeResourcesFit", 1, &[P::PreFilter, P::Filter, P::PreScore, P::Score]),
    ("VolumeRestrictions", 0, &[P::PreFilter, P::Filter]),
    ("NodeVolumeLimits", 0, &[P::PreFilter, P::Filter]),
    (
        "VolumeBinding",
        0,
        &[P::PreFilter, P::Filter, P::PreScore, P::Score, P::Reserve, P::PreBind],
    ),
    ("VolumeZone", 0, &[P::PreFilter, P::Filter]),
    (
        "PodTopologySpread",
        2,
        &[P::PreFilter, P::Filter, P::PreScore, P::Score],
    ),
    ("InterPodAffinity", 2, &[P::PreFilter, P::Filter, P::PreScore, P::Score]),
    (
        "DynamicResources",
        2,
        &[
            P::PreEnqueue,
            P::PreFilter,
            P::Filter,
            P::PostFilter,
            P::Score,
            P::Reserve,
            P::PreBind,
        ],
    ),
    ("DefaultPreemption", 0, &[P::PreEnqueue, P::PostFilter]),
    ("NodeResourcesBalancedAllocation", 1, &[P::PreScore, P::Score]),
    ("ImageLocality", 1, &[P::Score]),
    ("DefaultBinder", 0, &[P::Bind]),
    ("NodeDeclaredFeatures", 0, &[P::PreFilter, P::Filter]),
];

/// In-tree plugins that a profile has only if it names them.
const OPTIONAL: [(&str, &[ExtensionPoint]); 1] = [("TopologyAware", &[P::PreFilter, P::Filter, P::PreScore, P::Score])];

/// The lists of a profile that says nothing: all in-tree plugins through `multiPoint`, as the gates have it.
pub fn default_plugins(gates: &FeatureGates) -> Plugins {
    let mut plugins = Plugins::new();
    for (name, weight, _) in IN_TREE {
        let gate = match name {
            "DynamicResources" => Some("DynamicResourceAllocation"),
            "NodeDeclaredFeatures" => Some("NodeDeclaredFeatures"),
            _ => None,
        };
        if gate.is_none_or(|gate| gates.enabled(gate)) {
            plugins.multi_point.enabled.push(EnabledPlugin::new(name, weight));
        }
    }
    plugins
}

/// A table of plugins and their points: the in-tree ones and whatever is added.
#[derive(Debug, Clone, Default)]
pub struct PluginCatalogue {
    entries: Vec<(String, Vec<ExtensionPoint>)>,
}

impl PluginCatalogue {
    /// No plugins.
    pub fn empty() -> Self {
        Self::default()
    }

    /// All in-tree plugins: those of the default list and those that must be named.
    pub fn in_tree() -> Self {
        let default = IN_TREE.iter().map(|(name, _, points)| (*name, *points));
        let entries = default
            .chain(OPTIONAL)
            .map(|(name, points)| (name.to_owned(), points.to_vec()))
            .collect();
        Self { entries }
    }

    /// This and one more; a plugin of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, points: &[ExtensionPoint]) -> Self {
        let name = name.into();
        self.entries.retain(|(present, _)| *present != name);
        self.entries.push((name, points.to_vec()));
        self
    }
}

impl PluginLookup for PluginCatalogue {
    fn exists(&self, plugin: &str) -> bool {
        self.entries.iter().any(|(name, _)| name == plugin)
    }

    fn implements(&self, plugin: &str, point: ExtensionPoint) -> bool {
        self.entries
            .iter()
            .any(|(name, points)| name == plugin && points.contains(&point))
    }

    fn names(&self) -> Vec<String> {
        self.entries.iter().map(|(name, _)| name.clone()).collect()
    }
}
