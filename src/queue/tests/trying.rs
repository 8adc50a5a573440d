//! Which pod is next, backoff, and what happens while a pod is being tried.

use std::sync::Arc;
use std::time::Duration;

use super::kit::*;
use crate::clock::Nanos;
use crate::cluster::PodInfo;
use crate::framework::{Activate, EventObject};
use crate::ids::ClassId;
use crate::queue::{QueueConfig, Requeued};
use crate::telemetry::QueueKind;

#[test]
fn the_highest_priority_goes_first_and_then_who_came_first() {
    for ranked in [true, false] {
        let kit = Kit::with(Options {
            ranked,
            ..Default::default()
        });
        for (name, priority) in [("a", 0), ("b", 10), ("c", 0), ("d", 10), ("e", -5)] {
            kit.queue.add(&with_priority(name, priority));
        }
        let order: Vec<_> = std::iter::from_fn(|| kit.pop_name()).collect();
        assert_eq!(order, ["b", "d", "a", "c", "e"]);
    }
}

#[test]
fn a_failed_pod_goes_behind_its_equals() {
    let kit = Kit::new();
    assert_eq!(kit.reject(&plain("old"), &["A"]), Requeued::Unschedulable);
    kit.advance_millis(5000);
    kit.queue.add(&plain("new"));
    kit.event(NODE_ADD);
    assert_eq!(kit.counts(), [2, 0, 0, 0], "its backoff is over");
    assert_eq!(
        (kit.pop_name().as_deref(), kit.pop_name().as_deref()),
        (Some("old"), Some("new"))
    );

    let kit = Kit::new();
    kit.queue.add(&plain("old"));
    let queued = kit.queue.try_pop().unwrap();
    kit.queue.add(&plain("new"));
    kit.advance_millis(10);
    assert_eq!(kit.back(queued, &["A"]), Requeued::Unschedulable);
    kit.queue.activate(&[plain("old").uid]);
    assert_eq!(
        (kit.pop_name().as_deref(), kit.pop_name().as_deref()),
        (Some("new"), Some("old"))
    );
}

#[test]
fn backoff_ends_in_the_second_after_its_rounded_end() {
    for offset in [0, 900] {
        let kit = Kit::new();
        kit.advance_millis(offset);
        assert_eq!(kit.reject(&plain("p"), &[]), Requeued::Backoff);
        kit.advance_millis(1999 - offset);
        kit.queue.flush_backoff();
        assert_eq!(kit.counts(), [0, 1, 0, 0]);
        kit.advance_millis(1);
        kit.queue.flush_backoff();
        assert_eq!(kit.counts(), [1, 0, 0, 0]);
    }
}

#[test]
fn waits_double_and_an_error_counts_for_itself() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let mut waits = Vec::new();
    for round in 0..7_u32 {
        let queued = kit.queue.try_pop().unwrap();
        assert_eq!(queued.attempts, round + 1);
        assert!(queued.rejectors.is_empty(), "reasons are cleared for every attempt");
        let start = kit.clock_now();
        // Five rejections, then an error, then a rejection: the error's wait is a first one.
        let by: &[&str] = if round == 5 { &[] } else { &["A"] };
        if kit.back(queued, by) == Requeued::Unschedulable {
            kit.event(NODE_ADD);
        }
        assert_eq!(kit.counts(), [0, 1, 0, 0]);
        while kit.counts()[0] == 0 {
            kit.advance_millis(1000);
            kit.queue.flush_backoff();
        }
        waits.push(kit.clock_now().since(start).as_secs() - 1);
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 1, 10]);
}

#[test]
fn without_a_longest_wait_there_is_no_backoff() {
    let kit = Kit::with(Options {
        config: QueueConfig {
            max_backoff: Duration::ZERO,
            ..Default::default()
        },
        ..Default::default()
    });
    assert_eq!(kit.reject(&plain("p"), &[]), Requeued::Active);
}

#[test]
fn an_idle_queue_gives_out_rejected_pods_before_their_time_but_not_failed_ones() {
    let kit = Kit::new();
    kit.queue.add(&plain("failed"));
    kit.queue.add(&plain("rejected"));
    let (failed, rejected) = (kit.queue.try_pop().unwrap(), kit.queue.try_pop().unwrap());
    kit.event(NODE_ADD);
    assert_eq!(kit.back(rejected, &["A"]), Requeued::Backoff);
    assert_eq!(kit.back(failed, &[]), Requeued::Backoff);
    assert_eq!(kit.counts(), [0, 2, 0, 0]);
    assert_eq!(kit.pop_name().as_deref(), Some("rejected"));
    assert_eq!(kit.pop_name(), None);
}

