//! The right to act, cheap enough to be asked before every write.
//!
//! Threads: the elector's task extends and closes; any thread asks. The deadline is published with release ordering and
//! read with acquire ordering, so whoever sees the right also sees what its holder did before it extended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Never ends: leader election is off.
const FOREVER: u64 = u64::MAX;

/// A handle on the right to act. Clones share it.
#[derive(Debug, Clone)]
pub struct Fence(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Zero of `deadline`.
    base: Instant,
    /// Nanoseconds after `base` at which the right ends; 0: there is none.
    deadline: AtomicU64,
}

impl Fence {
    /// A fence that lets nobody act yet.
    pub(super) fn closed() -> Self {
        Self(Arc::new(Shared {
            base: Instant::now(),
            deadline: AtomicU64::new(0),
        }))
    }

    /// A fence for a process that does not take part in an election: it may always act.
    #[must_use]
    pub fn always() -> Self {
        Self(Arc::new(Shared {
            base: Instant::now(),
            deadline: AtomicU64::new(FOREVER),
        }))
    }

    /// Whether a write may be sent now.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.may_act_at(Instant::now())
    }

    /// Whether a write may be sent at `now`, for callers that have read the clock already.
    #[must_use]
    pub fn may_act_at(&self, now: Instant) -> bool {
        let deadline = self.0.deadline.load(Ordering::Acquire);
        deadline == FOREVER || nanos(now.saturating_duration_since(self.0.base)) < deadline
    }

    /// How long a write that is sent now may take; zero when none may be sent, `None` when there is no limit. A call's
    /// own deadline should not reach beyond it.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let deadline = self.0.deadline.load(Ordering::Acquire);
        if deadline == FOREVER {
            return None;
        }
        let now = nanos(Instant::now().saturating_duration_since(self.0.base));
        Some(Duration::from_nanos(deadline.saturating_sub(now)))
    }

    /// The right lasts until `until`.
    pub(super) fn extend(&self, until: Instant) {
        let deadline = nanos(until.saturating_duration_since(self.0.base)).min(FOREVER - 1);
        self.0.deadline.store(deadline, Ordering::Release);
    }

    /// The right ends now.
    pub(super) fn close(&self) {
        self.0.deadline.store(0, Ordering::Release);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(FOREVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_right_ends_at_its_deadline() {
        let fence = Fence::closed();
        assert!(!fence.may_act());
        assert_eq!(fence.remaining(), Some(Duration::ZERO));
        fence.extend(Instant::now() + Duration::from_secs(10));
        assert!(fence.may_act());
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(fence.may_act());
        assert_eq!(fence.remaining(), Some(Duration::from_millis(1)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!fence.may_act());
    }

    #[test]
    fn a_process_without_an_election_may_always_act() {
        let fence = Fence::always();
        assert!(fence.may_act());
        assert_eq!(fence.remaining(), None);
    }
}
