//! The extension points, one trait each, and the trait that every plugin has.
//!
//! Source of names, order and meaning: `staging/src/k8s.io/kube-scheduler/framework/interface.go`, Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::clock::Nanos;
use smallvec::SmallVec;

use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{CycleState, EventHint, PreBindAction, Profile, Status};
use crate::ids::{NodeIdx, Symbol};
use crate::ledger::Checks;

/// What a plugin's answer for one node rests on beside the pod. The incremental engine keeps an answer until something
/// that it rests on changes; the less a plugin declares, the less is computed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads(u16);

impl Reads {
    /// Nothing but the pod.
    pub const POD: Self = Self(0);
    /// The node's object.
    pub const NODE_SPEC: Self = Self(1);
    /// What is in use on the node.
    pub const NODE_USAGE: Self = Self(1 << 1);
    /// Images over all nodes, and the number of nodes.
    pub const IMAGES: Self = Self(1 << 2);
    /// Counts of matching pods by topology domain.
    pub const TOPOLOGY: Self = Self(1 << 3);
    /// Claims, volumes, storage classes and CSI objects.
    pub const VOLUMES: Self = Self(1 << 4);
    /// Pods nominated to the node.
    pub const NOMINATIONS: Self = Self(1 << 5);
    /// Labels of namespaces.
    pub const NAMESPACES: Self = Self(1 << 6);
    /// Use of network links.
    pub const LINKS: Self = Self(1 << 7);
    /// Anything: always right, never fast.
    pub const CLUSTER: Self = Self(1 << 8);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `other` is among it.
    #[must_use]
    pub const fn any_of(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether pods on nodes do not matter to it: it goes no further than the node's object and the image counts.
    #[must_use]
    pub const fn is_of_objects(self) -> bool {
        self.0 & !(Self::NODE_SPEC.0 | Self::IMAGES.0) == 0
    }

    /// Whether it goes no further than the node at hand and the image counts.
    #[must_use]
    pub const fn is_node_local(self) -> bool {
        self.0 & !(Self::NODE_SPEC.0 | Self::NODE_USAGE.0 | Self::IMAGES.0) == 0
    }
}

/// Which of a pod's labels a plugin looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelsRead {
    /// Any.
    All,
    /// These keys; none: the plugin does not look at labels.
    Keys(Vec<Symbol>),
}

/// What every plugin has: a name, what it reads of pods, the events that help its rejected pods, and its extension
/// points. A plugin implements the traits of its points and returns itself from their accessors.
pub trait Plugin: Send + Sync + 'static {
    /// The name in configurations, metrics and messages.
    fn name(&self) -> Symbol;

    /// The labels of pods that it looks at. A plugin that does not say is taken to look at all of them.
    fn labels_read(&self) -> LabelsRead {
        LabelsRead::All
    }

    /// The events on which pods that it rejected are worth another try. `None`: all events; an empty list: none.
    fn events(&self) -> Option<Vec<EventHint>> {
        None
    }

    /// False: it has nothing to do for pods like this one, whatever the cluster looks like: its PreFilter and PreScore
    /// would skip, its filter and score are not asked.
    fn applies_to(&self, _pod: &PodInfo) -> bool {
        true
    }

    /// Whether what PreFilter found for a pod may rest on other nodes although the plugin's filter is skipped.
    fn spans_nodes(&self, _state: &CycleState) -> bool {
        false
    }

    /// How what it counts over placed pods is kept up to date, if it can be. Otherwise it is computed anew for every
    /// pod.
    fn domain_counts(&self) -> Option<&dyn DomainCounts> {
        None
    }

    /// PreEnqueue, if it takes part.
    fn pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        None
    }
    /// QueueSort, if it takes part.
    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        None
    }
    /// PreFilter, if it takes part.
    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        None
    }
    /// Filter, if it takes part.
    fn filter(&self) -> Option<&dyn Filter> {
        None
    }
    /// PostFilter, if it takes part.
    fn post_filter(&self) -> Option<&dyn PostFilter> {
        None
    }
    /// PreScore, if it takes part.
    fn pre_score(&self) -> Option<&dyn PreScore> {
        None
    }
    /// Score, if it takes part.
    fn score(&self) -> Option<&dyn Score> {
        None
    }
    /// Reserve, if it takes part.
    fn reserve(&self) -> Option<&dyn Reserve> {
        None
    }
    /// Permit, if it takes part.
    fn permit(&self) -> Option<&dyn Permit> {
        None
    }
    /// PreBind, if it takes part.
    fn pre_bind(&self) -> Option<&dyn PreBind> {
        None
    }
    /// Bind, if it takes part.
    fn bind(&self) -> Option<&dyn Bind> {
        None
    }
    /// PostBind, if it takes part.
    fn post_bind(&self) -> Option<&dyn PostBind> {
        None
    }
}

/// Decides whether a pod may enter the active queue at all.
pub trait PreEnqueue: Plugin {
    /// Anything but success keeps the pod gated.
    fn pre_enqueue_pod(&self, pod: &PodInfo) -> Status;
}

