//! The primitives of the model checkers: `shuttle` (random schedules, larger models) for ledger and commit lock, and
//! `loom` (all schedules and memory orders, small models) for the change log's words.
//!
//! Both are ordinary test dependencies: `cargo test -p supercargo --lib model` runs every model.
//!
//! Does not: hold tests; they stand beside the code that they prove.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::primitives::{After, Key, Primitives, SharedLock, Table, Word};

/// Shuttle's primitives.
#[derive(Debug)]
pub(crate) struct Modelled;

impl Primitives for Modelled {
    type Word = shuttle::sync::atomic::AtomicU64;
    type Shared = shuttle::sync::RwLock<()>;
    type Table<K: Key, V: Send + Sync + 'static> = ModelTable<K, V>;

    fn lane() -> usize {
        shuttle::thread::current().id().into()
    }
}

/// Shuttle's primitives, but a reader-writer lock that shuts nobody out: what a model must find to be wrong.
#[derive(Debug)]
pub(crate) struct Unlocked;

impl Primitives for Unlocked {
    type Word = <Modelled as Primitives>::Word;
    type Shared = OpenLock;
    type Table<K: Key, V: Send + Sync + 'static> = ModelTable<K, V>;

    fn lane() -> usize {
        Modelled::lane()
    }
}

/// The lock of [`Unlocked`].
#[derive(Debug)]
pub(crate) struct OpenLock;

impl SharedLock for OpenLock {
    type Read<'a> = ();
    type Write<'a> = ();

    fn new() -> Self {
        Self
    }

    fn read(&self) {
        shuttle::thread::yield_now();
    }

    fn write(&self) {
        shuttle::thread::yield_now();
    }
}

macro_rules! word {
    ($atomic:ty, $yield:path) => {
        impl Word for $atomic {
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

            fn pause(_tries: u32) {
                $yield();
            }
        }
    };
}
word!(shuttle::sync::atomic::AtomicU64, shuttle::thread::yield_now);
word!(loom::sync::atomic::AtomicU64, loom::thread::yield_now);

/// Loom's word with every memory order weakened to none: what a model must find to be wrong.
#[derive(Debug)]
pub(crate) struct Unordered(loom::sync::atomic::AtomicU64);

impl Word for Unordered {
    fn new(value: u64) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value))
    }

    fn load(&self, _: Ordering) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn store(&self, value: u64, _: Ordering) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    fn fetch_sub(&self, value: u64, _: Ordering) -> u64 {
        self.0.fetch_sub(value, Ordering::Relaxed)
    }

    fn fetch_max(&self, value: u64, _: Ordering) -> u64 {
        self.0.fetch_max(value, Ordering::Relaxed)
    }

    fn pause(_tries: u32) {
        loom::thread::yield_now();
    }
}

impl SharedLock for shuttle::sync::RwLock<()> {
    type Read<'a> = shuttle::sync::RwLockReadGuard<'a, ()>;
    type Write<'a> = shuttle::sync::RwLockWriteGuard<'a, ()>;

    fn new() -> Self {
        Self::new(())
    }

    fn read(&self) -> Self::Read<'_> {
        self.read().unwrap()
    }

    fn write(&self) -> Self::Write<'_> {
        self.write().unwrap()
    }
}

/// A table of two lock shards, so that the checker sees both kinds of neighbours and any nested lock as a deadlock.
#[derive(Debug)]
pub(crate) struct ModelTable<K, V>([shuttle::sync::Mutex<BTreeMap<u64, (K, V)>>; 2]);

fn hash(key: impl std::hash::Hash) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one(key)
}

impl<K: Key, V: Send + Sync + 'static> ModelTable<K, V> {
    fn shard(&self, hash: u64) -> shuttle::sync::MutexGuard<'_, BTreeMap<u64, (K, V)>> {
        self.0[usize::from(hash % 2 == 1)].lock().unwrap()
    }
}

impl<K: Key, V: Send + Sync + 'static> Table<K, V> for ModelTable<K, V> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| shuttle::sync::Mutex::new(BTreeMap::new())))
    }

    fn read<R>(&self, key: K, look: impl FnOnce(&V) -> R) -> Option<R> {
        self.shard(hash(key)).get(&hash(key)).map(|(_, value)| look(value))
    }

    fn update<R>(&self, key: K, change: impl FnOnce(&mut V) -> (After, R)) -> Option<R> {
        let mut shard = self.shard(hash(key));
        let (after, result) = change(&mut shard.get_mut(&hash(key))?.1);
        if after == After::Remove {
            shard.remove(&hash(key));
        }
        Some(result)
    }

    fn upsert<R>(&self, key: K, fresh: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> (After, R)) -> R {
        let mut shard = self.shard(hash(key));
        let (after, result) = change(&mut shard.entry(hash(key)).or_insert_with(|| (key, fresh())).1);
        if after == After::Remove {
            shard.remove(&hash(key));
        }
        result
    }

    fn count(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    fn keys(&self) -> Vec<K> {
        let of = |shard: &shuttle::sync::Mutex<BTreeMap<u64, (K, V)>>| -> Vec<K> {
            shard.lock().unwrap().values().map(|(key, _)| *key).collect()
        };
        self.0.iter().flat_map(of).collect()
    }
}
