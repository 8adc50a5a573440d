//! Evictions: what is asked of the API server, of whom, and what becomes of the preemptor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use supercargo_apiserver::faults::{FaultAction, FaultRule};

use super::kit::*;
use crate::cluster::PodInfo;
use crate::framework::{Activate as _, Evict as _, Eviction, WaitingPods as _};
use crate::ids::Symbol;
use crate::ledger::PromiseState;
use crate::queue::Rejectors;
use crate::testing::{PodBuilder, pod};

const REFUSED: FaultAction = FaultAction::Status {
    code: 403,
    retry_after_seconds: None,
};

fn victim(name: &str) -> PodBuilder {
    pod(name).on("n1").cpu(100)
}

impl Kit {
    /// A preemptor that waits for an event, nominated to `n1` for the room of `victims`.
    fn preemptor(&self, name: &str, victims: &[&Arc<PodInfo>]) -> Arc<PodInfo> {
        let info = self.create(&pod(name).cpu(100).priority(10));
        let queued = self.queue.try_pop().unwrap();
        self.queue
            .add_unschedulable_if_not_present(queued, Rejectors::one(Symbol::new("Nobody")));
        let victims: Vec<_> = victims.iter().map(|victim| victim.uid).collect();
        let ledger = &self.cluster.ledger;
        ledger.nominate(&info.charge, self.idx("n1"), &victims, None).unwrap();
        info
    }

    fn evict(&self, preemptor: &Arc<PodInfo>, victims: &[&Arc<PodInfo>]) -> Result<(), String> {
        self.pool.evictor().evict(eviction(preemptor, victims))
    }

    /// Whether the server was asked to remove a pod, and what its condition says.
    fn leaving(&self, name: &str) -> (bool, Option<String>) {
        let pod = self.pod(name);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mark = conditions
            .iter()
            .find(|condition| condition["type"] == "DisruptionTarget");
        let text = |mark: &Value| {
            let fields = ["status", "reason", "message"].map(|field| mark[field].as_str().unwrap_or_default());
            fields.join("|")
        };
        (pod["metadata"]["deletionTimestamp"].is_string(), mark.map(text))
    }

    fn preempted(&self) -> Vec<String> {
        let events = self.events().into_iter();
        events
            .filter(|(reason, _)| reason == "Preempted")
            .map(|(_, note)| note)
            .collect()
    }
}

fn eviction(preemptor: &Arc<PodInfo>, victims: &[&Arc<PodInfo>]) -> Eviction {
    Eviction {
        preemptor: Arc::clone(preemptor),
        scheduler: Symbol::new("default-scheduler"),
        plugin: Symbol::new("DefaultPreemption"),
        node: Symbol::new("n1"),
        victims: victims.iter().map(|victim| Arc::clone(victim)).collect(),
        displaced: Vec::new(),
    }
}

const MARK: &str = "True|PreemptionByScheduler|default-scheduler: preempting to accommodate a higher priority pod";

#[tokio::test]
async fn victims_are_marked_removed_and_told_and_weaker_nominations_go() {
    let kit = Kit::new().await;
    let victims = ["a", "b", "c"].map(|name| kit.create(&victim(name)));
    let weaker = kit.create(&pod("weaker").nominated("n1"));
    let victims: Vec<_> = victims.iter().collect();
    let info = kit.preemptor("p", &victims);
    let mut eviction = eviction(&info, &victims);
    eviction.displaced.push(weaker);
    kit.pool.evictor().evict(eviction).unwrap();
    assert!(kit.pool.evictor().is_evicting_for(info.uid));
    kit.pool.evictor().idle().await;
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
    for name in ["a", "b", "c"] {
        assert_eq!(kit.leaving(name), (true, Some(MARK.to_owned())), "{name}");
    }
    assert_eq!(kit.counts(), [1, 0, 1], "the preemptor waits for its victims");
    assert_eq!(kit.cluster.ledger.awaited_node(info.uid), Some(kit.idx("n1")));
    kit.written().await;
    assert_eq!(kit.pod("weaker")["status"].get("nominatedNodeName"), None);
    let note = format!("Preempted by pod {} on node n1", info.uid_text);
    assert_eq!(kit.preempted(), [note.as_str(), &note, &note]);
    let event = &kit.stored_events()[0];
    assert_eq!(
        (&event["type"], &event["action"]),
        (&Value::from("Normal"), &Value::from("Preempting"))
    );
    assert_eq!(event["related"]["name"], "p");
}

