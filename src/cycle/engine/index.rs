//! The index of one class: what is known of every node, and how it is brought up to date.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::groups::{Groups, RawKey};
use super::reasons::Reasons;
use crate::cluster::{Cluster, ClusterView, NodeInfo, PodInfo};
use crate::cycle::{Epochs, View};
use crate::framework::{CycleState, DomainKey, PreFilterRun, Profile, Reached, Status, check_range, score_error};
use crate::ids::{ClassId, NodeIdx, PodUid};
use crate::telemetry::EvaluationSet;

/// Classes whose concern is remembered at most; then all are asked again.
const MAX_CONCERNS: usize = 1 << 16;

/// A number that no touch has: every node must be evaluated.
const NOTHING_SEEN: u64 = u64::MAX;

/// The UID of no pod.
const NOBODY: PodUid = PodUid(u128::MAX);

/// What is known of one class in one worker.
#[derive(Debug)]
pub(super) struct ClassIndex {
    pub(super) pod: Arc<PodInfo>,
    pub(super) state: CycleState,
    /// PreScore failed; that matters as soon as two nodes are feasible.
    pub(super) pre_score_failure: Option<Status>,
    /// A filter or score failed for some node.
    pub(super) failure: Option<Status>,
    pub(super) groups: Groups,
    /// Why the other nodes are in no group, where no filter counts pods.
    pub(super) reasons: Reasons,
    /// `[group]`: the sum of normalised, weighted scores; absent: a counting plugin rejects the group.
    pub(super) group_scores: Vec<Option<i64>>,
    /// Nodes in groups that are not rejected.
    pub(super) open_nodes: usize,
    /// The counting plugins that nodes are grouped by, as bits.
    pub(super) grouped_by: u64,
    /// Every filter that is asked keeps to the node at hand.
    pub(super) by_node: bool,
    /// Something changed since groups were scored.
    pub(super) unscored: bool,
    seen: Seen,
    uses_images: bool,
    /// For which counting plugins pods of a class matter, as bits.
    concerns: FxHashMap<ClassId, u64>,
    /// The plugins that take part in a decision: with few nodes to choose from, and with several.
    plugins: (Option<EvaluationSet>, Option<EvaluationSet>),
}

/// How much of the view's changes are taken in.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    touches: u64,
    moves: u64,
    epochs: Epochs,
    /// See [`crate::cluster::NetworkView::version`].
    network: u64,
}

/// How an index was brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CaughtUp {
    /// Nodes that were evaluated.
    pub(super) evaluated: u64,
    /// These were all.
    pub(super) everything: bool,
}

/// PreFilter narrows or rejects: there is nothing to keep.
#[derive(Debug)]
pub(super) struct Unsuitable;

impl ClassIndex {
    /// An index that knows no node yet.
    pub(super) fn new(
        view: &View,
        cluster: &Cluster,
        profile: &Profile,
        pod: &Arc<PodInfo>,
    ) -> Result<Self, Unsuitable> {
        let mut index = Self {
            // Stands for all pods of the class that are nominated nowhere. Labels that nobody sees are this pod's own.
            pod: Arc::new(PodInfo {
                uid: NOBODY,
                labels: cluster
                    .classes
                    .get(pod.class)
                    .map_or_else(|| pod.labels.clone(), |class| class.labels.clone()),
                ..PodInfo::clone(pod)
            }),
            state: CycleState::default(),
            pre_score_failure: None,
            failure: None,
            groups: Groups::default(),
            reasons: Reasons::default(),
            group_scores: Vec::new(),
            open_nodes: 0,
            grouped_by: 0,
            by_node: true,
            unscored: true,
            seen: Seen::default(),
            uses_images: false,
            concerns: FxHashMap::default(),
            plugins: (None, None),
        };
        let cluster_view = view.cluster_view(cluster);
        index.prepare(view, &cluster_view, profile)?;
        index.seen.epochs = view.epochs();
        index.seen.network = view.network().version();
        index.seen.touches = NOTHING_SEEN;
        Ok(index)
    }

