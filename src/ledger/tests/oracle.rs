//! Random calls against a model of the ledger that is too simple to be wrong: pods by UID, nodes by index, sums
//! computed anew for every question.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NODES: u32 = 3;

#[derive(Clone, Debug)]
enum Call {
    Reserve {
        pod: Arc<Charge>,
        node: NodeIdx,
        age: u64,
        checks_cpu: bool,
    },
    Confirm {
        pod: Arc<Charge>,
        node: NodeIdx,
    },
    Unreserve(PodUid),
    Remove(PodUid),
    UpsertNode {
        node: NodeIdx,
        is_new: bool,
        capacity: Capacity,
    },
    RemoveNode(NodeIdx),
    Nominate {
        pod: Arc<Charge>,
        node: NodeIdx,
        victims: Vec<PodUid>,
        seen: Option<u64>,
    },
    ClearNomination(PodUid),
    ClearLower(NodeIdx, i32),
    ForgetVictims(PodUid),
    UpdateNomination(Arc<Charge>),
    Touch(NodeIdx),
}

fn any_call() -> impl Strategy<Value = Call> {
    let node = || (0..NODES).prop_map(NodeIdx);
    let uid = || (0_u128..7).prop_map(PodUid);
    let amount = prop_oneof![8 => 0..1500_i64, 1 => Just(i64::MAX)];
    let pod = (uid(), 0..2_u32, 0..3, amount, 0..4_u16, any::<bool>()).prop_map(
        |(uid, class, priority, milli_cpu, ports, has_gpu)| {
            with(&charge(uid.0, milli_cpu), |pod| {
                pod.class = ClassId(class);
                pod.priority = priority;
                pod.ports = (0..ports % 3).map(port).collect();
                if has_gpu {
                    pod.request
                        .set(Resource::Scalar(Symbol::new("example.com/gpu")), i64::from(ports));
                }
            })
        },
    );
    let pod = pod.boxed();
    prop_oneof![
        4 => (pod.clone(), node(), 0..8_u64, any::<bool>()).prop_map(|(pod, node, age, checks_cpu)| {
            // Now and then from an evaluation of the node's predecessor.
            Call::Reserve { pod, node, age: age / 7, checks_cpu }
        }),
        3 => (pod.clone(), node()).prop_map(|(pod, node)| Call::Confirm { pod, node }),
        2 => uid().prop_map(Call::Unreserve),
        2 => uid().prop_map(Call::Remove),
        2 => (node(), any::<bool>(), 0..4000_i64, 0..5_i64).prop_map(|(node, is_new, milli_cpu, pods)| {
            let mut capacity = capacity(milli_cpu, pods);
            capacity.resources.set(Resource::Scalar(Symbol::new("example.com/gpu")), pods);
            Call::UpsertNode { node, is_new, capacity }
        }),
        1 => node().prop_map(Call::RemoveNode),
        1 => pod.clone().prop_map(Call::UpdateNomination),
        2 => (pod, node(), prop::collection::vec(uid(), 0..2), prop::option::of(0..2_u64))
            .prop_map(|(pod, node, victims, seen)| Call::Nominate { pod, node, victims, seen }),
        1 => uid().prop_map(Call::ClearNomination),
        1 => (node(), 0..3).prop_map(|(node, priority)| Call::ClearLower(node, priority)),
        1 => uid().prop_map(Call::ForgetVictims),
        1 => node().prop_map(Call::Touch),
    ]
}

#[derive(Clone, Debug, Default)]
struct Node {
    capacity: Capacity,
    incarnation: Incarnation,
    live: bool,
}

#[derive(Debug, Default)]
struct Oracle {
    nodes: BTreeMap<NodeIdx, Node>,
    pods: BTreeMap<PodUid, (NodeIdx, Arc<Charge>, PromiseState)>,
    nominated: BTreeMap<PodUid, (NodeIdx, Arc<Charge>, Vec<PodUid>)>,
    incarnations: u64,
}