#[test]
fn of_pods_whose_waits_end_in_one_second_the_higher_priority_goes_first() {
    let kit = Kit::new();
    kit.queue.add(&with_priority("low", 0));
    kit.queue.add(&with_priority("high", 5));
    let (high, low) = (kit.queue.try_pop().unwrap(), kit.queue.try_pop().unwrap());
    kit.event(NODE_ADD);
    kit.back(low, &["A"]);
    kit.advance_millis(300);
    kit.back(high, &["A"]);
    assert_eq!(kit.counts(), [0, 2, 0, 0]);
    assert_eq!(kit.pop_name().as_deref(), Some("high"));
}

#[test]
fn an_event_counts_only_if_it_came_during_the_attempt() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    kit.event(NODE_ADD);
    let queued = kit.queue.try_pop().unwrap();
    assert_eq!(kit.back(queued, &["A"]), Requeued::Unschedulable);

    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    kit.event(NODE_ADD);
    assert_eq!(kit.queue.events_kept(), 1);
    assert_eq!(kit.back(queued, &["A"]), Requeued::Backoff);
    assert_eq!(kit.queue.events_kept(), 0);
}

#[test]
fn an_event_during_the_attempt_is_weighed_by_the_rejectors_hints() {
    let during = |by: &[&str], a: Answer| {
        let kit = Kit::new();
        kit.answer("A", a);
        kit.queue.add(&plain("p"));
        let queued = kit.queue.try_pop().unwrap();
        kit.event(POD_DELETE);
        kit.back(queued, by)
    };
    assert_eq!(during(&["A"], Answer::Skip), Requeued::Unschedulable);
    assert_eq!(during(&["A"], Answer::Fail), Requeued::Backoff);
    assert_eq!(during(&["A"], Answer::Panic), Requeued::Backoff);
    assert_eq!(during(&["?A"], Answer::Queue), Requeued::Active);
    assert_eq!(
        during(&["B"], Answer::Queue),
        Requeued::Unschedulable,
        "B does not wait for it"
    );
}

#[test]
fn a_pending_plugins_yes_beats_an_earlier_yes() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    kit.event(NODE_ADD);
    assert_eq!(kit.back(queued, &["A", "?B"]), Requeued::Active);
    assert_eq!((kit.asked("A"), kit.asked("B")), (1, 1));
}

#[test]
fn activating_a_pod_in_flight_lets_it_back_off_instead_of_waiting() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    kit.queue.add(&plain("other"));
    let (p, other) = (kit.queue.try_pop().unwrap(), kit.queue.try_pop().unwrap());
    kit.queue.activate(&[p.pod.uid]);
    assert_eq!(kit.back(other, &["A"]), Requeued::Unschedulable);
    assert_eq!(kit.back(p, &["A"]), Requeued::Backoff);
}

#[test]
fn a_pod_in_flight_is_not_queued_by_an_update_and_returns_with_it() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    let mut newer = pod("p");
    newer.generation = 7;
    kit.queue.update(Some(&queued.pod), &Arc::new(newer));
    assert_eq!(kit.counts(), [0; 4]);
    kit.back(queued, &[]);
    kit.advance_millis(3000);
    kit.queue.flush_backoff();
    assert_eq!(kit.queue.try_pop().unwrap().pod.generation, 7);
}

#[test]
fn a_binding_pod_takes_no_events_and_no_place_until_it_fails() {
    let kit = Kit::new();
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    assert!(kit.queue.done(&queued));
    kit.event(NODE_ADD);
    kit.queue.add(&plain("p"));
    kit.queue.update(None, &plain("p"));
    assert_eq!(
        (kit.counts(), kit.queue.events_kept(), kit.queue.pods_out()),
        ([0; 4], 0, 1)
    );
    assert_eq!(kit.back(queued, &[]), Requeued::Backoff);
}

#[test]
fn events_are_dropped_when_nobody_in_flight_needs_them() {
    let kit = Kit::new();
    for name in ["a", "b", "c"] {
        kit.queue.add(&plain(name));
    }
    let a = kit.queue.try_pop().unwrap();
    kit.event(NODE_ADD);
    let b = kit.queue.try_pop().unwrap();
    kit.event(NODE_ADD);
    assert_eq!(kit.queue.events_kept(), 2);
    kit.back(a, &["A"]);
    assert_eq!(kit.queue.events_kept(), 1);
    kit.queue.delete(b.pod.uid);
    assert_eq!(kit.queue.events_kept(), 0);
    kit.event(NODE_ADD);
    assert_eq!(kit.queue.events_kept(), 0, "nothing is in flight");
    let c = kit.queue.try_pop().unwrap();
    kit.queue.on_event(NOBODYS, &EventObject::None, None);
    assert_eq!(kit.queue.events_kept(), 0, "nobody registered it");
    kit.queue.done(&c);
}

