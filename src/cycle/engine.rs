//! The incremental engine: what did not change is not computed again.
//!
//! For every class of pods it keeps the answer of all filters and scores that keep to the node, and re-evaluates a node
//! only when something that the profile's plugins read of it changed. What plugins count over placed pods it keeps up to
//! date pod by pod ([`crate::framework::DomainCounts`]). Nodes of equal raw scores of the normalising plugins, and of
//! equal domains where a counting plugin has a say, form a group; inside a group nodes stand by the sum of their
//! node-local scores. So the best node is found among groups: counting plugins are asked about one node of each.
//!
//! Does not: know plugins by name; evaluate classes to which a plugin has something to say that it cannot follow (those
//! are evaluated in full), nor nodes with nominations (those are looked at apart).
//!
//! Proof obligation: for any sequence of changes the feasible nodes, totals and winners are those of
//! [`crate::cycle::full`]; `engine/tests.rs` holds it against random sequences.

mod choose;
mod groups;
mod index;
mod reasons;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::{Cluster, PodInfo};
use crate::cycle::View;
use crate::cycle::full::Evaluation;
use crate::framework::{Code, CycleState, Profile, Status, Stopwatch};
use crate::ids::{ClassId, NodeIdx};
use crate::telemetry::{EngineMode, ExtensionPoint};
use index::{ClassIndex, Unsuitable};

/// Bytes that the indexes of one engine may take; the class used least recently goes first.
const INDEX_BUDGET_BYTES: usize = 512 << 20;
/// What one node costs in one index, about.
const BYTES_A_NODE: usize = 32;

/// How often the engine could re-use what it knew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// Decisions from an index.
    pub incremental: u64,
    /// Decisions for which every node was evaluated.
    pub full: u64,
    /// Single nodes evaluated again.
    pub nodes_evaluated: u64,
}

/// Indexes by class and profile: the memory of one worker.
#[derive(Debug)]
pub struct Engine {
    classes: FxHashMap<(usize, ClassId), Class>,
    clock: u64,
    stats: EngineStats,
    /// See [`INDEX_BUDGET_BYTES`].
    budget_bytes: usize,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            classes: FxHashMap::default(),
            clock: 0,
            stats: EngineStats::default(),
            budget_bytes: INDEX_BUDGET_BYTES,
        }
    }
}

#[derive(Debug)]
enum Slot {
    /// Seen once: a class earns its index with its second pod.
    SeenOnce,
    /// Cannot be indexed: its PreFilter narrows or rejects, or a plugin reads too much.
    Unsuitable,
    /// Indexed.
    Indexed(Box<ClassIndex>),
}

/// What is known of a class.
#[derive(Debug)]
struct Class {
    slot: Slot,
    /// The engine's clock at its last decision.
    used: u64,
}

impl Slot {
    fn of(index: Result<ClassIndex, Unsuitable>) -> Self {
        match index {
            Ok(index) => Self::Indexed(Box::new(index)),
            Err(Unsuitable) => Self::Unsuitable,
        }
    }
}

/// What the engine says about a pod.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made a pod and moved at once; a box would allocate"
)]
pub(crate) enum Answer {
    /// One of the best nodes, and what the plugins remember of the class.
    Node(NodeIdx, CycleState),
    /// No node is feasible, and what the full evaluation would say about it, if that is known.
    NoFit(Option<Box<Evaluation>>),
    /// A plugin failed.
    Failed(Status),
    /// Ask the full evaluation.
    Unknown,
}

impl Engine {
    /// Figures so far.
    #[must_use]
    pub const fn stats(&self) -> EngineStats {
        self.stats
    }

    /// Whether a pod still fits on a node as of the view; `None`: the pod's class is not indexed.
    pub(crate) fn fits(
        &mut self,
        view: &View,
        cluster: &Cluster,
        profile: &Profile,
        pod: &PodInfo,
        node: NodeIdx,
    ) -> Option<bool> {
        let class = self.classes.get_mut(&(profile.index, pod.class))?;
        let Slot::Indexed(index) = &mut class.slot else {
            return None;
        };
        let cluster_view = view.cluster_view(cluster);
        index.catch_up(view, &cluster_view, profile).ok()?;
        Some(index.fits(node, &cluster_view, profile, pod))
    }

