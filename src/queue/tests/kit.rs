//! Plugins whose answers a test sets, pods, and a queue on a clock that stands still.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use supercargo_config::plugins::{EnabledPlugin, Plugins};

use crate::clock::{Clock, ManualClock};
use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{
    ActionType, Bind, BindOutcome, ClusterEvent, CycleState, EventHint, EventObject, EventResource, Filter, Handle,
    Plugin, PreEnqueue, Profile, Profiles, QueueSort, QueueingHint, Registry, SortKey, Status,
};
use crate::ids::{PodUid, Symbol};
use crate::queue::{QueueConfig, QueuedPodInfo, Rejectors, Requeued, SchedulingQueue};
use crate::sync::Mutex;
use crate::telemetry::{Metrics, MetricsOptions};

/// What a plugin's hint answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Answer {
    Queue,
    Skip,
    Fail,
    Panic,
}

/// A plugin that does as a test says.
#[derive(Default)]
pub(super) struct Actor {
    name: &'static str,
    sort: bool,
    ranked: bool,
    pub(super) events: Vec<(EventResource, ActionType)>,
    by_class: bool,
    pub(super) answer: Arc<Mutex<Option<Answer>>>,
    /// Pods that its hint was asked about.
    pub(super) asked: Arc<Mutex<Vec<PodUid>>>,
    gates: bool,
    /// How often PreEnqueue was asked.
    pub(super) pre_enqueued: Arc<Mutex<u32>>,
}

impl Plugin for Actor {
    fn name(&self) -> Symbol {
        Symbol::new(self.name)
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let hint = |(resource, action): &(EventResource, ActionType)| {
            let (answer, asked) = (Arc::clone(&self.answer), Arc::clone(&self.asked));
            let hint = EventHint::when(*resource, *action, move |pod: &PodInfo, _: &EventObject| {
                asked.lock().push(pod.uid);
                match *answer.lock() {
                    None | Some(Answer::Queue) => Ok(QueueingHint::Queue),
                    Some(Answer::Skip) => Ok(QueueingHint::QueueSkip),
                    Some(Answer::Fail) => Err("set to fail".to_owned()),
                    Some(Answer::Panic) => panic!("set to panic"),
                }
            });
            if self.by_class { hint.by_class() } else { hint }
        };
        Some(self.events.iter().map(hint).collect())
    }

    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        if self.sort { Some(self) } else { None }
    }

    fn pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        if self.gates { Some(self) } else { None }
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn bind(&self) -> Option<&dyn Bind> {
        if self.sort { Some(self) } else { None }
    }
}

impl QueueSort for Actor {
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool {
        (-i64::from(a.pod.priority()), a.timestamp) < (-i64::from(b.pod.priority()), b.timestamp)
    }

    fn rank(&self, key: SortKey<'_>) -> Option<u128> {
        let priority = u128::try_from(i64::from(i32::MAX) - i64::from(key.pod.priority())).unwrap();
        self.ranked.then_some(priority << 64 | u128::from(key.timestamp.0))
    }
}

impl PreEnqueue for Actor {
    fn pre_enqueue_pod(&self, pod: &PodInfo) -> Status {
        *self.pre_enqueued.lock() += 1;
        if pod.gates.iter().any(|gate| **gate == *self.name) {
            return Status::unresolvable(Symbol::new("gated"));
        }
        Status::SUCCESS
    }
}

impl Filter for Actor {
    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, _: &PodInfo, _: &NodeInfo) -> Status {
        Status::SUCCESS
    }
}

impl Bind for Actor {
    fn bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> BindOutcome {
        BindOutcome::Skip
    }
}

/// A queue, its clock, and its plugins: `A` and `B` reject, `Gate` gates.
pub(super) struct Kit {
    pub(super) queue: SchedulingQueue,
    pub(super) clock: ManualClock,
    pub(super) metrics: Arc<Metrics>,
    pub(super) actors: HashMap<&'static str, Arc<Actor>>,
}

#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) ranked: bool,
    pub(super) by_class: bool,
    pub(super) config: QueueConfig,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ranked: true,
            by_class: false,
            config: QueueConfig::default(),
        }
    }
}

pub(super) const NODE_ADD: ClusterEvent = ClusterEvent::new(EventResource::Node, ActionType::ADD);
pub(super) const NODE_LABEL: ClusterEvent = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_LABEL);
pub(super) const POD_DELETE: ClusterEvent = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);

pub(super) fn profiles(actors: &HashMap<&'static str, Arc<Actor>>, names: &[&str]) -> Arc<Profiles> {
    let mut registry = Registry::default();
    let mut plugins = Plugins::new();
    for name in ["Sort", "Gate", "A", "B"] {
        let actor = Arc::clone(&actors[name]);
        registry
            .register(name, move |_| Ok(Arc::clone(&actor) as Arc<dyn Plugin>))
            .unwrap();
        plugins.multi_point.enabled.push(EnabledPlugin::new(name, 1));
    }
    let profile = |(index, name): (usize, &&str)| {
        let config = supercargo_config::Profile {
            scheduler_name: (*name).to_owned(),
            percentage_of_nodes_to_score: None,
            plugins: plugins.clone(),
            plugin_config: Vec::new(),
        };
        Arc::new(Profile::build(&config, index, &registry, &Arc::new(Handle::default())).unwrap())
    };
    Arc::new(Profiles::new(names.iter().enumerate().map(profile).collect()))
}

