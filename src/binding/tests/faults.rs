//! What the bind call can come to.

use std::sync::atomic::Ordering;
use std::time::Duration;

use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_config::Settings;

use super::kit::*;
use crate::framework::{Code, Status};
use crate::ids::Symbol;
use crate::ledger::PromiseState;
use crate::queue::Rejectors;
use crate::testing::{node, pod};

#[tokio::test]
async fn a_bound_pod_has_its_node_its_event_and_its_room() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p").cpu(100));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    assert_eq!(
        kit.events(),
        [(
            "Scheduled".to_owned(),
            "Successfully assigned default/p to n1".to_owned()
        )]
    );
    assert_eq!(
        kit.promise(&info),
        Some(PromiseState::Assumed),
        "until the watch says so"
    );
    assert_eq!(*kit.script.post_bound.lock(), [info.uid]);
    assert!(kit.script.unreserved.lock().is_empty());
    assert_eq!(kit.queue.totals().bound, 1);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_failed_bind_gives_the_room_back_and_the_pod_waits_for_time_alone() {
    let kit = Kit::new().await;
    // Somebody waits for room.
    let waiting = kit.create(&pod("waiting"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue
        .add_unschedulable_if_not_present(queued, Rejectors::one(Symbol::new("Actor")));
    let info = kit.create(&pod("p"));
    kit.refuse_bind(500, None, 1);
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.promise(&info)), ("", None));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    assert_eq!(
        kit.counts(),
        [0, 2, 0],
        "one in backoff, and {} was told of the room",
        waiting.name
    );
    let [status, reason, message] = kit.condition("p").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "SchedulerError"));
    assert!(message.starts_with("running Bind plugin \"Actor\": "), "{message}");
    assert_eq!(kit.events().len(), 1);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says_and_the_room_is_kept() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.refuse_bind(429, Some(0), 2);
    kit.submit(&[]);
    kit.settled().await;
    assert_eq!((kit.node_of("p").as_str(), kit.counts()), ("n1", [0, 0, 0]));
    assert_eq!(kit.promise(&info), Some(PromiseState::Assumed));

    // One that stays busy gets the pod back in the end.
    let other = kit.create(&pod("q"));
    kit.refuse_bind(429, Some(0), 1000);
    kit.submit(&[]);
    kit.settled().await;
    assert_eq!((kit.promise(&other), kit.counts()), (None, [0, 1, 0]));
}

#[tokio::test]
async fn a_bind_that_took_effect_though_its_answer_was_lost_counts() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.fault("create", "pods/binding", FaultAction::ResetAfter, 1);
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.counts()), ("n1", [0, 0, 0]));
    assert_eq!(kit.promise(&info), Some(PromiseState::Assumed));
    assert_eq!(kit.events().len(), 1);
    assert_eq!(kit.events()[0].0, "Scheduled");
}

#[tokio::test]
async fn a_bind_that_was_lost_before_it_took_effect_is_sent_again() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    kit.fault("create", "pods/binding", FaultAction::ResetBefore, 2);
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.events().len()), ("n1", 1));
}

#[tokio::test]
async fn a_bind_without_an_answer_in_time_is_sent_again_to_the_same_node() {
    let kit = Kit::with(Settings {
        bind_deadline: Duration::from_millis(500),
        ..settings()
    })
    .await;
    let info = kit.create(&pod("p"));
    let slow = FaultRule::on("create", "pods/binding")
        .delayed(Duration::from_secs(600))
        .times(1);
    kit.server.faults().add(slow).unwrap();
    kit.submit(&[]);
    kit.settled().await;
    // On a loaded machine the further tries may be late too: then the pod is back, and its room is free.
    match kit.node_of("p").as_str() {
        "n1" => assert_eq!(kit.promise(&info), Some(PromiseState::Assumed)),
        _ => assert_eq!((kit.promise(&info), kit.counts()), (None, [0, 1, 0])),
    }
    kit.assert_quiet();
}

#[tokio::test]
async fn an_outcome_that_cannot_be_read_is_read_until_it_is_known() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.fault("create", "pods/binding", FaultAction::ResetAfter, 1);
    let away = FaultAction::Status {
        code: 503,
        retry_after_seconds: None,
    };
    kit.fault("get", "pods", away, 2);
    kit.submit(&[]);
    kit.settled().await;
    assert_eq!(kit.promise(&info), Some(PromiseState::Assumed));
    assert_eq!(kit.queue.totals().bound, 1);
}

