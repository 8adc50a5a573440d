//! Watches: a cursor into a resource's history that filters by namespace and selectors.
//!
//! A watcher keeps no queue: it reads the shared history from its own position, so a slow one costs nothing and is told
//! 410 when the history has left it behind.
//!
//! Does not: serialise; the server's body and in-process readers use the same batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::watch;

use super::object::{Event, EventKind, Object};
use super::resource::Resource;
use super::selector::Selectors;
use crate::error::ApiError;

/// Events in one batch at most: 512 objects of 2 KB are one 1 MiB write.
const BATCH: usize = 512;

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With an `ADDED` event for everything that exists, then changes.
    Existing,
    /// As `Existing`, and a bookmark marks the end of the initial events (`sendInitialEvents=true`).
    ExistingThenBookmark,
    /// With the changes after this resource version.
    After(u64),
    /// With the changes from now on.
    Now,
}

/// One event as one watcher sees it.
#[derive(Debug, Clone)]
pub struct WatchItem {
    /// What happened, seen through the watcher's selectors.
    pub kind: EventKind,
    /// The object; for a `DELETED` the last state that the watcher could see.
    pub object: Arc<Object>,
    /// Resource version of the change.
    pub rv: u64,
}

impl WatchItem {
    /// The watch line: the stored buffer where type and version are those it was stored with.
    #[must_use]
    pub fn line(&self) -> Bytes {
        let as_stored = self.object.stored_kind() == self.kind && self.object.rv == self.rv;
        if as_stored {
            self.object.line()
        } else {
            self.object.line_as(self.kind, self.rv)
        }
    }
}

/// What a watcher has to say next.
#[derive(Debug)]
pub enum WatchBatch {
    /// Events, oldest first.
    Events(Vec<WatchItem>),
    /// The initial events are complete at this version.
    InitialEventsEnd(u64),
}

/// A reader of a resource's changes.
#[derive(Debug)]
pub struct Watcher {
    resource: Arc<Resource>,
    namespace: Option<String>,
    selectors: Selectors,
    changes: watch::Receiver<u64>,
    initial: VecDeque<Arc<Object>>,
    initial_end: Option<u64>,
    next_seq: u64,
    seen_rv: u64,
    drop_epoch: u64,
}

impl Watcher {
    /// Opens a watch.
    ///
    /// # Errors
    /// 410 when the history no longer reaches the start.
    pub fn open(
        resource: &Arc<Resource>,
        namespace: Option<String>,
        selectors: Selectors,
        start: WatchStart,
    ) -> Result<Self, ApiError> {
        let mut changes = resource.subscribe();
        changes.mark_changed();
        let drop_epoch = resource.drop_epoch.load(Ordering::Acquire);
        let state = resource.state.read();
        let end_seq = state.first_seq + state.ring.len() as u64;
        let current = resource.current_rv();
        let mut watcher = Self {
            resource: Arc::clone(resource),
            namespace,
            selectors,
            changes,
            initial: VecDeque::new(),
            initial_end: None,
            next_seq: end_seq,
            seen_rv: current,
            drop_epoch,
        };
        match start {
            WatchStart::Now => {}
            WatchStart::Existing | WatchStart::ExistingThenBookmark => {
                watcher.initial = state
                    .objects
                    .values()
                    .filter(|object| watcher.sees(object))
                    .cloned()
                    .collect();
                watcher.initial_end = (start == WatchStart::ExistingThenBookmark).then_some(current);
            }
            WatchStart::After(rv) if rv < state.oldest_rv => {
                return Err(ApiError::expired(format!(
                    "too old resource version: {rv} ({})",
                    state.oldest_rv
                )));
            }
            WatchStart::After(rv) => {
                let skip = state.ring.partition_point(|event| event.object.rv <= rv);
                watcher.next_seq = state.first_seq + skip as u64;
                watcher.seen_rv = rv;
            }
        }
        drop(state);
        Ok(watcher)
    }

    /// The resource that is watched.
    #[must_use]
    pub const fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// The newest version whose changes have all been returned.
    #[must_use]
    pub const fn seen_rv(&self) -> u64 {
        self.seen_rv
    }

