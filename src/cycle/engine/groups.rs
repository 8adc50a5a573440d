//! Feasible nodes by raw scores and node-local total.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ids::NodeIdx;

/// Raw scores of the normalising plugins that keep to the node, in the order of the profile's scorers; then what of the
/// node the counting plugins' answers rest on.
pub(super) type RawKey = SmallVec<[i64; 4]>;

/// Where a node stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    group: u32,
    at: u32,
    local: i64,
}

const NOWHERE: u32 = u32::MAX;

/// Nodes that differ in nothing but their node-local total.
#[derive(Debug)]
pub(super) struct Group {
    /// Those scores.
    pub(super) raw: RawKey,
    /// Nodes by node-local total.
    pub(super) buckets: BTreeMap<i64, Vec<NodeIdx>>,
    /// Number of nodes.
    pub(super) len: usize,
}

impl Group {
    /// The highest node-local total and the nodes that have it.
    pub(super) fn top(&self) -> Option<(i64, &[NodeIdx])> {
        self.buckets
            .last_key_value()
            .map(|(local, nodes)| (*local, nodes.as_slice()))
    }
}

/// All feasible nodes of a class. A node is moved in time that does not depend on the number of nodes.
#[derive(Debug, Default)]
pub(super) struct Groups {
    places: Vec<Place>,
    list: Vec<Group>,
    by_raw: FxHashMap<RawKey, u32>,
    feasible: usize,
    /// Set when a group became empty or is no longer: normalisation has to look again.
    pub(super) changed: bool,
}

impl Groups {
    /// Puts a node where its scores say, or takes it out.
    pub(super) fn set(&mut self, node: NodeIdx, scores: Option<(&RawKey, i64)>) {
        if self.places.len() <= node.at() {
            self.places.resize(
                node.at() + 1,
                Place {
                    group: NOWHERE,
                    at: 0,
                    local: 0,
                },
            );
        }
        let place = self.places[node.at()];
        let group = scores.map(|(raw, _)| self.group(raw));
        if let (Some(group), Some((_, local))) = (group, scores)
            && place.group == group
            && place.local == local
        {
            return;
        }
        if place.group != NOWHERE {
            self.take_out(node, place);
        }
        if let (Some(group), Some((_, local))) = (group, scores) {
            self.put_in(node, group, local);
        }
    }

    fn group(&mut self, raw: &RawKey) -> u32 {
        if let Some(found) = self.by_raw.get(raw) {
            return *found;
        }
        let id = u32::try_from(self.list.len()).unwrap_or(NOWHERE - 1);
        self.list.push(Group {
            raw: raw.clone(),
            buckets: BTreeMap::new(),
            len: 0,
        });
        self.by_raw.insert(raw.clone(), id);
        id
    }

    fn take_out(&mut self, node: NodeIdx, place: Place) {
        let group = &mut self.list[place.group as usize];
        if let Some(bucket) = group.buckets.get_mut(&place.local) {
            bucket.swap_remove(place.at as usize);
            if let Some(moved) = bucket.get(place.at as usize) {
                self.places[moved.at()].at = place.at;
            }
            if bucket.is_empty() {
                group.buckets.remove(&place.local);
            }
        }
        group.len -= 1;
        self.changed |= group.len == 0;
        self.feasible -= 1;
        self.places[node.at()].group = NOWHERE;
    }

    fn put_in(&mut self, node: NodeIdx, group_id: u32, local: i64) {
        let group = &mut self.list[group_id as usize];
        let bucket = group.buckets.entry(local).or_default();
        let at = u32::try_from(bucket.len()).unwrap_or(u32::MAX);
        bucket.push(node);
        self.changed |= group.len == 0;
        group.len += 1;
        self.feasible += 1;
        self.places[node.at()] = Place {
            group: group_id,
            at,
            local,
        };
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) {
        *self = Self {
            changed: true,
            ..Self::default()
        };
    }

    /// Number of feasible nodes.
    pub(super) const fn feasible(&self) -> usize {
        self.feasible
    }

    /// Groups that were ever used; empty ones have no top.
    pub(super) fn list(&self) -> &[Group] {
        &self.list
    }
}
