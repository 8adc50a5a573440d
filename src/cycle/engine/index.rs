//! The index of one class.

use std::sync::Arc;

use super::Answer;
use super::groups::{Group, Groups, RawKey};
use crate::cluster::{Cluster, ClusterView, NodeInfo, PodInfo};
use crate::cycle::{Epochs, View};
use crate::framework::{CycleState, PreFilterRun, Profile, Reached, Score, Status, check_range, score_error};
use crate::ids::NodeIdx;
use crate::telemetry::EvaluationSet;

/// A class with more groups than this is evaluated in full: looking through groups would cost more than it saves.
const MAX_GROUPS: usize = 512;

/// What is known of one class in one worker.
#[derive(Debug)]
pub(super) struct ClassIndex {
    pod: Arc<PodInfo>,
    state: CycleState,
    /// PreScore failed; that matters as soon as two nodes are feasible.
    pre_score_failure: Option<Status>,
    /// A filter or score failed for some node.
    failure: Option<Status>,
    groups: Groups,
    /// `[group]`: the sum of normalised, weighted scores.
    group_scores: Vec<i64>,
    seen: u64,
    epochs: Epochs,
    uses_images: bool,
    /// The plugins that take part in a decision: with few nodes to choose from, and with several.
    plugins: (Option<EvaluationSet>, Option<EvaluationSet>),
}

/// How an index was brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CaughtUp {
    /// Nodes that were evaluated.
    pub(super) evaluated: u64,
    /// These were all.
    pub(super) everything: bool,
}

impl ClassIndex {
    /// Evaluates every node; `None` when PreFilter narrows or rejects, so that there is nothing to keep.
    pub(super) fn new(view: &View, cluster: &Cluster, profile: &Profile, pod: &Arc<PodInfo>) -> Option<Self> {
        let cluster_view = view.cluster_view(cluster);
        let mut state = CycleState::default();
        let PreFilterRun::Proceed(None) = profile.run_pre_filter(&cluster_view, &mut state, pod) else {
            return None;
        };
        let pre_score_failure = profile.run_pre_score(&cluster_view, &mut state, pod, &[]).err();
        let plugins = |reached| profile.evaluation_set(&state, reached);
        Some(Self {
            plugins: (plugins(Reached::Filter), plugins(Reached::Score)),
            pod: Arc::clone(pod),
            state,
            pre_score_failure,
            failure: None,
            groups: Groups::default(),
            group_scores: Vec::new(),
            seen: u64::MAX,
            epochs: Epochs::default(),
            uses_images: false,
        })
    }

    /// One of the best nodes by `random`, once the index is caught up.
    pub(super) fn answer(
        &mut self,
        view: &View,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        pod: &PodInfo,
        random: u64,
    ) -> Answer {
        if self.failure.is_some() || self.groups.list().len() > MAX_GROUPS {
            return Answer::Unknown;
        }
        let fits_nominated = |idx: &NodeIdx| {
            let node = cluster.nodes.get(*idx);
            node.is_some_and(|node| {
                profile
                    .run_filter_with_nominated(cluster, &self.state, pod, node)
                    .is_success()
            })
        };
        if view.nominated_nodes().iter().any(fits_nominated) {
            return Answer::Unknown;
        }
        match self.groups.feasible() {
            0 => return Answer::NoFit,
            1 => return self.chosen(self.groups.any()),
            _ => {}
        }
        if let Some(failure) = &self.pre_score_failure {
            return Answer::Failed(failure.clone());
        }
        if self.groups.changed {
            if let Err(failure) = self.normalize(profile) {
                return Answer::Failed(failure);
            }
            self.groups.changed = false;
        }
        self.chosen(self.pick(random))
    }

    /// Whether an answer rests on scores.
    pub(super) const fn chooses(&self) -> bool {
        self.groups.feasible() > 1
    }

    /// The plugins that took part in an answer.
    pub(super) const fn plugins(&self) -> Option<EvaluationSet> {
        if self.chooses() { self.plugins.1 } else { self.plugins.0 }
    }

    fn chosen(&self, node: Option<NodeIdx>) -> Answer {
        node.map_or(Answer::NoFit, |node| Answer::Node(node, self.state.clone()))
    }

    fn pick(&self, random: u64) -> Option<NodeIdx> {
        let total = |(group, score): (&Group, &i64)| group.top().map(|(local, _)| local + score);
        let highest = self
            .groups
            .list()
            .iter()
            .zip(&self.group_scores)
            .filter_map(total)
            .max()?;
        let winners = || {
            let groups = self.groups.list().iter().zip(&self.group_scores);
            groups
                .filter(|pair| total(*pair) == Some(highest))
                .filter_map(|(group, _)| group.top())
                .map(|(_, n)| n)
        };
        let count: usize = winners().map(<[NodeIdx]>::len).sum();
        let mut nth = usize::try_from(random % u64::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0);
        for nodes in winners() {
            match nodes.get(nth) {
                Some(node) => return Some(*node),
                None => nth -= nodes.len(),
            }
        }
        None
    }

