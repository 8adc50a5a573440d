//! What the ledger does, by behaviour; its children hold the heavier proofs.

mod model;
mod network;
mod nominations;
mod oracle;
mod room;
mod stress;

use std::sync::Arc;

use smallvec::smallvec;

use super::*;
use crate::ids::{ClassId, Incarnation};
use crate::resources::{HostPort, Protocol, Resource, Resources};
use crate::sync::Mutex;

const GB: i64 = 1 << 30;
const FIRST: Incarnation = Incarnation(1);
const N1: NodeIdx = NodeIdx(1);
const N2: NodeIdx = NodeIdx(2);

/// A sink that keeps all.
#[derive(Default)]
struct Kept(Mutex<Vec<Change>>);

impl ChangeSink for Kept {
    fn append(&self, change: Change) -> u64 {
        let mut kept = self.0.lock();
        kept.push(change);
        kept.len() as u64 - 1
    }
}

fn ledger() -> (Ledger, Arc<Kept>) {
    let sink = Arc::new(Kept::default());
    let ledger = Ledger::new(Arc::<Kept>::clone(&sink));
    ledger.upsert_node(N1, FIRST, capacity(4000, 10));
    ledger.upsert_node(N2, FIRST, capacity(4000, 10));
    (ledger, sink)
}

fn capacity(milli_cpu: i64, pods: i64) -> Capacity {
    let resources = Resources {
        milli_cpu,
        memory: 8 * GB,
        ..Resources::default()
    };
    Capacity { resources, pods }
}

fn charge(uid: u128, milli_cpu: i64) -> Arc<Charge> {
    Arc::new(Charge {
        uid: PodUid(uid),
        class: ClassId(1),
        priority: 0,
        request: Resources {
            milli_cpu,
            ..Resources::default()
        },
        non_zero: NonZero {
            milli_cpu: milli_cpu.max(100),
            memory: 200 << 20,
        },
        ports: smallvec![],
    })
}

fn with(base: &Arc<Charge>, change: impl FnOnce(&mut Charge)) -> Arc<Charge> {
    let mut changed = Charge::clone(base);
    change(&mut changed);
    Arc::new(changed)
}

/// What the default plugins check.
fn checks(charge: &Charge) -> Checks {
    let amounts = [Resource::Cpu, Resource::Memory].map(|resource| (resource, charge.request.get(resource)));
    Checks {
        resources: amounts.into_iter().filter(|(_, amount)| *amount != 0).collect(),
        pod_slot: true,
        ports: charge.ports.clone(),
    }
}

fn reserve(ledger: &Ledger, charge: &Arc<Charge>, node: NodeIdx) -> Result<u64, ReserveError> {
    ledger.reserve(charge, &checks(charge), node, FIRST)
}

fn shortage(result: Result<u64, ReserveError>) -> Option<Shortage> {
    match result {
        Err(ReserveError::Conflict(conflict)) => Some(conflict.shortage),
        _ => None,
    }
}

fn cpu(ledger: &Ledger, node: NodeIdx) -> i64 {
    ledger.read(node).map_or(-1, |usage| usage.requested.milli_cpu)
}

fn port(number: u16) -> HostPort {
    HostPort {
        ip: Symbol::new("0.0.0.0"),
        protocol: Protocol::Tcp,
        port: number,
    }
}

#[test]
fn a_reserve_takes_room_until_it_is_full() {
    let (ledger, _) = ledger();
    assert!(reserve(&ledger, &charge(1, 3000), N1).is_ok());
    assert_eq!(
        shortage(reserve(&ledger, &charge(2, 1001), N1)),
        Some(Shortage::Resource(Resource::Cpu))
    );
    assert!(reserve(&ledger, &charge(3, 1000), N1).is_ok());
    assert_eq!(cpu(&ledger, N1), 4000);
    assert_eq!(ledger.promise(PodUid(2)), None);
    let promise = Promise {
        state: PromiseState::Assumed,
        node: N1,
        incarnation: FIRST,
    };
    assert_eq!(ledger.promise(PodUid(1)), Some(promise));
    assert_eq!(ledger.assumed_count(), 2);
}

#[test]
fn a_failed_bind_gives_the_room_back_before_the_next_attempt() {
    let (ledger, _) = ledger();
    let pod = charge(1, 3000);
    let before = ledger.read(N1).unwrap();
    assert!(reserve(&ledger, &pod, N1).is_ok());
    assert_eq!(reserve(&ledger, &pod, N2), Err(ReserveError::AlreadyPromised));
    assert!(ledger.unreserve(pod.uid));
    assert_eq!(
        ledger.read(N1).unwrap(),
        NodeUse {
            version: before.version + 2,
            ..before
        }
    );
    assert!(reserve(&ledger, &pod, N2).is_ok());
    assert_eq!(ledger.confirm(&pod, N2), Confirmed::Flipped);
    assert_eq!(
        (cpu(&ledger, N1), cpu(&ledger, N2), ledger.assumed_count()),
        (0, 3000, 0)
    );
}