    /// Notes that a decision came from a full evaluation.
    pub(crate) const fn count_full(&mut self) {
        self.stats.full += 1;
    }

    /// One of the best nodes for a pod as of the view, from the class's index; `random` decides among equals.
    ///
    /// Metrics of a decision: as Filter the time to bring the index up to date, which filters and scores the nodes that
    /// changed, as Score the time to choose among the feasible nodes, if there are several; PreFilter and PreScore do
    /// not run. A decision for which every node was evaluated counts as a full one. Where the full evaluation is asked
    /// next, it records instead.
    pub(crate) fn best(
        &mut self,
        view: &View,
        cluster: &Cluster,
        profile: &Profile,
        pod: &Arc<PodInfo>,
        random: u64,
        watch: &mut Stopwatch<'_>,
    ) -> Answer {
        if !profile.is_followed(pod) {
            return Answer::Unknown;
        }
        self.clock += 1;
        let used = self.clock;
        let key = (profile.index, pod.class);
        let Some(class) = self.classes.get_mut(&key) else {
            self.make_room(view.nodes().slot_count());
            let slot = Slot::SeenOnce;
            self.classes.insert(key, Class { slot, used });
            return Answer::Unknown;
        };
        class.used = used;
        let slot = &mut class.slot;
        if matches!(slot, Slot::SeenOnce) {
            *slot = Slot::of(ClassIndex::new(view, cluster, profile, pod));
        }
        let Slot::Indexed(index) = slot else {
            return Answer::Unknown;
        };
        let cluster_view = view.cluster_view(cluster);
        let Ok(caught_up) = index.catch_up(view, &cluster_view, profile) else {
            *slot = Slot::Unsuitable;
            return Answer::Unknown;
        };
        let filtering = watch.lap();
        let answer = index.answer(view, &cluster_view, profile, pod, random);
        let scoring = watch.lap();
        self.stats.nodes_evaluated += caught_up.evaluated;
        if !matches!(answer, Answer::Unknown) {
            self.stats.incremental += 1;
        }
        let code = match answer {
            Answer::Node(..) => Code::Success,
            Answer::Failed(_) => Code::Error,
            Answer::NoFit(Some(_)) => Code::Unschedulable,
            Answer::NoFit(None) | Answer::Unknown => return answer,
        };
        watch.record(ExtensionPoint::Filter, Code::Success, filtering);
        if index.chooses() {
            watch.record(ExtensionPoint::Score, code, scoring);
        }
        watch.evaluation(if caught_up.everything {
            EngineMode::Full
        } else {
            EngineMode::Incremental
        });
        profile.count_evaluation(index.plugins());
        answer
    }

    /// Forgets the class used least recently while indexes take more than their budget. A class without an index counts
    /// like one with it: so it lives long enough to earn its own.
    fn make_room(&mut self, slot_count: usize) {
        let budget = (self.budget_bytes / (BYTES_A_NODE * slot_count.max(64))).max(2);
        while self.classes.len() >= budget {
            let oldest = self.classes.iter().min_by_key(|(_, class)| class.used);
            let Some(key) = oldest.map(|(key, _)| *key) else { return };
            self.classes.remove(&key);
        }
    }

    /// Forgets everything: after a panic in a plugin nothing that it left behind is trusted.
    pub fn clear(&mut self) {
        self.classes.clear();
    }

    /// A node's total for a class, for tests and self-checks; `None`: not feasible or not indexed.
    #[must_use]
    pub fn is_indexed(&self, profile: usize, class: ClassId) -> bool {
        let class = self.classes.get(&(profile, class));
        class.is_some_and(|class| matches!(class.slot, Slot::Indexed(_)))
    }
}
