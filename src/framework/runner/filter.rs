//! PreFilter, Filter and PostFilter.

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{Code, CycleState, NodeStatuses, NominatedNode, PostFilterResult, Profile, Status};
use crate::ids::Symbol;
use crate::ledger::Checks;
use crate::telemetry::ExtensionPoint;

/// How PreFilter ended.
#[derive(Clone, Debug)]
pub enum PreFilterRun {
    /// Filters run on all nodes, or on those named.
    Proceed(Option<Narrowed>),
    /// Rejected for all nodes.
    Rejected {
        /// The answer; its plugin is absent when a combination of plugins is to blame.
        status: Status,
        /// Those to blame.
        plugins: Vec<Symbol>,
    },
    /// Something failed.
    Failed(Status),
}

impl PreFilterRun {
    const fn code(&self) -> Code {
        match self {
            Self::Proceed(_) => Code::Success,
            Self::Rejected { status, .. } | Self::Failed(status) => status.code,
        }
    }
}

/// The nodes that PreFilter plugins left over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Narrowed {
    /// Names, each once; nodes of these names need not exist.
    pub nodes: Vec<Symbol>,
    /// The plugins that narrowed, sorted by name.
    pub plugins: Vec<Symbol>,
}

impl Narrowed {
    fn intersect(self, nodes: &[Symbol], plugin: Symbol) -> Self {
        let kept = self.nodes.into_iter().filter(|node| nodes.contains(node)).collect();
        let mut plugins = self.plugins;
        plugins.push(plugin);
        plugins.sort_unstable_by_key(|p| p.as_str());
        Self { nodes: kept, plugins }
    }