#[test]
fn a_confirmed_pod_stays_when_the_failure_path_comes_late() {
    let (ledger, _) = ledger();
    let pod = charge(1, 1000);
    reserve(&ledger, &pod, N1).unwrap();
    let version = ledger.read(N1).unwrap().version;
    assert_eq!(ledger.confirm(&pod, N1), Confirmed::Flipped);
    assert_eq!(ledger.confirm(&pod, N1), Confirmed::Unchanged);
    assert!(!ledger.unreserve(pod.uid));
    assert_eq!(ledger.promise(pod.uid).unwrap().state, PromiseState::Bound);
    assert_eq!((cpu(&ledger, N1), ledger.read(N1).unwrap().version), (1000, version));
}

#[test]
fn a_deleted_pod_is_gone_whatever_comes_after() {
    let (ledger, _) = ledger();
    let pod = charge(1, 4000);
    reserve(&ledger, &pod, N1).unwrap();
    assert_eq!(ledger.remove(pod.uid), Some(N1));
    assert!(reserve(&ledger, &charge(2, 4000), N1).is_ok());
    assert!(!ledger.unreserve(pod.uid));
    assert_eq!(ledger.remove(pod.uid), None);
    assert_eq!((cpu(&ledger, N1), ledger.assumed_count()), (4000, 1));
}

#[test]
fn a_pod_seen_bound_elsewhere_moves() {
    let (ledger, sink) = ledger();
    let pod = charge(1, 1000);
    reserve(&ledger, &pod, N1).unwrap();
    let before = sink.0.lock().len();
    assert_eq!(ledger.confirm(&pod, N2), Confirmed::Moved { from: N1 });
    assert_eq!(
        (cpu(&ledger, N1), cpu(&ledger, N2), ledger.assumed_count()),
        (0, 1000, 0)
    );
    let steps: Vec<_> = sink.0.lock()[before..]
        .iter()
        .map(|change| (change.node, change.kind))
        .collect();
    assert_eq!(steps, [(N2, ChangeKind::PodAdded), (N1, ChangeKind::PodRemoved)]);
}

#[test]
fn a_resized_pod_is_counted_by_its_new_use() {
    let (ledger, sink) = ledger();
    let pod = charge(1, 1000);
    ledger.confirm(&pod, N1);
    assert_eq!(
        ledger.confirm(&with(&pod, |pod| pod.request.milli_cpu = 5000), N1),
        Confirmed::Replaced
    );
    assert_eq!(cpu(&ledger, N1), 5000);
    assert_eq!(sink.0.lock().last().unwrap().kind, ChangeKind::Usage);
    assert_eq!(
        ledger.confirm(&with(&pod, |pod| pod.class = ClassId(2)), N1),
        Confirmed::Replaced
    );
    let kept = sink.0.lock();
    let last: Vec<_> = kept[kept.len() - 2..]
        .iter()
        .map(|change| (change.kind, change.class))
        .collect();
    assert_eq!(
        last,
        [
            (ChangeKind::PodRemoved, Some(ClassId(1))),
            (ChangeKind::PodAdded, Some(ClassId(2)))
        ]
    );
}

#[test]
fn pods_of_an_unknown_node_are_counted_when_it_comes() {
    let (ledger, _) = ledger();
    let late = NodeIdx(9);
    ledger.confirm(&charge(1, 3000), late);
    assert_eq!(reserve(&ledger, &charge(2, 100), late), Err(ReserveError::NodeGone));
    ledger.upsert_node(late, FIRST, capacity(4000, 10));
    assert_eq!(
        shortage(reserve(&ledger, &charge(2, 2000), late)),
        Some(Shortage::Resource(Resource::Cpu))
    );
    assert!(reserve(&ledger, &charge(3, 1000), late).is_ok());
}

#[test]
fn a_node_that_is_gone_is_kept_until_its_last_pod_and_then_forgotten() {
    let (ledger, _) = ledger();
    ledger.confirm(&charge(1, 1000), N1);
    ledger.remove_node(N1, FIRST);
    assert_eq!(reserve(&ledger, &charge(2, 100), N1), Err(ReserveError::NodeGone));
    let ghost = ledger.read(N1).unwrap();
    assert_eq!((ghost.live, ghost.pods, ghost.incarnation), (false, 1, FIRST));
    assert_eq!(ledger.remove(PodUid(1)), Some(N1));
    assert_eq!(ledger.read(N1), None);
    assert_eq!(
        ledger.counts(),
        Counts {
            nodes: 1,
            ..Counts::default()
        }
    );

    ledger.upsert_node(N1, Incarnation(2), capacity(1000, 1));
    assert!(ledger.read(N1).unwrap().version > ghost.version);
    assert_eq!(reserve(&ledger, &charge(2, 100), N1), Err(ReserveError::NodeGone));
    assert!(
        ledger
            .reserve(&charge(2, 100), &Checks::default(), N1, Incarnation(2))
            .is_ok()
    );
}

