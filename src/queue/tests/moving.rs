//! Events, updates, gates, sweeps.

use std::sync::Arc;

use super::kit::*;
use crate::framework::{ActionType, Activate, ClusterEvent, EventObject, EventResource};
use crate::ids::ClassId;
use crate::queue::{QueueConfig, Requeued, SchedulingQueue};
use crate::telemetry::{Metrics, QueueKind};

#[test]
fn an_event_moves_the_pods_whose_rejectors_wait_for_it() {
    let kit = Kit::new();
    kit.reject(&plain("a"), &["A"]);
    kit.reject(&plain("b"), &["B"]);
    kit.event(NODE_LABEL);
    assert_eq!(kit.counts(), [0, 1, 1, 0], "B registered Node/Update, A only Node/Add");
    assert_eq!((kit.asked("A"), kit.asked("B")), (0, 1));
    kit.event(POD_DELETE);
    assert_eq!(kit.counts(), [0, 2, 0, 0]);
    kit.advance_millis(10_000);
    kit.queue.flush_backoff();
    kit.reject_next(&["A"]);
    kit.advance_millis(20_000);
    kit.event(NODE_ADD);
    assert_eq!(kit.counts(), [2, 0, 0, 0], "its backoff was over");
}

#[test]
fn a_no_keeps_the_pod_and_a_pending_plugins_yes_skips_backoff() {
    let kit = Kit::new();
    kit.reject(&plain("a"), &["A"]);
    kit.answer("A", Answer::Skip);
    kit.event(NODE_ADD);
    assert_eq!(kit.counts(), [0, 0, 1, 0]);
    for answer in [Answer::Fail, Answer::Panic] {
        let kit = Kit::new();
        kit.reject(&plain("a"), &["A"]);
        kit.answer("A", answer);
        kit.event(NODE_ADD);
        assert_eq!(kit.counts(), [0, 1, 0, 0], "a hint that fails counts as yes");
    }
    let kit = Kit::new();
    kit.reject(&plain("p"), &["?A"]);
    kit.event(NODE_ADD);
    assert_eq!(kit.counts(), [1, 0, 0, 0]);
}

#[test]
fn alike_pods_are_asked_about_once() {
    let kit = Kit::with(Options {
        by_class: true,
        ..Default::default()
    });
    for number in 0..100_u32 {
        let mut alike = pod(&format!("p{number}"));
        alike.class = ClassId(number % 2);
        kit.reject(&Arc::new(alike), &["A"]);
    }
    kit.answer("A", Answer::Skip);
    kit.event(NODE_ADD);
    assert_eq!((kit.asked("A"), kit.counts()), (2, [0, 0, 100, 0]));
    kit.answer("A", Answer::Queue);
    let even = |pod: &crate::cluster::PodInfo| pod.class == ClassId(0);
    kit.queue.on_event(NODE_ADD, &EventObject::None, Some(&even));
    assert_eq!((kit.asked("A"), kit.counts()), (4, [0, 50, 50, 0]));
}

#[test]
fn gated_pods_are_counted_and_freed_by_their_last_gates_going() {
    let kit = Kit::new();
    for name in ["p", "q", "r"] {
        kit.queue.add(&gated(name));
    }
    assert_eq!((kit.counts(), kit.pop_name()), ([0, 0, 0, 3], None));
    kit.event(NODE_ADD);
    kit.advance_millis(400_000);
    kit.queue.flush_unschedulable();
    assert_eq!(kit.counts(), [0, 0, 0, 3]);
    kit.queue.update(Some(&gated("p")), &plain("p"));
    assert_eq!(kit.counts(), [1, 0, 0, 2], "no backoff");
    kit.queue.delete(plain("q").uid);
    kit.queue.activate(&[gated("r").uid]);
    assert_eq!(kit.counts(), [1, 0, 0, 1], "still gated");
    let queued = kit.queue.try_pop().unwrap();
    assert_eq!(queued.attempts, 1);
    kit.back(queued, &["A"]);
    assert_eq!(kit.counts(), [0, 0, 1, 1]);
    assert_eq!(kit.metrics.pending_pods(QueueKind::Gated), 1);
}

