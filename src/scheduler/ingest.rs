//! Applies what the watches deliver: to the store of objects, and from there to the queue and the binding pool.
//!
//! Threads: one, so that the events of a pod are applied in order. Cost: a few microseconds an event.
//!
//! Does not: decode (the watch tasks do) or decide.

use std::sync::Arc;

use kube::Resource;
use rustc_hash::{FxHashMap, FxHashSet};

use super::handling::Handling;
use super::kept::{Apply, ObjectKey};
use crate::binding::BindingPool;
use crate::cluster::watch::{DecodedPod, Delivery, Object, WatchStatus};
use crate::cluster::{Cluster, NodeChange, NodeSpec, PodChange, PodInfo};
use crate::extender::Extenders;
use crate::framework::{ActionType, ClusterEvent, EventObject, EventResource};
use crate::ids::{PodUid, Symbol};
use crate::queue::{SchedulingQueue, node_changes, pod_changes};
use crate::telemetry::Metrics;

/// One delivery of any kind.
#[derive(Debug)]
pub(super) enum Message {
    /// Of pods.
    Pod(Delivery<DecodedPod>),
    /// Of nodes.
    Node(Delivery<NodeSpec>),
    /// Of a kind that is kept as it comes.
    Kept(Box<dyn Apply>),
}

/// Watch statuses by kind, set once the first list of a kind is applied.
#[derive(Debug)]
pub(super) struct Statuses {
    pub(super) pods: Arc<WatchStatus>,
    pub(super) nodes: Arc<WatchStatus>,
    /// Of kinds that are kept as they come.
    pub(super) kept: Vec<Arc<WatchStatus>>,
}

impl Statuses {
    pub(super) fn all(&self) -> impl Iterator<Item = &WatchStatus> {
        [&self.pods, &self.nodes]
            .into_iter()
            .chain(&self.kept)
            .map(|status| &**status)
    }
}

/// Who applies deliveries.
pub(super) struct Ingest {
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) binding: Arc<BindingPool>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) statuses: Arc<Statuses>,
    pub(super) extenders: Arc<Extenders>,
    pub(super) handling: Handling,
    pub(super) listed_pods: FxHashSet<PodUid>,
    pub(super) listed_nodes: FxHashSet<Symbol>,
    /// Objects of kept kinds that a list under way has named, by kind.
    pub(super) listed: FxHashMap<&'static str, FxHashSet<ObjectKey>>,
}

const fn event(resource: EventResource, action: ActionType) -> ClusterEvent {
    ClusterEvent::new(resource, action)
}

impl Ingest {
    /// Applies one delivery.
    pub(super) fn apply(&mut self, message: Message) {
        match message {
            Message::Pod(delivery) => self.apply_pod(delivery),
            Message::Node(delivery) => self.apply_node(delivery),
            Message::Kept(delivery) => delivery.apply(self),
        }
    }

    fn apply_pod(&mut self, delivery: Delivery<DecodedPod>) {
        match delivery {
            Delivery::Restarted => self.listed_pods.clear(),
            Delivery::Listed(object) => {
                self.listed_pods.extend(uid(&object));
                self.take_pod(object);
            }
            Delivery::Applied(object) => self.take_pod(object),
            Delivery::Deleted(object) => {
                if let Some(change) = uid(&object).and_then(|uid| self.cluster.remove_pod(uid)) {
                    self.tell_pod(change);
                }
            }
            Delivery::Complete => {
                for change in self.cluster.retain_pods(&self.listed_pods) {
                    self.tell_pod(change);
                }
                self.listed_pods = FxHashSet::default();
                self.statuses.pods.set_synced();
            }
        }
    }

    fn take_pod(&mut self, object: Object<DecodedPod>) {
        let text = object.text().map(Arc::clone);
        match object.into_decoded() {
            Ok(pod) => {
                let mut pod = pod.classify(&self.cluster.classes);
                pod.text = text.filter(|text| self.extenders.want_pod(&pod, text));
                for change in self.cluster.apply_pod(pod) {
                    self.tell_pod(change);
                }
            }
            Err(error) => self.skip("Pod", &*error),
        }
    }