impl Kit {
    pub(super) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(super) fn with(options: Options) -> Self {
        use {ActionType as A, EventResource as R};
        let actor = |name, events: &[(R, A)]| Actor {
            name,
            events: events.to_vec(),
            by_class: options.by_class,
            ..Default::default()
        };
        let sort = Actor {
            sort: true,
            ranked: options.ranked,
            ..actor("Sort", &[])
        };
        let gate = Actor {
            gates: true,
            ..actor("Gate", &[(R::Pod, A::UPDATE_POD_GATES_ELIMINATED)])
        };
        let a = actor(
            "A",
            &[
                (R::Node, A::ADD),
                (R::AssignedPod, A::DELETE),
                (R::Pod, A::UPDATE_POD_TOLERATION),
            ],
        );
        let b = actor("B", &[(R::Node, A::ADD.or(A::UPDATE))]);
        let actors: HashMap<_, _> = [sort, gate, a, b]
            .into_iter()
            .map(|actor| (actor.name, Arc::new(actor)))
            .collect();
        let metrics = Arc::new(Metrics::new(&MetricsOptions {
            profiles: vec!["default-scheduler".to_owned()],
            plugins: ["Sort", "Gate", "A", "B"].map(str::to_owned).to_vec(),
            ..Default::default()
        }));
        let clock = ManualClock::default();
        clock.advance(Duration::from_secs(1000));
        let profiles = profiles(&actors, &["default-scheduler"]);
        let queue = SchedulingQueue::new(
            profiles,
            Clock::Manual(clock.clone()),
            options.config,
            Arc::clone(&metrics),
        );
        Self {
            queue,
            clock,
            metrics,
            actors,
        }
    }

    pub(super) fn advance_millis(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    pub(super) fn answer(&self, plugin: &str, answer: Answer) {
        *self.actors[plugin].answer.lock() = Some(answer);
    }

    pub(super) fn asked(&self, plugin: &str) -> usize {
        self.actors[plugin].asked.lock().len()
    }

    /// Adds a pod, takes it and brings it back as rejected.
    pub(super) fn reject(&self, pod: &Arc<PodInfo>, by: &[&str]) -> Requeued {
        self.queue.add(pod);
        let queued = self.queue.try_pop().unwrap();
        assert_eq!(queued.pod.uid, pod.uid);
        self.back(queued, by)
    }

    pub(super) fn back(&self, queued: QueuedPodInfo, by: &[&str]) -> Requeued {
        self.queue.add_unschedulable_if_not_present(queued, rejected_by(by))
    }

    pub(super) fn event(&self, event: ClusterEvent) {
        self.queue.on_event(event, &EventObject::None, None);
    }

    /// Active, backoff, unschedulable, gated.
    pub(super) fn counts(&self) -> [usize; 4] {
        let counts = self.queue.pending_counts();
        [counts.active, counts.backoff, counts.unschedulable, counts.gated]
    }

    pub(super) fn pop_name(&self) -> Option<String> {
        self.queue.try_pop().map(|queued| queued.pod.name.to_string())
    }
}

/// Rejectors by name; a name that starts with `?` answered pending.
pub(super) fn rejected_by(names: &[&str]) -> Rejectors {
    let mut rejectors = Rejectors::default();
    for name in names {
        match name.strip_prefix('?') {
            Some(pending) => rejectors.pending.push(Symbol::new(pending)),
            None => rejectors.unschedulable.push(Symbol::new(name)),
        }
    }
    rejectors
}

/// A pod that nothing is special about.
pub(super) fn pod(name: &str) -> PodInfo {
    PodInfo::clone(&crate::testing::pod(name).build())
}

pub(super) fn plain(name: &str) -> Arc<PodInfo> {
    Arc::new(pod(name))
}

pub(super) fn with_priority(name: &str, priority: i32) -> Arc<PodInfo> {
    let mut pod = pod(name);
    Arc::make_mut(&mut pod.spec).priority = priority;
    Arc::new(pod)
}

pub(super) fn gated(name: &str) -> Arc<PodInfo> {
    let mut pod = pod(name);
    pod.gates = Box::new(["Gate".into()]);
    Arc::new(pod)
}

pub(super) fn nominated(name: &str, node: Option<&str>, priority: i32) -> Arc<PodInfo> {
    let mut pod = PodInfo::clone(&with_priority(name, priority));
    pod.nominated_node = node.map(Symbol::new);
    Arc::new(pod)
}

/// An event that no plugin registered.
pub(super) const NOBODYS: ClusterEvent = ClusterEvent::new(EventResource::StorageClass, ActionType::ADD);
