//! The choice among the groups of an index.

use super::Answer;
use super::groups::Group;
use super::index::ClassIndex;
use crate::cluster::{ClusterView, PodInfo};
use crate::cycle::View;
use crate::cycle::full::Evaluation;
use crate::framework::{NormalizeScore, Profile, Status, check_range, score_error};
use crate::ids::{NodeIdx, Symbol};

impl ClassIndex {
    /// One of the best nodes by `random`, once the index is caught up.
    pub(super) fn answer(
        &mut self,
        view: &View,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        pod: &PodInfo,
        random: u64,
    ) -> Answer {
        if self.failure.is_some() {
            return Answer::Unknown;
        }
        let mut nominated = view.nominated_nodes().iter();
        if !self.by_node && nominated.any(|node| self.fits(*node, cluster, profile, pod)) {
            return Answer::Unknown;
        }
        if self.groups.feasible() > 1
            && let Some(failure) = &self.pre_score_failure
        {
            return Answer::Failed(failure.clone());
        }
        if self.unscored || self.groups.changed || self.grouped_by != 0 {
            if let Err(failure) = self.score_groups(cluster, profile) {
                return Answer::Failed(failure);
            }
            self.groups.changed = false;
            self.unscored = false;
        }
        match self.pick(random) {
            None => Answer::NoFit(self.no_room(cluster)),
            Some(node) => Answer::Node(node, profile.released(&self.state, &self.pod)),
        }
    }

    /// What a full evaluation would have to say of a class that fits nowhere, if that is known.
    fn no_room(&self, cluster: &ClusterView<'_>) -> Option<Box<Evaluation>> {
        if !self.by_node {
            return None;
        }
        let statuses = self.reasons.statuses(cluster.nodes)?;
        Some(Box::new(Evaluation::without_room(statuses, self.state.clone())))
    }

    /// Whether a node passes all filters, once the index is caught up.
    pub(super) fn fits(&self, node: NodeIdx, cluster: &ClusterView<'_>, profile: &Profile, pod: &PodInfo) -> bool {
        let node = cluster.nodes.get(node);
        node.is_some_and(|node| {
            profile
                .run_filter_with_nominated(cluster, &self.state, pod, node)
                .is_success()
        })
    }

    /// Whether an answer rests on scores.
    pub(super) const fn chooses(&self) -> bool {
        self.groups.feasible() > 1
    }

    /// The open groups with their scores.
    fn open(&self) -> impl Iterator<Item = (&Group, i64)> + Clone {
        let groups = self.groups.list().iter().zip(&self.group_scores);
        groups.filter_map(|(group, score)| Some((group, (*score)?)))
    }

    fn pick(&self, random: u64) -> Option<NodeIdx> {
        let total = |(group, score): (&Group, i64)| group.top().map(|(local, _)| local + score);
        let highest = self.open().filter_map(total).max()?;
        let winners = || {
            let best = self.open().filter(|open| total(*open) == Some(highest));
            best.filter_map(|(group, _)| group.top()).map(|(_, nodes)| nodes)
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

    /// Asks the counting plugins about one node of each group, then normalises and sums up by group.
    fn score_groups(&mut self, cluster: &ClusterView<'_>, profile: &Profile) -> Result<(), Status> {
        let (mut open, mut nodes) = (Vec::new(), Vec::<(NodeIdx, usize)>::new());
        self.group_scores.clear();
        self.group_scores.resize(self.groups.list().len(), None);
        self.open_nodes = 0;
        for (at, group) in self.groups.list().iter().enumerate() {
            let Some(node) = group.top().and_then(|(_, nodes)| nodes.first().copied()) else {
                continue;
            };
            if self.grouped_by != 0 && !self.passes(node, cluster, profile)? {
                continue;
            }
            self.open_nodes += group.len;
            open.push(at);
            nodes.push((node, group.len));
        }
        let mut sums = vec![0; open.len()];
        if self.open_nodes > 1 {
            if self.grouped_by != 0 {
                profile.refresh_pre_score(cluster, &mut self.state, &self.pod, &nodes)?;
            }
            self.sum_up(cluster, profile, &open, &nodes, &mut sums)?;
        }
        for (at, sum) in open.into_iter().zip(sums) {
            self.group_scores[at] = Some(sum);
        }
        Ok(())
    }

    fn passes(&self, node: NodeIdx, cluster: &ClusterView<'_>, profile: &Profile) -> Result<bool, Status> {
        let Some(node) = cluster.nodes.get(node) else {
            return Ok(false);
        };
        let status = profile.run_filters(profile.wide_filters(), cluster, &self.state, &self.pod, node);
        if status.is_success() || status.is_rejected() {
            Ok(status.is_success())
        } else {
            Err(status)
        }
    }

    fn sum_up(
        &self,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        open: &[usize],
        nodes: &[(NodeIdx, usize)],
        sums: &mut [i64],
    ) -> Result<(), Status> {
        let mut column = 0;
        let mut values = Vec::with_capacity(open.len());
        for (position, scorer, score) in profile.scorers(!self.state.skipped_scores()) {
            let (name, normalizer) = (scorer.plugin.name(), score.normalizer());
            values.clear();
            if profile.wide_scores() >> position & 1 == 1 {
                for node in nodes.iter().filter_map(|(node, _)| cluster.nodes.get(*node)) {
                    let value = score.score_node(cluster, &self.state, &self.pod, node);
                    values.push(value.map_err(|status| score_error(name, &status))?);
                }
            } else if normalizer.is_some() {
                let list = self.groups.list();
                values.extend(
                    open.iter()
                        .map(|group| list[*group].raw.get(column).copied().unwrap_or(0)),
                );
                column += 1;
            } else {
                // Contained in the node-local totals.
                continue;
            }
            if let Some(normalizer) = normalizer {
                self.normalize(normalizer, &mut values)?;
            }
            for (sum, value) in sums.iter_mut().zip(&values) {
                *sum += weighted(name, *value, scorer.weight)?;
            }
        }
        Ok(())
    }

    fn normalize(&self, normalizer: &dyn NormalizeScore, values: &mut [i64]) -> Result<(), Status> {
        let status = normalizer.normalize(&self.state, &self.pod, values);
        if status.is_success() {
            return Ok(());
        }
        Err(Status::error(format!(
            "running Normalize on Score plugins: {}",
            status.message()
        )))
    }

    /// Feasible nodes and their totals, for the proof that they are those of a full evaluation.
    #[cfg(test)]
    pub(super) fn totals(&self) -> Vec<(NodeIdx, i64)> {
        let nodes = self.open().flat_map(|(group, score)| {
            let buckets = group.buckets.iter();
            buckets.flat_map(move |(local, nodes)| nodes.iter().map(move |node| (*node, local + score)))
        });
        let mut totals: Vec<_> = nodes.collect();
        totals.sort_unstable();
        totals
    }
}

fn weighted(plugin: Symbol, value: i64, weight: i64) -> Result<i64, Status> {
    check_range(plugin, value)?;
    Ok(value * weight)
}
