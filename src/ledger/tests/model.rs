//! The races, under a checker that chooses the schedule: the code that ships, on the checker's locks.
//!
//! Each model that must hold has a neighbour that is wrong on purpose and must be found out, so that a model that
//! checks nothing cannot pass. A failing schedule is printed by the checker and can be replayed with `shuttle::replay`.
//!
//! `cargo test -p supercargo --lib model` runs these and the change log's; `SUPERCARGO_SCHEDULES=20000` before it looks
//! longer.

mod commit;
mod network;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::thread;

use super::stress::assert_books_agree;
use super::*;
use crate::sync::model::Modelled;

/// Schedules tried of each model, unless `SUPERCARGO_SCHEDULES` asks for more: half with random steps, half with few
/// and well-placed preemptions.
const SCHEDULES: usize = 300;

/// Node indices of the models are below this.
const NODES: u32 = 3;

fn explore(model: fn()) {
    let asked = std::env::var("SUPERCARGO_SCHEDULES")
        .ok()
        .and_then(|count| count.parse().ok());
    let schedules: usize = asked.unwrap_or(SCHEDULES);
    shuttle::check_random(model, schedules / 2);
    shuttle::check_pct(model, schedules / 2, 3);
}

fn is_found_out(model: fn()) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(model))).is_err()
}

/// A sink that checks, under the entry's lock, that the pods of class 7 are never counted in neither place once they
/// are counted, nor in more than two.
#[derive(Default)]
struct Watching(Mutex<i32>);

impl ChangeSink for Watching {
    fn append(&self, change: Change) -> u64 {
        let step = match change.kind {
            ChangeKind::PodAdded => 1,
            ChangeKind::PodRemoved => -1,
            _ => 0,
        };
        if change.class == Some(ClassId(7)) {
            let mut count = self.0.lock();
            *count += step;
            assert!((1..=2).contains(&*count), "a pod in {} places", *count);
        }
        0
    }
}

fn shared(milli_cpu: i64) -> Arc<Ledger<Modelled>> {
    let ledger = Arc::new(Ledger::with_primitives(Arc::new(Watching::default())));
    ledger.upsert_node(N1, FIRST, capacity(milli_cpu, 10));
    ledger.upsert_node(N2, FIRST, capacity(milli_cpu, 10));
    ledger
}

type Reserved = Result<u64, ReserveError>;

fn reserve(ledger: &Ledger<Modelled>, pod: &Arc<Charge>, node: NodeIdx) -> Reserved {
    ledger.reserve(pod, &checks(pod), node, FIRST)
}

fn spawn<R: Send + 'static>(
    ledger: &Arc<Ledger<Modelled>>,
    call: impl FnOnce(&Ledger<Modelled>) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let ledger = Arc::clone(ledger);
    thread::spawn(move || call(&ledger))
}

fn total_cpu(ledger: &Ledger<Modelled>) -> i64 {
    [N1, N2]
        .into_iter()
        .filter_map(|node| ledger.read(node))
        .map(|usage| usage.requested.milli_cpu)
        .sum()
}

