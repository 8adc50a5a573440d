//! Time as a value that is passed in: a real clock in the process, a manual one in tests.
//!
//! Does not: sleep; whoever waits does so on its own timer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Nanoseconds on a monotonic clock whose zero is the process's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// This moment plus `duration`, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Cut down to the whole second.
    #[must_use]
    pub fn floor_to_second(self) -> Self {
        Self(self.0 / 1_000_000_000 * 1_000_000_000)
    }
}

/// Where time is read from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clocks.
    #[default]
    Real,
    /// A clock that a test moves.
    Manual(ManualClock),
}

static START: LazyLock<std::time::Instant> = LazyLock::new(real_instant);

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the machine's monotonic clock is read"
)]
fn real_instant() -> std::time::Instant {
    std::time::Instant::now()
}

impl Clock {
    /// Now, on the monotonic clock. The real one starts a little above zero.
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self {
            Self::Real => Nanos(1).after(real_instant().duration_since(*START)),
            Self::Manual(manual) => Nanos(manual.nanos.load(Ordering::Acquire)),
        }
    }

    /// Now, on the wall clock: what goes into objects.
    #[must_use]
    pub fn wall(&self) -> jiff::Timestamp {
        match self {
            Self::Real => jiff::Timestamp::now(),
            Self::Manual(manual) => {
                let nanos = i128::from(manual.nanos.load(Ordering::Acquire));
                jiff::Timestamp::from_nanosecond(nanos).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
            }
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// Moves the clock ahead.
    pub fn advance(&self, by: Duration) {
        self.nanos
            .fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let manual = ManualClock::default();
        let clock = Clock::Manual(manual.clone());
        manual.advance(Duration::from_millis(1900));
        assert_eq!(clock.now().floor_to_second(), Nanos(1_000_000_000));
        assert_eq!(clock.now().since(Nanos(0)), Duration::from_millis(1900));
    }
}
