//! One object as the watch knows it, and what is promised of it.
//!
//! Source: `pkg/scheduler/framework/plugins/volumebinding/passive_assume_cache.go`, Kubernetes 1.36. Unlike there, a
//! promise is made of exactly the object that was looked at, so that of two workers that looked at the same object one
//! is refused.

use std::sync::Arc;

/// An object of the API server.
pub(super) trait Versioned {
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;
}

/// Why something cannot be promised.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AssumeError {
    /// The object is gone.
    #[error("{0:?} is gone")]
    Gone(String),
    /// The object changed, or was promised to somebody else, since it was looked at.
    #[error("{0:?} is out of sync")]
    Changed(String),
}

/// What the watch said last, and a promise that rests on it.
#[derive(Clone, Debug)]
pub(super) struct Slot<T> {
    seen: Arc<T>,
    assumed: Option<Arc<T>>,
}

impl<T: Versioned> Slot<T> {
    pub(super) const fn new(seen: Arc<T>) -> Self {
        Self { seen, assumed: None }
    }

    /// The promise, or else what the watch said.
    pub(super) fn current(&self) -> &Arc<T> {
        self.assumed.as_ref().unwrap_or(&self.seen)
    }

    /// What the watch said.
    pub(super) const fn seen(&self) -> &Arc<T> {
        &self.seen
    }

    /// The watch says something; newer than the promise, it takes its place. The former object is returned.
    pub(super) fn see(&mut self, seen: Arc<T>) -> Arc<T> {
        if seen.resource_version() != self.seen.resource_version() {
            self.assumed = None;
        }
        std::mem::replace(&mut self.seen, seen)
    }

    /// Promises `after` in place of `before`; false: `before` is not current any more.
    pub(super) fn assume(&mut self, before: &Arc<T>, after: &Arc<T>) -> bool {
        let is_current = Arc::ptr_eq(self.current(), before);
        if is_current {
            self.assumed = Some(Arc::clone(after));
        }
        is_current
    }

    /// Takes a promise back; false: it does not stand any more.
    pub(super) fn restore(&mut self, promise: &Arc<T>) -> bool {
        let stands = self
            .assumed
            .as_ref()
            .is_some_and(|assumed| Arc::ptr_eq(assumed, promise));
        if stands {
            self.assumed = None;
        }
        stands
    }
}
