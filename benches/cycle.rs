//! How long does a decision take in steady state, from popped pod to reserved node?
//!
//! Sizes: 1,000, 5,000 and 15,000 nodes of 4 CPUs; plain pods of 100m. The cluster is half full; each decision is
//! followed by the end of the pod placed the longest ago, and both are replayed before the next one. Target: a cost
//! that does not grow with the number of nodes.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up fails")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use supercargo::cluster::{Cluster, LabelVisibility, NodeSpec, PodInfo, Publisher};
use supercargo::cycle::{Decision, Engine, View, decide};
use supercargo::framework::{Handle, Profile, Profiles};
use supercargo::ids::{PodUid, Symbol};
use supercargo::ledger::Charge;
use supercargo::testing::{node, pod};
use supercargo_config::{Loader, PluginCatalogue};

struct World {
    cluster: Cluster,
    profile: Arc<Profile>,
    view: View,
    engine: Engine,
    template: Arc<PodInfo>,
    placed: VecDeque<PodUid>,
    next: u64,
}

impl World {
    fn new(nodes: usize) -> Self {
        let loaded = Loader::new(&PluginCatalogue::in_tree())
            .defaults()
            .expect("the defaults load");
        let profiles = Profiles::build(
            &loaded.configuration,
            &supercargo::plugins::registry(),
            &Arc::new(Handle::default()),
        );
        let profile = Arc::clone(&profiles.expect("the default profile builds").all()[0]);
        let cluster = Cluster::new(
            [Symbol::new("default-scheduler")],
            LabelVisibility::Keys(Default::default()),
        );
        for number in 0..nodes {
            let name = format!("bench-{number}");
            let spec = node(&name)
                .cpu(4000)
                .memory_gi(32)
                .pods(110)
                .zone(&format!("z{}", number % 3))
                .build();
            cluster.apply_node(NodeSpec::clone(&spec));
        }
        cluster.publish(&mut Publisher::default());
        let template = pod("bench").cpu(100).memory_mi(500).build_in(&cluster.classes);
        let view = View::new(&cluster);
        let mut world = Self {
            cluster,
            profile,
            view,
            engine: Engine::default(),
            template,
            placed: VecDeque::new(),
            next: 1,
        };
        for _ in 0..nodes * 20 {
            world.place();
        }
        world
    }

    fn place(&mut self) {
        let uid = PodUid(u128::from(self.next));
        self.next += 1;
        let charge = Arc::new(Charge {
            uid,
            ..Charge::clone(&self.template.charge)
        });
        let pod = Arc::new(PodInfo {
            uid,
            charge,
            ..PodInfo::clone(&self.template)
        });
        self.view.replay(&self.cluster);
        let decision = decide(
            &self.view,
            &mut self.engine,
            &self.cluster,
            &self.profile,
            &pod,
            self.next,
        );
        let Decision::Node(node, _) = decision else {
            panic!("half a cluster has room")
        };
        let incarnation = self
            .view
            .nodes()
            .get(node)
            .expect("the chosen node is there")
            .incarnation;
        let checks = self.profile.reserve_checks(&pod);
        self.cluster
            .ledger
            .reserve(&pod.charge, &checks, node, incarnation)
            .expect("nobody else reserves");
        self.placed.push_back(uid);
    }

    fn retire(&mut self) {
        if let Some(uid) = self.placed.pop_front() {
            self.cluster.ledger.remove(uid);
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
                black_box(world.next)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steady_state);
criterion_main!(benches);
