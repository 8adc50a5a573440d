//! Plugins that this release does not have yet, under their real names.
//!
//! Each turns away the pods whose hard rules it would have to evaluate, with a text that names the plugin and the
//! part of the pod, so that no such pod is ever bound to a wrong node. All other pods pass it. Soft rules (`ScheduleAnyway`
//! spreading) are not evaluated: the plugins have no score.
//!
//! A pod that was turned away is tried again when it changes itself; nothing else in the cluster can help it.

use crate::cluster::{ClusterView, PodInfo, Unsupported};
use crate::framework::{
    ActionType, CycleState, EventHint, EventResource, LabelsRead, Plugin, PreFilter, PreFilterOutcome, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{changed_pod, queue_if};

/// Which plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Later {
    PodTopologySpread,
}

impl Later {
    pub(super) const ALL: [Self; 0] = [];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PodTopologySpread => "PodTopologySpread",
        }
    }

    /// The part of a pod that it cannot evaluate.
    const fn part(self) -> Unsupported {
        match self {
            Self::PodTopologySpread => Unsupported::HardSpread,
        }
    }
}

/// What a pod is told whose `part` the plugin called `plugin` does not evaluate yet.
pub(super) fn not_evaluated(part: Unsupported, plugin: &str) -> Status {
    let what = match part {
        Unsupported::HardSpread => "a topology spread constraint with whenUnsatisfiable DoNotSchedule",
        Unsupported::ResourceClaims => "resource claims",
        Unsupported::SchedulingGroup => "a scheduling group",
    };
    let text = format!("pod uses {what}, which this release's {plugin} does not evaluate yet");
    Status::unresolvable(Symbol::new(&text))
}

/// Try again when the pod itself changes.
pub(super) fn own_update() -> EventHint {
    EventHint::when(EventResource::Pod, ActionType::UPDATE, |pod, event| {
        queue_if(changed_pod(event)?.uid == pod.uid)
    })
    .by_class()
}

/// A plugin of a later release.
pub(super) struct Unavailable {
    name: Symbol,
    part: Unsupported,
    rejection: Status,
}

impl Unavailable {
    pub(super) fn new(later: Later) -> Self {
        Self {
            name: Symbol::new(later.name()),
            part: later.part(),
            rejection: not_evaluated(later.part(), later.name()),
        }
    }
}

impl Plugin for Unavailable {
    fn name(&self) -> Symbol {
        self.name
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
}

impl PreFilter for Unavailable {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if pod.spec.unsupported.contains(&self.part) {
            self.rejection.clone().into()
        } else {
            Status::SKIP.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::framework::QueueingHint::{Queue, QueueSkip};
    use crate::plugins::check::{built, hint, plugin, told, updated};
    use crate::testing::{PodBuilder, World, pod};

    fn says(plugin_name: &str, pod: &PodBuilder) -> String {
        let plugin = plugin(plugin_name);
        let pre_filter = plugin.pre_filter().unwrap();
        let world = World::default();
        told(
            &pre_filter
                .pre_filter_pod(&world.view(), &mut CycleState::default(), &built(pod))
                .status,
        )
    }

    #[test]
    fn pods_with_hard_rules_are_told_which_plugin_is_missing() {
        let table = [
            (
                "PodTopologySpread",
                pod("p").field(
                    &["spec", "topologySpreadConstraints"],
                    json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
                ),
                expect![
                    "UU pod uses a topology spread constraint with whenUnsatisfiable DoNotSchedule, which this release's PodTopologySpread does not evaluate yet"
                ],
            ),
            (
                "DynamicResources",
                pod("p").field(
                    &["spec", "resourceClaims"],
                    json!([{"name": "r", "resourceClaimName": "c"}]),
                ),
                expect!["UU pod uses resource claims, which this release's DynamicResources does not evaluate yet"],
            ),
        ];
        for (plugin, pod, expected) in table {
            expected.assert_eq(&says(plugin, &pod));
        }
        for later in Later::ALL {
            assert_eq!(says(later.name(), &pod("p")), "skip");
        }
    }

    #[test]
    fn only_a_change_of_the_pod_itself_is_worth_another_try() {
        let after = |name| {
            let event = updated(&pod(name), &pod(name));
            let plugin = plugin("DynamicResources");
            hint(
                &*plugin,
                &pod("p"),
                EventResource::UnschedulablePod,
                ActionType::UPDATE_POD_LABEL,
                &event,
            )
        };
        assert_eq!((after("p"), after("q")), (Some(Queue), Some(QueueSkip)));
    }
}