    fn names(&self) -> String {
        self.plugins
            .iter()
            .map(|plugin| plugin.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The status of every node that was left out.
    #[must_use]
    pub fn absent_status(&self) -> Status {
        Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{}]", self.names()))
    }

    fn empty_status(&self) -> Status {
        Status::unresolvable(match self.plugins.as_slice() {
            [one] => format!("node(s) didn't satisfy plugin {one}"),
            _ => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", self.names()),
        })
    }
}

impl Profile {
    /// Runs PreFilter: a plugin that has nothing to do leaves its filter out, an unresolvable rejection ends the run
    /// at once, any other rejection is kept while the remaining plugins prepare their state.
    #[must_use]
    pub fn run_pre_filter(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterRun {
        self.timed(
            ExtensionPoint::PreFilter,
            self.pre_filter.len(),
            || self.pre_filter_plugins(cluster, state, pod),
            PreFilterRun::code,
        )
    }

    fn pre_filter_plugins(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterRun {
        let mut laps = self.plugin_stopwatch(state);
        let mut narrowed: Option<Narrowed> = None;
        let mut rejection: Option<Status> = None;
        for preparing in &self.pre_filter {
            let Some(pre_filter) = preparing.plugin.pre_filter() else {
                continue;
            };
            let name = preparing.plugin.name();
            let outcome = pre_filter.pre_filter_pod(cluster, state, pod);
            laps.plugin(name, ExtensionPoint::PreFilter, outcome.status.code);
            match outcome.status.code {
                Code::Skip => {
                    if let Some(position) = preparing.follows {
                        state.skip_filter(position);
                    }
                    continue;
                }
                Code::Success => {}
                Code::UnschedulableAndUnresolvable => {
                    return PreFilterRun::Rejected {
                        status: outcome.status.by(name),
                        plugins: vec![name],
                    };
                }
                Code::Unschedulable | Code::Pending => {
                    rejection = Some(outcome.status.by(name));
                    continue;
                }
                Code::Error | Code::Wait => {
                    let text = outcome.status.message();
                    return PreFilterRun::Failed(Status::error(format!("running PreFilter plugin {name:?}: {text}")));
                }
            }
            let Some(nodes) = outcome.nodes else { continue };
            let next = match narrowed.take() {
                None => Narrowed {
                    nodes,
                    plugins: vec![name],
                },
                Some(before) => before.intersect(&nodes, name),
            };
            if next.nodes.is_empty() {
                return PreFilterRun::Rejected {
                    status: next.empty_status(),
                    plugins: next.plugins,
                };
            }
            narrowed = Some(next);
        }
        match rejection {
            Some(status) => PreFilterRun::Rejected {
                plugins: status.plugin.into_iter().collect(),
                status,
            },
            None => PreFilterRun::Proceed(narrowed),
        }
    }

    /// Runs the filters on one node without regard to nominated pods; the first rejection decides.
    #[must_use]
    pub fn run_filter(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        self.run_filters(u64::MAX, cluster, state, pod, node)
    }

    /// The same for the filters whose position is a bit of `among`.
    pub(crate) fn run_filters(
        &self,
        among: u64,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Status {
        let mut left = among & !state.skipped_filters();
        while left != 0 {
            let position = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(plugin) = self.filter.get(position) else { break };
            let Some(filter) = plugin.filter() else { continue };
            let status = filter.filter_node(cluster, state, pod, node);
            match status.code {
                Code::Success => {}
                Code::Unschedulable | Code::UnschedulableAndUnresolvable | Code::Pending => {
                    return status.by(plugin.name());
                }
                Code::Error | Code::Wait | Code::Skip => {
                    let text = status.message();
                    return Status::error(format!("running {:?} filter plugin: {text}", plugin.name()));
                }
            }
        }
        Status::SUCCESS
    }

    /// Times one call of each filter on `node`, for the metrics of a sampled cycle; the answers do not count.
    pub(crate) fn sample_filters(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) {
        let mut laps = self.plugin_stopwatch(state);
        for (position, plugin) in self.filter.iter().enumerate() {
            if let Some(filter) = plugin.filter().filter(|_| !state.is_filter_skipped(position)) {
                let status = filter.filter_node(cluster, state, pod, node);
                laps.plugin(plugin.name(), ExtensionPoint::Filter, status.code);
            }
        }
    }

    /// Runs the filters on one node, first as if all pods nominated to it with at least this pod's priority were
    /// there, then, if there are any and the pod fits, without them: it must fit both ways.
    #[must_use]
    pub fn run_filter_with_nominated(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Status {
        self.run_some_with_nominated(u64::MAX, cluster, state, pod, node)
    }

    /// The same again, on a node that differs from one that passed all filters in nothing but which pods are on it: only
    /// filters that look at pods can say anything else.
    #[must_use]
    pub(crate) fn run_filter_again(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Status {
        self.run_some_with_nominated(self.filters_of_pods, cluster, state, pod, node)
    }

    fn run_some_with_nominated(
        &self,
        positions: u64,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Status {
        if node.used.nominated > 0 {
            let nominated = cluster.pods.nominated_to(node.idx).into_iter();
            let others: Vec<_> = nominated
                .filter(|other| other.uid != pod.uid && other.priority() >= pod.priority())
                .collect();
            if !others.is_empty() {
                let mut trial_state = state.clone();
                let mut trial_node = node.clone();
                for other in &others {
                    trial_node.used.add(&other.charge);
                    let status = self.run_add_pod(&mut trial_state, pod, other, &trial_node);
                    if !status.is_success() {
                        return status;
                    }
                }
                let status = self.run_filters(positions, cluster, &trial_state, pod, &trial_node);
                if !status.is_success() {
                    return status;
                }
            }
        }
        self.run_filters(positions, cluster, state, pod, node)
    }

    /// Whether some PreFilter plugin that did not skip counts pods that come or go in `state`; if none does, the state
    /// of a trial is that of the cycle.
    #[must_use]
    pub(crate) fn adjusts_state(&self, state: &CycleState) -> bool {
        self.pre_filter.iter().any(|preparing| {
            let skipped = preparing
                .follows
                .is_some_and(|position| state.is_filter_skipped(position));
            let pre_filter = preparing.plugin.pre_filter().filter(|_| !skipped);
            pre_filter.is_some_and(|pre_filter| pre_filter.extensions().is_some())
        })
    }

    /// Tells every PreFilter plugin that did not skip to count `other` on `node`.
    #[must_use]
    pub fn run_add_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        self.run_extensions(state, "AddPod", |extensions, state| {
            extensions.add_pod(state, pod, other, node)
        })
    }

    /// Tells every PreFilter plugin that did not skip to count `other` on `node` no more.
    #[must_use]
    pub fn run_remove_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        self.run_extensions(state, "RemovePod", |extensions, state| {
            extensions.remove_pod(state, pod, other, node)
        })
    }

    fn run_extensions(
        &self,
        state: &mut CycleState,
        what: &str,
        call: impl Fn(&dyn crate::framework::PreFilterExtensions, &mut CycleState) -> Status,
    ) -> Status {
        for preparing in &self.pre_filter {
            let skipped = preparing
                .follows
                .is_some_and(|position| state.is_filter_skipped(position));
            let Some(pre_filter) = preparing.plugin.pre_filter().filter(|_| !skipped) else {
                continue;
            };
            let Some(extensions) = pre_filter.extensions() else {
                continue;
            };
            let status = call(extensions, state);
            if !status.is_success() {
                let name = preparing.plugin.name();
                let text = status.message();
                return Status::error(format!("running {what} on PreFilter plugin {name:?}: {text}"));
            }
        }
        Status::SUCCESS
    }

    /// Everything countable that the profile's filters check of `pod`.
    #[must_use]
    pub fn reserve_checks(&self, pod: &PodInfo) -> Checks {
        let mut checks = Checks::default();
        for filter in self.filter.iter().filter_map(|plugin| plugin.filter()) {
            filter.reserve_checks(pod, &mut checks);
        }
        checks
    }

    /// Runs PostFilter: the first success or unresolvable rejection ends it, other rejections are collected.
    #[must_use]
    pub fn run_post_filter(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFilterResult {
        self.timed(
            ExtensionPoint::PostFilter,
            self.post_filter.len(),
            || self.post_filter_plugins(cluster, state, pod, statuses),
            |result| result.status.code,
        )
    }

    fn post_filter_plugins(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFilterResult {
        let mut laps = self.plugin_stopwatch(state);
        let mut reasons = smallvec::SmallVec::new();
        let mut nomination = NominatedNode::Keep;
        for plugin in &self.post_filter {
            let Some(post_filter) = plugin.post_filter() else {
                continue;
            };
            let result = post_filter.post_filter_pod(cluster, self, state, pod, statuses);
            laps.plugin(plugin.name(), ExtensionPoint::PostFilter, result.status.code);
            match result.status.code {
                Code::Success | Code::UnschedulableAndUnresolvable => {
                    return PostFilterResult {
                        status: result.status.by(plugin.name()),
                        ..result
                    };
                }
                Code::Unschedulable | Code::Pending => {
                    reasons.extend(result.status.reasons);
                    if nomination == NominatedNode::Keep {
                        nomination = result.nomination;
                    }
                }
                Code::Error | Code::Wait | Code::Skip => {
                    let status = Status {
                        code: Code::Error,
                        ..result.status
                    }
                    .by(plugin.name());
                    return PostFilterResult::new(status, NominatedNode::Keep);
                }
            }
        }
        let status = Status {
            code: Code::Unschedulable,
            reasons,
            plugin: None,
        };
        PostFilterResult::new(status, nomination)
    }

    /// Whether any PostFilter plugin is enabled.
    #[must_use]
    pub fn has_post_filter(&self) -> bool {
        !self.post_filter.is_empty()
    }
}
