//! How long does a preemptor take, from popped pod to its nomination?
//!
//! Size: 5,000 nodes of 4 CPUs, each filled with four pods of 900m and priority 0; preemptors of 3000m and priority 10,
//! one after the other, each nominated and none bound, so that up to 500 nominations stand. Target: well under 0.5 ms on
//! one core; kube-scheduler's PostFilter alone takes some milliseconds there.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up fails")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use supercargo::cluster::{Cluster, LabelVisibility, NodeSpec, PodInfo, Publisher};
use supercargo::cycle::{Decision, Engine, View, decide, full};
use supercargo::framework::{Handle, Profile, Profiles};
use supercargo::ids::{PodUid, Symbol};
use supercargo::ledger::Charge;
use supercargo::testing::{node, pod};
use supercargo_config::{Loader, PluginCatalogue};

const NODES: usize = 5000;
/// Nominations that stand before they are cleared.
const PREEMPTORS: u64 = 500;

struct World {
    cluster: Cluster,
    profile: Arc<Profile>,
    view: View,
    engine: Engine,
    template: Arc<PodInfo>,
    nominated: Vec<PodUid>,
    next: u64,
}

impl World {
    fn new() -> Self {
        let loaded = Loader::new(&PluginCatalogue::in_tree())
            .defaults()
            .expect("the defaults load");
        let profiles = Profiles::build(
            &loaded.configuration,
            &supercargo::plugins::registry(),
            &Arc::new(Handle::default()),
        );
        let profile = Arc::clone(&profiles.expect("the default profile builds").all()[0]);
        let labels = LabelVisibility::Keys(Default::default());
        let cluster = Cluster::new([Symbol::new("default-scheduler")], labels);
        for number in 0..NODES {
            let name = format!("bench-{number}");
            let spec = node(&name).cpu(4000).memory_gi(32).pods(110).build();
            cluster.apply_node(NodeSpec::clone(&spec));
            for placed in 0..4 {
                let placed = pod(&format!("low-{number}-{placed}")).cpu(900).on(&name);
                let placed = placed.started("2026-01-01T00:00:00Z").build_in(&cluster.classes);
                cluster.apply_pod(PodInfo::clone(&placed));
            }
        }
        cluster.publish(&mut Publisher::default());
        let template = pod("high").cpu(3000).priority(10).build_in(&cluster.classes);
        let view = View::new(&cluster);
        Self {
            cluster,
            profile,
            view,
            engine: Engine::default(),
            template,
            nominated: Vec::new(),
            next: 1,
        }
    }

    /// One preemptor; gives the number of its victims.
    fn preempt(&mut self) -> usize {
        if self.nominated.len() as u64 == PREEMPTORS {
            for uid in self.nominated.drain(..) {
                self.cluster.ledger.clear_nomination(uid);
            }
        }
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
        let random = self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63;
        let decision = decide(&self.view, &mut self.engine, &self.cluster, &self.profile, &pod, random);
        let Decision::NoFit(evaluation) = decision else {
            panic!("a full cluster has no room")
        };
        let view = self.view.cluster_view(&self.cluster);
        let filtered = full::post_filter(&self.profile, &view, &evaluation, &pod);
        black_box(filtered.error.message());
        let preemption = filtered.preemption.expect("every node can be helped");
        let victims: Vec<PodUid> = preemption.victims.iter().map(|victim| victim.uid).collect();
        let ledger = &self.cluster.ledger;
        ledger
            .nominate(&pod.charge, preemption.node, &victims, Some(preemption.version))
            .expect("nobody else is at work");
        self.nominated.push(uid);
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
