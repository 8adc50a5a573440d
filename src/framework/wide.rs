//! Plugins of a profile whose answers rest on more than the pod, the node at hand and image counts, and how the
//! incremental engine works with them.

use std::sync::Arc;

use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{Code, CycleState, DomainCounts, DomainKey, Plugin, Profile, Reads, Status};
use crate::ids::NodeIdx;

/// Those plugins.
#[derive(Clone, Default)]
pub(super) struct Wide {
    plugins: Vec<WidePlugin>,
    /// Positions of their filters, as bits.
    filters: u64,
    /// Positions of their scores, as bits.
    scores: u64,
    /// Positions of filters whose verdict may rest on other nodes, as bits.
    spanning: u64,
}

#[derive(Clone)]
struct WidePlugin {
    plugin: Arc<dyn Plugin>,
    filter: Option<usize>,
    score: Option<usize>,
}

impl WidePlugin {
    /// Whether the state has something of it: its filter or its score was not skipped.
    fn is_active(&self, state: &CycleState) -> bool {
        self.filter.is_some_and(|at| !state.is_filter_skipped(at))
            || self.score.is_some_and(|at| !state.is_score_skipped(at))
    }
}

/// Whether an answer of those reads may rest on other nodes.
fn spans(reads: Reads) -> bool {
    let wide = Reads::TOPOLOGY
        .and(Reads::VOLUMES)
        .and(Reads::LINKS)
        .and(Reads::CLUSTER);
    reads.any_of(wide)
}

impl Profile {
    pub(super) fn find_wide(&self) -> Wide {
        let mut wide = Wide::default();
        for plugin in self.plugins() {
            let filter = self.filter.iter().position(|p| p.name() == plugin.name());
            let score = self.score.iter().position(|s| s.plugin.name() == plugin.name());
            if filter.is_some() && plugin.filter().is_some_and(|filter| spans(filter.filter_reads())) {
                wide.spanning |= bit(filter);
            }
            if !keeps_to_the_node(&**plugin) {
                wide.filters |= bit(filter);
                wide.scores |= bit(score);
                wide.plugins.push(WidePlugin {
                    plugin: Arc::clone(plugin),
                    filter,
                    score,
                });
            }
        }
        wide
    }

    /// Whether the incremental engine can follow everything that plugins have to say about pods like `pod`.
    #[must_use]
    pub fn is_followed(&self, pod: &PodInfo) -> bool {
        let followed = |wide: &WidePlugin| wide.plugin.domain_counts().is_some() || !wide.plugin.applies_to(pod);
        self.wide.plugins.iter().all(followed)
    }

    /// Whether what plugins prepare for pods like `pod` rests on the network, so that it is void once that changes.
    #[must_use]
    pub fn rests_on_links(&self, pod: &PodInfo) -> bool {
        let rests = |plugin: &dyn Plugin| {
            plugin
                .pre_filter()
                .is_some_and(|point| point.pre_filter_reads().any_of(Reads::LINKS))
        };
        let mut plugins = self.wide.plugins.iter();
        plugins.any(|wide| rests(&*wide.plugin) && wide.plugin.applies_to(pod))
    }

    /// Whether the verdict about a node, in a cycle with this state, may rest on other nodes, so that it must be checked
    /// again where nobody else commits.
    #[must_use]
    pub fn spans_nodes(&self, state: &CycleState) -> bool {
        self.wide.spanning & !state.skipped_filters() != 0
            || self.wide.plugins.iter().any(|wide| wide.plugin.spans_nodes(state))
    }

    /// Filters that keep to the node, as bits.
    pub(crate) const fn local_filters(&self) -> u64 {
        !self.wide.filters
    }

    /// Filters that do not, as bits.
    pub(crate) const fn wide_filters(&self) -> u64 {
        self.wide.filters
    }

    /// Scores that do not keep to the node, as bits.
    pub(crate) const fn wide_scores(&self) -> u64 {
        self.wide.scores
    }