impl Oracle {
    fn on(&self, node: NodeIdx) -> impl Iterator<Item = &Charge> {
        self.pods
            .values()
            .filter(move |(on, ..)| *on == node)
            .map(|(_, charge, _)| &**charge)
    }

    fn usage(&self, node: NodeIdx) -> NodeUse {
        let mut usage = NodeUse::default();
        self.on(node).for_each(|charge| usage.add(charge));
        usage.ports.sort_unstable();
        usage.nominated = u32::try_from(self.nominated.values().filter(|(to, ..)| *to == node).count()).unwrap();
        let known = self.nodes.get(&node).cloned().unwrap_or_default();
        NodeUse {
            incarnation: known.incarnation,
            live: known.live,
            ..usage
        }
    }

    /// Whether all that is checked fits next to pods and to nominations that count.
    fn fits(&self, pod: &Charge, checks: &Checks, node: NodeIdx) -> bool {
        let capacity = &self.nodes[&node].capacity;
        let claims = self
            .nominated
            .values()
            .filter(|(to, claim, _)| *to == node && claim.priority >= pod.priority && claim.uid != pod.uid);
        let all: Vec<&Charge> = self.on(node).chain(claims.map(|(_, claim, _)| &**claim)).collect();
        let amount_fits = |(resource, amount): &(Resource, i64)| {
            let sum: i128 = all.iter().map(|other| i128::from(other.request.get(*resource))).sum();
            sum + i128::from(*amount) <= i128::from(capacity.resources.get(*resource))
        };
        let port_free = |port: &HostPort| !all.iter().any(|other| other.ports.contains(port));
        checks.resources.iter().all(amount_fits)
            && (!checks.pod_slot || i64::try_from(all.len()).unwrap() < capacity.pods)
            && checks.ports.iter().all(port_free)
    }

    fn forget_empty(&mut self) {
        let (pods, nominated) = (&self.pods, &self.nominated);
        self.nodes.retain(|node, known| {
            known.live || pods.values().any(|(on, ..)| on == node) || nominated.values().any(|(to, ..)| to == node)
        });
    }
}

/// Makes one call on both and compares what they answer.
fn make(ledger: &Ledger, oracle: &mut Oracle, call: Call) {
    match call {
        Call::Reserve {
            pod,
            node,
            age,
            checks_cpu,
        } => reserve_on_both(ledger, oracle, &pod, node, age, checks_cpu),
        Call::Confirm { pod, node } => {
            let expected = match oracle.pods.get(&pod.uid) {
                None => Confirmed::Added,
                Some((on, ..)) if *on != node => Confirmed::Moved { from: *on },
                Some((_, charge, _)) if *charge != pod => Confirmed::Replaced,
                Some((_, _, PromiseState::Assumed)) => Confirmed::Flipped,
                Some(_) => Confirmed::Unchanged,
            };
            assert_eq!(ledger.confirm(&pod, node), expected);
            oracle.nodes.entry(node).or_default();
            oracle.nominated.remove(&pod.uid);
            oracle.pods.insert(pod.uid, (node, pod, PromiseState::Bound));
        }
        Call::Unreserve(uid) => {
            let is_assumed = oracle
                .pods
                .get(&uid)
                .is_some_and(|(.., state)| *state == PromiseState::Assumed);
            assert_eq!(ledger.unreserve(uid), is_assumed);
            if is_assumed {
                oracle.pods.remove(&uid);
            }
        }
        Call::Remove(uid) => {
            assert_eq!(ledger.remove(uid), oracle.pods.remove(&uid).map(|(node, ..)| node));
            oracle.nominated.remove(&uid);
        }
        Call::UpsertNode { node, is_new, capacity } => {
            oracle.incarnations += 1;
            let known = oracle.nodes.entry(node).or_default();
            if is_new || !known.live {
                known.incarnation = Incarnation(oracle.incarnations);
            }
            (known.live, known.capacity) = (true, capacity.clone());
            ledger.upsert_node(node, known.incarnation, capacity);
        }
        Call::RemoveNode(node) => {
            let known = oracle.nodes.entry(node).or_default();
            ledger.remove_node(node, known.incarnation);
            if known.live {
                (known.live, known.capacity) = (false, Capacity::default());
                oracle.nominated.retain(|_, (to, ..)| *to != node);
            }
        }
        Call::Nominate {
            pod,
            node,
            victims,
            seen,
        } => nominate_on_both(ledger, oracle, &pod, node, victims, seen),
        Call::ClearNomination(uid) => {
            assert_eq!(
                ledger.clear_nomination(uid),
                oracle.nominated.remove(&uid).map(|(node, ..)| node)
            );
        }
        Call::ClearLower(node, priority) => {
            let mut ended = ledger.clear_lower_nominations(node, priority).to_vec();
            ended.sort_unstable();
            let lower =
                |(to, charge, _): &mut (NodeIdx, Arc<Charge>, Vec<PodUid>)| *to == node && charge.priority < priority;
            let expected: Vec<_> = oracle
                .nominated
                .extract_if(.., |_, it| lower(it))
                .map(|(uid, _)| uid)
                .collect();
            assert_eq!(ended, expected);
        }
        Call::ForgetVictims(uid) => {
            ledger.forget_victims(uid);
            if let Some((.., victims)) = oracle.nominated.get_mut(&uid) {
                victims.clear();
            }
        }
        Call::UpdateNomination(pod) => {
            ledger.update_nomination(&pod);
            if let Some((_, charge, _)) = oracle.nominated.get_mut(&pod.uid) {
                *charge = pod;
            }
        }
        Call::Touch(node) => {
            assert_eq!(
                ledger.touch(node, ChangeKind::Spec).is_some(),
                oracle.nodes.contains_key(&node)
            );
        }
    }
    oracle.forget_empty();
}