#[test]
fn pre_enqueue_is_not_asked_on_the_way_out_of_backoff() {
    let kit = Kit::new();
    let asked = || *kit.actors["Gate"].pre_enqueued.lock();
    kit.reject(&plain("p"), &["A"]);
    kit.event(NODE_ADD);
    let before = asked();
    kit.queue.activate(&[plain("p").uid]);
    assert_eq!((asked(), kit.counts()), (before, [1, 0, 0, 0]));
    kit.reject_next(&["A"]);
    kit.queue.activate(&[plain("p").uid, plain("unknown").uid]);
    assert_eq!((asked(), kit.counts()), (before + 1, [1, 0, 0, 0]));
}

#[test]
fn an_update_leaves_a_pod_in_backoff_there() {
    let kit = Kit::new();
    kit.reject(&plain("p"), &["A"]);
    kit.event(NODE_ADD);
    let mut newer = pod("p");
    newer.generation = 3;
    kit.queue.update(Some(&plain("p")), &Arc::new(newer));
    assert_eq!(kit.counts(), [0, 1, 0, 0]);
    kit.advance_millis(2000);
    kit.queue.flush_backoff();
    assert_eq!(kit.queue.try_pop().unwrap().pod.generation, 3);
}

#[test]
fn a_pods_own_update_is_offered_to_its_rejectors() {
    let tolerant = |name: &str| {
        let mut pod = pod(name);
        let toleration = crate::cluster::Toleration {
            key: None,
            op: crate::cluster::TolerationOp::Exists,
            value: "".into(),
            effect: None,
        };
        Arc::make_mut(&mut pod.spec).tolerations = Box::new([toleration]);
        Arc::new(pod)
    };
    let kit = Kit::new();
    kit.reject(&plain("p"), &["A"]);
    kit.reject(&plain("q"), &["A"]);
    kit.queue.update(Some(&plain("p")), &tolerant("p"));
    assert_eq!((kit.counts(), kit.asked("A")), ([0, 1, 1, 0], 1), "q is not concerned");
    kit.advance_millis(5000);
    kit.queue.update(Some(&plain("q")), &tolerant("q"));
    assert_eq!(kit.counts(), [1, 1, 0, 0]);

    let kit = Kit::new();
    kit.reject(&plain("p"), &["A"]);
    kit.answer("A", Answer::Skip);
    kit.queue.update(Some(&plain("p")), &tolerant("p"));
    assert_eq!(kit.counts(), [0, 0, 1, 0]);
    kit.answer("A", Answer::Queue);
    let mut labelled = pod("p");
    labelled.labels = [("a", "b")].into_iter().collect();
    kit.queue.update(Some(&plain("p")), &Arc::new(labelled));
    assert_eq!(kit.counts(), [0, 0, 1, 0], "A does not wait for labels");

    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue.update(Some(&plain("p")), &tolerant("p"));
    assert_eq!(
        kit.back(queued, &["A"]),
        Requeued::Backoff,
        "also while it was being tried"
    );
}

#[test]
fn pods_that_wait_too_long_are_tried_anyhow() {
    let kit = Kit::new();
    kit.reject(&plain("p"), &["A"]);
    kit.advance_millis(300_000);
    kit.queue.flush_unschedulable();
    assert_eq!(kit.counts(), [0, 0, 1, 0]);
    kit.advance_millis(1000);
    kit.queue.flush_unschedulable();
    assert_eq!(kit.counts(), [1, 0, 0, 0]);
    let queued = kit.queue.try_pop().unwrap();
    assert!(queued.flushed);
    kit.back(queued, &["A"]);
    kit.event(NODE_ADD);
    assert!(!kit.queue.try_pop().unwrap().flushed);
}

#[test]
fn the_end_of_a_nomination_is_offered_to_pods_of_its_priority_and_below() {
    let kit = Kit::new();
    kit.reject(&with_priority("higher", 8), &["A"]);
    kit.reject(&with_priority("equal", 5), &["A"]);
    kit.reject(&with_priority("lower", 1), &["A"]);
    kit.queue.add(&nominated("n", None, 5));
    kit.queue
        .update(Some(&nominated("n", None, 5)), &nominated("n", Some("node-1"), 5));
    assert_eq!(kit.counts(), [1, 0, 3, 0], "the first nomination frees nothing");
    kit.queue.update(
        Some(&nominated("n", Some("node-1"), 5)),
        &nominated("n", Some("node-2"), 5),
    );
    assert_eq!(kit.counts(), [1, 2, 1, 0]);

    let kit = Kit::new();
    kit.reject(&with_priority("lower", 1), &["A"]);
    kit.queue.add(&nominated("n", Some("node-1"), 5));
    kit.queue.delete(plain("n").uid);
    assert_eq!(kit.counts(), [0, 1, 0, 0]);
}

