//! `PodTopologySpread`: keeps pods that belong together evenly spread over domains, which are the values of a node
//! label. Hard constraints filter, soft ones score; pods without constraints get the profile's defaults, with a
//! selector deduced from the Services and the controller that own them.
//!
//! Pods are counted by class: a selector is evaluated once a class. Counts follow single changes
//! ([`DomainCounts`]), so that a class of pods is counted for once and not for every pod. A node costs the filter and
//! the score one label and one table look-up a constraint, and no allocation.
//!
//! Does not: look at other profiles' added affinity or at `spec.unschedulable`, as upstream.
//!
//! Children in reading order: `constraints`, `hard`, `soft` (with `logarithm`), `hints`.
//!
//! Source: `pkg/scheduler/framework/plugins/podtopologyspread`, Kubernetes 1.36.

mod constraints;
mod hard;
mod hints;
mod logarithm;
mod soft;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use crate::cluster::{ClusterView, NodeInfo, PodClass, PodInfo};
use crate::framework::{
    ActionType, CycleState, DomainCounts, DomainKey, EventHint, EventResource, Filter, LabelsRead, NormalizeScore,
    Plugin, PluginContext, PreFilter, PreFilterExtensions, PreFilterOutcome, PreScore, Reads, Score, Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::args::own_args;
use constraints::{Action, Constraint, Defaults};
use hard::{HardState, Rejection, is_peer};
use soft::{Lowest, SoftState};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("PodTopologySpread"));
static SKEW_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match pod topology spread constraints"));
static LABEL_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match pod topology spread constraints (missing required label)"));

/// Counts rest on the labels, taints and pods of all nodes.
const READS: Reads = Reads::TOPOLOGY.and(Reads::NODE_SPEC);

/// The plugin.
pub(super) struct PodTopologySpread {
    defaults: Arc<Defaults>,
}

/// Makes the plugin from `PodTopologySpreadArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let defaults = Defaults::from_args(&*own_args(context)?);
    Ok(Arc::new(PodTopologySpread {
        defaults: Arc::new(defaults),
    }))
}

/// Constraints, or what is wrong with them.
type Resolved = Result<Arc<[Constraint]>, String>;

impl PodTopologySpread {
    fn hard(&self, cluster: &ClusterView<'_>, pod: &PodInfo) -> Resolved {
        let hard = self.defaults.resolve(pod, cluster.owners, Action::DoNotSchedule);
        hard.map(Arc::from)
    }

    fn soft(&self, cluster: &ClusterView<'_>, pod: &PodInfo) -> Resolved {
        let soft = self.defaults.resolve(pod, cluster.owners, Action::ScheduleAnyway);
        soft.map(Arc::from)
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> Symbol {
        *NAME
    }

    /// Beside the labels that selectors name, which are seen anyway.
    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let pod_actions = ActionType::ADD
            .or(ActionType::UPDATE_POD_LABEL)
            .or(ActionType::UPDATE_POD_TOLERATION)
            .or(ActionType::DELETE);
        let node_actions = ActionType::ADD
            .or(ActionType::DELETE)
            .or(ActionType::UPDATE_NODE_LABEL)
            .or(ActionType::UPDATE_NODE_TAINT);
        let (for_pods, for_nodes) = (Arc::clone(&self.defaults), Arc::clone(&self.defaults));
        let after_pod = move |pod: &PodInfo, event: &_| hints::after_pod_change(&for_pods, pod, event);
        let after_node = move |pod: &PodInfo, event: &_| hints::after_node_change(&for_nodes, pod, event);
        Some(vec![
            EventHint::when(EventResource::Pod, pod_actions, after_pod).by_class(),
            EventHint::when(EventResource::Node, node_actions, after_node).by_class(),
        ])
    }

    fn applies_to(&self, pod: &PodInfo) -> bool {
        // A Service selects labels; without any, only a controller can make the defaults apply.
        let may_have_owner = pod.spec.controller.is_some() || !pod.labels.is_empty();
        !pod.spec.spread.is_empty() || may_have_owner && !self.defaults.is_empty()
    }