    fn counting<'p>(&'p self, pod: &'p PodInfo) -> impl Iterator<Item = (&'p WidePlugin, &'p dyn DomainCounts)> {
        let plugins = self.wide.plugins.iter();
        let applying = plugins.filter(|wide| wide.plugin.applies_to(pod));
        applying.filter_map(|wide| Some((wide, wide.plugin.domain_counts()?)))
    }

    /// The counting plugins that have a say in a cycle with this state, as bits.
    pub(crate) fn active_counts(&self, state: &CycleState, pod: &PodInfo) -> u64 {
        let positions = self.counting(pod).enumerate();
        let active = positions.filter(|(_, (wide, _))| wide.is_active(state));
        active.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// What of a node the answers of the counting plugins rest on.
    pub(crate) fn domains(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, key: &mut DomainKey) {
        key.clear();
        for (_, counts) in self.counting(pod).filter(|(wide, _)| wide.is_active(state)) {
            counts.domains(state, pod, node, key);
        }
    }

    /// The counting plugins for which pods of `other` change what they count for `pod`, as bits.
    pub(crate) fn concerned(&self, cluster: &ClusterView<'_>, pod: &PodInfo, other: &PodClass) -> u64 {
        let positions = self.counting(pod).enumerate();
        let concerned = positions.filter(|(_, (_, counts))| counts.concerns(cluster, pod, other));
        concerned.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Notes pods that came or went with the plugins that are `concerned`; false: PreFilter and PreScore must run anew.
    pub(crate) fn count_pods(
        &self,
        concerned: u64,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        (other, node, by): (&PodClass, &NodeInfo, i64),
    ) -> bool {
        let mut concerned = self
            .counting(pod)
            .enumerate()
            .filter(|(at, _)| concerned >> at & 1 == 1);
        concerned.all(|(_, (_, counts))| counts.count(cluster, state, pod, other, node, by))
    }

    /// Tells the counting plugins which nodes are feasible, or runs their PreScore again; `groups` has one node of each
    /// group of equal domains, and how many the group has.
    ///
    /// # Errors
    /// A plugin failed.
    pub(crate) fn refresh_pre_score(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        groups: &[(NodeIdx, usize)],
    ) -> Result<(), Status> {
        let feasible: Vec<NodeIdx> = groups.iter().map(|(node, _)| *node).collect();
        for (wide, counts) in self.counting(pod) {
            let (Some(pre_score), Some(score)) = (wide.plugin.pre_score(), wide.score) else {
                continue;
            };
            if counts.weigh(cluster, state, pod, groups) {
                continue;
            }
            state.unskip_score(score);
            let status = pre_score.pre_score_pod(cluster, state, pod, &feasible);
            match status.code {
                Code::Success => {}
                Code::Skip => state.skip_score(score),
                _ => {
                    return Err(Status::error(format!(
                        "running PreScore plugin {:?}: {}",
                        wide.plugin.name(),
                        status.message()
                    )));
                }
            }
        }
        Ok(())
    }

    /// A copy of a state for the points after the decision.
    pub(crate) fn released(&self, state: &CycleState, pod: &PodInfo) -> CycleState {
        let mut copy = state.clone();
        for (_, counts) in self.counting(pod) {
            counts.release(&mut copy);
        }
        copy
    }
}

const fn bit(position: Option<usize>) -> u64 {
    match position {
        Some(at) => 1 << at,
        None => 0,
    }
}

fn keeps_to_the_node(plugin: &dyn Plugin) -> bool {
    let prepares = plugin.pre_filter().is_none_or(|p| p.pre_filter_reads() == Reads::POD)
        && plugin.pre_score().is_none_or(|p| p.pre_score_reads() == Reads::POD);
    let filters = plugin.filter().is_none_or(|p| p.filter_reads().is_node_local());
    let by_value = |score: &dyn crate::framework::Score| score.normalizer().is_none_or(|n| n.by_value());
    let scores = plugin
        .score()
        .is_none_or(|p| p.score_reads().is_node_local() && by_value(p));
    prepares && filters && scores
}
