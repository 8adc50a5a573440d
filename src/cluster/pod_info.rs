//! What is known of one pod, compiled.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::{
    Labels, NodeSelectorTerm, ObjectText, OwnerRef, PodAffinity, PodNetwork, PodVolume, PreferredTerm,
    SpreadConstraint, Toleration,
};
use crate::ids::{ClassId, PodUid, Symbol};
use crate::ledger::{Charge, NonZero};
use crate::resources::{HostPorts, Resources};

/// A part of a pod that needs a plugin which this release does not have: such a pod waits and is told why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unsupported {
    /// Resource claims.
    ResourceClaims,
    /// Membership of a pod group.
    SchedulingGroup,
}

/// All of a pod that scheduling reads, apart from its labels and namespace. Pods of one template share it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodSpec {
    /// Which profile is asked to schedule it; the empty symbol never occurs.
    pub scheduler_name: Option<Symbol>,
    /// Higher goes first; 0 when left out.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `spec.nodeName` of a pod that is still to be scheduled.
    pub node_name: Option<Symbol>,
    /// What it requests while it is being scheduled: container sums and maxima, pod-level values, overhead.
    pub request: Resources,
    /// CPU and memory for the score of `NodeResourcesFit`: containers with defaults, without pod-level values.
    pub fit_score_request: Resources,
    /// What `NodeResourcesBalancedAllocation` adds: as `request`, with the resize status taken into account.
    pub balanced_request: Resources,
    /// What it counts for on a node, the resize status taken into account.
    pub charged_request: Resources,
    /// The same with defaults for CPU and memory.
    pub charged_non_zero: NonZero,
    /// What it is limited to: for metrics alone.
    pub limits: Resources,
    /// `spec.nodeSelector`, sorted; absent and empty differ.
    pub node_selector: Option<Labels>,
    /// Terms of the required node affinity, any of which suffices; absent: no required affinity.
    pub required_node_affinity: Option<Box<[NodeSelectorTerm]>>,
    /// Preferred node affinity; absent and empty differ.
    pub preferred_node_affinity: Option<Box<[PreferredTerm]>>,
    /// Affinity and anti-affinity to other pods; absent: none of either.
    pub affinity: Option<Box<PodAffinity>>,
    /// Topology spread constraints in the object's order; with none, default ones apply.
    pub spread: Box<[SpreadConstraint]>,
    /// The controller, for default spread constraints.
    pub controller: Option<OwnerRef>,
    /// Tolerations in the order of the object.
    pub tolerations: Box<[Toleration]>,
    /// Host ports of containers and sidecars.
    pub ports: HostPorts,
    /// Normalised names of the images of init containers, containers and image volumes, in this order.
    pub images: Box<[Symbol]>,
    /// Volumes that scheduling reads, in the order of the object.
    pub volumes: Box<[PodVolume]>,
    /// Number of init containers and containers.
    pub container_count: u32,
    /// Features that its node must declare, sorted.
    pub required_features: SmallVec<[Symbol; 2]>,
    /// What it needs of the network; absent: it says nothing about it.
    pub network: Option<Box<PodNetwork>>,
    /// Parts that this release cannot take into account, sorted.
    pub unsupported: SmallVec<[Unsupported; 2]>,
}

/// The pod's `PodScheduled` condition as the API server has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduledCondition {
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Such as `Unschedulable`.
    pub reason: Box<str>,
    /// The full text.
    pub message: Box<str>,
}

/// A pod. Immutable: a change of the object makes a new one.
#[derive(Clone, Debug)]
pub struct PodInfo {
    /// The identity; names can be re-used.
    pub uid: PodUid,
    /// The UID as the API server spells it.
    pub uid_text: Box<str>,
    /// `metadata.resourceVersion`: equal for equal objects.
    pub resource_version: Box<str>,
    /// The namespace.
    pub namespace: Symbol,
    /// The name.
    pub name: Box<str>,
    /// All labels.
    pub labels: Labels,
    /// What scheduling reads.
    pub spec: Arc<PodSpec>,
    /// The pod's class: see [`crate::cluster::ClassTable`].
    pub class: ClassId,
    /// The class table's epoch when it was classified: see [`crate::cluster::ClassTable::epoch`].
    pub class_epoch: u64,
    /// What it takes from a node.
    pub charge: Arc<Charge>,
    /// The node it is bound to.
    pub bound_to: Option<Symbol>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Symbol>,
    /// Names of the scheduling gates that are left.
    pub gates: Box<[Box<str>]>,
    /// `Succeeded` or `Failed`: uses nothing any more.
    pub terminal: bool,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// `status.startTime` in microseconds since 1970.
    pub start_time_micros: Option<i64>,
    /// `metadata.creationTimestamp` in microseconds since 1970.
    pub created_micros: Option<i64>,
    /// `metadata.generation`.
    pub generation: i64,
    /// The condition that says whether it is scheduled.
    pub condition: Option<ScheduledCondition>,
    /// Has the condition `DisruptionTarget` with reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// Hash of `status.resourceClaimStatuses`, to see changes.
    pub claim_statuses: u64,
    /// The whole object, kept only where somebody will be sent it.
    pub text: Option<Arc<ObjectText>>,
}

impl PodInfo {
    /// Higher goes first.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// `namespace/name`, for messages and logs.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Bound to a node or nominated to one.
    #[must_use]
    pub const fn is_assigned_or_nominated(&self) -> bool {
        self.bound_to.is_some() || self.nominated_node.is_some()
    }
}
