//! Waiting at Permit.

use std::time::Duration;

use super::kit::*;
use crate::framework::WaitingPods as _;
use crate::ids::Symbol;
use crate::ledger::PromiseState;
use crate::testing::pod;

#[tokio::test]
async fn a_waiting_pod_can_be_allowed_as_soon_as_it_is_handed_over() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.submit(&[("Actor", 600), ("Other", 600)]);
    assert_eq!(kit.pool.list(), [info.uid]);
    assert!(kit.pool.allow(info.uid, Symbol::new("Other")));
    assert!(kit.pool.allow(info.uid, Symbol::new("Actor")));
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    assert_eq!(kit.promise(&info), Some(PromiseState::Assumed));
    assert_eq!(
        kit.pod("p")["status"]["nominatedNodeName"],
        serde_json::Value::Null,
        "cleared by the bind"
    );
}

#[tokio::test]
async fn a_rejected_pod_waits_for_events_of_the_plugin_that_rejected_it() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.submit(&[("Actor", 600)]);
    assert!(kit.pool.reject(info.uid, Symbol::new("Actor"), "not yet"));
    kit.written().await;
    assert_eq!(
        (kit.promise(&info), kit.counts()),
        (None, [0, 0, 1]),
        "not woken by its own room"
    );
    let [_, reason, message] = kit.condition("p").unwrap();
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("Unschedulable", "0/1 nodes are available: 1 not yet.")
    );
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_permits_and_says_nothing_of_their_pods() {
    let kit = Kit::new().await;
    let info = kit.create(&pod("p"));
    kit.submit(&[("Actor", 600)]);
    let drained = tokio::time::timeout(Duration::from_secs(30), kit.pool.drain(Duration::from_secs(600)));
    assert!(drained.await.is_ok());
    assert_eq!((kit.node_of("p").as_str(), kit.promise(&info)), ("", None));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    assert!(kit.condition("p").is_none() && kit.events().is_empty());
    kit.assert_quiet();
}

#[tokio::test]
async fn a_pod_whose_time_is_over_is_rejected() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    let mut task = kit.task(&[]);
    task.waits = vec![(Symbol::new("Actor"), Duration::from_millis(5))];
    let slot = kit.pool.acquire_slot().unwrap();
    kit.pool.submit(task, slot);
    kit.written().await;
    let [.., message] = kit.condition("p").unwrap();
    assert_eq!(
        message,
        "0/1 nodes are available: 1 rejected due to timeout after waiting 5ms at plugin Actor."
    );
}

#[tokio::test]
async fn a_waiting_pod_that_is_deleted_ends_at_once_also_if_that_came_before_it_was_listed() {
    for early in [true, false] {
        let kit = Kit::new().await;
        let info = kit.create(&pod("p"));
        let task = kit.task(&[("Actor", 600)]);
        let slot = kit.pool.acquire_slot().unwrap();
        if early {
            kit.pool.pod_removed(&info);
            kit.pool.submit(task, slot);
        } else {
            kit.pool.submit(task, slot);
            kit.pool.pod_removed(&info);
        }
        assert_eq!(kit.promise(&info), None);
        kit.settled().await;
        assert_eq!(kit.counts(), [0, 0, 0]);
        assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
        kit.assert_quiet();
    }
}

#[tokio::test]
async fn waiting_pods_hold_no_place() {
    let settings = supercargo_config::Settings {
        max_assumed_pods: 1,
        binding_concurrency: 1,
        ..settings()
    };
    let kit = Kit::with(settings).await;
    for name in ["a", "b", "c"] {
        kit.create(&pod(name));
        let pool = std::sync::Arc::clone(&kit.pool);
        let slot = tokio::task::spawn_blocking(move || pool.acquire_slot())
            .await
            .unwrap()
            .unwrap();
        kit.pool.submit(kit.task(&[("Actor", 600)]), slot);
    }
    let waiting = kit.pool.list();
    assert_eq!(waiting.len(), 3);
    for uid in waiting {
        assert!(kit.pool.allow(uid, Symbol::new("Actor")));
    }
    kit.settled().await;
    assert_eq!(kit.queue.totals().bound, 3);
}
