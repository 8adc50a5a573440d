//! Typed args of the in-tree plugins.
//!
//! Does not: validate (see [`crate::load`]): a value of these types that came from a [`crate::Loader`] is valid.

mod network;

use std::time::Duration;

use crate::selectors::NodeAffinity;

pub use network::{Aggregation, FigureMeaning, LatencyEntry, LatencySource, LatencySourceKind, TopologyAwareArgs};

/// Args of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginArgs {
    /// `DefaultPreemptionArgs`.
    DefaultPreemption(DefaultPreemptionArgs),
    /// `DynamicResourcesArgs`.
    DynamicResources(DynamicResourcesArgs),
    /// `InterPodAffinityArgs`.
    InterPodAffinity(InterPodAffinityArgs),
    /// `NodeAffinityArgs`.
    NodeAffinity(NodeAffinityArgs),
    /// `NodeResourcesBalancedAllocationArgs`.
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs),
    /// `NodeResourcesFitArgs`.
    NodeResourcesFit(NodeResourcesFitArgs),
    /// `PodTopologySpreadArgs`.
    PodTopologySpread(PodTopologySpreadArgs),
    /// `TopologyAwareArgs`.
    TopologyAware(TopologyAwareArgs),
    /// `VolumeBindingArgs`.
    VolumeBinding(VolumeBindingArgs),
    /// Args of a plugin without a type here, as they stand in the file.
    Raw(serde_json::Value),
}

impl PluginArgs {
    /// The default args of an in-tree plugin that has a type for them.
    pub fn default_for(plugin: &str) -> Option<Self> {
        Some(match plugin {
            "DefaultPreemption" => Self::DefaultPreemption(DefaultPreemptionArgs::default()),
            "DynamicResources" => Self::DynamicResources(DynamicResourcesArgs::default()),
            "InterPodAffinity" => Self::InterPodAffinity(InterPodAffinityArgs::default()),
            "NodeAffinity" => Self::NodeAffinity(NodeAffinityArgs::default()),
            "NodeResourcesBalancedAllocation" => {
                Self::NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs::default())
            }
            "NodeResourcesFit" => Self::NodeResourcesFit(NodeResourcesFitArgs::default()),
            "PodTopologySpread" => Self::PodTopologySpread(PodTopologySpreadArgs::default()),
            "TopologyAware" => Self::TopologyAware(TopologyAwareArgs::default()),
            "VolumeBinding" => Self::VolumeBinding(VolumeBindingArgs::default()),
            _ => return None,
        })
    }
}

/// Args of `DefaultPreemption`. The two are not both zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// Share of nodes to dry-run, percent, 0..=100.
    pub min_candidate_nodes_percentage: u32,
    /// Number of nodes to dry-run at least.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

/// Args of `DynamicResources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// Time that allocating for one node may take; zero means no limit.
    pub filter_timeout: Duration,
    /// Time that binding conditions may take, at least 1 s.
    pub binding_timeout: Duration,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        Self {
            filter_timeout: Duration::from_secs(10),
            binding_timeout: Duration::from_secs(600),
        }
    }
}

/// Args of `InterPodAffinity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// Weight of existing pods' required affinity in the score, 0..=100.
    pub hard_pod_affinity_weight: u32,
    /// Whether preferred terms of placed pods are left out of the score.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

/// Args of `NodeAffinity`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeAffinityArgs {
    /// Affinity that every pod of the profile has besides its own.
    pub added_affinity: Option<NodeAffinity>,
}

/// A resource and its weight in a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Resource name.
    pub name: String,
    /// Weight, 1..=100.
    pub weight: u32,
}

/// cpu and memory, weight 1 each: the default of both resource plugins.
pub fn default_resources() -> Vec<ResourceSpec> {
    ["cpu", "memory"]
        .into_iter()
        .map(|name| ResourceSpec {
            name: name.to_owned(),
            weight: 1,
        })
        .collect()
}

/// Args of `NodeResourcesBalancedAllocation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// Resources to balance; every weight is 1 and names are unique.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self {
            resources: default_resources(),
        }
    }
}

/// Args of `NodeResourcesFit`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    pub ignored_resources: Vec<String>,
    /// Groups (the part before `/`) of resources that the filter ignores.
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored.
    pub scoring_strategy: ScoringStrategy,
}

/// How `NodeResourcesFit` scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoringStrategy {
    /// The formula.
    pub kind: ScoringStrategyKind,
    /// Resources in the formula; not empty.
    pub resources: Vec<ResourceSpec>,
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        Self {
            kind: ScoringStrategyKind::LeastAllocated,
            resources: default_resources(),
        }
    }
}

/// The formula of a [`ScoringStrategy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScoringStrategyKind {
    /// Prefers empty nodes.
    LeastAllocated,
    /// Prefers full nodes.
    MostAllocated,
    /// Follows a function of utilization, given by its corners (at least one, utilization strictly increasing).
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

impl ScoringStrategyKind {
    /// The name in files.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::LeastAllocated => "LeastAllocated",
            Self::MostAllocated => "MostAllocated",
            Self::RequestedToCapacityRatio(_) => "RequestedToCapacityRatio",
        }
    }
}

/// A corner of a scoring function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapePoint {
    /// Utilization in percent, 0..=100.
    pub utilization: u32,
    /// Score, 0..=10.
    pub score: u32,
}

/// Args of `PodTopologySpread`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTopologySpreadArgs {
    /// Constraints of pods that have none.
    pub defaulting: SpreadDefaulting,
}

/// Where the constraints of pods without any come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SpreadDefaulting {
    /// Built in: soft spreading over hostnames and zones.
    #[default]
    System,
    /// These.
    List(Vec<SpreadConstraint>),
}

/// A default `v1.TopologySpreadConstraint`; its selector is deduced for each pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadConstraint {
    /// Largest allowed difference between domains, at least 1.
    pub max_skew: u32,
    /// Node label that makes the domains.
    pub topology_key: String,
    /// Hard or soft.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Number of domains below which the smallest count is taken as 0.
    pub min_domains: Option<u32>,
    /// Whether nodes that the pod's affinity excludes are counted.
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Whether nodes with taints that the pod does not tolerate are counted.
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Pod label keys whose values join the selector.
    pub match_label_keys: Vec<String>,
}

/// `v1.UnsatisfiableConstraintAction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnsatisfiable {
    /// A filter.
    DoNotSchedule,
    /// A score.
    ScheduleAnyway,
}

impl WhenUnsatisfiable {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DoNotSchedule => "DoNotSchedule",
            Self::ScheduleAnyway => "ScheduleAnyway",
        }
    }
}

/// `v1.NodeInclusionPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeInclusionPolicy {
    /// All nodes count.
    Ignore,
    /// Only nodes that pass count.
    Honor,
}

impl NodeInclusionPolicy {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Honor => "Honor",
        }
    }
}

/// Args of `VolumeBinding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// Time that binding a pod's volumes may take, whole seconds.
    pub bind_timeout: Duration,
    /// Scoring function over storage utilization; `None` unless gate `StorageCapacityScoring` is on.
    pub shape: Option<Vec<ShapePoint>>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self {
            bind_timeout: Duration::from_secs(600),
            shape: None,
        }
    }
}
