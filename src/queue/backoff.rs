//! How long a pod waits after a failed attempt.
//!
//! Source: `pkg/scheduler/backend/queue/backoff_queue.go` (`calculateBackoffDuration`, `getBackoffTime`), Kubernetes
//! 1.36. Ends of waits are cut down to the whole second, so that pods whose waits end in one second leave in the order
//! of the queue's sort.

use std::time::Duration;

use super::pod::{QueueConfig, QueuedPodInfo};
use crate::clock::Nanos;

/// The wait after `count` failures in a row.
pub(super) fn duration(count: u32, config: &QueueConfig) -> Duration {
    if count == 0 {
        return Duration::ZERO;
    }
    let (initial, max) = (config.initial_backoff.as_nanos(), config.max_backoff.as_nanos());
    let shift = count - 1;
    // When `initial` is no more than `max >> shift`, shifting it by as much stays below `max`.
    let capped = max.checked_shr(shift).unwrap_or(0);
    if initial > capped || shift >= u128::BITS {
        return config.max_backoff;
    }
    u64::try_from(initial << shift).map_or(config.max_backoff, Duration::from_nanos)
}

/// Whether the pod still waits at `now`; remembers when its wait ends.
pub(super) fn is_backing_off(queued: &mut QueuedPodInfo, now: Nanos, config: &QueueConfig) -> bool {
    let count = if queued.consecutive_errors > 0 {
        queued.consecutive_errors
    } else {
        queued.unschedulable_count
    };
    if count == 0 || config.max_backoff.is_zero() {
        return false;
    }
    let timestamp = queued.timestamp;
    let expiry = *queued
        .backoff_expiry
        .get_or_insert_with(|| timestamp.after(duration(count, config)).floor_to_second());
    expiry >= now.floor_to_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(initial: u64, max: u64, count: u32) -> u64 {
        let config = QueueConfig {
            initial_backoff: Duration::from_secs(initial),
            max_backoff: Duration::from_secs(max),
            ..Default::default()
        };
        duration(count, &config).as_secs()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        assert_eq!([1, 2, 3, 4, 5].map(|count| seconds(1, 10, count)), [1, 2, 4, 8, 10]);
        assert_eq!([64, 65, 129, 200, u32::MAX].map(|count| seconds(1, 10, count)), [10; 5]);
        assert_eq!(seconds(3, 1000, 5), 48);
        assert_eq!(seconds(3, u64::MAX / 1_000_000_000, 64), u64::MAX / 1_000_000_000);
        assert_eq!(seconds(1, 10, 0), 0);
    }
}