#[tokio::test]
async fn a_victim_that_is_gone_or_another_by_now_is_left_alone() {
    let kit = Kit::new().await;
    let gone = kit.see(&victim("gone"));
    let renewed = kit.see(&victim("renewed").uid("old"));
    let another = victim("renewed").uid("new").priority(1000);
    kit.server
        .store()
        .insert_raw("", "pods", another.json().clone())
        .unwrap();
    let marked = kit.see(&victim("marked").uid("old-too").condition(
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        "",
    ));
    let another = victim("marked").uid("new-too");
    kit.server
        .store()
        .insert_raw("", "pods", another.json().clone())
        .unwrap();
    let victims = [&gone, &renewed, &marked];
    let info = kit.preemptor("p", &victims);
    kit.evict(&info, &victims).unwrap();
    kit.pool.evictor().idle().await;
    assert_eq!(kit.leaving("renewed"), (false, None));
    assert_eq!(kit.leaving("marked"), (false, None));
    // No error: the preemptor is not tried before something happens.
    assert_eq!(kit.counts(), [0, 0, 1]);
    kit.written().await;
    assert!(kit.preempted().is_empty());
}

#[tokio::test]
async fn after_an_error_the_preemptor_is_tried_again_and_may_choose_other_victims() {
    let kit = Kit::new().await;
    let victims = ["a", "b"].map(|name| kit.create(&victim(name)));
    let victims: Vec<_> = victims.iter().collect();
    let info = kit.preemptor("p", &victims);
    kit.fault("delete", "pods", REFUSED, 1);
    kit.evict(&info, &victims).unwrap();
    kit.pool.evictor().idle().await;
    assert_eq!(kit.leaving("a"), (false, Some(MARK.to_owned())));
    assert_eq!(kit.leaving("b"), (false, None), "the last one is spared");
    assert_eq!(kit.counts(), [1, 0, 0]);
    let ledger = &kit.cluster.ledger;
    assert_eq!(
        (ledger.awaited_node(info.uid), ledger.nominated_node(info.uid)),
        (None, Some(kit.idx("n1")))
    );
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let kit = Kit::new().await;
    let v = kit.create(&victim("v"));
    let info = kit.preemptor("p", &[&v]);
    let busy = FaultAction::Status {
        code: 429,
        retry_after_seconds: Some(0),
    };
    kit.fault("patch", "pods/status", busy, 1);
    kit.fault("delete", "pods", FaultAction::ResetAfter, 1);
    kit.evict(&info, &[&v]).unwrap();
    kit.pool.evictor().idle().await;
    assert!(kit.leaving("v").0);
    assert_eq!(kit.counts(), [0, 0, 1]);
}

#[tokio::test]
async fn a_process_that_may_not_act_evicts_nobody() {
    let kit = Kit::new().await;
    let victims = ["a", "b"].map(|name| kit.create(&victim(name)));
    let victims: Vec<_> = victims.iter().collect();
    let info = kit.preemptor("p", &victims);
    kit.may_act.store(false, Ordering::Relaxed);
    kit.script.holds_back.store(true, Ordering::Relaxed);
    kit.queue.activate(&[info.uid]);
    assert_eq!(kit.counts(), [0, 0, 0], "held back");
    kit.script.holds_back.store(false, Ordering::Relaxed);
    kit.evict(&info, &victims).unwrap();
    kit.pool.evictor().idle().await;
    assert_eq!(kit.counts(), [0, 1, 0], "it is not held back for ever");
    assert_eq!((kit.leaving("a"), kit.leaving("b")), ((false, None), (false, None)));
    kit.written().await;
    assert!(kit.preempted().is_empty());
}

