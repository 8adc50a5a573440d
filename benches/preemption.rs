//! How long does a preemptor take, from popped pod to its nomination?
//!
//! Size: 5,000 nodes of 4 CPUs, each filled with four pods of 900m and priority 0; preemptors of 3000m and priority 10,
//! one after the other, each nominated and none bound, so that up to 500 nominations stand. Target: well under 0.5 ms on
//! one core; kube-scheduler's PostFilter alone takes some milliseconds there.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up fails")]

mod scene;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use supercargo::cluster::{Cluster, PodInfo};
use supercargo::cycle::{Decision, full};
use supercargo::ids::PodUid;
use supercargo::testing::pod;

use scene::{Scene, add_node, bench_node};

const NODES: usize = 5000;
/// Nominations that stand before they are cleared.
const PREEMPTORS: u64 = 500;

struct World {
    scene: Scene,
    nominated: Vec<PodUid>,
}

/// Nodes full of pods that may be evicted.
fn fill(cluster: &Cluster) {
    for number in 0..NODES {
        add_node(cluster, &bench_node(number));
        for placed in 0..4 {
            let placed = pod(&format!("low-{number}-{placed}"))
                .cpu(900)
                .on(&format!("bench-{number}"))
                .started("2026-01-01T00:00:00Z")
                .build_in(&cluster.classes);
            cluster.apply_pod(PodInfo::clone(&placed));
        }
    }
}

impl World {
    fn new() -> Self {
        Self {
            scene: Scene::new(&pod("high").cpu(3000).priority(10), fill),
            nominated: Vec::new(),
        }
    }

    /// One preemptor; gives the number of its victims.
    fn preempt(&mut self) -> usize {
        if self.nominated.len() as u64 == PREEMPTORS {
            for uid in self.nominated.drain(..) {
                self.scene.cluster.ledger.clear_nomination(uid);
            }
        }
        let pod = self.scene.next_pod();
        let random = (self.scene.pods() + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63;
        let Decision::NoFit(evaluation) = self.scene.decide(&pod, random) else {
            panic!("a full cluster has no room")
        };
        let Scene {
            cluster, profile, view, ..
        } = &self.scene;
        let filtered = full::post_filter(profile, &view.cluster_view(cluster), &evaluation, &pod);
        black_box(filtered.error.message());
        let preemption = filtered.preemption.expect("every node can be helped");
        let victims: Vec<PodUid> = preemption.victims.iter().map(|victim| victim.uid).collect();
        cluster
            .ledger
            .nominate(&pod.charge, preemption.node, &victims, Some(preemption.version))
            .expect("nobody else is at work");
        self.nominated.push(pod.uid);
        victims.len()
    }
}

fn dry_run_to_nomination(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("preemption/one");
    group.sample_size(20);
    let mut world = World::new();
    assert_eq!(world.preempt(), 3);
    group.bench_function("5000", |bencher| bencher.iter(|| black_box(world.preempt())));
    group.finish();
}

criterion_group!(benches, dry_run_to_nomination);
criterion_main!(benches);
