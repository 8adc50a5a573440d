//! How long a reserve, a read and a replay take: what every decision pays to the ledger.
//!
//! Sizes: 10,000 nodes of 110 slots. Targets on one core: reserve and unreserve under 1 µs together, a read of a node
//! about 100 ns, a change appended and replayed under 100 ns.

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use supercargo::cluster::{ChangeLog, Cursor};
use supercargo::ids::{ClassId, Incarnation, NodeIdx, PodUid};
use supercargo::ledger::{Capacity, Change, ChangeKind, Charge, Checks, CommitLock, Ledger, NodeUse, NonZero};
use supercargo::resources::{Resource, Resources};

const NODES: u32 = 10_000;
const PODS_A_NODE: u32 = 30;
const CONTENDED_ROUNDS: u32 = 2_000;
const FIRST: Incarnation = Incarnation(1);

fn charge(uid: u128) -> Arc<Charge> {
    let request = Resources {
        milli_cpu: 100,
        memory: 256 << 20,
        ..Resources::default()
    };
    let non_zero = NonZero {
        milli_cpu: 100,
        memory: 256 << 20,
    };
    let uid = PodUid(uid.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    Arc::new(Charge {
        uid,
        class: ClassId(1),
        priority: 0,
        request,
        non_zero,
        ports: [].into_iter().collect(),
    })
}

fn checks() -> Checks {
    let resources = [(Resource::Cpu, 100), (Resource::Memory, 256 << 20)]
        .into_iter()
        .collect();
    Checks {
        resources,
        pod_slot: true,
        ..Checks::default()
    }
}

fn filled() -> Ledger {
    let ledger = Ledger::new(ChangeLog::new());
    for node in 0..NODES {
        let resources = Resources {
            milli_cpu: 64_000,
            memory: 256 << 30,
            ..Resources::default()
        };
        ledger.upsert_node(NodeIdx(node), FIRST, Capacity { resources, pods: 110 });
        for pod in 0..PODS_A_NODE {
            ledger.confirm(&charge(u128::from(node * PODS_A_NODE + pod)), NodeIdx(node));
        }
    }
    ledger
}

/// Nodes in an order that no cache foresees.
fn scattered(step: u32) -> NodeIdx {
    NodeIdx(step.wrapping_mul(2_654_435_761) % NODES)
}

fn reserves(criterion: &mut Criterion) {
    let ledger = filled();
    let (pods, checks): (Vec<_>, _) = ((0..1024).map(|uid| charge(1 << 40 | uid)).collect(), checks());
    let mut group = criterion.benchmark_group("ledger");
    let mut step = 0_u32;
    group.bench_function("reserve_and_unreserve", |bencher| {
        bencher.iter(|| {
            step = step.wrapping_add(1);
            let pod = &pods[step as usize % pods.len()];
            assert!(ledger.reserve(pod, &checks, scattered(step), FIRST).is_ok());
            ledger.unreserve(pod.uid)
        });
    });
    group.bench_function("reserve_confirm_remove", |bencher| {
        bencher.iter(|| {
            step = step.wrapping_add(1);
            let (pod, node) = (&pods[step as usize % pods.len()], scattered(step));
            assert!(ledger.reserve(pod, &checks, node, FIRST).is_ok());
            (ledger.confirm(pod, node), ledger.remove(pod.uid))
        });
    });
    let mut usage = NodeUse::default();
    group.bench_function("read_into", |bencher| {
        bencher.iter(|| {
            step = step.wrapping_add(1);
            black_box(ledger.read_into(scattered(step), &mut usage))
        });
    });
    group.bench_function("read_into_one_node", |bencher| {
        bencher.iter(|| black_box(ledger.read_into(NodeIdx(7), &mut usage)));
    });
    group.finish();
}

fn contended(criterion: &mut Criterion) {
    let ledger = filled();
    let checks = checks();
    let mut group = criterion.benchmark_group("ledger_contended");
    group.throughput(Throughput::Elements(u64::from(CONTENDED_ROUNDS) * 2));
    for (name, nodes) in [("two_threads_all_nodes", NODES), ("two_threads_one_node", 1)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                thread::scope(|scope| {
                    for worker in 0..2_u32 {
                        let (ledger, checks) = (&ledger, &checks);
                        scope.spawn(move || {
                            let pod = charge(1 << 50 | u128::from(worker));
                            for round in 0..CONTENDED_ROUNDS {
                                let node = NodeIdx(scattered(round * 2 + worker).0 % nodes);
                                assert!(ledger.reserve(&pod, checks, node, FIRST).is_ok());
                                assert!(ledger.unreserve(pod.uid));
                            }
                        });
                    }
                });
            });
        });
    }
    group.finish();
}

fn log(criterion: &mut Criterion) {
    let log = ChangeLog::new();
    let change = Change {
        node: NodeIdx(1),
        version: 1,
        kind: ChangeKind::PodAdded,
        class: Some(ClassId(1)),
    };
    let mut group = criterion.benchmark_group("change_log");
    group.bench_function("append", |bencher| {
        bencher.iter(|| black_box(log.append_change(change)))
    });
    let mut cursor = log.cursor();
    group.bench_function("append_and_replay", |bencher| {
        bencher.iter(|| {
            log.append_change(change);
            log.replay(&mut cursor, |_, change| {
                black_box(change.version);
            })
        });
    });
    group.throughput(Throughput::Elements(1024));
    group.bench_function("replay_1024", |bencher| {
        bencher.iter_batched(
            || Cursor::at(log.head().saturating_sub(1024)),
            |mut cursor| {
                log.replay(&mut cursor, |_, change| {
                    black_box(change.version);
                })
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn commit_lock(criterion: &mut Criterion) {
    let lock = CommitLock::new();
    let mut group = criterion.benchmark_group("commit_lock");
    group.bench_function("read", |bencher| bencher.iter(|| black_box(lock.read().epoch())));
    group.bench_function("write", |bencher| bencher.iter(|| black_box(lock.write().epoch())));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2));
    targets = reserves, contended, log, commit_lock
}
criterion_main!(benches);