    /// Runs PreFilter and PreScore anew, on what the view knows now.
    fn prepare(&mut self, view: &View, cluster: &ClusterView<'_>, profile: &Profile) -> Result<(), Unsuitable> {
        let mut state = CycleState::default();
        let PreFilterRun::Proceed(None) = profile.run_pre_filter(cluster, &mut state, &self.pod) else {
            return Err(Unsuitable);
        };
        self.pre_score_failure = profile.run_pre_score(cluster, &mut state, &self.pod, &[]).err();
        let plugins = |reached| profile.evaluation_set(&state, reached);
        self.plugins = (plugins(Reached::Filter), plugins(Reached::Score));
        self.state = state;
        self.seen.moves = view.moves().next();
        self.unscored = true;
        Ok(())
    }

    /// Whether every filter that is asked keeps to the node at hand.
    fn keeps_to_nodes(&self, profile: &Profile) -> bool {
        self.grouped_by == 0 || profile.wide_filters() & !self.state.skipped_filters() == 0
    }

    /// The plugins that took part in an answer.
    pub(super) const fn plugins(&self) -> Option<EvaluationSet> {
        if self.chooses() { self.plugins.1 } else { self.plugins.0 }
    }

    /// Evaluates what changed since the last time; everything if that is unknown.
    pub(super) fn catch_up(
        &mut self,
        view: &View,
        cluster: &ClusterView<'_>,
        profile: &Profile,
    ) -> Result<CaughtUp, Unsuitable> {
        let (epochs, before) = (view.epochs(), self.seen.epochs);
        let mut everything = before.rebuilds != epochs.rebuilds || self.failure.is_some();
        everything |= self.images_void(cluster, before.images != epochs.images);
        self.seen.epochs = epochs;
        let network = std::mem::replace(&mut self.seen.network, view.network().version());
        let links_void = network != self.seen.network && profile.rests_on_links(&self.pod);
        if before.rebuilds != epochs.rebuilds || before.domains != epochs.domains {
            self.concerns.clear();
            self.prepare(view, cluster, profile)?;
            // Nodes may be in other domains than before.
            everything |= self.grouped_by != 0;
        } else {
            let counted = self.take_moves(view, cluster, profile);
            if !counted || links_void {
                self.prepare(view, cluster, profile)?;
            }
            // Nodes may have to be told apart by keys that did not matter before; use of links moves no node.
            everything |= !counted && self.grouped_by != 0;
        }
        everything |= profile.active_counts(&self.state, &self.pod) & !self.grouped_by != 0;
        everything |= self.by_node != self.keeps_to_nodes(profile);
        everything |= self.groups.list().len() > 2 * cluster.nodes.len() + 1024;
        let touched = view.touches().since(self.seen.touches).filter(|_| !everything);
        let Some(touched) = touched else {
            return Ok(self.evaluate_all(view, cluster, profile));
        };
        let mut caught_up = CaughtUp::default();
        let mut raw = RawKey::new();
        for idx in touched {
            caught_up.evaluated += 1;
            self.evaluate(idx, cluster.nodes.get(idx), cluster, profile, &mut raw);
        }
        self.seen.touches = view.touches().next();
        Ok(caught_up)
    }

    fn images_void(&mut self, cluster: &ClusterView<'_>, changed: bool) -> bool {
        if !changed {
            return false;
        }
        let mut images = self.pod.spec.images.iter();
        let has_images = images.any(|image| cluster.images.get(*image).is_some());
        let used = std::mem::replace(&mut self.uses_images, has_images);
        has_images || used
    }

