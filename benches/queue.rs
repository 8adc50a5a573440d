//! How long does the queue take for a pod's way through it, and for an event over many waiting pods?
//!
//! Size: 50,000 pods of 50 classes. Target: 5 µs a pod for add, pop, done and leave together (200,000 pods a second on
//! one thread), and an event that helps nobody in the time of its groups, not of its pods.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up fails")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use supercargo::clock::Clock;
use supercargo::cluster::{ClusterView, NodeInfo, PodInfo};
use supercargo::framework::{
    ActionType, Bind, BindOutcome, ClusterEvent, CycleState, EventHint, EventObject, EventResource, Filter, Handle,
    Plugin, Profile, Profiles, QueueSort, QueueingHint, Registry, SortKey, Status,
};
use supercargo::ids::Symbol;
use supercargo::queue::{Exit, QueueConfig, Rejectors, SchedulingQueue};
use supercargo::telemetry::{Metrics, MetricsOptions};
use supercargo::testing::pod;
use supercargo_config::plugins::{EnabledPlugin, Plugins};

const PODS: u32 = 50_000;

struct Sort;

impl Plugin for Sort {
    fn name(&self) -> Symbol {
        Symbol::new("Sort")
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let hint = |_: &PodInfo, _: &EventObject| Ok(QueueingHint::QueueSkip);
        Some(vec![
            EventHint::when(EventResource::Node, ActionType::ADD, hint).by_class(),
            EventHint::when(EventResource::AssignedPod, ActionType::DELETE, hint),
        ])
    }

    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn bind(&self) -> Option<&dyn Bind> {
        Some(self)
    }
}

impl QueueSort for Sort {
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool {
        self.rank(a) < self.rank(b)
    }

    fn rank(&self, key: SortKey<'_>) -> Option<u128> {
        let priority = (i64::from(i32::MAX) - i64::from(key.pod.priority())).unsigned_abs();
        Some(u128::from(priority) << 64 | u128::from(key.timestamp.0))
    }
}

impl Filter for Sort {
    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, _: &PodInfo, _: &NodeInfo) -> Status {
        Status::SUCCESS
    }
}

impl Bind for Sort {
    fn bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> BindOutcome {
        BindOutcome::Skip
    }
}

fn queue() -> SchedulingQueue {
    let mut registry = Registry::default();
    registry
        .register("Sort", |_| Ok(Arc::new(Sort)))
        .expect("the only plugin");
    let mut plugins = Plugins::new();
    plugins.multi_point.enabled.push(EnabledPlugin::new("Sort", 1));
    let config = supercargo_config::Profile {
        scheduler_name: "default-scheduler".to_owned(),
        percentage_of_nodes_to_score: None,
        plugins,
        plugin_config: Vec::new(),
    };
    let profile = Profile::build(&config, 0, &registry, &Arc::new(Handle::default())).expect("a whole profile");
    let metrics = Arc::new(Metrics::new(&MetricsOptions {
        profiles: vec!["default-scheduler".to_owned()],
        plugins: vec!["Sort".to_owned()],
        ..Default::default()
    }));
    let profiles = Arc::new(Profiles::new(vec![Arc::new(profile)]));
    SchedulingQueue::new(profiles, Clock::Real, QueueConfig::default(), metrics)
}

fn pods() -> Vec<Arc<PodInfo>> {
    (0..PODS)
        .map(|number| {
            pod(&format!("pod-{number}"))
                .priority((number % 50).cast_signed())
                .build()
        })
        .collect()
}

fn way_through(criterion: &mut Criterion) {
    let pods = pods();
    let mut group = criterion.benchmark_group("queue");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(PODS)));
    group.bench_function("add 50,000, then pop, done and leave each", |bencher| {
        let pass = |queue: &SchedulingQueue| {
            for pod in &pods {
                queue.add(pod);
            }
            while let Some(queued) = queue.try_pop() {
                queue.done(black_box(&queued));
                queue.leave(&queued, Exit::Bound);
            }
        };
        bencher.iter_batched_ref(queue, |queue| pass(queue), BatchSize::PerIteration);
    });
    group.finish();
}

fn events(criterion: &mut Criterion) {
    let queue = queue();
    for pod in pods() {
        queue.add(&pod);
        if let Some(queued) = queue.try_pop() {
            queue.add_unschedulable_if_not_present(queued, Rejectors::one("Sort".into()));
        }
    }
    let mut group = criterion.benchmark_group("event over 50,000 waiting pods");
    let cases = [
        ("hint by class", EventResource::Node, ActionType::ADD),
        ("hint by pod", EventResource::AssignedPod, ActionType::DELETE),
        ("nobody waits for it", EventResource::StorageClass, ActionType::ADD),
    ];
    for (name, resource, action) in cases {
        let event = ClusterEvent::new(resource, action);
        group.bench_function(name, |bencher| {
            bencher.iter(|| queue.on_event(event, &EventObject::None, None))
        });
    }
    group.finish();
}

criterion_group!(benches, way_through, events);
criterion_main!(benches);