    /// Waits for the next batch.
    ///
    /// # Errors
    /// 410 when the history has overtaken this watcher. `Ok(None)` means that the server ended the watch.
    ///
    /// # Cancel safety
    /// Yes: a batch is taken only when it is returned.
    pub async fn next(&mut self) -> Result<Option<WatchBatch>, ApiError> {
        loop {
            self.changes.borrow_and_update();
            match self.poll()? {
                Poll::Ready(batch) => return Ok(Some(batch)),
                Poll::Ended => return Ok(None),
                Poll::Idle => {}
            }
            if self.changes.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// What is there now, without waiting.
    ///
    /// # Errors
    /// 410 when the history has overtaken this watcher.
    pub fn poll(&mut self) -> Result<Poll, ApiError> {
        if self.resource.drop_epoch.load(Ordering::Acquire) != self.drop_epoch {
            return Ok(Poll::Ended);
        }
        if !self.initial.is_empty() {
            let count = self.initial.len().min(BATCH);
            let items = self.initial.drain(..count).map(|object| WatchItem {
                kind: EventKind::Added,
                rv: object.rv,
                object,
            });
            return Ok(Poll::Ready(WatchBatch::Events(items.collect())));
        }
        if let Some(rv) = self.initial_end.take() {
            return Ok(Poll::Ready(WatchBatch::InitialEventsEnd(rv)));
        }
        loop {
            let events = self.take()?;
            if events.is_empty() {
                return Ok(Poll::Idle);
            }
            let items: Vec<WatchItem> = events.iter().filter_map(|event| self.view(event)).collect();
            if !items.is_empty() {
                return Ok(Poll::Ready(WatchBatch::Events(items)));
            }
        }
    }

    /// The next events of the history; an empty answer also moves `seen_rv` to the newest version.
    fn take(&mut self) -> Result<Vec<Event>, ApiError> {
        let state = self.resource.state.read();
        if self.next_seq < state.first_seq {
            return Err(ApiError::expired(format!(
                "too old resource version: {} ({})",
                self.seen_rv, state.oldest_rv
            )));
        }
        let skip = usize::try_from(self.next_seq - state.first_seq).unwrap_or(usize::MAX);
        let events: Vec<Event> = state.ring.iter().skip(skip).take(BATCH).cloned().collect();
        self.next_seq += events.len() as u64;
        let newest = self.resource.current_rv();
        self.seen_rv = events
            .last()
            .map_or_else(|| newest.max(self.seen_rv), |event| event.object.rv);
        Ok(events)
    }

    fn sees(&self, object: &Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| object.namespace() == namespace)
            && self.selectors.matches(object)
    }

    /// An object that enters or leaves the selection is shown as added or deleted.
    fn view(&self, event: &Event) -> Option<WatchItem> {
        let rv = event.object.rv;
        if self.selectors.is_empty() {
            let visible = self
                .namespace
                .as_deref()
                .is_none_or(|namespace| event.object.namespace() == namespace);
            return visible.then(|| WatchItem {
                kind: event.kind,
                object: Arc::clone(&event.object),
                rv,
            });
        }
        let now = event.kind != EventKind::Deleted && self.sees(&event.object);
        let before = event.previous.as_ref().filter(|previous| self.sees(previous));
        let item = |kind, object: &Arc<Object>| {
            Some(WatchItem {
                kind,
                object: Arc::clone(object),
                rv,
            })
        };
        match (before, now) {
            (None, false) => None,
            (None, true) => item(EventKind::Added, &event.object),
            (Some(_), true) => item(EventKind::Modified, &event.object),
            (Some(_), false) if event.kind == EventKind::Deleted => item(EventKind::Deleted, &event.object),
            (Some(previous), false) => item(EventKind::Deleted, previous),
        }
    }
}

/// The answer of [`Watcher::poll`].
#[derive(Debug)]
pub enum Poll {
    /// A batch.
    Ready(WatchBatch),
    /// Nothing now.
    Idle,
    /// The watch was ended by the server.
    Ended,
}
