//! How long does a decision take in steady state, from popped pod to reserved node?
//!
//! Sizes: 1,000, 5,000 and 15,000 nodes of 4 CPUs; plain pods of 100m. The cluster is half full; each decision is
//! followed by the end of the pod placed the longest ago, and both are replayed before the next one. Target: a cost
//! that does not grow with the number of nodes.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up fails")]

mod scene;

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use supercargo::cycle::Decision;
use supercargo::ids::PodUid;
use supercargo::testing::pod;

use scene::{Scene, add_node, bench_node};

struct World {
    scene: Scene,
    placed: VecDeque<PodUid>,
}

impl World {
    fn new(nodes: usize) -> Self {
        let scene = Scene::new(&pod("bench").cpu(100).memory_mi(500), |cluster| {
            for number in 0..nodes {
                add_node(cluster, &bench_node(number).zone(&format!("z{}", number % 3)));
            }
        });
        let mut world = Self {
            scene,
            placed: VecDeque::new(),
        };
        for _ in 0..nodes * 20 {
            world.place();
        }
        world
    }

    fn place(&mut self) {
        let pod = self.scene.next_pod();
        let Decision::Node(node, _) = self.scene.decide(&pod, self.scene.pods() + 1) else {
            panic!("half a cluster has room")
        };
        let incarnation = self
            .scene
            .view
            .nodes()
            .get(node)
            .expect("the chosen node is there")
            .incarnation;
        let checks = self.scene.profile.reserve_checks(&pod);
        self.scene
            .cluster
            .ledger
            .reserve(&pod.charge, &checks, node, incarnation)
            .expect("nobody else reserves");
        self.placed.push_back(pod.uid);
    }

    fn retire(&mut self) {
        if let Some(uid) = self.placed.pop_front() {
            self.scene.cluster.ledger.remove(uid);
        }
    }
}

fn steady_state(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cycle/basic");
    group.sample_size(20);
    for nodes in [1000, 5000, 15_000] {
        let mut world = World::new(nodes);
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            bencher.iter(|| {
                world.place();
                world.retire();
                black_box(world.scene.pods())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steady_state);
criterion_main!(benches);
