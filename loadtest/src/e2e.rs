//! The end-to-end suite: scheduling behaviour as a user of a cluster sees it, over HTTP, with the scheduler as a
//! process.
//!
//! Scenarios are functions over a [`World`]: an API server, a client, and a way to start schedulers. The same scenarios
//! run on the embedded API server and on a real control plane. `SUPERCARGO_E2E_SCHEDULER=kube-scheduler` runs those
//! that apply with the real kube-scheduler instead, which tells whether a scenario asks for what upstream does.
//!
//! Reading order: [`world`] (servers, schedulers), [`wait`], [`objects`] (nodes and pods in a line),
//! [`volume_controller`], [`webhook`] (plays an extender), [`scenarios`], `run`.
//!
//! Does not: measure, or know what is inside the scheduler.

pub mod objects;
mod run;
pub mod scenarios;
pub mod volume_controller;
pub mod wait;
pub mod webhook;
pub mod world;

pub use run::{run, run_with_controllers};
pub use world::{Backend, World};

/// Declares one test for each scenario, on a backend: `e2e_tests!(Backend::Embedded);`.
#[macro_export]
macro_rules! e2e_tests {
    ($backend:expr) => {
        $crate::e2e_tests!($backend;
            basic::plain_pod_gets_a_node_and_an_event,
            basic::impossible_pod_is_explained,
            basic::selector_and_affinity_decide,
            basic::host_ports_conflict,
            basic::higher_priority_goes_first,
            basic::profiles_are_chosen_by_scheduler_name,
            basic::foreign_pod_is_left_alone,
            waking::removed_taint_wakes_a_pod,
            waking::added_node_wakes_a_pod,
            waking::deleted_pod_frees_room,
            waking::gated_pod_waits_for_its_gates,
            waking::recreated_pod_is_scheduled_again,
            waking::readded_node_is_used_afresh,
            claims::local_volumes_are_bound,
            claims::late_claim_wakes_its_pod,
            claims::class_that_is_gone_is_waited_for,
            claims::volumes_are_made_for_the_selected_node,
            claims::half_done_bindings_are_taken_back,
            preemption::higher_priority_evicts_lower,
            preemption::nominated_room_is_kept,
            preemption::some_pods_preempt_nobody,
            volumes::claim_for_one_pod_has_one_pod,
            volumes::attach_limits_hold,
            failures::restarted_scheduler_loses_nothing,
            failures::api_outage_loses_nothing,
            failures::unreachable_api_is_reported,
            failures::refused_bindings_are_tried_again,
            extending::extender_filters_and_scores,
            extending::extender_changes_its_mind,
            extending::hanging_extender_holds_up_its_own_pods_only,
            extending::extender_binds,
            extending::absent_extender_is_ignored_or_an_error,
            election::sigterm_drains_and_releases_the_lease,
            election::killed_leader_is_followed,
        );
    };
    ($backend:expr; $($module:ident :: $scenario:ident),+ $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                $crate::e2e::run($backend, stringify!($scenario), async |world| {
                    $crate::e2e::scenarios::$module::$scenario(world).await
                });
            }
        )+
    };
}
