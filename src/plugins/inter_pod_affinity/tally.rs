//! Counts by topology domain: a domain is a key of node labels and one of its values.
//!
//! A look-up is two loads and a small hash. A copy of a tally shares all of its counts with the original until one of
//! the two changes, and then but a part of them: preemption makes a copy for every node that it tries, while keys such as
//! the hostname have as many values as there are nodes.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::cluster::NodeInfo;
use crate::ids::Symbol;

/// With more values than this they are kept in parts.
const WHOLE_UP_TO: usize = 128;
/// log2 of the number of parts.
const PART_BITS: u32 = 6;

/// Counts by the value of one key. Values whose count is 0 are absent.
#[derive(Clone, Debug)]
struct Values {
    /// One part, or 2^[`PART_BITS`] of them.
    #[expect(
        clippy::rc_buffer,
        reason = "a vector is copied when it is shared and then changed in place"
    )]
    parts: Arc<Vec<Arc<FxHashMap<Symbol, i64>>>>,
    len: usize,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            parts: Arc::new(vec![Arc::default()]),
            len: 0,
        }
    }
}

fn part_of(value: Symbol, parts: usize) -> usize {
    if parts == 1 {
        return 0;
    }
    // Symbols of hostnames have regular distances; a multiplication spreads them (Knuth, TAOCP 3, 6.4).
    (value.index().wrapping_mul(0x9E37_79B1) >> (u32::BITS - PART_BITS)) as usize
}

impl Values {
    fn get(&self, value: Symbol) -> i64 {
        let part = self.parts.get(part_of(value, self.parts.len()));
        part.and_then(|part| part.get(&value)).copied().unwrap_or(0)
    }

    fn add(&mut self, value: Symbol, by: i64) {
        if self.parts.len() == 1 && self.len >= WHOLE_UP_TO {
            self.split();
        }
        let parts = Arc::make_mut(&mut self.parts);
        let at = part_of(value, parts.len());
        let Some(part) = parts.get_mut(at).map(Arc::make_mut) else {
            return;
        };
        let before = part.len();
        let count = part.entry(value).or_insert(0);
        *count += by;
        if *count == 0 {
            part.remove(&value);
        }
        self.len = self.len + part.len() - before;
    }

    fn split(&mut self) {
        let mut parts = vec![FxHashMap::default(); 1 << PART_BITS];
        for (value, count) in self.parts.iter().flat_map(|part| part.iter()) {
            let at = part_of(*value, parts.len());
            parts[at].insert(*value, *count);
        }
        self.parts = Arc::new(parts.into_iter().map(Arc::new).collect());
    }
}

/// Counts by key and value.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    keys: SmallVec<[(Symbol, Values); 1]>,
}

impl Tally {
    /// An empty one that knows these keys.
    pub(super) fn of(keys: impl IntoIterator<Item = Symbol>) -> Self {
        let mut tally = Self::default();
        for key in keys {
            if !tally.knows(key) {
                tally.keys.push((key, Values::default()));
            }
        }
        tally
    }

    /// Whether something was ever counted under a key, or it was named at the start.
    pub(super) fn knows(&self, key: Symbol) -> bool {
        self.keys.iter().any(|(have, _)| *have == key)
    }

    /// Its keys, in the order in which they came.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> {
        self.keys.iter().map(|(key, _)| *key)
    }

    /// Adds to a domain.
    pub(super) fn add(&mut self, key: Symbol, value: Symbol, by: i64) {
        match self.keys.iter_mut().find(|(have, _)| *have == key) {
            Some((_, values)) => values.add(value, by),
            None => {
                let mut values = Values::default();
                values.add(value, by);
                self.keys.push((key, values));
            }
        }
    }

    /// Whether every count is 0.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.iter().all(|(_, values)| values.len == 0)
    }

    /// For each key the count of the node's domain; `None` where the node lacks the key.
    pub(super) fn on<'t>(&'t self, node: &'t NodeInfo) -> impl Iterator<Item = Option<i64>> + 't {
        self.keys
            .iter()
            .map(|(key, values)| node.label(*key).map(|value| values.get(value)))
    }

    /// All counts that are not 0, in order.
    #[cfg(test)]
    pub(super) fn counts(&self) -> std::collections::BTreeMap<(&'static str, &'static str), i64> {
        let mut all = std::collections::BTreeMap::new();
        for (key, values) in &self.keys {
            for (value, count) in values.parts.iter().flat_map(|part| part.iter()) {
                all.insert((key.as_str(), value.as_str()), *count);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_the_split_into_parts_and_copies_are_apart() {
        let key = Symbol::new("tally-test/host");
        let value = |at: usize| Symbol::new(&format!("tally-test-{at}"));
        let mut tally = Tally::of([key]);
        assert!(tally.is_empty() && tally.knows(key));
        for at in 0..1000 {
            tally.add(key, value(at), 1 + i64::try_from(at).unwrap());
        }
        let copy = tally.clone();
        for at in 0..999 {
            tally.add(key, value(at), -1 - i64::try_from(at).unwrap());
        }
        assert_eq!(tally.counts().len(), 1);
        assert_eq!(copy.counts().len(), 1000);
        assert_eq!(copy.counts().values().sum::<i64>(), 1000 * 1001 / 2);
        tally.add(key, value(999), -1000);
        assert!(tally.is_empty() && !copy.is_empty());
    }
}
