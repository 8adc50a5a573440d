use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn spec(ranges: &[&str], excluded: &[&str]) -> PoolSpec {
    let parse = |list: &[&str]| {
        let ranges = list.iter().map(|text| AddressRange::parse(text).unwrap().1);
        AddressRange::joined(ranges.collect())
    };
    PoolSpec {
        family: Family::of(ranges[0].split('/').next().unwrap().parse().unwrap()),
        ranges: parse(ranges),
        excluded: parse(excluded),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const fn pod(number: u128) -> PodUid {
    PodUid(number)
}

#[test]
fn cidrs_are_ranges() {
    let range = |text| AddressRange::parse(text).map(|(family, range)| (family, range.first, range.last));
    assert_eq!(range("10.0.0.7/30"), Ok((Family::V4, 0x0a00_0004, 0x0a00_0007)));
    assert_eq!(range("10.0.0.7"), Ok((Family::V4, 0x0a00_0007, 0x0a00_0007)));
    assert_eq!(range("0.0.0.0/0"), Ok((Family::V4, 0, u128::from(u32::MAX))));
    assert_eq!(range("::/0"), Ok((Family::V6, 0, u128::MAX)));
    assert_eq!(
        range("fd00::/64").map(|(_, first, last)| last - first),
        Ok(u128::from(u64::MAX))
    );
    for wrong in ["", "10.0.0.0/33", "10.0.0/24", "fd00::/129", "a/b", "10.0.0.0/-1"] {
        assert!(range(wrong).unwrap_err().contains("is not a CIDR"), "{wrong}");
    }
}

#[test]
fn a_pool_gives_what_it_offers_and_nothing_twice() {
    let mut pool = PoolEntry::new(spec(&["10.0.0.0/29"], &["10.0.0.0", "10.0.0.7"]));
    assert_eq!(pool.free(), 6);
    let mut given: Vec<IpAddr> = (1..=6).map(|number| pool.take(pod(number), None).unwrap()).collect();
    given.sort();
    assert_eq!(
        given,
        (1..=6).map(|last| ip(&format!("10.0.0.{last}"))).collect::<Vec<_>>()
    );
    assert_eq!(pool.take(pod(7), None), Err(Taken::Exhausted));
    assert_eq!(pool.take(pod(7), Some(ip("10.0.0.3"))), Err(Taken::Held));
    assert_eq!(pool.take(pod(7), Some(ip("10.0.0.7"))), Err(Taken::NotOffered));
    assert_eq!(pool.take(pod(7), Some(ip("fd00::1"))), Err(Taken::NotOffered));
    assert!(pool.give_back(pod(3), given[2], false));
    assert_eq!(pool.take(pod(7), Some(given[2])), Ok(given[2]));
}

#[test]
fn an_address_rests_before_another_pod_gets_it() {
    let mut pool = PoolEntry::new(spec(&["10.0.0.1"], &[]));
    let address = pool.take(pod(1), None).unwrap();
    assert!(pool.give_back(pod(1), address, true));
    assert_eq!((pool.free(), pool.take(pod(2), None)), (0, Err(Taken::Exhausted)));
    let grace = Duration::from_secs(10);
    let second = |seconds| Nanos(0).after(Duration::from_secs(seconds));
    assert_eq!(pool.wake(second(5), grace), 0);
    assert_eq!(pool.wake(second(14), grace), 0);
    assert_eq!(pool.wake(second(15), grace), 1);
    assert_eq!(pool.take(pod(2), None), Ok(address));
}

#[test]
fn facts_are_noted_even_if_two_pods_have_one_address() {
    let mut pool = PoolEntry::new(spec(&["10.0.0.0/30"], &[]));
    let address = ip("10.0.0.1");
    assert_eq!(pool.note(pod(1), address), None);
    assert_eq!(pool.note(pod(1), address), None);
    assert_eq!(pool.note(pod(2), address), Some(pod(1)));
    assert!(pool.give_back(pod(1), address, false));
    assert_eq!(pool.take(pod(3), Some(address)), Err(Taken::Held));
    assert!(pool.give_back(pod(2), address, false) && !pool.give_back(pod(2), address, false));
    assert_eq!(pool.take(pod(3), Some(address)), Ok(address));
}

#[test]
fn a_pool_that_shrinks_leaves_addresses_with_their_pods() {
    let mut pool = PoolEntry::new(spec(&["10.0.0.0/29"], &[]));
    for number in 0..8 {
        pool.take(pod(number), None).unwrap();
    }
    assert!(pool.set_spec(spec(&["10.0.0.0/30"], &[])));
    assert_eq!((pool.free(), pool.outside()), (0, 4));
    assert!(pool.give_back(pod(6), ip("10.0.0.6"), false));
    assert_eq!((pool.free(), pool.outside()), (0, 3));
    assert!(pool.give_back(pod(2), ip("10.0.0.2"), false));
    assert_eq!((pool.free(), pool.take(pod(9), None)), (1, Ok(ip("10.0.0.2"))));
}

#[test]
fn free_addresses_of_a_wide_prefix_cost_nothing() {
    let mut pool = PoolEntry::new(spec(&["fd00::/64", "fd01::/16"], &["fd00::"]));
    let taken: Vec<IpAddr> = (0..3).map(|number| pool.take(pod(number), None).unwrap()).collect();
    assert_eq!(taken, [ip("fd00::1"), ip("fd00::2"), ip("fd00::3")]);
    assert_eq!((pool.runs.len(), pool.holders.len()), (1, 3));
}

#[derive(Clone, Debug)]
enum Step {
    Take(u128, Option<u8>),
    Note(u128, u8),
    Give(u128, bool),
    Wake,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pod = 0_u128..24;
    let last = 0_u8..40;
    let step = prop_oneof![
        4 => (pod.clone(), proptest::option::weighted(0.3, last.clone())).prop_map(|(pod, last)| Step::Take(pod, last)),
        1 => (pod.clone(), last).prop_map(|(pod, last)| Step::Note(pod, last)),
        3 => (pod, any::<bool>()).prop_map(|(pod, rests)| Step::Give(pod, rests)),
        1 => Just(Step::Wake),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Against a plain map of who has what: nothing is given twice, what is free is given, runs are the held numbers.
    #[test]
    fn a_pool_does_as_a_plain_map_does(steps in steps()) {
        let mut pool = PoolEntry::new(spec(&["10.0.0.0/28", "10.0.0.20/30"], &["10.0.0.3"]));
        let mut held: BTreeMap<IpAddr, Vec<PodUid>> = BTreeMap::new();
        let mut resting: Vec<IpAddr> = Vec::new();
        for step in steps {
            match step {
                Step::Take(number, last) => {
                    let wanted = last.map(|last| ip(&format!("10.0.0.{last}")));
                    let is_free = |address: &IpAddr| {
                        pool.spec().offers(*address) && !held.contains_key(address) && !resting.contains(address)
                    };
                    let all = (0..40).map(|last| ip(&format!("10.0.0.{last}")));
                    let possible = wanted.map_or_else(|| all.filter(is_free).count(), |wanted| usize::from(is_free(&wanted)));
                    match pool.take(pod(number), wanted) {
                        Ok(address) => {
                            prop_assert!(possible > 0 && wanted.is_none_or(|wanted| wanted == address));
                            prop_assert!(!held.contains_key(&address) && !resting.contains(&address));
                            held.insert(address, vec![pod(number)]);
                        }
                        Err(_) => prop_assert_eq!(possible, 0),
                    }
                }
                Step::Note(number, last) => {
                    let address = ip(&format!("10.0.0.{last}"));
                    pool.note(pod(number), address);
                    resting.retain(|resting| *resting != address);
                    let pods = held.entry(address).or_default();
                    if !pods.contains(&pod(number)) {
                        pods.push(pod(number));
                    }
                }
                Step::Give(number, rests) => {
                    let of_pod = held.iter().find(|(_, pods)| pods.contains(&pod(number)));
                    let Some(address) = of_pod.map(|(address, _)| *address) else { continue };
                    prop_assert!(pool.give_back(pod(number), address, rests));
                    let pods = held.get_mut(&address).unwrap();
                    pods.retain(|held| *held != pod(number));
                    if pods.is_empty() {
                        held.remove(&address);
                        if rests {
                            resting.push(address);
                        }
                    }
                }
                Step::Wake => {
                    pool.wake(Nanos(1), Duration::ZERO);
                    prop_assert_eq!(pool.wake(Nanos(2), Duration::ZERO) <= resting.len(), true);
                    resting.clear();
                }
            }
            let mut numbers: Vec<u128> = held.keys().chain(&resting).map(|address| number(*address)).collect();
            numbers.sort_unstable();
            let of_runs: Vec<u128> = pool.runs.iter().flat_map(|(first, last)| *first..=*last).collect();
            prop_assert_eq!(of_runs, numbers);
            let taken = held.keys().chain(&resting).filter(|address| pool.spec().offers(**address)).count();
            prop_assert_eq!(pool.free(), pool.spec().size() - taken as u128);
        }
    }
}