    fn domain_counts(&self) -> Option<&dyn DomainCounts> {
        Some(self)
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn pre_score(&self) -> Option<&dyn PreScore> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter_reads(&self) -> Reads {
        READS
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        let hard = match self.hard(cluster, pod) {
            Ok(hard) => hard,
            Err(error) => return Status::error(format!("get constraints from pod: {error}")).into(),
        };
        if hard.is_empty() {
            return Status::SKIP.into();
        }
        state.write(HardState::count_all(cluster, pod, hard));
        Status::SUCCESS.into()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for PodTopologySpread {
    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        suppose(state, pod, other, node, 1)
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        suppose(state, pod, other, node, -1)
    }
}

fn suppose(state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) -> Status {
    if let Some(hard) = state.read_mut::<HardState>() {
        hard.suppose(pod, other, node, by);
    }
    Status::SUCCESS
}

impl Filter for PodTopologySpread {
    fn filter_reads(&self) -> Reads {
        READS
    }

    fn filter_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Status {
        let Some(hard) = state.read::<HardState>() else {
            return Status::SUCCESS;
        };
        match hard.check(node) {
            Ok(()) => Status::SUCCESS,
            Err(Rejection::NoLabel) => Status::unresolvable(*LABEL_REASON),
            Err(Rejection::Skew) => Status::unschedulable(*SKEW_REASON),
        }
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score_reads(&self) -> Reads {
        READS
    }

    fn pre_score_pod(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        feasible: &[NodeIdx],
    ) -> Status {
        if cluster.nodes.is_empty() {
            return Status::SKIP;
        }
        let soft = match self.soft(cluster, pod) {
            Ok(soft) if soft.is_empty() => return Status::SKIP,
            Ok(soft) => soft,
            Err(error) => return Status::error(format!("calculating preScoreState: {error}")),
        };
        let mut counted = SoftState::count_all(cluster, pod, soft, self.defaults.requires_all_keys(pod));
        counted.weigh(cluster, feasible.iter().map(|node| (*node, 1)));
        state.write(counted);
        Status::SUCCESS
    }
}

impl Score for PodTopologySpread {
    fn score_reads(&self) -> Reads {
        READS
    }

    fn score_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        Ok(state.read::<SoftState>().map_or(0, |soft| soft.score(node)))
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(&Lowest)
    }
}

impl DomainCounts for PodTopologySpread {
    fn concerns(&self, cluster: &ClusterView<'_>, pod: &PodInfo, other: &PodClass) -> bool {
        if !is_peer(pod, other) {
            return false;
        }
        let counted = |constraints: Resolved| {
            // Wrong constraints end the cycle before anybody counts.
            constraints.is_ok_and(|list| list.iter().any(|constraint| constraint.counts(&other.labels)))
        };
        counted(self.hard(cluster, pod)) || counted(self.soft(cluster, pod))
    }

    fn count(
        &self,
        _: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodClass,
        node: &NodeInfo,
        by: i64,
    ) -> bool {
        let mut counted = false;
        if let Some(hard) = state.read_mut::<HardState>() {
            if !hard.count(pod, other, node, by) {
                return false;
            }
            counted = true;
        }
        if let Some(soft) = state.read_mut::<SoftState>() {
            soft.count(pod, other, node, by);
            counted = true;
        }
        counted
    }

    fn domains(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo, key: &mut DomainKey) {
        if let Some(hard) = state.read::<HardState>() {
            hard.key(node, key);
        }
        if let Some(soft) = state.read::<SoftState>() {
            soft.key(node, key);
        }
    }

    fn weigh(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        _: &PodInfo,
        groups: &[(NodeIdx, usize)],
    ) -> bool {
        if let Some(soft) = state.read_mut::<SoftState>() {
            soft.weigh(cluster, groups.iter().copied());
        }
        true
    }

    fn release(&self, state: &mut CycleState) {
        state.remove::<HardState>();
        state.remove::<SoftState>();
    }
}
