//! Small copyable identifiers: interned strings, node indices, pod UIDs and classes.
//!
//! Strings from the API become a [`Symbol`] at the watch edge and come back as text only when a decision leaves. The
//! table of symbols is one per process and append-only: a symbol is valid for the process's life, comparing two is
//! one integer comparison. Names and UIDs of pods are never interned, so the table grows with the number of distinct
//! label keys and values, node names, images and the like.
//!
//! Does not: know what an identifier stands for.
//!
//! Threads: any; interning takes one shard's lock, resolving takes a read lock on the table of texts.

use std::fmt;
use std::sync::LazyLock;

use dashmap::DashMap;
use parking_lot::RwLock;
use rustc_hash::FxBuildHasher;

/// An interned string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

struct Interner {
    by_text: DashMap<&'static str, Symbol, FxBuildHasher>,
    texts: RwLock<Vec<&'static str>>,
}

static INTERNER: LazyLock<Interner> = LazyLock::new(|| Interner {
    by_text: DashMap::with_hasher(FxBuildHasher),
    texts: RwLock::new(Vec::new()),
});

impl Symbol {
    /// The symbol of `text`, interned on first sight.
    ///
    /// # Panics
    /// When more than 2^32 distinct strings have been interned, which is past any memory this runs in.
    #[must_use]
    pub fn new(text: &str) -> Self {
        if let Some(found) = INTERNER.by_text.get(text) {
            return *found;
        }
        let leaked: &'static str = Box::leak(text.to_owned().into_boxed_str());
        *INTERNER.by_text.entry(leaked).or_insert_with(|| {
            let mut texts = INTERNER.texts.write();
            let Ok(id) = u32::try_from(texts.len()) else {
                panic!("the symbol table is full")
            };
            texts.push(leaked);
            Self(id)
        })
    }

    /// The symbol of `text` if it was interned before.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        INTERNER.by_text.get(text).map(|found| *found)
    }

    /// The text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        INTERNER.texts.read().get(self.0 as usize).copied().unwrap_or("")
    }

    /// The raw number, for dense tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A node's slot in every node-indexed array of the process. A slot is reused after its node is gone; the
/// [`Incarnation`] tells the tenants apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    /// As an array index.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Which node object holds a slot: a counter that moves with every node added, so that a node deleted and re-added
/// under one name is never mistaken for its predecessor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub u64);

/// A pod's `metadata.uid`: a UUID as its 128 bits; any other text as its 128-bit hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(pub u128);

impl PodUid {
    /// Parses a UUID, or hashes what is none.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        parse_uuid(text).map_or_else(|| Self(xxhash_rust::xxh3::xxh3_128(text.as_bytes())), Self)
    }
}

fn parse_uuid(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut value = 0_u128;
    for (position, byte) in bytes.iter().enumerate() {
        match (position, byte) {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) | (_, b'A'..=b'F') => return None,
            (_, digit) => value = value << 4 | u128::from(char::from(*digit).to_digit(16)?),
        }
    }
    Some(value)
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// All pods that scheduling cannot tell apart: see [`crate::cluster`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u32);

/// A place in the network's tree: see [`crate::topology`]. 0 is the whole cluster. Each other one has a link to the
/// place around it, which goes by the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DomainIdx(pub u32);

impl DomainIdx {
    /// The whole cluster.
    pub const ROOT: Self = Self(0);

    /// As an array index.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A pool of addresses: see [`crate::ledger`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolIdx(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_its_text() {
        let a = Symbol::new("kubernetes.io/hostname");
        assert_eq!(a, Symbol::new("kubernetes.io/hostname"));
        assert_eq!(a.as_str(), "kubernetes.io/hostname");
        assert_eq!(Symbol::find("kubernetes.io/hostname"), Some(a));
        assert_eq!(Symbol::find("never seen by anybody"), None);
    }

    #[test]
    fn interning_from_many_threads_gives_one_symbol() {
        let symbols: Vec<Vec<Symbol>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..500).map(|i| Symbol::new(&format!("race-{i}"))).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(symbols.iter().all(|seen| seen == &symbols[0]));
        assert!(
            symbols[0]
                .iter()
                .enumerate()
                .all(|(i, s)| s.as_str() == format!("race-{i}"))
        );
    }

    #[test]
    fn uuids_keep_their_bits_and_other_uids_are_hashed() {
        assert_eq!(PodUid::parse("00000000-0000-0000-0000-0000000000ff"), PodUid(0xff));
        assert_ne!(PodUid::parse("A"), PodUid::parse("B"));
        assert_ne!(PodUid::parse("00000000-0000-0000-0000-0000000000FF"), PodUid(0xff));
    }
}