/// What the order of the queue goes by.
#[derive(Clone, Copy, Debug)]
pub struct SortKey<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// When it was last put into the queue.
    pub timestamp: Nanos,
}

/// Orders the active queue. All profiles share one.
pub trait QueueSort: Plugin {
    /// Whether `a` goes before `b`.
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool;

    /// A number that orders as [`Self::less`] does, lower first. A plugin that gives one for every pod is asked once a
    /// pod and not at every comparison; if it gives none for one pod, it must give none for all.
    fn rank(&self, _key: SortKey<'_>) -> Option<u128> {
        None
    }
}

/// What PreFilter found.
#[derive(Clone, Debug, Default)]
pub struct PreFilterOutcome {
    /// Success, skip or a rejection for all nodes.
    pub status: Status,
    /// With success: only these nodes need to be looked at; `None`: all.
    pub nodes: Option<Vec<Symbol>>,
}

impl From<Status> for PreFilterOutcome {
    fn from(status: Status) -> Self {
        Self { status, nodes: None }
    }
}

/// Prepares the filters: looks at the pod once for all nodes.
pub trait PreFilter: Plugin {
    /// What the outcome rests on beside the pod.
    fn pre_filter_reads(&self) -> Reads {
        Reads::CLUSTER
    }

    /// Computes what the filter needs and keeps it in `state`.
    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome;

    /// How to adjust the state when a pod is thought to come or go.
    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        None
    }
}

/// Adjusts what PreFilter computed, for nominated pods and for trials of preemption.
pub trait PreFilterExtensions: Send + Sync {
    /// As if `other` were on `node`.
    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status;
    /// As if `other` had left `node`.
    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status;
}

/// What of a node an answer rests on: a number for each label value, or the node's slot.
pub type DomainKey = SmallVec<[u64; 4]>;

/// Keeps what PreFilter and PreScore counted over placed pods up to date, change by change. For any sequence of changes
/// the state answers as if it had been computed from scratch.
pub trait DomainCounts: Send + Sync {
    /// Whether pods of `other` change what is counted for `pod`. Rests on the two classes, labels of namespaces and
    /// selectors of owners alone; asked once for each pair until one of the latter changes.
    fn concerns(&self, cluster: &ClusterView<'_>, pod: &PodInfo, other: &PodClass) -> bool;

    /// Notes that `by` more pods (fewer: negative) of `other`, which concern `pod`, are on `node`. False: the state
    /// cannot be adjusted, and PreFilter and PreScore must run anew; so answers a plugin that had nothing to do before.
    fn count(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodClass,
        node: &NodeInfo,
        by: i64,
    ) -> bool;

    /// Pushes what of `node` the filter and the score rest on: nodes with equal keys get equal answers. PreScore sees
    /// one node of each group of equal keys; a plugin to which the number of nodes matters pushes the node's slot.
    fn domains(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, key: &mut DomainKey);

    /// Takes in which nodes are feasible: one node of each group of equal keys, and how many the group has. True: what
    /// PreScore would have kept is up to date by this, so that it need not run again, and a plugin to which the number
    /// of nodes matters need not push the node's slot.
    fn weigh(
        &self,
        _cluster: &ClusterView<'_>,
        _state: &mut CycleState,
        _pod: &PodInfo,
        _groups: &[(NodeIdx, usize)],
    ) -> bool {
        false
    }

    /// Drops from a copy of the state what only Filter and Score need: a decision goes on without it.
    fn release(&self, _state: &mut CycleState) {}
}

/// Says whether a pod can run on a node.
pub trait Filter: Plugin {
    /// What the answer for a node rests on beside the pod.
    fn filter_reads(&self) -> Reads {
        Reads::CLUSTER
    }

    /// Adds what the filter checks of a pod in countable quantities, so that the ledger checks exactly the same under
    /// the node's lock when the pod is given the node. What is zero or ignored is left out.
    fn reserve_checks(&self, _pod: &PodInfo, _checks: &mut Checks) {}

    /// Success, or a rejection with its reasons. Allocates nothing on the way to success.
    fn filter_node(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status;
}

/// The status of every node for a pod that fits nowhere.
#[derive(Clone, Debug, Default)]
pub struct NodeStatuses {
    /// Nodes that were looked at.
    pub explicit: Vec<(NodeIdx, Status)>,
    /// The status of every other node.
    pub absent: Status,
}

impl NodeStatuses {
    /// The status of a node.
    #[must_use]
    pub fn get(&self, node: NodeIdx) -> &Status {
        self.explicit
            .iter()
            .find(|(idx, _)| *idx == node)
            .map_or(&self.absent, |(_, status)| status)
    }

