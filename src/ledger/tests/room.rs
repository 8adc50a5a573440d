//! What runs out: resources, pod slots and host ports.

use super::*;

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