#[tokio::test]
async fn a_pod_that_waits_at_permit_gives_way_without_a_call() {
    let kit = Kit::new().await;
    let waiting = kit.create(&pod("w").cpu(100));
    kit.submit(&[("Actor", 600)]);
    assert_eq!(kit.pool.list(), [waiting.uid]);
    let info = kit.preemptor("p", &[&waiting]);
    kit.evict(&info, &[&waiting]).unwrap();
    kit.pool.evictor().idle().await;
    kit.settled().await;
    assert_eq!(kit.leaving("w"), (false, None));
    assert_eq!(kit.promise(&waiting), None);
    assert_eq!(kit.counts(), [0, 1, 1], "the victim is in backoff");
    kit.written().await;
    let [_, reason, message] = kit.condition("w").unwrap();
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("SchedulerError", "waiting on permit for pod: preempted")
    );
    let note = format!(
        "Preempted by pod {} on node n1 (in kube-scheduler memory).",
        info.uid_text
    );
    assert_eq!(kit.preempted(), [note]);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_pod_whose_pre_bind_is_under_way_gives_way_without_a_call() {
    let kit = Kit::new().await;
    kit.script.hang_in_pre_bind.store(true, Ordering::Relaxed);
    let binding = kit.create(&pod("b").cpu(100));
    kit.submit(&[]);
    while !kit.pool.pre_binding.is_entered(binding.uid) {
        tokio::task::yield_now().await;
    }
    let info = kit.preemptor("p", &[&binding]);
    kit.evict(&info, &[&binding]).unwrap();
    kit.pool.evictor().idle().await;
    kit.settled().await;
    assert_eq!((kit.leaving("b"), kit.promise(&binding)), ((false, None), None));
    kit.written().await;
    let [.., message] = kit.condition("b").unwrap();
    assert_eq!(message, "preempted by DefaultPreemption");
    assert_eq!(kit.node_of("b"), "");
}

#[tokio::test]
async fn a_pod_past_its_pre_bind_is_removed_by_the_server() {
    let kit = Kit::new().await;
    let binding = kit.create(&pod("b").cpu(100));
    let task = kit.task(&[]);
    let info = kit.preemptor("p", &[&binding]);
    kit.evict(&info, &[&binding]).unwrap();
    kit.pool.evictor().idle().await;
    assert_eq!(kit.promise(&binding), Some(PromiseState::Assumed));
    assert!(
        kit.server.store().get("", "pods", "default", "b").is_err(),
        "a pod without a node goes at once"
    );
    drop(task);
}

#[tokio::test]
async fn a_pod_that_two_preemptors_evict_is_asked_to_go_once() {
    let kit = Kit::new().await;
    let [a, b] = ["a", "b"].map(|name| kit.create(&victim(name)));
    let first = kit.preemptor("p", &[&a]);
    let second = kit.preemptor("q", &[&a, &b]);
    kit.evict(&first, &[&a]).unwrap();
    kit.evict(&second, &[&a, &b]).unwrap();
    kit.pool.evictor().idle().await;
    assert!(kit.leaving("a").0 && kit.leaving("b").0);
    kit.written().await;
    assert_eq!(kit.preempted().len(), 2);
}

#[tokio::test]
async fn a_preemptor_is_held_back_until_its_last_victim_is_seen_to_go() {
    let kit = Kit::new().await;
    let v = kit.create(&victim("v"));
    let info = kit.preemptor("p", &[&v]);
    let slow = FaultRule::on("delete", "pods").delayed(Duration::from_secs(600));
    kit.server.faults().add(slow).unwrap();
    kit.evict(&info, &[&v]).unwrap();
    // Until the call is under way.
    while kit.leaving("v").1.is_none() {
        tokio::task::yield_now().await;
    }
    assert!(kit.pool.evictor().is_evicting_for(info.uid));
    kit.see(&victim("v").terminating());
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
    kit.cluster.remove_pod(v.uid);
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
}

#[tokio::test]
async fn victims_that_are_on_their_way_out_are_not_asked_again() {
    let kit = Kit::new().await;
    let v = kit.create(&victim("v").terminating());
    let info = kit.preemptor("p", &[]);
    let before = kit.server.store().version();
    kit.evict(&info, &[&v]).unwrap();
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
    kit.written().await;
    assert_eq!(kit.server.store().version(), before);
}

#[tokio::test]
async fn synchronous_evictions_are_over_when_the_call_returns() {
    let kit = Kit::synchronous().await;
    let victims = ["a", "b"].map(|name| kit.create(&victim(name)));
    let all: Vec<_> = victims.iter().collect();
    let info = kit.preemptor("p", &all);
    let call = |kit: &Kit| {
        let (evictor, eviction) = (Arc::clone(kit.pool.evictor()), eviction(&info, &all));
        tokio::task::spawn_blocking(move || evictor.evict(eviction))
    };
    kit.fault("delete", "pods", REFUSED, 2);
    assert_eq!(
        call(&kit).await.unwrap(),
        Err("the API server answered 403 Forbidden".to_owned())
    );
    assert!(!kit.pool.evictor().is_evicting_for(info.uid));
    assert_eq!(call(&kit).await.unwrap(), Ok(()));
    assert!(kit.leaving("a").0 && kit.leaving("b").0);
    assert_eq!(kit.counts(), [0, 0, 1], "nobody is made active");
}