#[test]
fn a_forced_event_for_another_pod_and_an_unwanted_event_move_nothing() {
    let kit = Kit::new();
    kit.reject(&plain("p"), &["A"]);
    kit.queue.activate(&[plain("other").uid]);
    kit.event(ClusterEvent::new(EventResource::CsiNode, ActionType::ADD));
    assert_eq!(kit.counts(), [0, 0, 1, 0]);
}

#[test]
fn waiting_pods_are_counted_for_each_of_their_rejectors() {
    let kit = Kit::new();
    let gauge = |plugin: &str| {
        let page = kit.metrics.exposition();
        let line = page.lines().find(|line| {
            line.starts_with("scheduler_unschedulable_pods{") && line.contains(&format!("plugin=\"{plugin}\""))
        });
        line.and_then(|line| line.rsplit(' ').next().map(str::to_owned))
    };
    kit.reject(&plain("p"), &["A", "B"]);
    assert_eq!((gauge("A").as_deref(), gauge("B").as_deref()), (Some("1"), Some("1")));
    kit.queue.activate(&[plain("p").uid]);
    let _queued = kit.queue.try_pop().unwrap();
    assert_eq!((gauge("A").as_deref(), gauge("B").as_deref()), (Some("0"), Some("0")));
}

impl Kit {
    fn reject_next(&self, by: &[&str]) -> Requeued {
        let queued = self.queue.try_pop().unwrap();
        self.back(queued, by)
    }
}

/// Says of some pods that others are being evicted for them.
#[derive(Default)]
struct Evicting(crate::sync::Mutex<Vec<crate::ids::PodUid>>);

impl crate::framework::Evict for Evicting {
    fn evict(&self, _: crate::framework::Eviction) -> Result<(), String> {
        Ok(())
    }

    fn is_evicting_for(&self, preemptor: crate::ids::PodUid) -> bool {
        self.0.lock().contains(&preemptor)
    }
}

#[test]
fn a_preemptor_is_held_back_while_its_victims_are_evicted_and_then_let_go() {
    let loader = supercargo_config::PluginCatalogue::in_tree();
    let loaded = supercargo_config::Loader::new(&loader).defaults().unwrap();
    let (handle, evicting) = (
        Arc::new(crate::framework::Handle::default()),
        Arc::new(Evicting::default()),
    );
    handle.set_evict(Arc::<Evicting>::clone(&evicting));
    let registry = crate::plugins::registry();
    let profiles = crate::framework::Profiles::build(&loaded.configuration, &registry, &handle).unwrap();
    let metrics = Arc::new(Metrics::new(&Default::default()));
    let clock = crate::clock::Clock::Manual(Default::default());
    let queue = SchedulingQueue::new(Arc::new(profiles), clock, QueueConfig::default(), metrics);
    let counts = || {
        let counts = queue.pending_counts();
        [counts.active, counts.backoff, counts.unschedulable, counts.gated]
    };
    let wanting = |name| crate::testing::pod(name).cpu(100).build();
    let (p, q) = (wanting("p"), wanting("q"));
    for pod in [&p, &q] {
        queue.add(pod);
        let queued = queue.try_pop().unwrap();
        evicting.0.lock().push(pod.uid);
        // Its victim has gone already, during the attempt.
        queue.activate(&[pod.uid]);
        queue.add_unschedulable_if_not_present(queued, rejected_by(&["NodeResourcesFit"]));
    }
    assert_eq!(counts(), [0, 0, 0, 2]);
    queue.ungate(p.uid);
    assert_eq!(counts(), [0, 0, 0, 2], "still at it");
    evicting.0.lock().clear();
    queue.ungate(p.uid);
    assert_eq!(counts(), [0, 1, 0, 1], "it backs off");
    // The end of a pod that was going wakes the other one too.
    let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
    let gone = crate::testing::pod("v").cpu(100).on("n1").build();
    let object = EventObject::Pod {
        old: Some(gone),
        new: None,
    };
    queue.on_event(event, &object, None);
    assert_eq!(counts(), [0, 2, 0, 0]);
    // A pod that waits for an event is left alone.
    let r = wanting("r");
    queue.add(&r);
    let queued = queue.try_pop().unwrap();
    queue.add_unschedulable_if_not_present(queued, rejected_by(&["NodeResourcesFit"]));
    queue.ungate(r.uid);
    queue.ungate(plain("unknown").uid);
    assert_eq!(counts(), [0, 2, 1, 0]);
}
