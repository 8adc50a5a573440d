//! The parts of API objects that scheduling reads, as they stand on the wire. Everything else is skipped unread.
//!
//! Source of the fields: `staging/src/k8s.io/api/core/v1/types.go`, Kubernetes 1.36.
//!
//! Does not: check or interpret values.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::cluster::watch::text::{Pairs, RawAmounts, Text};

pub(super) type List<T> = Option<Vec<T>>;

/// A list's items; none when it is absent.
pub(super) fn items<T>(list: &List<T>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

/// Metadata of any object; `A` is how much of its annotations is read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta<'a, A = Option<IgnoredAny>> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) namespace: Option<Text<'a>>,
    pub(super) uid: Option<Text<'a>>,
    pub(super) resource_version: Option<Text<'a>>,
    pub(super) generation: Option<i64>,
    pub(super) labels: Option<Pairs<'a, Text<'a>>>,
    pub(super) annotations: A,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    pub(super) creation_timestamp: Option<Text<'a>>,
    pub(super) owner_references: List<OwnerReference<'a>>,
}

impl<'a, A> Meta<'a, A> {
    /// The owner that is the controller.
    pub(super) fn controller(&self) -> Option<&OwnerReference<'a>> {
        items(&self.owner_references)
            .iter()
            .find(|owner| owner.controller == Some(true))
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub(super) api_version: Option<Text<'a>>,
    pub(super) kind: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) uid: Option<Text<'a>>,
    pub(super) controller: Option<bool>,
}

/// Metadata whose annotations are left as they stand.
pub(super) type RawMeta<'a> = Meta<'a, Option<&'a RawValue>>;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Pod<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<RawMeta<'a>>,
    pub(super) spec: Option<PodSpec<'a>>,
    pub(super) status: Option<PodStatus<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec<'a> {
    #[serde(borrow)]
    pub(super) scheduler_name: Option<Text<'a>>,
    pub(super) priority: Option<i32>,
    pub(super) preemption_policy: Option<Text<'a>>,
    pub(super) node_name: Option<Text<'a>>,
    pub(super) containers: List<Container<'a>>,
    pub(super) init_containers: List<Container<'a>>,
    pub(super) overhead: Option<RawAmounts<'a>>,
    pub(super) resources: Option<Requirements<'a>>,
    pub(super) node_selector: Option<Pairs<'a, Text<'a>>>,
    pub(super) affinity: Option<Affinity<'a>>,
    pub(super) tolerations: List<Toleration<'a>>,
    pub(super) topology_spread_constraints: List<SpreadConstraint<'a>>,
    pub(super) volumes: List<Volume<'a>>,
    pub(super) host_network: Option<bool>,
    pub(super) host_users: Option<bool>,
    pub(super) scheduling_gates: List<Gate<'a>>,
    pub(super) resource_claims: List<IgnoredAny>,
    pub(super) scheduling_group: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Gate<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Requirements<'a> {
    #[serde(borrow)]
    pub(super) requests: Option<RawAmounts<'a>>,
    pub(super) limits: Option<RawAmounts<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) image: Option<Text<'a>>,
    pub(super) resources: Option<Requirements<'a>>,
    pub(super) ports: List<Port<'a>>,
    pub(super) restart_policy: Option<Text<'a>>,
    pub(super) restart_policy_rules: List<RestartRule<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RestartRule<'a> {
    #[serde(borrow)]
    pub(super) action: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Port<'a> {
    #[serde(rename = "hostPort")]
    pub(super) host_port: Option<i64>,
    #[serde(rename = "hostIP", borrow)]
    pub(super) host_ip: Option<Text<'a>>,
    pub(super) protocol: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity<'a> {
    #[serde(borrow)]
    pub(super) node_affinity: Option<NodeAffinity<'a>>,
    pub(super) pod_affinity: Option<PodAffinity<'a>>,
    pub(super) pod_anti_affinity: Option<PodAffinity<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NodeAffinity<'a> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", borrow)]
    pub(super) required: Option<NodeSelector<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: List<PreferredTerm<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector<'a> {
    #[serde(borrow)]
    pub(super) node_selector_terms: List<SelectorTerm<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PreferredTerm<'a> {
    pub(super) weight: i32,
    #[serde(borrow)]
    pub(super) preference: Option<SelectorTerm<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SelectorTerm<'a> {
    #[serde(borrow)]
    pub(super) match_expressions: List<Expression<'a>>,
    pub(super) match_fields: List<Expression<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Expression<'a> {
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    pub(super) operator: Option<Text<'a>>,
    pub(super) values: List<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PodAffinity<'a> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", borrow)]
    pub(super) required: List<PodAffinityTerm<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: List<WeightedTerm<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodAffinityTerm<'a> {
    #[serde(borrow)]
    pub(super) label_selector: Option<LabelSelector<'a>>,
    pub(super) namespaces: List<Text<'a>>,
    pub(super) namespace_selector: Option<LabelSelector<'a>>,
    pub(super) topology_key: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WeightedTerm<'a> {
    pub(super) weight: i32,
    #[serde(borrow)]
    pub(super) pod_affinity_term: Option<PodAffinityTerm<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Toleration<'a> {
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    pub(super) operator: Option<Text<'a>>,
    pub(super) value: Option<Text<'a>>,
    pub(super) effect: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SpreadConstraint<'a> {
    pub(super) max_skew: i32,
    #[serde(borrow)]
    pub(super) topology_key: Option<Text<'a>>,
    pub(super) when_unsatisfiable: Option<Text<'a>>,
    pub(super) label_selector: Option<LabelSelector<'a>>,
    pub(super) min_domains: Option<i32>,
    pub(super) node_affinity_policy: Option<Text<'a>>,
    pub(super) node_taints_policy: Option<Text<'a>>,
    pub(super) match_label_keys: List<Text<'a>>,
}

