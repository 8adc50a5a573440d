//! Live rules that bind others: required anti-affinity of pods, placed or queued.
//!
//! A pod that such a rule is about must commit where it sees every other commit (see [`crate::ledger::CommitLock`]).
//! Rules are counted by distinct term, so that the hundredth pod of a template changes nothing.
//!
//! Threads: any; one writer at a time, under the commit lock.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustc_hash::FxHashMap;

use crate::cluster::{Namespaces, PodAffinityTerm, PodInfo, PodSpec};
use crate::sync::Mutex;

/// All of them.
#[derive(Debug, Default)]
pub struct Rules {
    pods_by_term: Mutex<FxHashMap<Arc<PodAffinityTerm>, usize>>,
    terms: ArcSwap<Vec<Arc<PodAffinityTerm>>>,
}

impl Rules {
    /// Whether a pod of `spec` brings a term that no live pod has.
    #[must_use]
    pub fn is_new(&self, spec: &PodSpec) -> bool {
        let pods_by_term = self.pods_by_term.lock();
        terms_of(spec).iter().any(|term| !pods_by_term.contains_key(term))
    }

    /// Whether a term of `spec` goes with its last pod.
    #[must_use]
    pub fn is_last(&self, spec: &PodSpec) -> bool {
        let pods_by_term = self.pods_by_term.lock();
        terms_of(spec).iter().any(|term| pods_by_term.get(term) == Some(&1))
    }

    /// Counts a pod that came. O(its terms), and O(all terms) when one of them is new.
    pub fn add(&self, spec: &PodSpec) {
        let mut pods_by_term = self.pods_by_term.lock();
        let before = pods_by_term.len();
        for term in terms_of(spec) {
            match pods_by_term.get_mut(term) {
                Some(pods) => *pods += 1,
                None => {
                    pods_by_term.insert(Arc::new(term.clone()), 1);
                }
            }
        }
        if pods_by_term.len() != before {
            self.share(&pods_by_term);
        }
    }

    /// Counts a pod that went. O(its terms), and O(all terms) when one of them goes.
    pub fn remove(&self, spec: &PodSpec) {
        let mut pods_by_term = self.pods_by_term.lock();
        let before = pods_by_term.len();
        for term in terms_of(spec) {
            if let Some(pods) = pods_by_term.get_mut(term) {
                *pods -= 1;
                if *pods == 0 {
                    pods_by_term.remove(term);
                }
            }
        }
        if pods_by_term.len() != before {
            self.share(&pods_by_term);
        }
    }

    /// Renews what readers see.
    fn share(&self, pods_by_term: &FxHashMap<Arc<PodAffinityTerm>, usize>) {
        self.terms
            .store(Arc::new(pods_by_term.keys().map(Arc::clone).collect()));
    }

    /// Whether a rule is about pods like `pod`. O(terms); the same for all pods of a class while the commit lock's epoch
    /// stands still.
    #[must_use]
    pub fn concern(&self, pod: &PodInfo, namespaces: &Namespaces) -> bool {
        let terms = self.terms.load();
        if terms.is_empty() {
            return false;
        }
        let labels = namespaces.labels(pod.namespace);
        let mut terms = terms.iter();
        terms.any(|term| term.matches(pod.namespace, &pod.labels, labels.as_deref()))
    }
}

fn terms_of(spec: &PodSpec) -> &[PodAffinityTerm] {
    let affinity = spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.required_anti_affinity)
}

/// Whether a pod of `spec` has rules that bind others.
#[must_use]
pub(super) fn binds_others(spec: &PodSpec) -> bool {
    !terms_of(spec).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn a_rule_lives_from_its_first_pod_to_its_last() {
        let (rules, namespaces) = (Rules::default(), Namespaces::default());
        let apart = pod("a")
            .label("app", "a")
            .anti_affinity("zone", &[("app", "a")])
            .build();
        let (met, other) = (pod("b").label("app", "a").build(), pod("c").label("app", "b").build());
        assert!(rules.is_new(&apart.spec) && !rules.is_new(&met.spec));
        rules.add(&apart.spec);
        rules.add(&apart.spec);
        assert!(!rules.is_new(&apart.spec) && !rules.is_last(&apart.spec));
        assert!(rules.concern(&met, &namespaces) && !rules.concern(&other, &namespaces));
        rules.remove(&apart.spec);
        assert!(rules.is_last(&apart.spec) && rules.concern(&met, &namespaces));
        rules.remove(&apart.spec);
        assert!(!rules.concern(&met, &namespaces));
    }
}
