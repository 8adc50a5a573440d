//! Which kinds are watched, and the road from the watch tasks to the applying thread.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Scheduler;
use super::ingest::Message;
use crate::cluster::watch::{Delivery, WatchParts, WatchStatus, Watched, watch};

/// Deliveries on their way: at 2 KB each, 32 MB; more only makes the watches wait.
const ROAD_LENGTH: usize = 16_384;

/// Pods that have ended use nothing and are not looked at.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

impl Scheduler {
    /// Starts all watches; what they deliver arrives at the receiver, in order within a kind.
    pub(super) fn watch_all(&self) -> mpsc::Receiver<Message> {
        let (sender, receiver) = mpsc::channel(ROAD_LENGTH);
        self.watch_kind(Some(LIVE_PODS), &self.statuses.pods, sender.clone(), Message::Pod);
        self.watch_kind(None, &self.statuses.nodes, sender.clone(), Message::Node);
        self.watch_kind(None, &self.statuses.budgets, sender, Message::Budget);
        receiver
    }

    fn watch_kind<T>(
        &self,
        field_selector: Option<&'static str>,
        status: &Arc<WatchStatus>,
        sender: mpsc::Sender<Message>,
        wrap: fn(Delivery<T>) -> Message,
    ) where
        T: Watched + Clone + std::fmt::Debug,
        crate::cluster::watch::Object<T>: kube::Resource<DynamicType = ()>,
    {
        let parts = WatchParts {
            client: self.clients.watch.clone(),
            field_selector,
            status: Arc::clone(status),
            metrics: Arc::clone(&self.parts.metrics),
            clock: self.parts.clock.clone(),
        };
        let stopping = self.stopping.clone();
        self.tasks
            .spawn(async move { stopping.run_until_cancelled(watch(parts, sender, wrap)).await });
    }
}
