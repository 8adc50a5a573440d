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
    ActionType, CycleState, EventHint, EventResource, LabelsRead, NodeStatuses, NominatedNode, Plugin, PostFilter,
    PostFilterResult, PreFilter, PreFilterOutcome, Profile, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::after_own_change;

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
            Some(part) => not_evaluated(part).into(),
            None => Status::SKIP.into(),
        }
    }
}

/// What a pod is told of which `part` is not evaluated yet.
fn not_evaluated(part: Unsupported) -> Status {
    Status::unresolvable(Symbol::new(match part {
        Unsupported::ResourceClaims => "pod uses resource claims, which this release does not allocate yet",
        Unsupported::SchedulingGroup => "pod is in a scheduling group, which this release does not place yet",
    }))
}

/// Try again when the pod itself changes: nothing else in the cluster can help it.
fn own_update() -> EventHint {
    EventHint::when(EventResource::Pod, ActionType::UPDATE, after_own_change).by_class()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::plugins::check::{built, hint, plugin, told, updated};
    use crate::testing::{PodBuilder, World, pod};

    fn says(pod: &PodBuilder) -> String {
        let world = World::default();
        let outcome = DynamicResources.pre_filter_pod(&world.view(), &mut CycleState::default(), &built(pod));
        told(&outcome.status)
    }

    #[test]
    fn pods_with_claims_or_in_a_group_are_told_why_they_wait() {
        let claims = json!([{"name": "r", "resourceClaimName": "c"}]);
        assert_eq!(
            says(&pod("p").field(&["spec", "resourceClaims"], claims)),
            "UU pod uses resource claims, which this release does not allocate yet"
        );
        let group = json!({"podGroupName": "g"});
        assert_eq!(
            says(&pod("p").field(&["spec", "schedulingGroup"], group)),
            "UU pod is in a scheduling group, which this release does not place yet"
        );
        assert_eq!(says(&pod("p")), "skip");
    }

    #[test]
    fn only_a_change_of_the_pod_itself_is_worth_another_try() {
        let after = |name| {
            let event = updated(&pod(name), &pod(name));
            let plugin = plugin("DynamicResources");
            let (resource, action) = (EventResource::UnschedulablePod, ActionType::UPDATE_POD_LABEL);
            hint(&*plugin, &pod("p"), resource, action, &event)
        };
        assert_eq!((after("p"), after("q")), (Some(Queue), Some(QueueSkip)));
    }
}
