//! Whose terms mean whom.
//!
//! Two rules for namespaces. Terms of placed pods are held against the pod to be scheduled with the labels of its
//! namespace. The pod's own terms are resolved once: the names of all namespaces that a selector matches now are added to
//! the term's. Upstream means to drop the selector after that, but keeps it, and matches it against no labels at all; so
//! a selector of nothing but `NotIn` and `DoesNotExist` means pods of every namespace. That is kept.
//!
//! Source: `pkg/scheduler/framework/plugins/interpodaffinity/plugin.go` (`mergeAffinityTermNamespacesIfNotEmpty`),
//! Kubernetes 1.36.

use crate::cluster::{ClusterView, LabelSelector, Labels, PodAffinity, PodAffinityTerm, PodClass, PodInfo};
use crate::ids::Symbol;

/// What terms see of a pod.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) namespace: Symbol,
    pub(super) labels: &'a Labels,
    pub(super) affinity: Option<&'a PodAffinity>,
}

impl<'a> From<&'a PodInfo> for Seen<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        Self {
            namespace: pod.namespace,
            labels: &pod.labels,
            affinity: pod.spec.affinity.as_deref(),
        }
    }
}

impl<'a> From<&'a PodClass> for Seen<'a> {
    fn from(class: &'a PodClass) -> Self {
        Self {
            namespace: class.namespace,
            labels: &class.labels,
            affinity: class.spec.affinity.as_deref(),
        }
    }
}

impl<'a> Seen<'a> {
    /// Whether a term of another pod means it; `namespace_labels`: those of its namespace.
    pub(super) fn is_meant_by(self, term: &PodAffinityTerm, namespace_labels: Option<&Labels>) -> bool {
        term.matches(self.namespace, self.labels, namespace_labels)
    }

    pub(super) fn required_affinity(self) -> &'a [PodAffinityTerm] {
        self.affinity.map_or(&[], |affinity| &affinity.required_affinity)
    }

    pub(super) fn required_anti_affinity(self) -> &'a [PodAffinityTerm] {
        self.affinity.map_or(&[], |affinity| &affinity.required_anti_affinity)
    }
}

/// The namespaces that the selectors of a list of terms match, sorted: `[term][namespace]`. Empty as a whole when no
/// term selects namespaces by labels that one must look up.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved(Box<[Box<[Symbol]>]>);

impl Resolved {
    pub(super) fn new<'t>(cluster: &ClusterView<'_>, terms: impl Iterator<Item = &'t PodAffinityTerm> + Clone) -> Self {
        if !terms.clone().any(selects_by_labels) {
            return Self::default();
        }
        let namespaces = |term: &PodAffinityTerm| -> Box<[Symbol]> {
            if selects_by_labels(term) {
                let selector = &term.namespace_selector;
                cluster.namespaces.matching(|labels| selector.matches(labels)).into()
            } else {
                Box::default()
            }
        };
        Self(terms.map(namespaces).collect())
    }

    /// Whether the term at `at` means `other`.
    pub(super) fn means(&self, at: usize, term: &PodAffinityTerm, other: Seen<'_>) -> bool {
        let by_name = || {
            let namespaces = self.0.get(at);
            namespaces.is_some_and(|names| names.binary_search(&other.namespace).is_ok())
        };
        other.is_meant_by(term, None) || (by_name() && term.selector.matches(other.labels))
    }

    /// Whether there are terms and all of them mean `other`.
    pub(super) fn all_mean(&self, terms: &[PodAffinityTerm], other: Seen<'_>) -> bool {
        let mut pairs = terms.iter().enumerate();
        !terms.is_empty() && pairs.all(|(at, term)| self.means(at, term, other))
    }
}

fn selects_by_labels(term: &PodAffinityTerm) -> bool {
    match &term.namespace_selector {
        LabelSelector::Nothing => false,
        LabelSelector::All(requirements) => !requirements.is_empty(),
    }
}
