//! `DynamicResources`, for pods without resource claims: it has nothing to do but to answer at PostFilter.
//!
//! Its part in PostFilter shows in messages: `no new claims to deallocate`, and, when a plugin before it turned the
//! pod away so that its PreFilter did not run, the error `not found`, after which preemption is not tried.
//!
//! Pods with resource claims or in a scheduling group are turned away with a text that says so. Claims come with a
//! later release; until then it has no score, which is what a score of 0 for every node amounts to.
//!
//! Source: `pkg/scheduler/framework/plugins/dynamicresources`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, PodInfo, Unsupported};
use crate::framework::{
    CycleState, EventHint, LabelsRead, NodeStatuses, NominatedNode, Plugin, PostFilter, PostFilterResult, PreFilter,
    PreFilterOutcome, Profile, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::unavailable::{not_evaluated, own_update};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("DynamicResources"));
static NO_CLAIMS: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("no new claims to deallocate"));

/// The plugin.
pub(super) struct DynamicResources;

/// Says that PreFilter ran.
#[derive(Clone, Copy)]
struct Prepared;

impl Plugin for DynamicResources {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![own_update()])
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn post_filter(&self) -> Option<&dyn PostFilter> {
        Some(self)
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        state.write(Prepared);
        let mut parts = [Unsupported::ResourceClaims, Unsupported::SchedulingGroup].into_iter();
        match parts.find(|part| pod.spec.unsupported.contains(part)) {
            Some(part) => not_evaluated(part, NAME.as_str()).into(),
            None => Status::SKIP.into(),
        }
    }
}

impl PostFilter for DynamicResources {
    fn post_filter_pod(
        &self,
        _: &ClusterView<'_>,
        _: &Profile,
        state: &CycleState,
        _: &PodInfo,
        _: &NodeStatuses,
    ) -> PostFilterResult {
        let status = match state.read::<Prepared>() {
            Some(_) => Status::unschedulable(*NO_CLAIMS),
            None => Status::error("not found"),
        };
        PostFilterResult::new(status, NominatedNode::Keep)
    }
}