#[tokio::test]
async fn a_pod_that_is_gone_leaves_without_a_word() {
    let kit = Kit::new().await;
    let info = kit.see(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.promise(&info), kit.counts()), (None, [0, 0, 0]));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    assert!(kit.events().is_empty());
    let totals = kit.queue.totals();
    assert_eq!((totals.deleted, totals.bound), (1, 0));
    kit.assert_quiet();
}

#[tokio::test]
async fn a_successor_of_the_same_name_is_not_bound_in_its_place() {
    let kit = Kit::new().await;
    let successor = pod("p").uid("00000000-0000-0000-0000-0000000000aa");
    kit.server
        .store()
        .insert_raw("", "pods", successor.json().clone())
        .unwrap();
    kit.see(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.condition("p")), ("", None));
    assert!(kit.events().is_empty());
    assert_eq!(kit.queue.totals().deleted, 1);
}

#[tokio::test]
async fn already_bound_there_is_a_success_and_elsewhere_a_quiet_end() {
    for (node, events) in [("n1", 1), ("n2", 0)] {
        let kit = Kit::new().await;
        kit.server
            .store()
            .insert_raw("", "pods", pod("p").on(node).json().clone())
            .unwrap();
        let info = kit.see(&pod("p"));
        kit.submit(&[]);
        kit.written().await;
        assert_eq!((kit.node_of("p").as_str(), kit.counts()), (node, [0, 0, 0]));
        assert_eq!(kit.events().len(), events, "{node}");
        assert_eq!(kit.promise(&info).is_some(), node == "n1");
        assert_eq!(kit.queue.totals().bound, 1);
        assert_ne!(kit.condition("p").map(|[status, ..]| status).as_deref(), Some("False"));
    }
}

#[tokio::test]
async fn the_watch_knows_better_than_a_call_that_failed() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.refuse_bind(500, None, 1);
    let task = kit.task(&[]);
    // Another sender's bind to the same node took effect, and its event came first.
    kit.see(&pod("p").on("n1"));
    let slot = kit.pool.acquire_slot().unwrap();
    kit.pool.submit(task, slot);
    kit.written().await;
    assert_eq!(
        kit.promise(&info),
        Some(PromiseState::Bound),
        "a fact is not taken back"
    );
    assert_eq!((kit.counts(), kit.condition("p")), ([0, 0, 0], None));
    assert_eq!(kit.cluster.ledger.read(kit.idx("n1")).unwrap().pods, 1);
}

#[tokio::test]
async fn no_bind_is_sent_to_a_node_that_was_deleted_even_if_one_of_its_name_came_back() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    let task = kit.task(&[]);
    kit.cluster.remove_node(Symbol::new("n1"));
    kit.cluster.apply_node((*node("n1").uid("another").build()).clone());
    let slot = kit.pool.acquire_slot().unwrap();
    kit.pool.submit(task, slot);
    kit.settled().await;
    assert_eq!((kit.node_of("p").as_str(), kit.counts()), ("", [0, 1, 0]));
    kit.assert_quiet();
}