fn reserve_on_both(ledger: &Ledger, oracle: &mut Oracle, pod: &Arc<Charge>, node: NodeIdx, age: u64, checks_cpu: bool) {
    let known = oracle.nodes.get(&node).cloned().unwrap_or_default();
    let incarnation = Incarnation(known.incarnation.0.saturating_sub(age));
    let mut checks = checks(pod);
    checks
        .resources
        .retain(|(resource, _)| checks_cpu || *resource != Resource::Cpu);
    let before = ledger.read(node);
    let result = ledger.reserve(pod, &checks, node, incarnation);
    let refusal = result.err().map(|error| std::mem::discriminant(&error));
    let conflict = ReserveError::Conflict(Conflict {
        shortage: Shortage::PodSlot,
        version: 0,
    });
    let expected = if oracle.pods.contains_key(&pod.uid) {
        Some(ReserveError::AlreadyPromised)
    } else if !known.live || incarnation != known.incarnation {
        Some(ReserveError::NodeGone)
    } else if !oracle.fits(pod, &checks, node) {
        Some(conflict)
    } else {
        None
    };
    assert_eq!(
        refusal,
        expected.map(|error| std::mem::discriminant(&error)),
        "{result:?}, not {expected:?}"
    );
    if expected.is_some() {
        assert_eq!(ledger.read(node), before, "a refusal changed the node");
    } else {
        oracle.nominated.remove(&pod.uid);
        oracle
            .pods
            .insert(pod.uid, (node, Arc::clone(pod), PromiseState::Assumed));
    }
}

fn nominate_on_both(
    ledger: &Ledger,
    oracle: &mut Oracle,
    pod: &Arc<Charge>,
    node: NodeIdx,
    victims: Vec<PodUid>,
    seen: Option<u64>,
) {
    let version = ledger.read(node).map_or(0, |usage| usage.version);
    let is_live = oracle.nodes.get(&node).is_some_and(|known| known.live);
    let result = ledger.nominate(pod, node, &victims, seen.map(|behind| version.saturating_sub(behind)));
    let fails = oracle.pods.contains_key(&pod.uid) || !is_live || seen.is_some_and(|behind| behind > 0 && version > 0);
    assert_eq!(result.is_err(), fails, "{result:?}");
    if !fails {
        oracle.nominated.insert(pod.uid, (node, Arc::clone(pod), victims));
    }
}

