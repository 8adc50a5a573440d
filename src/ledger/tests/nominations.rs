//! Room held for nominated pods.

use super::*;

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
fn nominations_end_with_their_node() {
    let (ledger, sink) = ledger();
    ledger.nominate(&charge(1, 100), N1, &[], None).unwrap();
    ledger.remove_node(N1, FIRST);
    assert_eq!((ledger.nominated_node(PodUid(1)), ledger.counts().nominated), (None, 0));
    assert_eq!(ledger.read(N1), None);
    assert_eq!(sink.0.lock().last().unwrap().kind, ChangeKind::NodeRemoved(FIRST));
}