#[test]
fn too_many_events_make_the_pod_try_again() {
    let kit = Kit::new();
    kit.answer("A", Answer::Skip);
    kit.queue.add(&plain("p"));
    let queued = kit.queue.try_pop().unwrap();
    for _ in 0..100_001 {
        kit.event(NODE_ADD);
    }
    assert_eq!(kit.queue.events_kept(), 100_000);
    assert_eq!(kit.back(queued, &["A"]), Requeued::Backoff);
    assert_eq!(kit.queue.events_kept(), 0);
}

#[test]
fn workers_wait_for_pods_and_end_when_the_queue_closes() {
    let kit = Kit::new();
    let names = std::thread::scope(|scope| {
        let worker = || {
            let mut names = Vec::new();
            while let Some(queued) = kit.queue.pop() {
                names.push(queued.pod.name.to_string());
                kit.queue.leave(&queued, crate::queue::Exit::Bound);
            }
            names
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        for number in 0..300 {
            kit.queue.add(&plain(&format!("p{number}")));
        }
        while kit.queue.totals().bound < 300 {
            std::thread::yield_now();
        }
        kit.queue.close();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(names.len(), 300);
    assert_eq!(kit.metrics.pending_pods(QueueKind::Active), 0);
    assert!(kit.queue.pop().is_none());
}

#[test]
fn a_batch_is_taken_at_once() {
    let kit = Kit::new();
    for name in ["a", "b", "c"] {
        kit.queue.add(&plain(name));
    }
    let names =
        |batch: Vec<crate::queue::QueuedPodInfo>| batch.iter().map(|q| q.pod.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(kit.queue.pop_batch(2)), ["a", "b"]);
    assert_eq!(names(kit.queue.pop_batch(2)), ["c"]);
}

impl Kit {
    fn clock_now(&self) -> Nanos {
        crate::clock::Clock::Manual(self.clock.clone()).now()
    }
}

/// Workers pop, fail and bind while events, updates and deletions come in from other threads.
#[test]
fn nothing_is_lost_between_threads() {
    const PODS: usize = 600;
    let kit = Kit::with(Options {
        config: QueueConfig {
            max_backoff: Duration::ZERO,
            ..Default::default()
        },
        ..Default::default()
    });
    let worker = |number: usize| {
        let mut turn = number;
        while let Some(queued) = kit.queue.pop() {
            turn += 1;
            match turn % 4 {
                0 => {
                    kit.back(queued, &["A"]);
                }
                1 => {
                    kit.back(queued, &[]);
                }
                2 => {
                    kit.queue.done(&queued);
                    kit.queue.leave(&queued, crate::queue::Exit::Bound);
                }
                _ => {
                    kit.queue.assigned(queued.pod.uid);
                    kit.queue.leave(&queued, crate::queue::Exit::Bound);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn(move || worker(number));
        }
        for number in 0..PODS {
            let pod = plain(&format!("p{number}"));
            kit.queue.add(&pod);
            if number % 7 == 0 {
                kit.queue.update_if_known(Some(&pod), &pod);
                kit.queue.delete(pod.uid);
            }
        }
        loop {
            kit.event(NODE_ADD);
            let totals = kit.queue.totals();
            if totals.bound + totals.deleted == totals.entered {
                break;
            }
            std::thread::yield_now();
        }
        kit.queue.close();
    });
    let totals = kit.queue.totals();
    assert_eq!(totals.entered, u64::try_from(PODS).unwrap());
    assert_eq!(
        (kit.counts(), kit.queue.pods_out(), kit.queue.events_kept()),
        ([0; 4], 0, 0)
    );
}

#[test]
fn a_crowd_that_fits_nowhere_does_not_keep_others_waiting() {
    let kit = Kit::new();
    for number in 0..200 {
        kit.queue.add(&with_priority(&format!("high{number}"), 1000));
    }
    kit.queue.add(&with_priority("low", 0));
    let mut attempts = 0;
    loop {
        let queued = kit.queue.try_pop().unwrap();
        if *queued.pod.name == *"low" {
            break;
        }
        attempts += 1;
        assert!(attempts <= 1000, "it is never its turn");
        kit.advance_millis(1);
        kit.back(queued, &["A"]);
        if attempts % 10 == 0 {
            kit.event(NODE_ADD);
            kit.queue.flush_backoff();
        }
    }
    assert_eq!(attempts, 200, "each of the others had one attempt");
}

#[test]
fn pods_that_turned_out_to_differ_are_told_of_events_one_by_one() {
    let kit = Kit::with(Options {
        by_class: true,
        ..Options::default()
    });
    for (name, class) in [("a", 1), ("b", 2)] {
        kit.queue.add(&plain(name));
        let mut queued = kit.queue.try_pop().unwrap();
        // Some label became visible meanwhile.
        queued.pod = Arc::new(PodInfo {
            class: ClassId(class),
            class_epoch: 1,
            ..pod(name)
        });
        kit.back(queued, &["A"]);
    }
    kit.answer("A", Answer::Skip);
    kit.event(NODE_ADD);
    assert_eq!(kit.asked("A"), 2);
}
