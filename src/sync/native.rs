//! The primitives that ship: atomics, `parking_lot` and `DashMap`.
//!
//! Does not: hold two table locks in one thread; debug builds panic where somebody tries, since two keys of one lock
//! shard would deadlock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::{DashMap, Entry};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustc_hash::FxBuildHasher;

use super::primitives::{After, Key, Primitives, SharedLock, Table, Word};

/// Lock shards of a table. With 64 workers, each a tenth of its time under a lock, two meet in a shard once in about
/// 20 attempts; 128 shards of 128 bytes cost 16 KiB a table.
const LOCK_SHARDS: usize = 128;

/// Rounds of spinning before a waiting thread gives up its time slice.
const SPINS: u32 = 64;

/// The primitives that ship.
#[derive(Debug)]
pub struct Native;

impl Primitives for Native {
    type Word = AtomicU64;
    type Shared = RwLock<()>;
    type Table<K: Key, V: Send + Sync + 'static> = LockedTable<K, V>;

    fn lane() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        LANE.with(|lane| *lane)
    }
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self, ordering: Ordering) -> u64 {
        self.load(ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        self.store(value, ordering);
    }

    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.fetch_add(value, ordering)
    }

    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        self.fetch_sub(value, ordering)
    }

    fn fetch_max(&self, value: u64, ordering: Ordering) -> u64 {
        self.fetch_max(value, ordering)
    }

    fn pause(tries: u32) {
        if tries < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl SharedLock for RwLock<()> {
    type Read<'a> = RwLockReadGuard<'a, ()>;
    type Write<'a> = RwLockWriteGuard<'a, ()>;

    fn new() -> Self {
        Self::new(())
    }

    fn read(&self) -> Self::Read<'_> {
        self.read()
    }

    fn write(&self) -> Self::Write<'_> {
        self.write()
    }
}

/// A `DashMap` behind [`Table`].
#[derive(Debug)]
pub struct LockedTable<K: Key, V>(DashMap<K, V, FxBuildHasher>);

impl<K: Key, V: Send + Sync + 'static> Table<K, V> for LockedTable<K, V> {
    fn new() -> Self {
        Self(DashMap::with_capacity_and_hasher_and_shard_amount(
            0,
            FxBuildHasher,
            LOCK_SHARDS,
        ))
    }

    fn read<R>(&self, key: K, look: impl FnOnce(&V) -> R) -> Option<R> {
        let _held = Held::enter();
        self.0.get(&key).map(|entry| look(&entry))
    }

    fn update<R>(&self, key: K, change: impl FnOnce(&mut V) -> (After, R)) -> Option<R> {
        let _held = Held::enter();
        let mut result = None;
        self.0.remove_if_mut(&key, |_, value| {
            let (after, found) = change(value);
            result = Some(found);
            after == After::Remove
        });
        result
    }

    fn upsert<R>(&self, key: K, fresh: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> (After, R)) -> R {
        let _held = Held::enter();
        match self.0.entry(key) {
            Entry::Occupied(mut entry) => {
                let (after, result) = change(entry.get_mut());
                if after == After::Remove {
                    entry.remove();
                }
                result
            }
            Entry::Vacant(entry) => {
                let mut value = fresh();
                let (after, result) = change(&mut value);
                if after == After::Keep {
                    entry.insert(value);
                }
                result
            }
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn keys(&self) -> Vec<K> {
        self.0.iter().map(|entry| *entry.key()).collect()
    }
}

/// Notes that this thread holds a table's lock.
struct Held;

thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

impl Held {
    fn enter() -> Self {
        if cfg!(debug_assertions) {
            let before = HOLDS.replace(true);
            debug_assert!(!before, "two table locks held by one thread");
        }
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HOLDS.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_between_upsert_and_remove() {
        let table = LockedTable::<u32, u32>::new();
        assert_eq!(table.update(1, |_| (After::Keep, ())), None);
        assert_eq!(table.upsert(1, || 7, |value| (After::Keep, *value)), 7);
        assert_eq!(table.upsert(1, || 8, |value| (After::Keep, *value)), 7);
        assert_eq!(table.read(1, |value| *value), Some(7));
        assert_eq!((table.count(), table.keys()), (1, vec![1]));
        assert_eq!(table.update(1, |value| (After::Remove, *value)), Some(7));
        assert_eq!(table.upsert(2, || 9, |value| (After::Remove, *value)), 9);
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn a_second_lock_in_one_thread_is_caught_in_debug_builds() {
        let table = LockedTable::<u32, u32>::new();
        table.upsert(1, || 0, |_| (After::Keep, ()));
        let nested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            table.read(1, |_| table.read(2, |_| ()));
        }));
        assert_eq!(nested.is_err(), cfg!(debug_assertions));
        assert_eq!(table.read(1, |value| *value), Some(0));
    }
}
