//! A set of labels, interned and sorted.

use crate::ids::Symbol;

/// Labels of one object: keys are unique.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: Symbol) -> Option<Symbol> {
        let at = self.0.binary_search_by_key(&key, |(have, _)| *have).ok()?;
        self.0.get(at).map(|(_, value)| *value)
    }

    /// Pairs in the order of their symbols.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> {
        self.0.iter().copied()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those whose key passes.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(Symbol) -> bool) -> Self {
        Self(self.iter().filter(|(key, _)| keep(*key)).collect())
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut all: Vec<_> = pairs
            .into_iter()
            .map(|(key, value)| (Symbol::new(key.as_ref()), Symbol::new(value.as_ref())))
            .collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.dedup_by_key(|(key, _)| *key);
        Self(all.into())
    }
}
