//! What plugins remember between the extension points of one cycle.

use std::any::{Any, TypeId};
use std::sync::Arc;

use smallvec::SmallVec;

/// A value that a plugin keeps in a [`CycleState`]. Clones are taken for trials (nominated pods, preemption).
pub trait StateData: Any + Send + Sync {
    /// A copy for a trial: changes of the copy must not show in the original.
    fn clone_data(&self) -> Arc<dyn StateData>;
    /// For the typed look-up.
    fn as_any(&self) -> &dyn Any;
    /// For the typed look-up.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any + Send + Sync + Clone> StateData for T {
    fn clone_data(&self) -> Arc<dyn StateData> {
        Arc::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// One slot per type: a plugin that keeps two values uses two types of its own. A clone shares the values until one of
/// the two changes them.
#[derive(Clone, Default)]
pub struct CycleState {
    slots: SmallVec<[(TypeId, Arc<dyn StateData>); 8]>,
    skipped_filters: u64,
    skipped_scores: u64,
    sampled: bool,
}

impl std::fmt::Debug for CycleState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CycleState").field("values", &self.slots.len()).finish()
    }
}

impl CycleState {
    /// Keeps `value` in its type's slot; a former value goes.
    pub fn write<T: StateData>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        let data: Arc<dyn StateData> = Arc::new(value);
        match self.slots.iter_mut().find(|(have, _)| *have == id) {
            Some(slot) => slot.1 = data,
            None => self.slots.push((id, data)),
        }
    }

    /// The value of a type, if one was written.
    #[must_use]
    pub fn read<T: StateData>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.slots
            .iter()
            .find(|(have, _)| *have == id)
            .and_then(|(_, data)| (**data).as_any().downcast_ref())
    }

    /// The same, to change it.
    #[must_use]
    pub fn read_mut<T: StateData>(&mut self) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        let (_, data) = self.slots.iter_mut().find(|(have, _)| *have == id)?;
        if Arc::get_mut(data).is_none() {
            *data = (**data).clone_data();
        }
        Arc::get_mut(data)?.as_any_mut().downcast_mut()
    }

    /// Takes the value of a type out.
    pub fn remove<T: StateData>(&mut self) {
        let id = TypeId::of::<T>();
        self.slots.retain(|(have, _)| *have != id);
    }

    /// Says whether this cycle is one of those whose plugins are timed one by one.
    pub(crate) const fn sample(&mut self, sampled: bool) {
        self.sampled = sampled;
    }

    /// Whether it is.
    #[must_use]
    pub(crate) const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Marks the filter of the plugin at `position` as skipped for this pod.
    pub(crate) fn skip_filter(&mut self, position: usize) {
        self.skipped_filters |= 1 << position;
    }

    /// Whether that filter is skipped.
    #[must_use]
    pub(crate) const fn is_filter_skipped(&self, position: usize) -> bool {
        self.skipped_filters >> position & 1 == 1
    }

    /// Marks the score of the plugin at `position` as skipped for this pod.
    pub(crate) fn skip_score(&mut self, position: usize) {
        self.skipped_scores |= 1 << position;
    }

    /// Marks that score as not skipped: its PreScore is about to run again.
    pub(crate) fn unskip_score(&mut self, position: usize) {
        self.skipped_scores &= !(1 << position);
    }

    /// Which filters are skipped, a bit a position.
    pub(crate) const fn skipped_filters(&self) -> u64 {
        self.skipped_filters
    }

    /// Which scores are skipped, a bit a position.
    pub(crate) const fn skipped_scores(&self) -> u64 {
        self.skipped_scores
    }

    /// Whether that score is skipped.
    #[must_use]
    pub(crate) const fn is_score_skipped(&self, position: usize) -> bool {
        self.skipped_scores >> position & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Mine(u32);

    #[test]
    fn values_are_found_by_type_and_clones_are_apart() {
        let mut state = CycleState::default();
        assert_eq!(state.read::<Mine>(), None);
        state.write(Mine(1));
        state.write(7_u8);
        let copy = state.clone();
        if let Some(mine) = state.read_mut::<Mine>() {
            mine.0 = 2;
        }
        assert_eq!((state.read(), copy.read()), (Some(&Mine(2)), Some(&Mine(1))));
        assert_eq!(state.read(), Some(&7_u8));
    }
}
