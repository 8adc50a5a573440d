//! The tree of places, in flat arrays.
//!
//! Does not: forget a place; a number stands for one place for ever.

use rustc_hash::FxHashMap;

use crate::ids::{DomainIdx, Symbol};

/// Places at most, the cluster included. At about 60 bytes a place the copy that a change makes stays below 64 MB.
pub const MAX_DOMAINS: usize = 1 << 20;

/// One step of a path inwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// The level: a label key such as `topology.kubernetes.io/zone`, or what a source calls it.
    pub level: Symbol,
    /// The name at that level.
    pub name: Symbol,
}

/// The link from a place to the place around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// What it carries outwards, bits/s; `None`: not limited.
    pub egress: Option<i64>,
    /// What it carries inwards, bits/s; `None`: not limited.
    pub ingress: Option<i64>,
    /// What one way over it takes, µs; `None`: not known.
    pub cost_micros: Option<u32>,
}

/// All places. `[place]` arrays, the cluster first.
#[derive(Clone, Debug)]
pub struct Tree {
    parent: Vec<DomainIdx>,
    depth: Vec<u16>,
    step: Vec<Step>,
    link: Vec<Link>,
    children: FxHashMap<(DomainIdx, Step), DomainIdx>,
}

impl Default for Tree {
    fn default() -> Self {
        let nowhere = Symbol::new("");
        Self {
            parent: vec![DomainIdx::ROOT],
            depth: vec![0],
            step: vec![Step {
                level: nowhere,
                name: nowhere,
            }],
            link: vec![Link::default()],
            children: FxHashMap::default(),
        }
    }
}

impl Tree {
    /// Number of places, the cluster included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Whether there is no place but the cluster.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    /// All places, the cluster first.
    pub fn places(&self) -> impl Iterator<Item = DomainIdx> {
        (0_u32..).take(self.len()).map(DomainIdx)
    }

    /// The place at the end of a path, if it is known.
    #[must_use]
    pub fn find(&self, path: &[Step]) -> Option<DomainIdx> {
        path.iter().try_fold(DomainIdx::ROOT, |place, step| {
            self.children.get(&(place, *step)).copied()
        })
    }

    /// The place at the end of a path, made where it is not known; the innermost known one when the tree is full.
    pub(super) fn insert(&mut self, path: &[Step]) -> DomainIdx {
        let mut place = DomainIdx::ROOT;
        for step in path {
            if let Some(known) = self.children.get(&(place, *step)) {
                place = *known;
                continue;
            }
            let Some(next) = self.next() else { return place };
            self.parent.push(place);
            self.depth.push(self.depth[place.at()].saturating_add(1));
            self.step.push(*step);
            self.link.push(Link::default());
            self.children.insert((place, *step), next);
            place = next;
        }
        place
    }

    fn next(&self) -> Option<DomainIdx> {
        let free = self.len() < MAX_DOMAINS;
        u32::try_from(self.len()).ok().filter(|_| free).map(DomainIdx)
    }

    pub(super) fn set_link(&mut self, place: DomainIdx, link: Link) {
        if let Some(known) = self.link.get_mut(place.at()) {
            *known = link;
        }
    }

    /// The link of a place to the place around it.
    #[must_use]
    pub fn link(&self, place: DomainIdx) -> Option<&Link> {
        self.link.get(place.at())
    }

    /// The last step of a place's path; the cluster's is empty.
    #[must_use]
    pub fn step(&self, place: DomainIdx) -> Option<Step> {
        self.step.get(place.at()).copied()
    }

    /// The place and those around it, inside out, the cluster left out: the links that its outside traffic goes over.
    pub fn outwards(&self, place: DomainIdx) -> impl Iterator<Item = DomainIdx> {
        let known = Some(place).filter(|place| place.at() < self.len());
        let first = known.filter(|place| *place != DomainIdx::ROOT);
        std::iter::successors(first, |place| {
            Some(self.parent[place.at()]).filter(|outer| *outer != DomainIdx::ROOT)
        })
    }

    /// The name that a place has at a level, its own or that of a place around it. O(depth).
    #[must_use]
    pub fn name_at(&self, place: DomainIdx, level: Symbol) -> Option<Symbol> {
        let steps = self.outwards(place).map(|place| self.step[place.at()]);
        steps.filter(|step| step.level == level).map(|step| step.name).next()
    }

    /// The innermost place around both. O(depth).
    #[must_use]
    pub fn common(&self, a: DomainIdx, b: DomainIdx) -> DomainIdx {
        let (mut a, mut b) = (self.known(a), self.known(b));
        while a != b {
            if self.depth[a.at()] >= self.depth[b.at()] {
                a = self.parent[a.at()];
            } else {
                b = self.parent[b.at()];
            }
        }
        a
    }

    fn known(&self, place: DomainIdx) -> DomainIdx {
        if place.at() < self.len() {
            place
        } else {
            DomainIdx::ROOT
        }
    }

    /// The links between two places: those out of `from`, then those into `to`, both inside out. None inside one place.
    pub fn path(
        &self,
        from: DomainIdx,
        to: DomainIdx,
    ) -> (impl Iterator<Item = DomainIdx>, impl Iterator<Item = DomainIdx>) {
        let common = self.common(from, to);
        let until = move |place: &DomainIdx| *place != common;
        (
            self.outwards(from).take_while(until),
            self.outwards(to).take_while(until),
        )
    }

    /// What one way from one place to another takes by the links' costs, µs; `None` when one of them has none, and
    /// where there is no link between them because they are the same place: 0.
    #[must_use]
    pub fn cost_micros(&self, from: DomainIdx, to: DomainIdx) -> Option<u32> {
        let (out, into) = self.path(from, to);
        out.chain(into).try_fold(0_u32, |sum, place| {
            self.link[place.at()].cost_micros.map(|cost| sum.saturating_add(cost))
        })
    }
}