    /// Counts pods that came and went; false: they are not all known, or the state cannot be adjusted.
    fn take_moves(&mut self, view: &View, cluster: &ClusterView<'_>, profile: &Profile) -> bool {
        let Some(moves) = view.moves().since(self.seen.moves) else {
            return false;
        };
        self.seen.moves = view.moves().next();
        for moved in moves {
            let concerned = self.concerned(moved.class, cluster, profile);
            if concerned == 0 {
                continue;
            }
            self.unscored = true;
            let node = cluster.nodes.get(moved.node);
            let class = cluster.classes.get(moved.class);
            let (Some(node), Some(class)) = (node, class) else {
                return false;
            };
            if !profile.count_pods(concerned, cluster, &mut self.state, &self.pod, (&class, node, moved.by)) {
                return false;
            }
        }
        true
    }

    fn concerned(&mut self, class: ClassId, cluster: &ClusterView<'_>, profile: &Profile) -> u64 {
        if let Some(concerned) = self.concerns.get(&class) {
            return *concerned;
        }
        let other = cluster.classes.get(class);
        let concerned = other.map_or(0, |other| profile.concerned(cluster, &self.pod, &other));
        if self.concerns.len() >= MAX_CONCERNS {
            self.concerns.clear();
        }
        self.concerns.insert(class, concerned);
        concerned
    }

    fn evaluate_all(&mut self, view: &View, cluster: &ClusterView<'_>, profile: &Profile) -> CaughtUp {
        let mut caught_up = CaughtUp {
            evaluated: 0,
            everything: true,
        };
        self.failure = None;
        self.groups.clear();
        self.reasons.clear();
        self.grouped_by = profile.active_counts(&self.state, &self.pod);
        self.by_node = self.keeps_to_nodes(profile);
        let mut raw = RawKey::new();
        for node in cluster.nodes.iter() {
            caught_up.evaluated += 1;
            self.evaluate(node.idx, Some(node), cluster, profile, &mut raw);
        }
        self.seen.touches = view.touches().next();
        caught_up
    }

    fn evaluate(
        &mut self,
        idx: NodeIdx,
        node: Option<&NodeInfo>,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        raw: &mut RawKey,
    ) {
        // Where filters count pods, nodes with nominations are looked at for each pod: what is counted there for a nominated
        // pod is no part of the index.
        let node = node.filter(|node| node.used.nominated == 0 || self.by_node);
        let Some(node) = node else {
            self.reasons.set(idx, None);
            return self.groups.set(idx, None);
        };
        let status = if node.used.nominated == 0 {
            profile.run_filters(profile.local_filters(), cluster, &self.state, &self.pod, node)
        } else {
            profile.run_filter_with_nominated(cluster, &self.state, &self.pod, node)
        };
        if !status.is_success() {
            self.groups.set(idx, None);
            if status.is_rejected() {
                self.reasons.set(idx, Some(status));
            } else {
                self.failure = Some(status);
            }
            return;
        }
        self.reasons.set(idx, None);
        match self.score(node, cluster, profile, raw) {
            Ok(local) => {
                self.key(node, profile, raw);
                self.groups.set(idx, Some((raw, local)));
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Raw scores of normalising plugins that keep to the node into `raw`; the rest of those that do, weighted and
    /// summed up, as the result.
    fn score(
        &self,
        node: &NodeInfo,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        raw: &mut RawKey,
    ) -> Result<i64, Status> {
        raw.clear();
        let mut local = 0;
        let asked = !profile.wide_scores() & !self.state.skipped_scores();
        for (_, scorer, score) in profile.scorers(asked) {
            let value = score.score_node(cluster, &self.state, &self.pod, node);
            let value = value.map_err(|status| score_error(scorer.plugin.name(), &status))?;
            if score.normalizer().is_some() {
                raw.push(value);
            } else {
                check_range(scorer.plugin.name(), value)?;
                local += value * scorer.weight;
            }
        }
        Ok(local)
    }

    /// Appends the node's domains.
    fn key(&self, node: &NodeInfo, profile: &Profile, raw: &mut RawKey) {
        if self.grouped_by == 0 {
            return;
        }
        let mut domains = DomainKey::new();
        profile.domains(&self.state, &self.pod, node, &mut domains);
        raw.extend(domains.iter().map(|domain| domain.cast_signed()));
    }
}
