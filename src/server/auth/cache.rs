//! Answers that are believed for a while.

use std::hash::{Hash, RandomState};
use std::time::Duration;

use hashbrown::HashMap;

use crate::clock::{Clock, Nanos};
use crate::sync::Mutex;

/// Most answers kept. A scrape every few seconds and a handful of people need tens; the rest is room for a burst of
/// unknown callers. At about 1 KB an entry (a token) that is 2 MB.
const MAX_ENTRIES: usize = 2048;

/// A bounded map whose entries end. Keys come from outside, so hashing is keyed.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    clock: Clock,
    entries: Mutex<HashMap<K, (Nanos, V), RandomState>>,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            entries: Mutex::new(HashMap::with_hasher(RandomState::new())),
        }
    }

    /// The answer, when one is kept and has not ended.
    pub(super) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: ?Sized + Hash + hashbrown::Equivalent<K>,
    {
        let now = self.clock.now();
        self.entries
            .lock()
            .get(key)
            .filter(|(end, _)| *end > now)
            .map(|(_, value)| value.clone())
    }

    /// Keeps an answer for `ttl`; not at all when that is zero. A full map first loses what has ended, then everything.
    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, (end, _)| *end > now);
            if entries.len() >= MAX_ENTRIES {
                entries.clear();
            }
        }
        entries.insert(key, (now.after(ttl), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn answers_end_and_the_map_stays_bounded() {
        let manual = ManualClock::default();
        let cache: Cache<String, u32> = Cache::new(Clock::Manual(manual.clone()));
        cache.put("a".to_owned(), 1, Duration::from_secs(10));
        cache.put("never".to_owned(), 1, Duration::ZERO);
        manual.advance(Duration::from_secs(9));
        assert_eq!((cache.get("a"), cache.get("never")), (Some(1), None));
        manual.advance(Duration::from_secs(1));
        assert_eq!(cache.get("a"), None);
        for index in 0..3 * MAX_ENTRIES {
            cache.put(index.to_string(), 0, Duration::from_secs(10));
        }
        assert!(cache.entries.lock().len() <= MAX_ENTRIES);
    }
}
