//! What the modelled structures need from the machine, as traits: an atomic word, a reader-writer lock and a table
//! with a lock per key.
//!
//! Two users: [`Native`](super::Native) for the real thing, and the checkers' types for the model tests.
//!
//! Does not: offer more of each than those structures use.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::Ordering;

/// An atomic `u64`.
pub trait Word: Debug + Send + Sync + 'static {
    /// A word that holds `value`.
    fn new(value: u64) -> Self;
    /// Reads.
    fn load(&self, ordering: Ordering) -> u64;
    /// Writes.
    fn store(&self, value: u64, ordering: Ordering);
    /// Adds, wrapping, and gives the value before.
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64;
    /// Takes away, wrapping, and gives the value before.
    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64;
    /// Keeps the greater and gives the value before.
    fn fetch_max(&self, value: u64, ordering: Ordering) -> u64;
    /// Lets another thread go on, in a loop that waits for it. `tries` counts the rounds of that loop.
    fn pause(tries: u32);
}

/// A reader-writer lock over nothing.
pub trait SharedLock: Debug + Send + Sync + 'static {
    /// Held for reading.
    type Read<'a>;
    /// Held for writing.
    type Write<'a>;
    /// A free lock.
    fn new() -> Self;
    /// Waits for it as one of many.
    fn read(&self) -> Self::Read<'_>;
    /// Waits for it alone.
    fn write(&self) -> Self::Write<'_>;
}

/// What becomes of an entry after an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// It stays.
    Keep,
    /// It goes, before anybody else can see it.
    Remove,
}

/// A key of a [`Table`].
pub trait Key: Copy + Eq + Hash + Send + Sync + 'static {}
impl<K: Copy + Eq + Hash + Send + Sync + 'static> Key for K {}

/// A concurrent map. Every closure runs under the lock of its key's entry and must not touch another table: no two
/// such locks are ever held at once by one thread (debug builds check this).
pub trait Table<K: Key, V: Send + Sync + 'static>: Send + Sync + 'static {
    /// An empty table.
    fn new() -> Self;
    /// Looks at an entry.
    fn read<R>(&self, key: K, look: impl FnOnce(&V) -> R) -> Option<R>;
    /// Changes or removes an entry that is there.
    fn update<R>(&self, key: K, change: impl FnOnce(&mut V) -> (After, R)) -> Option<R>;
    /// Changes or removes an entry, made by `fresh` (also under the lock) when it is not there.
    fn upsert<R>(&self, key: K, fresh: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> (After, R)) -> R;
    /// How many entries there are; not exact while others write. O(lock shards).
    fn count(&self) -> usize;
    /// The keys of some moment, in no order. O(entries).
    fn keys(&self) -> Vec<K>;
}

/// One family of the above.
pub trait Primitives: Send + Sync + 'static {
    /// Its atomic word.
    type Word: Word;
    /// Its reader-writer lock.
    type Shared: SharedLock;
    /// Its table.
    type Table<K: Key, V: Send + Sync + 'static>: Table<K, V>;
    /// A small number that tells the calling thread from others and stays its own.
    fn lane() -> usize;
}
