//! Links and addresses are promised with a pod's node, all or nothing, and never twice.

use std::net::IpAddr;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::ids::{DomainIdx, PoolIdx};

const WIDE: DomainIdx = DomainIdx(1);
const NARROW: DomainIdx = DomainIdx(2);
const POOL: PoolIdx = PoolIdx(0);

fn spec(cidr: &str) -> PoolSpec {
    let (family, range) = AddressRange::parse(cidr).unwrap();
    PoolSpec {
        family,
        ranges: Box::new([range]),
        excluded: Box::default(),
    }
}

fn flow(bits: i64) -> Flow {
    Flow {
        egress: bits,
        ingress: bits / 2,
    }
}

/// So many bits over both links, and an address.
pub(super) fn needs(bits: i64, wanted: Option<IpAddr>) -> NetworkNeeds {
    let mut needs = NetworkNeeds::default();
    needs.flows.add(NARROW, flow(bits));
    needs.flows.add(WIDE, flow(bits));
    needs.addresses.push(AddressNeed {
        pools: smallvec![POOL],
        wanted,
    });
    needs
}

pub(super) fn furnish<P: Primitives>(ledger: &Ledger<P>, capacity: i64, cidr: &str) {
    ledger.set_link(WIDE, Some(10 * capacity), None);
    ledger.set_link(NARROW, Some(capacity), Some(capacity));
    ledger.set_pool(POOL, &spec(cidr));
}

pub(super) fn reserve<P: Primitives>(
    ledger: &Ledger<P>,
    pod: &Arc<Charge>,
    needs: &NetworkNeeds,
) -> Result<u64, ReserveError> {
    ledger.reserve_all(pod, &checks(pod), needs, N1, FIRST)
}

/// What is in use is the sum of what is promised, and no address is promised to two pods.
pub(super) fn assert_network_agrees<P: Primitives>(ledger: &Ledger<P>) {
    let mut sums = [(WIDE, (0_i128, 0_i128)), (NARROW, (0, 0))];
    let mut addresses = Vec::new();
    for charge in ledger.pods().into_iter().filter_map(|uid| ledger.network(uid)) {
        for (link, flow) in charge.flows.iter() {
            let (_, sum) = sums.iter_mut().find(|(known, _)| *known == link).unwrap();
            sum.0 += i128::from(flow.egress);
            sum.1 += i128::from(flow.ingress);
        }
        addresses.extend(charge.addresses.iter().map(|(_, address)| *address));
    }
    for (link, sum) in sums {
        let usage = ledger.link_use(link);
        assert_eq!((usage.egress, usage.ingress), sum, "{link:?}");
    }
    let count = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), count);
    let held = ledger.pool_use(POOL);
    assert_eq!(held.size - held.free, u128::try_from(count).unwrap());
}

#[test]
fn a_pod_gets_all_that_it_needs_or_nothing() {
    let (ledger, _) = ledger();
    furnish(&ledger, 100, "10.0.0.0/31");
    assert!(reserve(&ledger, &charge(1, 100), &needs(60, None)).is_ok());
    let refused = |uid, needs: &NetworkNeeds| match reserve(&ledger, &charge(uid, 100), needs) {
        Err(ReserveError::Conflict(conflict)) => conflict.shortage,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(2, &needs(60, None)), Shortage::Link(NARROW));
    let taken = ledger.network(PodUid(1)).unwrap().addresses[0].1;
    assert_eq!(refused(3, &needs(10, Some(taken))), Shortage::Address(POOL));
    assert_network_agrees(&ledger);
    assert_eq!(ledger.read(N1).unwrap().pods, 1);
    assert!(reserve(&ledger, &charge(4, 100), &needs(40, None)).is_ok());
    assert_eq!(refused(5, &needs(0, None)), Shortage::Address(POOL));
    assert!(ledger.unreserve(PodUid(1)));
    assert!(reserve(&ledger, &charge(5, 100), &needs(60, Some(taken))).is_ok());
    assert_network_agrees(&ledger);
}

