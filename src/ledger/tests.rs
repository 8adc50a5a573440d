//! What the ledger does, by behaviour; its children hold the heavier proofs.

mod model;
mod oracle;
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
fn only_what_is_asked_for_is_checked_on_a_node_over_its_capacity() {
    let (ledger, _) = ledger();
    ledger.confirm(&charge(1, 4800), N1);
    assert_eq!(
        shortage(reserve(&ledger, &charge(2, 100), N1)),
        Some(Shortage::Resource(Resource::Cpu))
    );
    let memory = with(&charge(3, 0), |pod| pod.request.memory = 100 << 20);
    assert!(reserve(&ledger, &memory, N1).is_ok());
    assert!(reserve(&ledger, &charge(4, 0), N1).is_ok());
    let unchecked = Checks {
        pod_slot: true,
        ..Checks::default()
    };
    assert!(ledger.reserve(&charge(5, 700), &unchecked, N1, FIRST).is_ok());
    assert_eq!(cpu(&ledger, N1), 5500);
}

#[test]
fn a_shrunken_node_blocks_what_it_lacks() {
    let (ledger, _) = ledger();
    reserve(&ledger, &charge(1, 3000), N1).unwrap();
    ledger.upsert_node(N1, FIRST, capacity(2000, 10));
    assert!(shortage(reserve(&ledger, &charge(2, 1), N1)).is_some());
    assert_eq!(ledger.remove(PodUid(1)), Some(N1));
    assert!(reserve(&ledger, &charge(2, 2000), N1).is_ok());
}

#[test]
fn pod_slots_run_out() {
    let (ledger, _) = ledger();
    ledger.upsert_node(N1, FIRST, capacity(4000, 2));
    ledger.confirm(&charge(1, 0), N1);
    assert!(reserve(&ledger, &charge(2, 0), N1).is_ok());
    assert_eq!(shortage(reserve(&ledger, &charge(3, 0), N1)), Some(Shortage::PodSlot));
    assert!(ledger.reserve(&charge(4, 0), &Checks::default(), N1, FIRST).is_ok());
}

#[test]
fn a_host_port_is_free_when_its_last_holder_goes() {
    let (ledger, _) = ledger();
    let pod = |uid| with(&charge(uid, 0), |pod| pod.ports = smallvec![port(80)]);
    assert!(reserve(&ledger, &pod(1), N1).is_ok());
    assert_eq!(shortage(reserve(&ledger, &pod(2), N1)), Some(Shortage::Port(port(80))));
    ledger.confirm(&pod(3), N1);
    assert_eq!(ledger.read(N1).unwrap().ports.as_slice(), [port(80), port(80)]);
    assert!(ledger.unreserve(PodUid(1)));
    assert!(shortage(reserve(&ledger, &pod(2), N1)).is_some());
    assert_eq!(ledger.remove(PodUid(3)), Some(N1));
    assert!(reserve(&ledger, &pod(2), N1).is_ok());
}

#[test]
fn ports_conflict_by_address_and_protocol() {
    let (ledger, _) = ledger();
    let held = HostPort {
        ip: Symbol::new("10.0.0.1"),
        ..port(80)
    };
    ledger.confirm(&with(&charge(1, 0), |pod| pod.ports = smallvec![held]), N1);
    let try_port = |uid, wanted| {
        let pod = with(&charge(uid, 0), |pod| pod.ports = smallvec![wanted]);
        reserve(&ledger, &pod, N1).is_ok()
    };
    assert!(!try_port(2, port(80)));
    assert!(!try_port(3, held));
    assert!(try_port(
        4,
        HostPort {
            ip: Symbol::new("10.0.0.2"),
            ..held
        }
    ));
    assert!(try_port(
        5,
        HostPort {
            protocol: Protocol::Udp,
            ..held
        }
    ));
}

#[test]
fn sums_at_the_limit_come_back_down() {
    let (ledger, _) = ledger();
    ledger.confirm(&charge(1, i64::MAX), N1);
    ledger.confirm(&charge(2, i64::MAX), N1);
    ledger.confirm(&charge(3, 5), N1);
    assert_eq!(cpu(&ledger, N1), i64::MAX);
    ledger.remove(PodUid(1));
    assert_eq!(cpu(&ledger, N1), i64::MAX);
    ledger.remove(PodUid(2));
    assert_eq!(cpu(&ledger, N1), 5);
}

#[test]
fn a_nomination_holds_room_against_equal_and_lower_priority() {
    let (ledger, _) = ledger();
    let nominated = with(&charge(1, 3000), |pod| pod.priority = 10);
    let version = ledger.nominate(&nominated, N1, &[], None).unwrap();
    assert_eq!(ledger.read(N1).unwrap().version, version);
    let of = |uid, priority| with(&charge(uid, 2000), |pod| pod.priority = priority);
    assert!(shortage(reserve(&ledger, &of(2, 9), N1)).is_some());
    assert!(shortage(reserve(&ledger, &of(3, 10), N1)).is_some());
    assert!(reserve(&ledger, &of(4, 11), N1).is_ok());
    assert!(shortage(reserve(&ledger, &nominated, N1)).is_some());
    assert_eq!(ledger.clear_nomination(nominated.uid), Some(N1));
    assert_eq!(ledger.clear_nomination(nominated.uid), None);
    assert!(reserve(&ledger, &of(5, 0), N1).is_ok());
}

