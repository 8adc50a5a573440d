//! Failures that repeat: one event, then its series.
//!
//! Source: `staging/src/k8s.io/client-go/tools/events/event_broadcaster.go`, Kubernetes 1.36: equal events within six
//! minutes are one series.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::Nanos;
use crate::ids::PodUid;

/// After so long without a repeat the next failure is a new event.
const QUIET: Duration = Duration::from_secs(360);
/// Least time between two notices of one series.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Series kept at most; at some 100 bytes each, 10 MB.
const MAX_SERIES: usize = 100_000;

/// What to do about a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// Write an event.
    First,
    /// Write how often the event of this name was seen.
    Tell { name: String, count: u32 },
    /// Nothing; the count is remembered.
    Silent,
}

#[derive(Debug)]
struct Entry {
    name: String,
    count: u32,
    seen: Nanos,
    told: Option<Nanos>,
}

/// Failures by pod.
#[derive(Debug, Default)]
pub(super) struct Series {
    by_pod: FxHashMap<PodUid, Entry>,
}

impl Series {
    /// The first event of a pod's series is not there any more.
    pub(super) fn forget(&mut self, pod: PodUid) {
        self.by_pod.remove(&pod);
    }

    /// Notes a failure; `name` is what a new event would be called.
    pub(super) fn note(&mut self, pod: PodUid, name: &str, now: Nanos) -> Repeat {
        if let Some(entry) = self.by_pod.get_mut(&pod).filter(|entry| now.since(entry.seen) < QUIET) {
            entry.count = entry.count.saturating_add(1);
            entry.seen = now;
            if entry.told.is_some_and(|told| now.since(told) < TELL_EVERY) {
                return Repeat::Silent;
            }
            entry.told = Some(now);
            return Repeat::Tell {
                name: entry.name.clone(),
                count: entry.count,
            };
        }
        if self.by_pod.len() >= MAX_SERIES {
            self.by_pod.retain(|_, entry| now.since(entry.seen) < QUIET);
            if self.by_pod.len() >= MAX_SERIES {
                self.by_pod.clear();
            }
        }
        self.by_pod.insert(
            pod,
            Entry {
                name: name.to_owned(),
                count: 1,
                seen: now,
                told: None,
            },
        );
        Repeat::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_told_once_a_minute_and_forgotten_after_six() {
        let at = |secs| Nanos(0).after(Duration::from_secs(secs));
        let mut series = Series::default();
        let pod = PodUid(1);
        assert_eq!(series.note(pod, "a", at(0)), Repeat::First);
        assert_eq!(
            series.note(pod, "b", at(1)),
            Repeat::Tell {
                name: "a".to_owned(),
                count: 2
            }
        );
        assert_eq!(series.note(pod, "c", at(5)), Repeat::Silent);
        assert_eq!(
            series.note(pod, "d", at(62)),
            Repeat::Tell {
                name: "a".to_owned(),
                count: 4
            }
        );
        assert_eq!(series.note(PodUid(2), "e", at(62)), Repeat::First);
        assert_eq!(series.note(pod, "f", at(500)), Repeat::First);
    }
}
