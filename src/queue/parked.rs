//! Pods that wait for an event or are gated, in groups that an event concerns alike.
//!
//! Pods of one class, profile and set of rejectors get the same answer from every hint that says so, so an event costs
//! what the groups cost and not what the pods cost.
//!
//! Does not: ask hints; see `requeue`.

use rustc_hash::FxHashMap;

use super::pod::{QueuedPodInfo, Rejectors};
use crate::ids::{ClassId, Symbol};

/// What the pods of a group have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct GroupKey {
    class: ClassId,
    profile: Symbol,
    unschedulable: super::pod::PluginSet,
    pending: super::pod::PluginSet,
    gating_plugin: Option<Symbol>,
}

impl GroupKey {
    pub(super) fn of(queued: &QueuedPodInfo) -> Self {
        let Rejectors { unschedulable, pending } = queued.rejectors.clone();
        Self {
            class: queued.pod.class,
            profile: queued.profile.name,
            unschedulable,
            pending,
            gating_plugin: queued.gating_plugin,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct At {
    group: u32,
    position: u32,
}

/// The groups. All operations are O(1).
#[derive(Debug, Default)]
pub(super) struct Parked {
    by_key: FxHashMap<GroupKey, u32>,
    groups: Vec<(Option<GroupKey>, Vec<u32>)>,
    free: Vec<u32>,
    /// Where a slot is, by slot.
    places: Vec<Option<At>>,
    len: usize,
}

impl Parked {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a slot that is not there.
    pub(super) fn insert(&mut self, slot: u32, key: GroupKey) {
        let group = match self.by_key.get(&key) {
            Some(found) => *found,
            None => self.open(key),
        };
        let members = &mut self.groups[group as usize].1;
        // Slots are u32, and a group holds each at most once.
        let position = u32::try_from(members.len()).unwrap_or(u32::MAX);
        members.push(slot);
        let at = slot as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        self.places[at] = Some(At { group, position });
        self.len += 1;
    }

    fn open(&mut self, key: GroupKey) -> u32 {
        let group = self.free.pop().unwrap_or_else(|| {
            self.groups.push((None, Vec::new()));
            u32::try_from(self.groups.len() - 1).unwrap_or(u32::MAX)
        });
        self.groups[group as usize].0 = Some(key.clone());
        self.by_key.insert(key, group);
        group
    }

    /// Takes a slot out; false: it is not there.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = self.places.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        let (key, members) = &mut self.groups[at.group as usize];
        members.swap_remove(at.position as usize);
        if let Some(moved) = members.get(at.position as usize) {
            self.places[*moved as usize] = Some(at);
        }
        if members.is_empty() {
            members.shrink_to(64);
            if let Some(key) = key.take() {
                self.by_key.remove(&key);
                self.free.push(at.group);
            }
        }
        self.len -= 1;
        true
    }

    /// The members of each group that is not empty.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[u32]> {
        self.groups
            .iter()
            .map(|(_, members)| members.as_slice())
            .filter(|members| !members.is_empty())
    }

    /// All slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.groups().flatten().copied()
    }
}