#[test]
fn events_of_a_past_incarnation_change_nothing() {
    let (ledger, _) = ledger();
    ledger.confirm(&charge(1, 1000), N1);
    ledger.upsert_node(N1, Incarnation(2), capacity(2000, 10));
    ledger.remove_node(N1, FIRST);
    ledger.upsert_node(N1, FIRST, capacity(9000, 10));
    assert!(ledger.read(N1).unwrap().live);
    assert_eq!(ledger.capacity(N1), Some(capacity(2000, 10)));
    ledger.remove_node(N1, Incarnation(2));
    ledger.upsert_node(N1, Incarnation(2), capacity(9000, 10));
    assert!(!ledger.read(N1).unwrap().live);
}

#[test]
fn pods_of_lower_priority_are_found() {
    let (ledger, _) = ledger();
    for (uid, priority) in [(1, 5), (2, i32::MIN), (3, i32::MAX)] {
        ledger.confirm(&with(&charge(uid, 100), |pod| pod.priority = priority), N1);
    }
    assert_eq!(ledger.pods_below(N1, 5).to_vec(), [PodUid(2)]);
    assert_eq!(ledger.pods_below(N1, i32::MAX).to_vec(), [PodUid(1), PodUid(2)]);
    assert!(ledger.pods_below(N1, i32::MIN).is_empty() && ledger.pods_below(N2, i32::MAX).is_empty());
}

#[test]
fn every_change_of_a_node_has_the_next_version() {
    let (ledger, sink) = ledger();
    reserve(&ledger, &charge(1, 100), N1).unwrap();
    ledger.touch(N1, ChangeKind::Spec).unwrap();
    ledger.upsert_node(N1, FIRST, capacity(1, 1));
    ledger.nominate(&charge(2, 1), N1, &[], None).unwrap();
    ledger.remove(PodUid(1));
    let versions: Vec<_> = sink
        .0
        .lock()
        .iter()
        .filter(|change| change.node == N1)
        .map(|change| change.version)
        .collect();
    assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>());
    assert_eq!(ledger.read(N1).unwrap().version, versions.len() as u64);
    assert_eq!(ledger.touch(NodeIdx(8), ChangeKind::Spec), None);
}

#[test]
fn a_read_into_reuses_what_is_there() {
    let (ledger, _) = ledger();
    reserve(
        &ledger,
        &with(&charge(1, 100), |pod| pod.ports = smallvec![port(80)]),
        N1,
    )
    .unwrap();
    let mut usage = NodeUse::default();
    assert!(ledger.read_into(N1, &mut usage));
    assert_eq!(Some(&usage), ledger.read(N1).as_ref());
    assert!(!ledger.read_into(NodeIdx(8), &mut usage));
    assert_eq!(usage.pods, 1);
}

#[test]
fn a_call_that_is_overtaken_is_told_and_fulfils_the_newest_wish() {
    let pod = charge(1, 1000);
    let in_flight = |state| {
        let promise = Promise {
            state,
            node: N1,
            incarnation: FIRST,
        };
        promise::Placed {
            promise,
            charge: Arc::clone(&pod),
            network: None,
        }
    };
    for is_deleted in [false, true] {
        let (ledger, _) = ledger();
        // As a reserve stands between its charge and its end.
        ledger.nodes.update(N1, |entry| {
            entry.add(&pod);
            (After::Keep, ())
        });
        let reserving = || Record {
            placed: Some(in_flight(PromiseState::Reserving)),
            busy: true,
            wish: None,
        };
        ledger.promises.upsert(pod.uid, reserving, |_| (After::Keep, ()));
        assert_eq!(reserve(&ledger, &pod, N2), Err(ReserveError::AlreadyPromised));
        assert!(!ledger.unreserve(pod.uid));
        assert_eq!(ledger.confirm(&pod, N2), Confirmed::Deferred);
        if is_deleted {
            assert_eq!(ledger.remove(pod.uid), Some(N1));
        }
        assert!(ledger.settle(pod.uid, Some(in_flight(PromiseState::Assumed))));
        let bound = Promise {
            state: PromiseState::Bound,
            node: N2,
            incarnation: FIRST,
        };
        assert_eq!(ledger.promise(pod.uid), (!is_deleted).then_some(bound));
        assert_eq!(
            (cpu(&ledger, N1), cpu(&ledger, N2)),
            (0, if is_deleted { 0 } else { 1000 })
        );
        assert_eq!(ledger.assumed_count(), 0);
    }
}