/// A volume: the sources that attach something to the node, and images.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Volume<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) persistent_volume_claim: Option<ClaimSource<'a>>,
    pub(super) ephemeral: Option<IgnoredAny>,
    pub(super) gce_persistent_disk: Option<DiskSource<'a>>,
    pub(super) aws_elastic_block_store: Option<DiskSource<'a>>,
    pub(super) rbd: Option<RbdSource<'a>>,
    pub(super) iscsi: Option<DiskSource<'a>>,
    pub(super) azure_disk: Option<DiskSource<'a>>,
    pub(super) azure_file: Option<IgnoredAny>,
    pub(super) cinder: Option<DiskSource<'a>>,
    pub(super) vsphere_volume: Option<DiskSource<'a>>,
    pub(super) portworx_volume: Option<DiskSource<'a>>,
    pub(super) csi: Option<CsiSource<'a>>,
    pub(super) image: Option<ImageSource<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClaimSource<'a> {
    #[serde(borrow)]
    pub(super) claim_name: Option<Text<'a>>,
}

/// A disk of any kind but RBD: each has one of these fields to identify it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DiskSource<'a> {
    #[serde(borrow)]
    pub(super) pd_name: Option<Text<'a>>,
    #[serde(rename = "volumeID")]
    pub(super) volume_id: Option<Text<'a>>,
    #[serde(rename = "diskURI")]
    pub(super) disk_uri: Option<Text<'a>>,
    pub(super) volume_path: Option<Text<'a>>,
    pub(super) iqn: Option<Text<'a>>,
    pub(super) kind: Option<Text<'a>>,
    pub(super) read_only: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RbdSource<'a> {
    #[serde(borrow)]
    pub(super) monitors: List<Text<'a>>,
    pub(super) pool: Option<Text<'a>>,
    pub(super) image: Option<Text<'a>>,
    pub(super) read_only: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CsiSource<'a> {
    #[serde(borrow)]
    pub(super) driver: Option<Text<'a>>,
    pub(super) volume_handle: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ImageSource<'a> {
    #[serde(borrow)]
    pub(super) reference: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
    pub(super) conditions: List<Condition<'a>>,
    pub(super) nominated_node_name: Option<Text<'a>>,
    pub(super) start_time: Option<Text<'a>>,
    pub(super) container_statuses: List<ContainerStatus<'a>>,
    pub(super) init_container_statuses: List<ContainerStatus<'a>>,
    pub(super) resources: Option<Requirements<'a>>,
    pub(super) allocated_resources: Option<RawAmounts<'a>>,
    pub(super) resource_claim_statuses: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) resources: Option<Requirements<'a>>,
    pub(super) allocated_resources: Option<RawAmounts<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Text<'a>>,
    pub(super) status: Option<Text<'a>>,
    pub(super) reason: Option<Text<'a>>,
    pub(super) message: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Node<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<RawMeta<'a>>,
    pub(super) spec: Option<NodeSpec<'a>>,
    pub(super) status: Option<NodeStatus<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NodeSpec<'a> {
    pub(super) unschedulable: Option<bool>,
    #[serde(rename = "podCIDRs")]
    pub(super) pod_cidrs: List<Text<'a>>,
    #[serde(borrow)]
    pub(super) taints: List<Taint<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Taint<'a> {
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    pub(super) value: Option<Text<'a>>,
    pub(super) effect: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeStatus<'a> {
    #[serde(borrow)]
    pub(super) allocatable: Option<RawAmounts<'a>>,
    pub(super) images: List<ContainerImage<'a>>,
    pub(super) declared_features: List<Text<'a>>,
    pub(super) conditions: List<Condition<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerImage<'a> {
    #[serde(borrow)]
    pub(super) names: List<Text<'a>>,
    pub(super) size_bytes: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Budget<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<Selected<'a>>,
    pub(super) status: Option<BudgetStatus<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Selected<'a> {
    #[serde(borrow)]
    pub(super) selector: Option<LabelSelector<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus<'a> {
    pub(super) disruptions_allowed: Option<i32>,
    #[serde(borrow)]
    pub(super) disrupted_pods: Option<Pairs<'a, IgnoredAny>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LabelSelector<'a> {
    #[serde(borrow)]
    pub(super) match_labels: Option<Pairs<'a, Text<'a>>>,
    pub(super) match_expressions: List<Expression<'a>>,
}

/// An object of which only the metadata matters.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Namespace<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
}

/// A Service or a ReplicationController: its selector is a map.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct WithMapSelector<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<MapSelector<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct MapSelector<'a> {
    #[serde(borrow)]
    pub(super) selector: Option<Pairs<'a, Text<'a>>>,
}

/// A ReplicaSet or a StatefulSet: its selector is a label selector.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct WithSelector<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<Selected<'a>>,
}
