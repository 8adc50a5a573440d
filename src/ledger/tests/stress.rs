//! Real threads on the real ledger and log.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::cluster::{ChangeLog, Cursor, Replay};

fn shared() -> (Ledger, Arc<ChangeLog>) {
    let log = ChangeLog::new();
    (Ledger::new(Arc::<ChangeLog>::clone(&log)), log)
}

/// Reserves every pod on its own thread's turn and gives how many got room.
fn race(ledger: &Ledger, pods: &[Arc<Charge>], threads: usize) -> usize {
    std::thread::scope(|scope| {
        let part = pods.len().div_ceil(threads);
        let workers: Vec<_> = pods
            .chunks(part)
            .map(|mine| scope.spawn(move || mine.iter().filter(|pod| reserve(ledger, pod, N1).is_ok()).count()))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

#[test]
fn one_of_many_workers_gets_the_last_slot() {
    let (ledger, _) = shared();
    ledger.upsert_node(N1, FIRST, capacity(200_000, 110));
    for uid in 0..109 {
        ledger.confirm(&charge(1000 + uid, 100), N1);
    }
    let pods: Vec<_> = (0..58).map(|uid| charge(uid, 100)).collect();
    assert_eq!(race(&ledger, &pods, 8), 1);
    assert_eq!(ledger.read(N1).unwrap().pods, 110);
}

#[test]
fn one_of_two_workers_gets_the_host_port() {
    for _ in 0..50 {
        let (ledger, _) = ledger();
        let pods = [1, 2].map(|uid| with(&charge(uid, 0), |pod| pod.ports = smallvec![port(80)]));
        assert_eq!(race(&ledger, &pods, 2), 1);
    }
}

const NODES: u32 = 3;
const PODS: u128 = 40;

/// One random call; pods of `own` are reserved only by their own thread, as in the scheduler.
fn step(ledger: &Ledger, rng: &mut Pcg64Mcg, own: u128) {
    let node = NodeIdx(rng.random_range(0..NODES));
    let uid = rng.random_range(0..PODS);
    let pod = charge(uid, 100 + i64::try_from(uid).unwrap() * 10);
    match rng.random_range(0..10) {
        0..4 => {
            let mine = charge(own * PODS + uid % 10, 300);
            if ledger.reserve(&mine, &checks(&mine), node, FIRST).is_ok() && rng.random() {
                ledger.unreserve(mine.uid);
            }
        }
        4 => _ = ledger.confirm(&pod, node),
        5 => _ = ledger.confirm(&charge(own * PODS + uid % 10, 300), node),
        6 => _ = ledger.unreserve(pod.uid),
        7 => _ = ledger.nominate(&pod, node, &[], None).ok(),
        8 => _ = ledger.remove(PodUid(own * PODS + uid % 10)),
        _ => _ = ledger.remove(pod.uid),
    }
}

/// What is promised by pod is what is counted by node, and nothing is left half done.
pub(super) fn assert_books_agree<P: Primitives>(ledger: &Ledger<P>, nodes: u32) {
    let mut counted: Vec<_> = (0..nodes)
        .flat_map(|node| {
            ledger
                .charges(NodeIdx(node))
                .into_iter()
                .map(move |charge| (charge.uid, NodeIdx(node)))
        })
        .collect();
    counted.sort_unstable();
    let mut promised: Vec<_> = ledger
        .pods()
        .iter()
        .map(|uid| (*uid, ledger.promise(*uid).unwrap()))
        .collect();
    promised.sort_unstable_by_key(|(uid, _)| *uid);
    assert!(
        promised
            .iter()
            .all(|(_, promise)| promise.state != PromiseState::Reserving)
    );
    assert_eq!(
        counted,
        promised
            .iter()
            .map(|(uid, promise)| (*uid, promise.node))
            .collect::<Vec<_>>()
    );
    let assumed = promised
        .iter()
        .filter(|(_, promise)| promise.state == PromiseState::Assumed)
        .count();
    assert_eq!(ledger.assumed_count(), assumed as u64);
    let nominated: Vec<_> = (0..nodes)
        .map(NodeIdx)
        .map(|node| (node, ledger.nominations(node)))
        .collect();
    for (node, nominations) in &nominated {
        assert_eq!(
            ledger.read(*node).map_or(0, |usage| usage.nominated) as usize,
            nominations.len()
        );
        assert!(
            nominations
                .iter()
                .all(|found| ledger.nominated_node(found.charge.uid) == Some(*node))
        );
    }
    let count: usize = nominated.iter().map(|(_, nominations)| nominations.len()).sum();
    assert_eq!(ledger.counts().nominated, count as u64);
}

#[test]
fn random_calls_from_many_threads_leave_books_that_agree() {
    let (ledger, log) = shared();
    for node in 0..NODES {
        ledger.upsert_node(NodeIdx(node), FIRST, capacity(4000, 20));
    }
    std::thread::scope(|scope| {
        for own in 1..5 {
            let ledger = &ledger;
            scope.spawn(move || {
                let mut rng = Pcg64Mcg::seed_from_u64(0x5ca1_ab1e + u64::try_from(own).unwrap());
                for _ in 0..1500 {
                    step(ledger, &mut rng, own);
                }
            });
        }
    });
    assert_books_agree(&ledger, NODES);
    let mut versions = vec![0; NODES as usize];
    let replay = log.replay(&mut Cursor::at(0), |_, change| {
        assert_eq!(
            change.version,
            versions[change.node.at()] + 1,
            "the log's order is not that of the states"
        );
        versions[change.node.at()] = change.version;
    });
    assert_eq!(replay, Replay::UpTo(log.head()));
    for node in 0..NODES {
        assert_eq!(ledger.read(NodeIdx(node)).unwrap().version, versions[node as usize]);
    }
}

#[test]
fn no_node_ever_holds_more_pods_than_slots_while_nodes_come_and_go() {
    let (ledger, _) = shared();
    for node in 0..NODES {
        ledger.upsert_node(NodeIdx(node), FIRST, capacity(4000, 11));
        for daemon in 0..2 {
            ledger.confirm(&charge(u128::from(10_000 + node * 2 + daemon), 0), NodeIdx(node));
        }
    }
    let last = NodeIdx(NODES);
    let placed: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let ledger = &ledger;
                scope.spawn(move || {
                    let place = |uid: &u128| {
                        let pod = charge(*uid, 0);
                        (0..=NODES).map(NodeIdx).any(|node| {
                            assert!(ledger.read(node).is_none_or(|usage| usage.pods <= 11));
                            reserve(ledger, &pod, node).is_ok()
                        })
                    };
                    (worker * 100..worker * 100 + 20).filter(place).count()
                })
            })
            .collect();
        ledger.remove_node(NodeIdx(0), FIRST);
        ledger.upsert_node(last, FIRST, capacity(4000, 11));
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let held: i64 = (0..=NODES)
        .map(|node| ledger.read(NodeIdx(node)).map_or(0, |usage| usage.pods))
        .sum();
    assert_eq!(held, i64::try_from(placed).unwrap() + 6);
    assert!((0..=NODES).all(|node| ledger.read(NodeIdx(node)).is_none_or(|usage| usage.pods <= 11)));
    assert_books_agree(&ledger, NODES + 1);
}