    fn tell_pod(&mut self, change: PodChange) {
        self.handling.pod(&change);
        match change {
            PodChange::Pending {
                old: None,
                new,
                assumed: false,
            } => {
                self.queue.add(&new);
            }
            PodChange::Pending {
                old: Some(old),
                new,
                assumed: false,
            } => self.queue.update(Some(&old), &new),
            PodChange::Pending {
                old,
                new,
                assumed: true,
            } => {
                self.queue.update_if_known(old.as_ref(), &new);
                if new.terminating {
                    self.binding.pod_removed(&new);
                }
            }
            PodChange::Assigned { old: None, new } => {
                self.queue.assigned(new.uid);
                self.tell(event(EventResource::AssignedPod, ActionType::ADD), None, Some(new));
            }
            PodChange::Assigned { old: Some(old), new } => {
                for change in pod_changes(&old, &new, EventResource::AssignedPod) {
                    self.tell(change, Some(Arc::clone(&old)), Some(Arc::clone(&new)));
                }
            }
            PodChange::Removed { pod, freed, claimed } => {
                self.queue.delete(pod.uid);
                self.binding.pod_removed(&pod);
                if claimed {
                    self.queue.claim_ended(&pod);
                }
                if freed {
                    self.tell(event(EventResource::AssignedPod, ActionType::DELETE), Some(pod), None);
                }
            }
        }
    }

    fn tell(&self, event: ClusterEvent, old: Option<Arc<PodInfo>>, new: Option<Arc<PodInfo>>) {
        self.queue.on_event(event, &EventObject::Pod { old, new }, None);
    }

    fn apply_node(&mut self, delivery: Delivery<NodeSpec>) {
        match delivery {
            Delivery::Restarted => self.listed_nodes.clear(),
            Delivery::Listed(object) => {
                self.listed_nodes.extend(name(&object));
                self.take_node(object);
            }
            Delivery::Applied(object) => self.take_node(object),
            Delivery::Deleted(object) => {
                if let Some(change) = name(&object).and_then(|name| self.cluster.remove_node(name)) {
                    self.tell_node(change);
                }
            }
            Delivery::Complete => {
                for change in self.cluster.retain_nodes(&self.listed_nodes) {
                    self.tell_node(change);
                }
                self.listed_nodes = FxHashSet::default();
                self.statuses.nodes.set_synced();
            }
        }
    }

    fn take_node(&mut self, object: Object<NodeSpec>) {
        let text = object.text().map(Arc::clone);
        match object.into_decoded() {
            Ok(node) => {
                let name = node.name;
                let changes = self.cluster.apply_node(node);
                if let (Some(name), Some(text)) = (name, text) {
                    self.cluster.keep_node_text(name, text);
                }
                for change in changes {
                    self.tell_node(change);
                }
            }
            Err(error) => self.skip("Node", &*error),
        }
    }

    fn tell_node(&mut self, change: NodeChange) {
        self.handling.node(&change);
        match change {
            NodeChange::Added(new) => {
                let object = EventObject::Node {
                    old: None,
                    new: Some(new),
                };
                self.queue
                    .on_event(event(EventResource::Node, ActionType::ADD), &object, None);
            }
            NodeChange::Updated { old, new } => {
                let changes = node_changes(&old, &new);
                let object = EventObject::Node {
                    old: Some(old),
                    new: Some(new),
                };
                for change in changes {
                    self.queue.on_event(change, &object, None);
                }
            }
            NodeChange::Removed(old) => {
                let object = EventObject::Node {
                    old: Some(old),
                    new: None,
                };
                self.queue
                    .on_event(event(EventResource::Node, ActionType::DELETE), &object, None);
            }
        }
    }

    pub(super) fn skip(&self, kind: &'static str, error: &dyn std::error::Error) {
        self.metrics.object_malformed(kind);
        tracing::warn!(kind, error = %error, "an object cannot be read and is skipped");
    }
}

fn uid(object: &Object<DecodedPod>) -> Option<PodUid> {
    object.meta().uid.as_deref().map(PodUid::parse)
}

fn name(object: &Object<NodeSpec>) -> Option<Symbol> {
    object.meta().name.as_deref().map(Symbol::new)
}