#[test]
fn what_a_pod_had_goes_with_it_and_its_address_rests() {
    let (ledger, _) = ledger();
    furnish(&ledger, 100, "10.0.0.0/32");
    let pod = charge(1, 100);
    reserve(&ledger, &pod, &needs(60, None)).unwrap();
    assert_eq!(ledger.confirm(&pod, N1), Confirmed::Flipped);
    assert!(ledger.network(pod.uid).is_some());
    ledger.remove(pod.uid);
    assert_eq!((ledger.link_use(NARROW).egress, ledger.pool_use(POOL).free), (0, 0));
    let grace = std::time::Duration::from_secs(1);
    assert_eq!(ledger.wake_addresses(crate::clock::Nanos(0), grace), 0);
    assert_eq!(ledger.wake_addresses(crate::clock::Nanos(1_000_000_000), grace), 1);
    assert_eq!(ledger.pool_use(POOL).free, 1);
}

#[test]
fn facts_are_charged_even_over_a_limit_and_that_is_told() {
    let (ledger, _) = ledger();
    furnish(&ledger, 100, "10.0.0.0/30");
    let [a, b] = [1, 2].map(|uid| charge(uid, 100));
    for pod in [&a, &b] {
        ledger.confirm(pod, N1);
    }
    let address: IpAddr = "10.0.0.2".parse().unwrap();
    let fact = |bits| {
        let mut charge = NetworkCharge::default();
        charge.flows.add(NARROW, flow(bits));
        charge.addresses.push((POOL, address));
        charge
    };
    assert_eq!(ledger.recharge_network(a.uid, fact(80)), Some(vec![]));
    let excess = ledger.recharge_network(b.uid, fact(80)).unwrap();
    assert_eq!(excess, [Excess::Link(NARROW), Excess::Address(address, a.uid)]);
    assert_eq!(ledger.recharge_network(b.uid, fact(10)).unwrap().len(), 2);
    assert_eq!(ledger.link_use(NARROW).egress, 90);
    ledger.remove(a.uid);
    assert_eq!(ledger.holders(POOL, address).as_slice(), [b.uid]);
    assert_eq!(ledger.recharge_network(b.uid, NetworkCharge::default()), Some(vec![]));
    assert_eq!((ledger.link_use(NARROW).egress, ledger.network(b.uid)), (0, None));
    assert_eq!(ledger.recharge_network(PodUid(9), fact(1)), None);
}

#[test]
fn a_capacity_below_the_use_blocks_more_and_nothing_else() {
    let (ledger, _) = ledger();
    furnish(&ledger, 100, "10.0.0.0/24");
    reserve(&ledger, &charge(1, 100), &needs(60, None)).unwrap();
    ledger.set_link(NARROW, Some(50), None);
    assert!(ledger.link_use(NARROW).is_over());
    assert!(reserve(&ledger, &charge(2, 100), &needs(1, None)).is_err());
    assert!(reserve(&ledger, &charge(3, 100), &needs(0, None)).is_ok());
    ledger.unreserve(PodUid(1));
    assert!(reserve(&ledger, &charge(2, 100), &needs(1, None)).is_ok());
}

#[test]
fn random_calls_from_many_threads_promise_nothing_twice() {
    let (ledger, _) = ledger();
    for node in [N1, N2] {
        ledger.upsert_node(node, FIRST, capacity(1_000_000, 10_000));
    }
    furnish(&ledger, 1000, "10.0.0.0/27");
    std::thread::scope(|scope| {
        for own in 0..8_u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                let mut rng = Pcg64Mcg::seed_from_u64(0x11c5 + own);
                for _ in 0..2000 {
                    let uid = u128::from(own) * 100 + rng.random_range(0..12);
                    let pod = charge(uid, 1);
                    match rng.random_range(0..8) {
                        0..4 => _ = reserve(ledger, &pod, &needs(rng.random_range(0..200), None)).ok(),
                        4 => _ = ledger.confirm(&pod, if rng.random() { N1 } else { N2 }),
                        5 => _ = ledger.unreserve(pod.uid),
                        6 => _ = ledger.wake_addresses(crate::clock::Nanos(rng.random_range(1..9)), Default::default()),
                        // Others may end it too.
                        _ => _ = ledger.remove(PodUid(u128::from(rng.random_range(0..8_u64)) * 100 + uid % 100)),
                    }
                }
            });
        }
    });
    for now in 10..12 {
        ledger.wake_addresses(crate::clock::Nanos(now), Default::default());
    }
    assert_network_agrees(&ledger);
    for uid in ledger.pods() {
        ledger.remove(uid);
    }
    for now in 12..14 {
        ledger.wake_addresses(crate::clock::Nanos(now), Default::default());
    }
    assert_network_agrees(&ledger);
    assert_eq!(ledger.pool_use(POOL).free, 32);
}