#[test]
fn model_of_two_reserves_for_one_room_one_wins() {
    explore(|| {
        let ledger = shared(1000);
        let workers = [1, 2, 3].map(|uid| spawn(&ledger, move |ledger| reserve(ledger, &charge(uid, 600), N1).is_ok()));
        let won = workers.map(|worker| worker.join().unwrap());
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_finds_a_reserve_that_checks_and_charges_in_two_steps() {
    assert!(is_found_out(|| {
        let ledger = shared(1000);
        let workers = [1, 2].map(|uid| {
            spawn(&ledger, move |ledger| {
                if ledger.read(N1).unwrap().requested.milli_cpu + 600 <= 1000 {
                    ledger.confirm(&charge(uid, 600), N1);
                }
            })
        });
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(total_cpu(&ledger) <= 1000);
    }));
}

#[test]
fn model_one_pod_reserved_by_two_workers_is_promised_once() {
    explore(|| {
        let ledger = shared(1000);
        let workers = [N1, N2].map(|node| spawn(&ledger, move |ledger| reserve(ledger, &charge(1, 600), node)));
        let results = workers.map(|worker| worker.join().unwrap());
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert_eq!(total_cpu(&ledger), 600);
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_a_delete_during_a_reserve_leaves_nothing() {
    explore(|| {
        let ledger = shared(1000);
        let worker = spawn(&ledger, |ledger| reserve(ledger, &charge(1, 600), N1));
        let removed = ledger.remove(PodUid(1));
        let reserved = worker.join().unwrap();
        assert_books_agree(&ledger, NODES);
        match (reserved, removed) {
            // It came before there was anything to remove; the bind will be answered with 404.
            (Ok(_), None) => assert_eq!(total_cpu(&ledger), 600),
            (Ok(_) | Err(ReserveError::Overtaken), Some(N1)) => assert_eq!(total_cpu(&ledger), 0),
            other => panic!("{other:?}"),
        }
        ledger.remove(PodUid(1));
        assert_eq!((total_cpu(&ledger), ledger.assumed_count()), (0, 0));
    });
}

#[test]
fn model_a_bind_by_others_during_a_reserve_wins() {
    explore(|| {
        let ledger = shared(1000);
        let worker = spawn(&ledger, |ledger| reserve(ledger, &charge(1, 600), N1));
        let watch = spawn(&ledger, |ledger| ledger.confirm(&charge(1, 600), N2));
        let failing = spawn(&ledger, |ledger| ledger.unreserve(PodUid(1)));
        worker.join().unwrap().ok();
        watch.join().unwrap();
        failing.join().unwrap();
        let promise = ledger.promise(PodUid(1)).unwrap();
        assert_eq!((promise.node, promise.state), (N2, PromiseState::Bound));
        assert_eq!((total_cpu(&ledger), ledger.assumed_count()), (600, 0));
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_a_confirmation_beats_the_failure_path() {
    explore(|| {
        let ledger = shared(1000);
        reserve(&ledger, &charge(1, 600), N1).unwrap();
        let failing = spawn(&ledger, |ledger| ledger.unreserve(PodUid(1)));
        let confirmed = ledger.confirm(&charge(1, 600), N1);
        let undone = failing.join().unwrap();
        let expected = if undone {
            [Confirmed::Added, Confirmed::Deferred].contains(&confirmed)
        } else {
            confirmed == Confirmed::Flipped
        };
        assert!(expected, "{confirmed:?} although unreserved: {undone}");
        assert_eq!(ledger.promise(PodUid(1)).unwrap().state, PromiseState::Bound);
        assert_eq!(total_cpu(&ledger), 600);
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_a_moving_pod_is_always_counted_somewhere() {
    explore(|| {
        let ledger = shared(1000);
        let pod = with(&charge(1, 600), |pod| pod.class = ClassId(7));
        reserve(&ledger, &pod, N1).unwrap();
        let movers = [N2, N1].map(|node| {
            let pod = Arc::clone(&pod);
            spawn(&ledger, move |ledger| ledger.confirm(&pod, node))
        });
        let late = spawn(&ledger, |ledger| reserve(ledger, &charge(1, 600), N2));
        for mover in movers {
            mover.join().unwrap();
        }
        assert_eq!(late.join().unwrap(), Err(ReserveError::AlreadyPromised));
        assert_eq!(total_cpu(&ledger), 600);
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_finds_a_move_that_removes_first() {
    assert!(is_found_out(|| {
        let ledger = shared(1000);
        let pod = with(&charge(1, 600), |pod| pod.class = ClassId(7));
        ledger.confirm(&pod, N1);
        ledger.remove(pod.uid);
        ledger.confirm(&pod, N2);
    }));
}

#[test]
fn model_all_calls_about_one_pod_at_once_leave_books_that_agree() {
    explore(|| {
        let ledger = shared(1000);
        let worker = spawn(&ledger, |ledger| {
            if reserve(ledger, &charge(1, 600), N1).is_ok() {
                ledger.unreserve(PodUid(1));
            }
            reserve(ledger, &charge(1, 600), N2).ok();
        });
        let watch = spawn(&ledger, |ledger| {
            ledger.confirm(&charge(1, 600), N2);
            ledger.confirm(&charge(1, 700), N1);
            ledger.remove(PodUid(1));
        });
        let other = spawn(&ledger, |ledger| reserve(ledger, &charge(2, 500), N2).is_ok());
        worker.join().unwrap();
        watch.join().unwrap();
        other.join().unwrap();
        assert_books_agree(&ledger, NODES);
        ledger.unreserve(PodUid(1));
        ledger.remove(PodUid(2));
        assert_eq!(
            (total_cpu(&ledger), ledger.counts().pods, ledger.assumed_count()),
            (0, 0, 0)
        );
    });
}

#[test]
fn model_a_node_that_goes_during_a_reserve_takes_no_pod_after() {
    explore(|| {
        let ledger = shared(1000);
        let version = ledger.read(N1).unwrap().version;
        let worker = spawn(&ledger, |ledger| reserve(ledger, &charge(1, 600), N1));
        ledger.remove_node(N1, FIRST);
        let reserved = worker.join().unwrap();
        match reserved {
            Ok(_) => assert!(ledger.read(N1).is_some_and(|ghost| !ghost.live && ghost.pods == 1)),
            Err(error) => assert_eq!(error, ReserveError::NodeGone),
        }
        assert_eq!(ledger.unreserve(PodUid(1)), reserved.is_ok());
        assert_eq!(ledger.read(N1), None);
        ledger.upsert_node(N1, Incarnation(2), capacity(1000, 10));
        assert!(ledger.read(N1).unwrap().version > version + 1);
    });
}

#[test]
fn model_nominations_and_their_index_agree_whatever_ends_them() {
    explore(|| {
        let ledger = shared(1000);
        let worker = spawn(&ledger, |ledger| {
            ledger.nominate(&charge(1, 100), N1, &[], None).ok();
            ledger.nominate(&charge(1, 100), N2, &[], None).ok();
        });
        let watch = spawn(&ledger, |ledger| ledger.confirm(&charge(1, 100), N2));
        let cleaner = spawn(&ledger, |ledger| ledger.clear_nomination(PodUid(1)));
        ledger.remove_node(N1, FIRST);
        worker.join().unwrap();
        watch.join().unwrap();
        cleaner.join().unwrap();
        assert_books_agree(&ledger, NODES);
        assert_eq!((ledger.nominated_node(PodUid(1)), ledger.counts().nominated), (None, 0));
    });
}

/// Two workers nominate after dry runs that saw the same node: one of them must look again, however the room that the
/// first one took shows, and a pod that is removed meanwhile never stays nominated.
#[test]
fn model_two_preemptors_that_saw_the_same_node_do_not_share_its_room() {
    explore(|| {
        let ledger = shared(1000);
        let seen = ledger.read(N1).unwrap().version;
        let workers = [1, 2].map(|uid| {
            spawn(&ledger, move |ledger| {
                let claimed = ledger.nominate(&charge(uid, 600), N1, &[PodUid(9)], Some(seen));
                claimed.is_ok()
            })
        });
        let won = workers.map(|worker| worker.join().unwrap());
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        assert_eq!(ledger.nominations(N1).len(), 1);
        assert_books_agree(&ledger, NODES);
    });
}

#[test]
fn model_finds_preemptors_that_nominate_by_what_they_saw_before() {
    assert!(is_found_out(|| {
        let ledger = shared(1000);
        let workers = [1, 2].map(|uid| {
            spawn(&ledger, move |ledger| {
                // No version: whatever happened since is not seen.
                if ledger.nominations(N1).is_empty() {
                    ledger.nominate(&charge(uid, 600), N1, &[PodUid(9)], None).ok();
                }
            })
        });
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(ledger.nominations(N1).len() <= 1);
    }));
}

#[test]
fn model_weaker_nominations_end_once_whoever_ends_them() {
    explore(|| {
        let ledger = shared(1000);
        ledger.nominate(&charge(1, 100), N1, &[], None).unwrap();
        let strong = spawn(&ledger, |ledger| ledger.clear_lower_nominations(N1, 1000).len());
        let moved = spawn(&ledger, |ledger| {
            ledger.nominate(&charge(1, 100), N2, &[], None).is_ok()
        });
        let cleared = spawn(&ledger, |ledger| ledger.clear_nomination(PodUid(1)).is_some());
        let (_, moved, _) = (strong.join().unwrap(), moved.join().unwrap(), cleared.join().unwrap());
        assert!(moved && ledger.nominations(N1).is_empty());
        assert_books_agree(&ledger, NODES);
    });
}
