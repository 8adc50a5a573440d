//! Live rules and visible labels: what changes them stops all commits for a moment.

use std::sync::Arc;

use super::Cluster;
use crate::cluster::{Classified, PeerTarget, PodInfo, PodSpec, rules};
use crate::ids::{PodUid, Symbol};
use crate::ledger::Charge;

impl Cluster {
    /// Makes classes carry the values of these label keys; pods are classified again if one of them is new.
    pub fn show_labels(&self, keys: &[Symbol]) {
        if self.classes.shows(keys) {
            return;
        }
        let alone = self.commit.write();
        self.classes.show(keys);
        let uids: Vec<PodUid> = self.pods.iter().map(|pod| pod.uid).collect();
        for pod in uids.into_iter().filter_map(|uid| self.pod(uid)) {
            let renewed = self.current(&pod);
            if renewed.class != pod.class {
                self.ledger.recharge_placed(&renewed.charge);
                self.pods.insert(renewed.uid, renewed);
            }
        }
        alone.advance_epoch();
    }

    /// The pod with the class that it has by the labels that are visible now.
    #[must_use]
    pub fn current(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        let epoch = self.classes.epoch();
        if pod.class_epoch == epoch {
            return Arc::clone(pod);
        }
        let class = self.classes.class_of(
            &pod.spec,
            Classified {
                namespace: pod.namespace,
                labels: &pod.labels,
                terminating: pod.terminating,
            },
        );
        let charge = Charge {
            class,
            ..Charge::clone(&pod.charge)
        };
        Arc::new(PodInfo {
            class,
            class_epoch: epoch,
            charge: Arc::new(charge),
            ..PodInfo::clone(pod)
        })
    }

    /// Makes the label keys visible that terms and constraints of `spec` look at.
    pub(super) fn show_labels_of(&self, spec: &PodSpec) {
        if spec.affinity.is_none() && spec.spread.is_empty() && spec.network.is_none() {
            return;
        }
        let mut keys = Vec::new();
        for term in spec.affinity.iter().flat_map(|affinity| affinity.terms()) {
            keys.extend(term.selector.keys());
        }
        for constraint in &spec.spread {
            keys.extend(constraint.selector.keys());
            keys.extend(&constraint.match_label_keys);
        }
        for peer in spec.network.iter().flat_map(|network| &network.peers) {
            if let PeerTarget::Pods { selector, .. } = &peer.target {
                keys.extend(selector.keys());
            }
        }
        self.show_labels(&keys);
    }

    /// Whether the rules of a pod bind others: it is on a node, or ours to place.
    pub(super) fn has_live_rules(&self, pod: &PodInfo) -> bool {
        rules::binds_others(&pod.spec) && (pod.bound_to.is_some() || self.is_ours(pod))
    }

    /// Notes that a pod with rules came, before anybody can see the pod.
    pub(super) fn add_rules(&self, spec: &PodSpec) {
        let alone = self.rules.is_new(spec).then(|| self.commit.write());
        self.rules.add(spec);
        if let Some(alone) = alone {
            alone.advance_epoch();
        }
    }

    /// Notes that a pod with rules went.
    pub(super) fn remove_rules(&self, spec: &PodSpec) {
        let alone = self.rules.is_last(spec).then(|| self.commit.write());
        self.rules.remove(spec);
        if let Some(alone) = alone {
            alone.advance_epoch();
        }
    }
}