#[test]
fn a_nomination_ends_when_its_pod_is_assumed_bound_or_deleted() {
    let (ledger, _) = ledger();
    let pod = charge(1, 100);
    for end in 0..3 {
        ledger.nominate(&pod, N1, &[], None).unwrap();
        assert_eq!(
            (ledger.nominated_node(pod.uid), ledger.nominations(N1).len()),
            (Some(N1), 1)
        );
        match end {
            0 => assert!(reserve(&ledger, &pod, N2).is_ok()),
            1 => assert_eq!(ledger.confirm(&pod, N2), Confirmed::Added),
            _ => assert_eq!(ledger.remove(pod.uid), None),
        }
        assert_eq!(
            (ledger.nominated_node(pod.uid), ledger.nominations(N1).len()),
            (None, 0)
        );
        assert_eq!((ledger.read(N1).unwrap().nominated, ledger.counts().nominated), (0, 0));
        ledger.remove(pod.uid);
    }
}

#[test]
fn a_later_nomination_replaces_the_earlier() {
    let (ledger, _) = ledger();
    let pod = charge(1, 100);
    ledger.nominate(&pod, N1, &[], None).unwrap();
    ledger.nominate(&pod, N2, &[], None).unwrap();
    ledger.nominate(&pod, N2, &[PodUid(9)], None).unwrap();
    assert!(ledger.nominations(N1).is_empty());
    assert_eq!(ledger.nominations(N2).len(), 1);
    assert_eq!(
        (ledger.nominated_node(pod.uid), ledger.counts().nominated),
        (Some(N2), 1)
    );
}

#[test]
fn a_nomination_after_a_dry_run_needs_the_node_as_it_was() {
    let (ledger, _) = ledger();
    let seen = ledger.read(N1).unwrap().version;
    ledger.confirm(&charge(9, 100), N1);
    let now = seen + 1;
    let moved = ledger.nominate(&charge(1, 100), N1, &[PodUid(9)], Some(seen));
    assert_eq!(moved, Err(NominateError::Moved { version: now }));
    assert!(ledger.nominate(&charge(1, 100), N1, &[PodUid(9)], Some(now)).is_ok());
    let second = ledger.nominate(&charge(2, 100), N1, &[PodUid(9)], Some(now));
    assert_eq!(second, Err(NominateError::Moved { version: now + 1 }));
    assert_eq!(
        ledger.nominate(&charge(9, 100), N2, &[], None),
        Err(NominateError::AlreadyPromised)
    );
    assert_eq!(
        ledger.nominate(&charge(3, 100), NodeIdx(7), &[], None),
        Err(NominateError::NodeGone)
    );
}

#[test]
fn a_nominated_pod_awaits_its_victims_until_they_are_gone_or_stay_for_sure() {
    let (ledger, _) = ledger();
    let (preemptor, victims) = (charge(1, 100), [PodUid(8), PodUid(9)]);
    for uid in victims {
        ledger.confirm(&charge(uid.0, 100), N1);
    }
    let nominate = |victims: &[PodUid]| {
        let seen = ledger.read(N1).unwrap().version;
        ledger.nominate(&preemptor, N1, victims, Some(seen)).unwrap();
    };
    nominate(&victims);
    ledger.remove(victims[0]);
    assert_eq!(ledger.awaited_node(preemptor.uid), Some(N1));
    let version = ledger.read(N1).unwrap().version;
    ledger.forget_victims(preemptor.uid);
    assert_eq!(ledger.awaited_node(preemptor.uid), None);
    assert_eq!(
        (ledger.nominated_node(preemptor.uid), ledger.read(N1).unwrap().version),
        (Some(N1), version)
    );
    nominate(&victims[1..]);
    ledger.remove(victims[1]);
    assert_eq!(
        (ledger.nominated_node(preemptor.uid), ledger.awaited_node(preemptor.uid)),
        (Some(N1), None)
    );
}

#[test]
fn weaker_nominations_give_way_and_only_they() {
    let (ledger, _) = ledger();
    for (uid, priority) in [(1, 5), (2, 10), (3, 4)] {
        let pod = with(&charge(uid, 100), |pod| pod.priority = priority);
        ledger.nominate(&pod, N1, &[], None).unwrap();
    }
    assert_eq!(ledger.clear_lower_nominations(N1, 10).to_vec(), [PodUid(1), PodUid(3)]);
    assert_eq!(ledger.clear_lower_nominations(N1, 10).to_vec(), []);
    let left = [1, 2, 3].map(|uid| ledger.nominated_node(PodUid(uid)));
    assert_eq!((left, ledger.counts().nominated), ([None, Some(N1), None], 1));
    assert!(ledger.clear_lower_nominations(NodeIdx(7), 10).is_empty());
}

#[test]
fn a_nomination_follows_what_its_pod_uses() {
    let (ledger, _) = ledger();
    let small = with(&charge(1, 100), |pod| pod.priority = 10);
    ledger.nominate(&small, N1, &[PodUid(9)], None).unwrap();
    let version = ledger.read(N1).unwrap().version;
    ledger.update_nomination(&small);
    assert_eq!(ledger.read(N1).unwrap().version, version);
    let large = with(&small, |pod| pod.request.milli_cpu = 200);
    ledger.update_nomination(&large);
    assert_eq!(ledger.read(N1).unwrap().version, version + 1);
    let nominations = ledger.nominations(N1);
    assert_eq!((nominations.len(), &nominations[0].charge), (1, &large));
    assert_eq!(nominations[0].victims.to_vec(), [PodUid(9)]);
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
fn nominations_end_with_their_node() {
    let (ledger, sink) = ledger();
    ledger.nominate(&charge(1, 100), N1, &[], None).unwrap();
    ledger.remove_node(N1, FIRST);
    assert_eq!((ledger.nominated_node(PodUid(1)), ledger.counts().nominated), (None, 0));
    assert_eq!(ledger.read(N1), None);
    assert_eq!(sink.0.lock().last().unwrap().kind, ChangeKind::NodeRemoved(FIRST));
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
