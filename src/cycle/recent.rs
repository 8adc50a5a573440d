//! The latest of a sequence of things, numbered from 0, for readers that remember how far they have read.

use std::collections::VecDeque;

/// The latest things; older ones are forgotten.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    items: VecDeque<T>,
    first: u64,
    limit: usize,
}

impl<T: Copy> Recent<T> {
    /// None yet; at most `limit` are kept.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            items: VecDeque::new(),
            first: 0,
            limit,
        }
    }

    /// Adds one.
    pub fn push(&mut self, item: T) {
        if self.items.len() == self.limit {
            self.items.pop_front();
            self.first += 1;
        }
        self.items.push_back(item);
    }

    /// Forgets all so far; their numbers are not used again.
    pub fn forget(&mut self) {
        self.first = self.next();
        self.items.clear();
    }

    /// The number that the next one will have.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Those from number `seen` on; `None`: some of them are forgotten, or there is no such number yet.
    #[must_use]
    pub fn since(&self, seen: u64) -> Option<impl ExactSizeIterator<Item = T>> {
        let skip = usize::try_from(seen.checked_sub(self.first)?).ok()?;
        if skip > self.items.len() {
            return None;
        }
        Some(self.items.iter().copied().skip(skip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_get_what_they_missed_or_are_told_that_it_is_gone() {
        let mut recent = Recent::new(3);
        for number in 0..5_u32 {
            recent.push(number);
        }
        let since = |recent: &Recent<u32>, seen| recent.since(seen).map(Iterator::collect::<Vec<_>>);
        assert_eq!(recent.next(), 5);
        assert_eq!(since(&recent, 3), Some(vec![3, 4]));
        assert_eq!(since(&recent, 5), Some(vec![]));
        assert_eq!(since(&recent, 1), None);
        recent.forget();
        assert_eq!((since(&recent, 4), recent.next()), (None, 5));
        recent.push(9);
        assert_eq!(since(&recent, 5), Some(vec![9]));
    }
}