fn assert_same(ledger: &Ledger, oracle: &Oracle) {
    for node in (0..NODES).map(NodeIdx) {
        let mut found = ledger.read(node);
        if let Some(usage) = &mut found {
            usage.ports.sort_unstable();
            usage.version = 0;
        }
        let expected = oracle.nodes.contains_key(&node).then(|| oracle.usage(node));
        assert_eq!(found, expected, "node {node:?}");
        let capacity = oracle.nodes.get(&node).map(|known| known.capacity.clone());
        assert_eq!(ledger.capacity(node), capacity);
    }
    let mut promised: Vec<_> = ledger
        .pods()
        .into_iter()
        .filter_map(|uid| Some((uid, ledger.promise(uid)?)))
        .collect();
    promised.sort_unstable_by_key(|(uid, _)| *uid);
    let promised: Vec<_> = promised
        .into_iter()
        .map(|(uid, promise)| (uid, promise.node, promise.state))
        .collect();
    let expected: Vec<_> = oracle
        .pods
        .iter()
        .map(|(uid, (node, _, state))| (*uid, *node, *state))
        .collect();
    assert_eq!(promised, expected);
    for uid in (0..7).map(PodUid) {
        assert_eq!(
            ledger.nominated_node(uid),
            oracle.nominated.get(&uid).map(|(node, ..)| *node)
        );
        let awaits = |(node, _, victims): &&(NodeIdx, Arc<Charge>, Vec<PodUid>)| {
            victims
                .iter()
                .any(|victim| oracle.pods.get(victim).is_some_and(|(on, ..)| on == node))
        };
        let awaited = oracle.nominated.get(&uid).filter(awaits).map(|(node, ..)| *node);
        assert_eq!(ledger.awaited_node(uid), awaited);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_answers_as_the_oracle_does(calls in prop::collection::vec(any_call(), 1..60)) {
        let sink = Arc::new(Kept::default());
        let ledger = Ledger::new(Arc::<Kept>::clone(&sink));
        let mut oracle = Oracle::default();
        for call in calls {
            make(&ledger, &mut oracle, call);
            assert_same(&ledger, &oracle);
        }
        let mut versions = BTreeMap::new();
        for change in sink.0.lock().iter() {
            let before = versions.insert(change.node, change.version);
            prop_assert!(before.is_none_or(|before| before < change.version), "versions fell: {change:?}");
        }
        for (node, version) in versions {
            prop_assert!(ledger.read(node).is_none_or(|usage| usage.version == version));
        }
    }

    #[test]
    fn unreserve_undoes_reserve(calls in prop::collection::vec(any_call(), 1..30), milli_cpu in 0..2000_i64) {
        let (ledger, _) = ledger();
        let mut oracle = Oracle::default();
        for node in [N1, N2] {
            let known = Node { capacity: capacity(4000, 10), incarnation: FIRST, live: true };
            oracle.nodes.insert(node, known);
        }
        oracle.incarnations = 1;
        for call in calls {
            make(&ledger, &mut oracle, call);
        }
        let pod = with(&charge(100, milli_cpu), |pod| pod.ports = smallvec![port(99)]);
        let before = ledger.read(N1);
        let incarnation = before.as_ref().map_or(FIRST, |usage| usage.incarnation);
        if ledger.reserve(&pod, &checks(&pod), N1, incarnation).is_ok() {
            prop_assert!(ledger.unreserve(pod.uid));
        }
        let plain = |usage: Option<NodeUse>| usage.map(|mut usage| {
            usage.ports.sort_unstable();
            NodeUse { version: 0, ..usage }
        });
        prop_assert_eq!(plain(ledger.read(N1)), plain(before));
        prop_assert_eq!(ledger.promise(pod.uid), None);
    }
}
