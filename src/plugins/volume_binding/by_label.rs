//! Things that only some nodes can have, found by a label of the node instead of being tried one after another.

use rustc_hash::FxHashMap;

use crate::cluster::Labels;
use crate::ids::Symbol;

/// Positions in a list, by a label that a node must have for the thing at that position.
#[derive(Default)]
pub(super) struct ByLabel {
    /// Few keys: as a rule the hostname's or the zone's.
    keys: Vec<(Symbol, FxHashMap<Symbol, Vec<u32>>)>,
    /// Things that ask for no label.
    elsewhere: Vec<u32>,
}

impl ByLabel {
    /// Adds the next position. `narrowed`: a key, and the values of which a node must have one.
    pub(super) fn push(&mut self, at: u32, narrowed: Option<(Symbol, &[Symbol])>) {
        let Some((key, values)) = narrowed else {
            self.elsewhere.push(at);
            return;
        };
        let found = self.keys.iter().position(|(have, _)| *have == key);
        let index = found.unwrap_or_else(|| {
            self.keys.push((key, FxHashMap::default()));
            self.keys.len() - 1
        });
        let Some((_, by_value)) = self.keys.get_mut(index) else {
            return;
        };
        for value in values {
            let positions = by_value.entry(*value).or_default();
            if positions.last() != Some(&at) {
                positions.push(at);
            }
        }
    }

    /// The first position that suits a node with these labels.
    pub(super) fn first(&self, labels: &Labels, suits: impl Fn(u32) -> bool) -> Option<u32> {
        let first = |positions: &Vec<u32>| positions.iter().copied().find(|at| suits(*at));
        let by_key = self.keys.iter().filter_map(|(key, by_value)| {
            let positions = by_value.get(&labels.get(*key)?)?;
            first(positions)
        });
        by_key.chain(first(&self.elsewhere)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_suits_is_found_wherever_it_stands() {
        let symbol = Symbol::new;
        let mut index = ByLabel::default();
        index.push(0, Some((symbol("host"), &[symbol("n1"), symbol("n1"), symbol("n2")])));
        index.push(1, None);
        index.push(2, Some((symbol("zone"), &[symbol("a")])));
        let labels: Labels = [("host", "n2"), ("zone", "a")].into_iter().collect();
        assert_eq!(index.first(&labels, |_| true), Some(0));
        assert_eq!(index.first(&labels, |at| at > 0), Some(1));
        assert_eq!(index.first(&labels, |at| at > 1), Some(2));
        assert_eq!(index.first(&Labels::default(), |_| true), Some(1));
        assert_eq!(index.first(&Labels::default(), |at| at != 1), None);
    }
}