    /// Evaluates what changed since the last time; everything if that is unknown.
    pub(super) fn catch_up(&mut self, view: &View, cluster: &ClusterView<'_>, profile: &Profile) -> CaughtUp {
        let epochs = view.epochs();
        let has_images = epochs.images != self.epochs.images
            && self
                .pod
                .spec
                .images
                .iter()
                .any(|image| cluster.images.get(*image).is_some());
        let images_void = epochs.images != self.epochs.images && (has_images || self.uses_images);
        let all_void =
            self.seen == u64::MAX || epochs.rebuilds != self.epochs.rebuilds || images_void || self.failure.is_some();
        if epochs.images != self.epochs.images {
            self.uses_images = has_images;
        }
        self.epochs = epochs;
        let mut caught_up = CaughtUp::default();
        let mut raw = RawKey::new();
        let missed = view.touches().since(self.seen).filter(|_| !all_void);
        match missed {
            Some(touched) => {
                for idx in touched {
                    caught_up.evaluated += 1;
                    self.evaluate(idx, cluster.nodes.get(idx), cluster, profile, &mut raw);
                }
            }
            None => {
                caught_up.everything = true;
                self.failure = None;
                self.groups.clear();
                for node in cluster.nodes.iter() {
                    caught_up.evaluated += 1;
                    self.evaluate(node.idx, Some(node), cluster, profile, &mut raw);
                }
            }
        }
        self.seen = view.touches().next();
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
        // Nodes with nominations are looked at for each pod, because the answer depends on its UID and priority.
        let Some(node) = node.filter(|node| node.used.nominated == 0) else {
            return self.groups.set(idx, None);
        };
        let status = profile.run_filter(cluster, &self.state, &self.pod, node);
        if !status.is_success() {
            if !status.is_rejected() {
                self.failure = Some(status);
            }
            return self.groups.set(idx, None);
        }
        match self.score(node, cluster, profile, raw) {
            Ok(local) => self.groups.set(idx, Some((raw, local))),
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Raw scores of normalising plugins into `raw`; the rest, weighted and summed up, as the result.
    fn score(
        &self,
        node: &NodeInfo,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        raw: &mut RawKey,
    ) -> Result<i64, Status> {
        raw.clear();
        let mut local = 0;
        for (scorer, score) in self.scorers(profile) {
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

    fn scorers<'p>(
        &self,
        profile: &'p Profile,
    ) -> impl Iterator<Item = (&'p crate::framework::ScorePlugin, &'p dyn Score)> {
        let plugins = profile.score_plugins().iter().enumerate();
        let active = plugins.filter(|(position, _)| !self.state.is_score_skipped(*position));
        active.filter_map(|(_, scorer)| scorer.plugin.score().map(|score| (scorer, score)))
    }

    /// Normalises each raw score that occurs, and sums up by group.
    fn normalize(&mut self, profile: &Profile) -> Result<(), Status> {
        let mut sums = vec![0; self.groups.list().len()];
        let occupied: Vec<usize> = self
            .groups
            .list()
            .iter()
            .enumerate()
            .filter(|(_, group)| group.top().is_some())
            .map(|(at, _)| at)
            .collect();
        let normalizing = self
            .scorers(profile)
            .filter_map(|(scorer, score)| Some((scorer, score.normalizer()?)));
        for (column, (scorer, normalizer)) in normalizing.enumerate() {
            let value = |group: &usize| self.groups.list()[*group].raw.get(column).copied().unwrap_or(0);
            let mut values: Vec<i64> = occupied.iter().map(value).collect();
            let status = normalizer.normalize(&self.state, &self.pod, &mut values);
            if !status.is_success() {
                return Err(Status::error(format!(
                    "running Normalize on Score plugins: {}",
                    status.message()
                )));
            }
            for (group, value) in occupied.iter().zip(values) {
                check_range(scorer.plugin.name(), value)?;
                sums[*group] += value * scorer.weight;
            }
        }
        self.group_scores = sums;
        Ok(())
    }

    /// Feasible nodes and their totals, for the proof that they are those of a full evaluation.
    #[cfg(test)]
    pub(super) fn totals(&self) -> Vec<(NodeIdx, i64)> {
        let groups = self
            .groups
            .list()
            .iter()
            .zip(self.group_scores.iter().chain(std::iter::repeat(&0)));
        let nodes = groups.flat_map(|(group, score)| {
            group
                .buckets
                .iter()
                .flat_map(move |(local, nodes)| nodes.iter().map(move |node| (*node, local + score)))
        });
        let mut totals: Vec<_> = nodes.collect();
        totals.sort_unstable();
        totals
    }
}
