//! What a pod says about other pods: affinity terms and spread constraints, compiled.
//!
//! Source: `staging/src/k8s.io/kube-scheduler/framework/types.go` (`AffinityTerm`, `NewPodInfo`) and
//! `pkg/scheduler/framework/plugins/podtopologyspread/common.go`, Kubernetes 1.36.
//!
//! Does not: count pods; the plugins do.

use crate::cluster::{LabelSelector, Labels};
use crate::ids::Symbol;

/// A term of affinity or anti-affinity between pods.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodAffinityTerm {
    /// Namespaces by name, sorted; the pod's own where the term names none and selects none.
    pub namespaces: Box<[Symbol]>,
    /// Namespaces by their labels; absent in the object: [`LabelSelector::Nothing`].
    pub namespace_selector: LabelSelector,
    /// Pods by their labels; absent in the object: [`LabelSelector::Nothing`].
    pub selector: LabelSelector,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
}

impl PodAffinityTerm {
    /// Whether a pod with these labels in this namespace is meant; `namespace_labels` are those of the namespace, none
    /// if they are not known.
    #[must_use]
    pub fn matches(&self, namespace: Symbol, labels: &Labels, namespace_labels: Option<&Labels>) -> bool {
        (self.namespaces.contains(&namespace) || self.selects_namespace(namespace_labels))
            && self.selector.matches(labels)
    }

    fn selects_namespace(&self, labels: Option<&Labels>) -> bool {
        match labels {
            Some(labels) => self.namespace_selector.matches(labels),
            None => self.namespace_selector.matches(&Labels::default()),
        }
    }
}

/// A preferred term and how much it counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WeightedTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The term.
    pub term: PodAffinityTerm,
}

/// All affinity and anti-affinity of a pod to others. A list with a term that cannot be compiled is empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodAffinity {
    /// Must hold for the node.
    pub required_affinity: Box<[PodAffinityTerm]>,
    /// Must not hold for the node.
    pub required_anti_affinity: Box<[PodAffinityTerm]>,
    /// Adds to a node's score.
    pub preferred_affinity: Box<[WeightedTerm]>,
    /// Takes from a node's score.
    pub preferred_anti_affinity: Box<[WeightedTerm]>,
    /// Why a list cannot be compiled.
    pub error: Option<Box<str>>,
}

impl PodAffinity {
    /// Every term.
    pub fn terms(&self) -> impl Iterator<Item = &PodAffinityTerm> {
        let preferred = self.preferred_affinity.iter().chain(&self.preferred_anti_affinity);
        let required = self.required_affinity.iter().chain(&self.required_anti_affinity);
        required.chain(preferred.map(|weighted| &weighted.term))
    }
}

/// A topology spread constraint of a pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpreadConstraint {
    /// How far a domain may be above the lowest.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
    /// `DoNotSchedule`.
    pub hard: bool,
    /// Which pods are counted; absent in the object: [`LabelSelector::Nothing`].
    pub selector: LabelSelector,
    /// With fewer domains the lowest counts as empty; absent: 1.
    pub min_domains: Option<i32>,
    /// Nodes that the pod's node selector or required node affinity excludes do not count.
    pub honor_affinity: bool,
    /// Nodes with taints that the pod does not tolerate do not count.
    pub honor_taints: bool,
    /// Labels of the pod that are added to the selector with its own values.
    pub match_label_keys: Box<[Symbol]>,
    /// Why the selector cannot be compiled.
    pub error: Option<Box<str>>,
}

/// Kinds of controllers whose selector says which pods belong together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OwnerKind {
    /// `v1` ReplicationController.
    ReplicationController,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

/// A pod's controller, if it is of one of those kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerRef {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its name, in the pod's namespace.
    pub name: Symbol,
}
