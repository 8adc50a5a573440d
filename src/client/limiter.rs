//! A token bucket for an explicit `qps` and `burst`.
//!
//! Kept as the one number of the generic cell rate algorithm (ITU-T I.371): the time at which the bucket would be full
//! again. Requests are admitted in the order in which they asked.
//!
//! Does not: guard lease renewals, which have their own client.

use std::time::Duration;

use tokio::time::Instant;

use crate::sync::Mutex;

/// An explicit limit on calls to the API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Calls a second over a long time; zero or less means no limit.
    pub qps: f32,
    /// Calls that may be made at once after a pause; at least one.
    pub burst: u32,
}

/// The bucket.
#[derive(Debug)]
pub(super) struct Limiter {
    /// Time that one call costs.
    step: Duration,
    /// How far ahead of now the bucket may be borrowed.
    tolerance: Duration,
    full_again: Mutex<Option<Instant>>,
}

impl Limiter {
    /// A full bucket; `None` when the rate means no limit.
    pub(super) fn new(rate: RateLimit) -> Option<Self> {
        if !rate.qps.is_finite() || rate.qps <= 0.0 {
            return None;
        }
        let step = Duration::try_from_secs_f64(1.0 / f64::from(rate.qps)).ok()?;
        let tolerance = step.saturating_mul(rate.burst.max(1) - 1);
        Some(Self {
            step,
            tolerance,
            full_again: Mutex::new(None),
        })
    }

    /// Waits until one more call may be made.
    ///
    /// # Cancel safety
    /// A call that is given up while it waits has spent its place.
    pub(super) async fn acquire(&self) {
        let admitted_at = {
            let now = Instant::now();
            let mut full_again = self.full_again.lock();
            let base = full_again.map_or(now, |at| at.max(now));
            *full_again = Some(base + self.step);
            base.checked_sub(self.tolerance).unwrap_or(now)
        };
        tokio::time::sleep_until(admitted_at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limiter = Limiter::new(RateLimit { qps: 10.0, burst: 5 }).unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            limiter.acquire().await;
        }
        let taken = start.elapsed();
        assert!((995..1015).contains(&taken.as_millis()), "{taken:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let start = Instant::now();
        for _ in 0..5 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_negative_rate_is_no_limit() {
        assert!(Limiter::new(RateLimit { qps: -1.0, burst: 1 }).is_none());
        assert!(
            Limiter::new(RateLimit {
                qps: f32::NAN,
                burst: 1
            })
            .is_none()
        );
    }
}
