//! Which kinds are watched, and the road from the watch tasks to the applying thread.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Scheduler;
use super::ingest::Message;
use super::kept::{Kept, KeptDelivery};
use crate::cluster::watch::{
    DecodedPod, Delivery, Object, OwnerObject, ReplicaSets, ReplicationControllers, StatefulSets, WatchParts,
    WatchStatus, Watched, WithText, watch,
};
use crate::cluster::{
    Budget, CsiDriver, CsiNode, CsiStorageCapacity, NamespaceLabels, NodeSpec, PersistentVolume, PersistentVolumeClaim,
    ServiceSelector, StorageClass, VolumeAttachment,
};

/// Deliveries on their way: at 2 KB each, 32 MB; more only makes the watches wait.
const ROAD_LENGTH: usize = 16_384;

/// Pods that have ended use nothing and are not looked at.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Starts the watch of one kind.
type Start = fn(&Scheduler, &Arc<WatchStatus>, mpsc::Sender<Message>);

/// The kinds that are kept as they come, each with how its watch is started.
pub(super) fn kept_kinds() -> Vec<(Arc<WatchStatus>, Start)> {
    fn kind<T: Kept>() -> (Arc<WatchStatus>, Start) {
        (WatchStatus::new(T::SERVED.kind), Scheduler::watch_kept::<T>)
    }
    vec![
        kind::<Budget>(),
        kind::<NamespaceLabels>(),
        kind::<ServiceSelector>(),
        kind::<OwnerObject<ReplicationControllers>>(),
        kind::<OwnerObject<ReplicaSets>>(),
        kind::<OwnerObject<StatefulSets>>(),
        kind::<PersistentVolume>(),
        kind::<PersistentVolumeClaim>(),
        kind::<StorageClass>(),
        kind::<CsiNode>(),
        kind::<CsiDriver>(),
        kind::<CsiStorageCapacity>(),
        kind::<VolumeAttachment>(),
    ]
}

impl Scheduler {
    /// Starts all watches; what they deliver arrives at the receiver, in order within a kind.
    pub(super) fn watch_all(&self) -> mpsc::Receiver<Message> {
        let (sender, receiver) = mpsc::channel(ROAD_LENGTH);
        let extenders = &self.parts.extending.extenders;
        let pods = &self.statuses.pods;
        if extenders.is_empty() {
            self.watch_kind(Some(LIVE_PODS), pods, sender.clone(), Message::Pod);
        } else {
            let wrap = |delivery: Delivery<WithText<DecodedPod>>| Message::Pod(delivery.apart());
            self.watch_kind(Some(LIVE_PODS), pods, sender.clone(), wrap);
        }
        if extenders.want_nodes() {
            let wrap = |delivery: Delivery<WithText<NodeSpec>>| Message::Node(delivery.apart());
            self.watch_kind(None, &self.statuses.nodes, sender.clone(), wrap);
        } else {
            self.watch_kind(None, &self.statuses.nodes, sender.clone(), Message::Node);
        }
        for (status, (_, start)) in self.statuses.kept.iter().zip(kept_kinds()) {
            start(self, status, sender.clone());
        }
        receiver
    }

    fn watch_kept<T: Kept>(&self, status: &Arc<WatchStatus>, sender: mpsc::Sender<Message>) {
        let of = Arc::clone(status);
        let wrap = move |delivery| {
            Message::Kept(Box::new(KeptDelivery::<T> {
                delivery,
                status: Arc::clone(&of),
            }))
        };
        self.watch_kind(None, status, sender, wrap);
    }

    fn watch_kind<T>(
        &self,
        field_selector: Option<&'static str>,
        status: &Arc<WatchStatus>,
        sender: mpsc::Sender<Message>,
        wrap: impl Fn(Delivery<T>) -> Message + Send + 'static,
    ) where
        T: Watched + Clone + std::fmt::Debug,
        Object<T>: kube::Resource<DynamicType = ()>,
    {
        let parts = WatchParts {
            client: self.clients.watch.clone(),
            field_selector,
            status: Arc::clone(status),
            metrics: Arc::clone(&self.parts.metrics),
            clock: self.parts.clock.clone(),
            alarm: self.alarm.clone(),
        };
        let stopping = self.stopping.clone();
        self.tasks
            .spawn(async move { stopping.run_until_cancelled(watch(parts, sender, wrap)).await });
    }
}
