//! What must always hold, by name, and what happens when it does not.
//!
//! A broken invariant panics in tests (so that the test fails where the fault is) and is counted and logged in
//! release builds (so that one fault does not stop a cluster). The checks sit at the transitions themselves.

use std::sync::atomic::{AtomicU64, Ordering};

/// The invariants of the design, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// No reserve of ours makes or enlarges an excess of a checked quantity.
    NoOvercommit,
    /// A pod UID has at most one promise.
    OnePromise,
    /// Every pod that enters the queue leaves it by exactly one way.
    NoLostPod,
    /// Every assumed pod ends bound or unreserved.
    AssumedEnds,
    /// No pod is bound twice, nor to a node incarnation known to be gone.
    BoundOnce,
    /// No hard rule that spans nodes is broken by workers deciding at once.
    SerialOutcome,
}

const COUNT: usize = 6;

static BROKEN: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];

impl Invariant {
    /// All of them.
    pub const ALL: [Self; COUNT] = [
        Self::NoOvercommit,
        Self::OnePromise,
        Self::NoLostPod,
        Self::AssumedEnds,
        Self::BoundOnce,
        Self::SerialOutcome,
    ];

    /// Its name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoOvercommit => "no_overcommit",
            Self::OnePromise => "one_promise",
            Self::NoLostPod => "no_lost_pod",
            Self::AssumedEnds => "assumed_ends",
            Self::BoundOnce => "bound_once",
            Self::SerialOutcome => "serial_outcome",
        }
    }

    /// How often it was found broken in this process.
    #[must_use]
    pub fn broken(self) -> u64 {
        BROKEN[self as usize].load(Ordering::Relaxed)
    }

    /// Records that it was found broken; called by [`check_invariant!`](crate::check_invariant).
    pub fn record(self, what: &str) {
        BROKEN[self as usize].fetch_add(1, Ordering::Relaxed);
        tracing::error!(invariant = self.name(), what, "an invariant does not hold");
    }
}

/// Checks that an invariant holds: a panic in debug builds, a count and an error log in release builds.
#[macro_export]
macro_rules! check_invariant {
    ($which:expr, $holds:expr, $($what:tt)+) => {
        if !$holds {
            $which.record(&format!($($what)+));
            debug_assert!(false, $($what)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_invariant_is_counted() {
        let before = Invariant::SerialOutcome.broken();
        Invariant::SerialOutcome.record("a test says so");
        assert_eq!(Invariant::SerialOutcome.broken(), before + 1);
    }
}
