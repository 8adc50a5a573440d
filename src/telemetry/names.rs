//! Growing sets of label values that are known by index.
//!
//! Does not: forget a name or take a lock; a full set answers `None` and the caller drops the observation.

use std::sync::OnceLock;

/// Names in order of arrival, at most as many as the set was made for.
#[derive(Debug)]
pub(super) struct Names {
    slots: Box<[OnceLock<String>]>,
}

impl Names {
    /// An empty set for at most `capacity` names.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: (0..capacity).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The index of `name`, which is added when it is new. O(names): call it at start-up and keep the index.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| slot.get_or_init(|| name.to_owned()) == name)
    }

    /// The name at `index`.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        self.slots.get(index)?.get().map(String::as_str)
    }

    /// Most names.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_index_and_a_full_set_refuses() {
        let names = Names::new(2);
        assert_eq!(names.index("a"), Some(0));
        assert_eq!(names.index("b"), Some(1));
        assert_eq!(names.index("a"), Some(0));
        assert_eq!(names.index("c"), None);
        assert_eq!(names.get(1), Some("b"));
    }
}
