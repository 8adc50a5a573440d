//! Whose volumes are in use on a node, and texts that the volume plugins share.
//!
//! Which classes have pods on a node stands in the node's use, trials of preemption and nominated pods included. Two
//! things do not: what a class is when none of its pods is on any node yet (only a nominated pod is thought to be
//! there), and the names of single pods, after which the claims of their ephemeral volumes are called. For these,
//! [`TrialPods`] remembers who is thought to have come or gone.
//!
//! Does not: look claims up.

use std::sync::Arc;

use crate::cluster::{ClusterView, NodeInfo, PodInfo, PodSpec, PodVolume};
use crate::framework::Status;
use crate::ids::{ClassId, NodeIdx, PodUid, Symbol};

/// Who uses volumes: a pod, or all pods of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) namespace: Symbol,
    pub(super) spec: &'a PodSpec,
    /// Name and UID; absent for a class.
    pub(super) pod: Option<(&'a str, PodUid)>,
}

impl<'a> Owner<'a> {
    pub(super) fn of(pod: &'a PodInfo) -> Self {
        Self {
            namespace: pod.namespace,
            spec: &pod.spec,
            pod: Some((&pod.name, pod.uid)),
        }
    }
}

/// A pod with volumes that is thought to be on a node.
#[derive(Clone, Debug)]
pub(super) struct TrialPod {
    node: NodeIdx,
    class: ClassId,
    uid: PodUid,
    namespace: Symbol,
    name: Box<str>,
    spec: Arc<PodSpec>,
}

impl TrialPod {
    fn new(pod: &PodInfo, node: NodeIdx) -> Self {
        Self {
            node,
            class: pod.class,
            uid: pod.uid,
            namespace: pod.namespace,
            name: pod.name.clone(),
            spec: Arc::clone(&pod.spec),
        }
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        Owner {
            namespace: self.namespace,
            spec: &self.spec,
            pod: Some((&self.name, self.uid)),
        }
    }
}

/// Pods with volumes that a trial adds to nodes or takes from them.
#[derive(Clone, Debug, Default)]
pub(super) struct TrialPods {
    came: Vec<TrialPod>,
    gone: Vec<PodUid>,
}

impl TrialPods {
    /// As if `pod` were on `node`.
    pub(super) fn add(&mut self, pod: &PodInfo, node: &NodeInfo) {
        if pod.spec.volumes.is_empty() {
            return;
        }
        match self.gone.iter().position(|uid| *uid == pod.uid) {
            Some(at) => {
                self.gone.swap_remove(at);
            }
            None => self.came.push(TrialPod::new(pod, node.idx)),
        }
    }

    /// As if `pod` had left `node`.
    pub(super) fn remove(&mut self, pod: &PodInfo, node: &NodeInfo) {
        if pod.spec.volumes.is_empty() {
            return;
        }
        let came = |other: &TrialPod| other.node == node.idx && other.uid == pod.uid;
        match self.came.iter().position(came) {
            Some(at) => {
                self.came.swap_remove(at);
            }
            None => self.gone.push(pod.uid),
        }
    }

    /// Every class with volumes that has pods on the node.
    pub(super) fn classes<'a>(
        &'a self,
        cluster: &'a ClusterView<'_>,
        node: &'a NodeInfo,
    ) -> impl Iterator<Item = Owner<'a>> {
        let known = |class: ClassId| {
            let placed = cluster.placed.get(class).map(|placed| &placed.class);
            let owner = placed.map(|class| Owner {
                namespace: class.namespace,
                spec: &class.spec,
                pod: None,
            });
            let came = || self.came.iter().find(|pod| pod.class == class);
            owner.or_else(|| {
                came().map(|pod| Owner {
                    pod: None,
                    ..pod.owner()
                })
            })
        };
        let classes = node.used.classes.iter().filter_map(move |(class, _)| known(*class));
        classes.filter(|owner| !owner.spec.volumes.is_empty())
    }

    /// The pods on the node that have ephemeral volumes. Copies the node's pods; to be asked only where a class on the
    /// node has such volumes.
    pub(super) fn pods_with_ephemeral(&self, cluster: &ClusterView<'_>, node: &NodeInfo) -> Vec<TrialPod> {
        let there = cluster.pods.on_node(node.idx).into_iter();
        let there = there.filter(|pod| has_ephemeral(&pod.spec) && !self.gone.contains(&pod.uid));
        let mut pods: Vec<TrialPod> = there.map(|pod| TrialPod::new(&pod, node.idx)).collect();
        let came = self.came.iter();
        let came = came.filter(|pod| pod.node == node.idx && has_ephemeral(&pod.spec));
        pods.extend(came.cloned());
        pods
    }
}

/// Whether pods of this spec have claims of their own.
pub(super) fn has_ephemeral(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(PodVolume::is_ephemeral)
}

/// Names of the claims that the pod's volumes name; those of ephemeral volumes are not among them.
pub(super) fn claims_named(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Claim(name) => Some(&**name),
        PodVolume::Ephemeral(_) | PodVolume::Inline(_) | PodVolume::Csi(_) => None,
    })
}

/// What a look-up says about an object that is not there; `kind` as the API server spells it.
pub(super) fn not_found(kind: &str, name: &str) -> String {
    format!("{kind} {name:?} not found")
}

/// The same, as an answer that evictions cannot change.
pub(super) fn missing(kind: &str, name: &str) -> Status {
    Status::unresolvable(not_found(kind, name))
}