    /// Says what the status of a node is.
    pub fn set(&mut self, node: NodeIdx, status: Status) {
        match self.explicit.iter_mut().find(|(idx, _)| *idx == node) {
            Some((_, known)) => *known = status,
            None => self.explicit.push((node, status)),
        }
    }
}

/// What to do with a pod's nomination after PostFilter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NominatedNode {
    /// Leave it.
    Keep,
    /// Take it away.
    Clear,
    /// Nominate the pod to this node.
    Set(Symbol),
}

/// Pods whose eviction makes room on a node. Whoever runs PostFilter nominates the pod to the node if nothing happened
/// there since, and only then has them evicted.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// The plugin that chose them.
    pub plugin: Symbol,
    /// The node's slot.
    pub node: NodeIdx,
    /// Its name.
    pub name: Symbol,
    /// The version of the node's use that the choice rests on.
    pub version: u64,
    /// Who goes, most important first.
    pub victims: Vec<Arc<PodInfo>>,
}

/// What PostFilter achieved.
#[derive(Clone, Debug)]
pub struct PostFilterResult {
    /// Success: another try will fit. Unschedulable: it did not help.
    pub status: Status,
    /// The nomination.
    pub nomination: NominatedNode,
    /// With success and a nomination: the pods that must go for it.
    pub preemption: Option<Box<Preemption>>,
}

impl PostFilterResult {
    /// An answer without evictions.
    #[must_use]
    pub const fn new(status: Status, nomination: NominatedNode) -> Self {
        Self {
            status,
            nomination,
            preemption: None,
        }
    }
}

/// Tries to make room for a pod that fits nowhere.
pub trait PostFilter: Plugin {
    /// Called with the status of every node; `profile` runs the filters of trials.
    fn post_filter_pod(
        &self,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        state: &CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFilterResult;
}

/// Prepares the scores: looks at the pod and the feasible nodes once.
pub trait PreScore: Plugin {
    /// What the outcome rests on beside the pod; [`Reads::POD`] says that it does not look at nodes.
    fn pre_score_reads(&self) -> Reads {
        Reads::CLUSTER
    }

    /// Computes what the score needs and keeps it in `state`; a skip leaves the plugin's score out. A plugin with
    /// [`DomainCounts`] is called again on the state of an earlier call, which `count` kept up to date, and computes
    /// anew only what rests on the feasible nodes.
    fn pre_score_pod(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        feasible: &[NodeIdx],
    ) -> Status;
}

/// Scores a node that passed all filters.
pub trait Score: Plugin {
    /// What the score of a node rests on beside the pod.
    fn score_reads(&self) -> Reads {
        Reads::CLUSTER
    }

    /// The raw score. Without a normaliser it must lie in 0 to 100.
    ///
    /// # Errors
    /// A status other than success fails the cycle.
    fn score_node(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Result<i64, Status>;

    /// Brings the raw scores into 0 to 100, if the plugin needs that.
    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        None
    }
}

/// Normalises one plugin's raw scores.
pub trait NormalizeScore: Send + Sync {
    /// Whether the result for a raw score depends on nothing but the set of raw scores that occur. Then the engine
    /// normalises each value once, and not each node.
    fn by_value(&self) -> bool {
        false
    }

    /// Replaces every raw score by one from 0 to 100.
    fn normalize(&self, state: &CycleState, pod: &PodInfo, scores: &mut [i64]) -> Status;
}

/// Keeps books of its own about pods that were given a node.
pub trait Reserve: Plugin {
    /// The pod is about to be given the node.
    fn reserve_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo, node: &NodeInfo) -> Status;
    /// It will not be after all. Called for every plugin, also when its own reserve failed or did not run.
    fn unreserve_pod(&self, state: &mut CycleState, pod: &PodInfo, node: Symbol);
}

/// Can hold a pod back before it is bound.
pub trait Permit: Plugin {
    /// Success, a rejection, or [`crate::framework::Code::Wait`] with the longest wait (at most 15 minutes).
    fn permit_pod(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> (Status, Duration);
}

/// A request to the API server that `binding` performs for a plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApiRequest {
    /// Create the pod's Binding to the chosen node, with the pod's UID.
    BindPod,
}

/// Does what must be done before the bind.
pub trait PreBind: Plugin {
    /// Whether it will act for this pod: success or skip.
    fn pre_bind_pre_flight(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> Status;
    /// Whether neighbours that say the same may run at the same time.
    fn allow_parallel(&self) -> bool {
        false
    }
    /// Acts. A future runs in the binding pool under its deadline; dropping it must leave nothing half done that
    /// unreserve does not undo.
    fn pre_bind_pod(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> PreBindAction;
}

/// How a plugin binds.
#[allow(missing_debug_implementations, reason = "a future has none")]
pub enum BindOutcome {
    /// It does not; the next plugin is asked.
    Skip,
    /// By this request.
    Request(ApiRequest),
    /// By itself.
    Future(BoxFuture<'static, Status>),
}

/// Binds the pod to the node.
pub trait Bind: Plugin {
    /// How.
    fn bind_pod(&self, state: &CycleState, pod: &PodInfo, node: Symbol) -> BindOutcome;
}

/// Is told of a bind.
pub trait PostBind: Plugin {
    /// The pod is bound.
    fn post_bind_pod(&self, state: &CycleState, pod: &PodInfo, node: Symbol);
}
