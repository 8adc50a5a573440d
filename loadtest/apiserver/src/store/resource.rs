//! One resource's objects and the bounded history of their changes.
//!
//! Threads: any thread may call anything. One lock a resource; a write holds it for a map operation and one copy of the
//! object. The resource version is taken under that lock, so that history order is version order and a list's version
//! covers every change of this resource up to it.
//!
//! Does not: check rules; it stores what it is given.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::watch;

use super::kinds::Kind;
use super::object::{Draft, Event, EventKind, Object};

/// Bounds of a resource's history.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// Most events kept.
    pub events: usize,
    /// Most bytes of object versions that the kept events hold (counted once an event).
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// 100,000 events (ten seconds of 10,000 binds) and 256 MiB, whichever is reached first.
    fn default() -> Self {
        Self {
            events: 100_000,
            bytes: 256 << 20,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) objects: BTreeMap<Arc<str>, Arc<Object>>,
    pub(super) ring: VecDeque<Event>,
    /// Sequence number of `ring[0]`; the next event gets `first_seq + ring.len()`.
    pub(super) first_seq: u64,
    /// A watch may start at this resource version or later.
    pub(super) oldest_rv: u64,
    ring_bytes: usize,
}

/// A resource: its kind, objects, history and wake-up channel.
#[derive(Debug)]
pub struct Resource {
    /// What is stored here.
    pub kind: Kind,
    pub(super) state: RwLock<State>,
    changes: watch::Sender<u64>,
    version: Arc<AtomicU64>,
    limits: HistoryLimits,
    /// Set by a fault: the resource is absent from discovery and answers 404.
    pub(crate) hidden: AtomicBool,
    /// Every watch that started before this count grew must end (dropped watches, removed kinds).
    pub(crate) drop_epoch: AtomicU64,
}

impl Resource {
    pub(super) fn new(kind: Kind, version: Arc<AtomicU64>, limits: HistoryLimits) -> Self {
        let oldest_rv = version.load(Ordering::Acquire);
        let state = State {
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            first_seq: 0,
            oldest_rv,
            ring_bytes: 0,
        };
        Self {
            kind,
            state: RwLock::new(state),
            changes: watch::Sender::new(0),
            version,
            limits,
            hidden: AtomicBool::new(false),
            drop_epoch: AtomicU64::new(0),
        }
    }

    /// The stored version of `key` (`namespace/name`).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.state.read().objects.get(key).cloned()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects in key order, with the resource version that covers them.
    #[must_use]
    pub fn snapshot(&self) -> (Vec<Arc<Object>>, u64) {
        let state = self.state.read();
        (state.objects.values().cloned().collect(), self.current_rv())
    }

    /// Woken with each change's sequence number.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Wakes every watcher without a change, so that it looks at faults and limits again.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|_| {});
    }

    /// The newest resource version; call it under the state lock where it must cover this resource.
    pub(super) fn current_rv(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn next_rv(&self) -> u64 {
        self.version.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Stores a new object; `None` when the key is taken.
    pub(super) fn insert(&self, namespace: &str, name: &str, draft: &Draft) -> Option<Arc<Object>> {
        let key: Arc<str> = key_of(namespace, name).into();
        let mut state = self.state.write();
        if state.objects.contains_key(&key) {
            return None;
        }
        let object = Arc::new(draft.finish(Arc::clone(&key), namespace.len(), EventKind::Added, self.next_rv()));
        state.objects.insert(key, Arc::clone(&object));
        let event = Event {
            kind: EventKind::Added,
            object: Arc::clone(&object),
            previous: None,
        };
        self.push(&mut state, event);
        Some(object)
    }

    /// Replaces exactly `expected`; `None` when another version is stored by now.
    pub(super) fn replace(&self, expected: &Arc<Object>, draft: &Draft) -> Option<Arc<Object>> {
        let mut state = self.state.write();
        let slot = state.objects.get_mut(expected.key())?;
        if !Arc::ptr_eq(slot, expected) {
            return None;
        }
        let key = expected.shared_key();
        let object = Arc::new(draft.finish(key, expected.namespace_len(), EventKind::Modified, self.next_rv()));
        let previous = Some(std::mem::replace(slot, Arc::clone(&object)));
        self.push(
            &mut state,
            Event {
                kind: EventKind::Modified,
                object: Arc::clone(&object),
                previous,
            },
        );
        Some(object)
    }

    /// Removes exactly `expected`, whose last state is `draft`; `None` when another version is stored by now.
    pub(super) fn remove(&self, expected: &Arc<Object>, draft: &Draft) -> Option<Arc<Object>> {
        let mut state = self.state.write();
        if !state
            .objects
            .get(expected.key())
            .is_some_and(|stored| Arc::ptr_eq(stored, expected))
        {
            return None;
        }
        let previous = state.objects.remove(expected.key());
        let key = expected.shared_key();
        let object = Arc::new(draft.finish(key, expected.namespace_len(), EventKind::Deleted, self.next_rv()));
        self.push(
            &mut state,
            Event {
                kind: EventKind::Deleted,
                object: Arc::clone(&object),
                previous,
            },
        );
        Some(object)
    }

    fn push(&self, state: &mut State, event: Event) {
        state.ring_bytes += event.object.size();
        state.ring.push_back(event);
        while state.ring.len() > self.limits.events || state.ring_bytes > self.limits.bytes {
            self.trim_one(state);
        }
        let seq = state.first_seq + state.ring.len() as u64;
        self.changes.send_replace(seq);
    }

    fn trim_one(&self, state: &mut State) {
        let Some(event) = state.ring.pop_front() else { return };
        state.first_seq += 1;
        state.ring_bytes = state.ring_bytes.saturating_sub(event.object.size());
        state.oldest_rv = event.object.rv;
    }

    /// Forgets the whole history, as a compaction does: older versions answer 410 from now on.
    pub fn compact(&self) {
        let mut state = self.state.write();
        while !state.ring.is_empty() {
            self.trim_one(&mut state);
        }
        state.oldest_rv = self.current_rv();
    }

    /// Ends every open watch of this resource.
    pub fn drop_watches(&self) {
        self.drop_epoch.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Whether a fault hides the resource.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.hidden.load(Ordering::Acquire)
    }
}

/// The key of an object: `namespace/name`, `/name` without a namespace.
#[must_use]
pub fn key_of(namespace: &str, name: &str) -> String {
    let mut key = String::with_capacity(namespace.len() + name.len() + 1);
    key.push_str(namespace);
    key.push('/');
    key.push_str(name);
    key
}