#[tokio::test]
async fn a_pod_deleted_during_its_bind_frees_its_room_at_once() {
    let kit = Kit::new().await;
    kit.create(&pod("waiting"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue
        .add_unschedulable_if_not_present(queued, Rejectors::one(Symbol::new("Actor")));
    let info = kit.create(&pod("p").cpu(4000));
    kit.script.hang_in_pre_bind.store(true, Ordering::Relaxed);
    kit.submit(&[]);
    kit.pool.pod_removed(&info);
    assert_eq!(kit.promise(&info), None);
    assert_eq!(kit.cluster.ledger.read(kit.idx("n1")).unwrap().requested.milli_cpu, 0);
    assert_eq!(kit.counts(), [0, 1, 0], "those who wait for room are told");
    kit.queue.delete(info.uid);
    kit.cluster.remove_pod(info.uid);
    // When the step ends, no figure changes.
    kit.pool.drain(Duration::ZERO).await;
    assert_eq!(kit.cluster.ledger.read(kit.idx("n1")).unwrap().pods, 0);
    assert_eq!(kit.queue.totals().deleted, 1);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_process_that_may_not_act_sends_nothing() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.may_act.store(false, Ordering::Relaxed);
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(
        (kit.node_of("p").as_str(), kit.condition("p"), kit.promise(&info)),
        ("", None, None)
    );
    assert!(kit.events().is_empty());
    assert_eq!(kit.counts(), [0, 1, 0]);
}

#[tokio::test]
async fn a_drain_ends_what_hangs_and_gives_its_room_back() {
    let kit = Kit::new().await;
    let hanging = kit.create(&pod("a"));
    kit.script.hang_in_pre_bind.store(true, Ordering::Relaxed);
    kit.submit(&[]);
    kit.create(&pod("b"));
    kit.submit(&[("Actor", 600)]);
    kit.create(&pod("c"));
    let task = kit.task(&[]);
    kit.script.hang_in_pre_bind.store(false, Ordering::Relaxed);
    let slow = FaultRule::on("create", "pods/binding").delayed(Duration::from_secs(600));
    kit.server.faults().add(slow).unwrap();
    let slot = kit.pool.acquire_slot().unwrap();
    kit.pool.submit(task, slot);
    kit.pool.drain(Duration::from_millis(20)).await;
    assert!(kit.pool.acquire_slot().is_none());
    assert_eq!(kit.cluster.ledger.assumed_count(), 0);
    assert_eq!(kit.promise(&hanging), None);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_panic_costs_its_pod_alone() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.script.panic_in_bind.store(true, Ordering::Relaxed);
    kit.submit(&[]);
    kit.settled().await;
    assert_eq!((kit.promise(&info), kit.counts()), (None, [0, 1, 0]));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);

    kit.script.panic_in_bind.store(false, Ordering::Relaxed);
    kit.script.panic_in_post_bind.store(true, Ordering::Relaxed);
    let bound = kit.create(&pod("q"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("q"), "n1");
    assert_eq!(
        kit.promise(&bound),
        Some(PromiseState::Assumed),
        "it is bound all the same"
    );
    kit.assert_quiet();
}

#[tokio::test]
async fn a_no_from_pre_bind_blames_nobody() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    *kit.script.pre_bind.lock() = Some(Status::new(Code::Unschedulable, "not here".to_owned()));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.counts(), [0, 1, 0]);
    assert_eq!(
        kit.queue.try_pop().map(|queued| queued.attempts),
        None,
        "it waits as after an error"
    );
    let [_, reason, message] = kit.condition("p").unwrap();
    assert_eq!((reason.as_str(), message.as_str()), ("Unschedulable", "not here"));

    let kit = Kit::new().await;
    kit.create(&pod("p"));
    *kit.script.pre_bind.lock() = Some(Status::error("broken"));
    kit.submit(&[]);
    kit.written().await;
    let [_, reason, message] = kit.condition("p").unwrap();
    assert_eq!(reason, "SchedulerError");
    assert_eq!(message, "running PreBind plugin \"Actor\": broken");
}

#[tokio::test]
async fn many_binds_under_random_faults_end_with_every_pod_on_one_node_or_in_the_queue() {
    let kit = Kit::new().await;
    for action in [FaultAction::ResetAfter, FaultAction::ResetBefore] {
        let rule = FaultRule::on("create", "pods/binding").with(action).at_random(0.2);
        kit.server.faults().add(rule).unwrap();
    }
    let refused = FaultAction::Status {
        code: 500,
        retry_after_seconds: None,
    };
    let rule = FaultRule::on("create", "pods/binding").with(refused).at_random(0.2);
    kit.server.faults().add(rule).unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("p{number}")).collect();
    let pods: Vec<_> = names.iter().map(|name| kit.create(&pod(name).cpu(10))).collect();
    for _ in &names {
        kit.submit(&[]);
    }
    kit.settled().await;
    let mut bound = 0;
    for (name, info) in names.iter().zip(&pods) {
        let has_node = kit.node_of(name) == "n1";
        assert_eq!(kit.promise(info).is_some(), has_node, "{name}");
        bound += i64::from(has_node);
    }
    assert_eq!(kit.cluster.ledger.read(kit.idx("n1")).unwrap().pods, bound);
    let waiting: usize = kit.counts().iter().sum();
    assert_eq!(waiting + usize::try_from(bound).unwrap(), names.len());
    assert!(bound > 0);
    kit.assert_quiet();
}
