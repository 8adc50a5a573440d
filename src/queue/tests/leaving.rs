//! The ways out.

use std::sync::Arc;

use super::kit::*;
use crate::ids::PodUid;
use crate::queue::{Exit, Requeued};

#[test]
fn a_pod_deleted_or_bound_during_its_attempt_does_not_come_back() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue.delete(queued.pod.uid);
    assert_eq!(kit.back(queued.clone(), &["A"]), Requeued::Gone);
    assert!(!kit.queue.done(&queued));

    kit.queue.add(&plain("q"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue.done(&queued);
    kit.queue.assigned(queued.pod.uid);
    assert!(!kit.queue.leave(&queued, Exit::Bound));
    assert_eq!(kit.back(queued, &[]), Requeued::Gone);
    let totals = kit.queue.totals();
    assert_eq!((totals.entered, totals.bound, totals.deleted), (2, 1, 1));
}

#[test]
fn a_late_answer_does_not_touch_a_pod_that_entered_anew() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let first = kit.queue.try_pop().unwrap();
    kit.queue.delete(first.pod.uid);
    kit.queue.add(&plain("p"));
    assert_eq!(kit.back(first.clone(), &["A"]), Requeued::AlreadyQueued);
    let second = kit.queue.try_pop().unwrap();
    assert!(!kit.queue.done(&first));
    assert!(kit.queue.done(&second));
}

#[test]
fn only_our_pods_without_a_node_enter() {
    let kit = Kit::new();
    let with = |change: &dyn Fn(&mut crate::cluster::PodInfo)| {
        let mut pod = pod("p");
        change(&mut pod);
        kit.queue.add(&Arc::new(pod))
    };
    assert!(!with(
        &|pod| Arc::make_mut(&mut pod.spec).scheduler_name = Some("other".into())
    ));
    assert!(!with(&|pod| pod.bound_to = Some("node".into())));
    assert!(!with(&|pod| pod.terminal = true));
    assert!(with(&|pod| pod.terminating = true));
}

#[test]
fn an_update_of_an_unknown_pod_adds_it() {
    let kit = Kit::new();
    kit.queue.update(None, &plain("p"));
    assert_eq!(kit.counts(), [1, 0, 0, 0]);
}

#[test]
fn new_profiles_take_over_the_pods_of_their_names() {
    let kit = Kit::new();
    kit.reject(&plain("rejected"), &["A"]);
    kit.queue.add(&plain("flying"));
    let flying = kit.queue.try_pop().unwrap();
    kit.queue.add(&plain("waiting"));
    assert_eq!(
        kit.queue
            .replace_profiles(profiles(&kit.actors, &["x", "default-scheduler"])),
        []
    );
    assert_eq!(kit.counts(), [2, 0, 0, 0]);
    kit.event(NODE_ADD);
    assert_eq!(kit.back(flying, &["A"]), Requeued::Backoff);
    let queued = kit.queue.try_pop().unwrap();
    assert_eq!(queued.profile.index, 1);

    let left = kit.queue.replace_profiles(profiles(&kit.actors, &["x"]));
    assert_eq!((left.len(), kit.counts()), (2, [0; 4]));
    assert_eq!(kit.queue.totals().handed_over, 2);
}

#[test]
fn no_way_out_leaves_anything_behind() {
    let kit = Kit::new();
    for (number, exit) in [Exit::Bound, Exit::Deleted, Exit::HandedOver]
        .into_iter()
        .cycle()
        .take(999)
        .enumerate()
    {
        let pod = plain(&format!("p{number}"));
        kit.queue.add(&pod);
        if number % 5 == 0 {
            // Gone before anybody tries it.
            kit.queue.delete(pod.uid);
            continue;
        }
        let queued = kit.queue.try_pop().unwrap();
        kit.event(NODE_ADD);
        if number % 2 == 0 {
            kit.queue.done(&queued);
        }
        assert!(kit.queue.leave(&queued, exit));
    }
    assert_eq!(
        (kit.counts(), kit.queue.events_kept(), kit.queue.pods_out()),
        ([0; 4], 0, 0)
    );
    let totals = kit.queue.totals();
    assert_eq!(totals.entered, totals.bound + totals.deleted + totals.handed_over);
    assert_eq!(kit.metrics.pending_pods(crate::telemetry::QueueKind::Active), 0);
}

#[test]
fn nothing_is_kept_of_attempts_that_ended_however_many_and_however() {
    const PODS: u32 = 100_000;
    let kit = Kit::new();
    let model = pod("model");
    for number in 0..PODS {
        let mut pod = model.clone();
        pod.uid = PodUid::parse(&format!("uid-{number}"));
        assert!(kit.queue.add(&Arc::new(pod)));
    }
    let mut number = 0_u32;
    while let Some(queued) = kit.queue.try_pop() {
        let uid = queued.pod.uid;
        if number.is_multiple_of(8) {
            kit.event(NODE_ADD);
            assert_eq!(kit.queue.events_kept(), 1, "for the one that is being tried");
        }
        match number % 7 {
            // Skipped: it is being deleted, or bound elsewhere.
            0 => assert!(kit.queue.leave(&queued, Exit::Deleted)),
            1 => assert!(kit.queue.leave(&queued, Exit::Bound)),
            // The watch was faster.
            2 => kit.queue.delete(uid),
            3 => kit.queue.assigned(uid),
            // Decided; then bound, or deleted.
            4 => assert!(kit.queue.done(&queued) && kit.queue.leave(&queued, Exit::Bound)),
            5 => {
                assert!(kit.queue.done(&queued));
                kit.queue.delete(uid);
            }
            // Failed, by an error such as a panic; and deleted then.
            _ => {
                kit.back(queued.clone(), &[]);
                kit.queue.delete(uid);
            }
        }
        assert!(!kit.queue.done(&queued), "it is out");
        assert_eq!((kit.queue.events_kept(), kit.queue.pods_out()), (0, 0), "pod {number}");
        number += 1;
    }
    let totals = kit.queue.totals();
    assert_eq!((number, totals.entered), (PODS, u64::from(PODS)));
    assert_eq!(totals.bound + totals.deleted, totals.entered);
    assert_eq!(kit.counts(), [0; 4]);
}
