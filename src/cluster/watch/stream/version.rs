//! Whether a server is behind what a watch has seen of it: restored from a backup, or without memory.
//!
//! A watch from a version that the server has not reached yet does not fail: it is accepted and stays silent until the
//! server gets there (`staging/src/k8s.io/apiserver/pkg/storage/cacher`, Kubernetes 1.36). So an attempt that failed, and
//! a long silence, are followed by a small list, which is read consistently and tells the version of now.
//!
//! A quiet kind may have seen nothing that a server which went back has not reached again. So whoever finds the server
//! behind rings the [`Alarm`], and all kinds list anew.
//!
//! Does not: compare versions of different kinds, which may be kept in different stores.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio::sync::watch::{Receiver, Sender};

use super::Delivery;
use crate::cluster::watch::Object;

/// The longest that the server may take to tell its version.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long an attempt may bring nothing, after one that failed, before the server is asked.
const SOON: Duration = Duration::from_secs(1);

/// Rung when the server is found behind what some watch of it has seen. Copies are one alarm.
#[derive(Clone, Debug)]
pub struct Alarm(Sender<u64>);

impl Default for Alarm {
    fn default() -> Self {
        Self(Sender::new(0))
    }
}

impl Alarm {
    fn ring(&self) {
        self.0.send_modify(|rung| *rung += 1);
    }

    /// What tells of later rings.
    pub(super) fn listen(&self) -> Receiver<u64> {
        self.0.subscribe()
    }
}

/// The newest version that a watch has seen since its list; 0: none yet. A version that is no number says nothing.
#[derive(Debug, Default)]
pub(super) struct Newest {
    version: u64,
    is_doubtful: bool,
}

impl Newest {
    /// An attempt failed: the server that answers the next one may be behind.
    pub(super) const fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Takes note of a delivery.
    pub(super) fn note_delivery<T>(&mut self, delivery: &Delivery<T>)
    where
        Object<T>: Resource<DynamicType = ()>,
    {
        if let Delivery::Listed(object) | Delivery::Applied(object) | Delivery::Deleted(object) = delivery {
            self.note(object.meta().resource_version.as_deref());
        }
    }

    /// The next event; `None`: there are none any more, as the server is behind what was seen, here or by the watch of
    /// another kind. It is asked after each `silence`, and soon where it is in doubt.
    pub(super) async fn next_of<K>(
        &mut self,
        events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
        api: &Api<K>,
        (alarm, rung): (&Alarm, &mut Receiver<u64>),
        silence: Duration,
    ) -> Option<watcher::Result<Event<K>>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        loop {
            let patience = if self.is_doubtful { SOON.min(silence) } else { silence };
            let next = tokio::select! {
                biased;
                Ok(()) = rung.changed() => return None,
                next = tokio::time::timeout(patience, events.next()) => next,
            };
            if let Ok(next) = next {
                return next;
            }
            match self.is_ahead_of(api).await {
                Some(true) => {
                    tracing::warn!(
                        kind = %K::kind(&()),
                        seen = self.version,
                        "the API server is behind what it said before: listing everything anew"
                    );
                    alarm.ring();
                    return None;
                }
                Some(false) => self.is_doubtful = false,
                None => {}
            }
        }
    }

    /// Whether the server's version is older than what was seen; `None`: it does not tell, or not in time.
    async fn is_ahead_of<K>(&mut self, api: &Api<K>) -> Option<bool>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let params = ListParams::default().limit(1);
        let list = tokio::time::timeout(DEADLINE, api.list(&params)).await.ok()?.ok()?;
        let seen = self.version;
        let version = self.note(list.metadata.resource_version.as_deref())?;
        Some(version < seen)
    }

    fn note(&mut self, version: Option<&str>) -> Option<u64> {
        let version = version?.parse().ok()?;
        self.version = self.version.max(version);
        Some(version)
    }
}
