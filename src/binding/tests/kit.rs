//! A pool on an embedded API server, with a plugin that does as a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
use supercargo_config::Settings;
use supercargo_config::plugins::{EnabledPlugin, Plugins};

use crate::binding::{BindTask, BindingParts, BindingPool, FailureHandler, start};
use crate::client::{ClientOptions, ClientSet, Source};
use crate::clock::{Clock, ManualClock, Nanos};
use crate::cluster::{Cluster, ClusterView, LabelVisibility, NodeInfo, NodeSpec, ObjectText, PodInfo};
use crate::extender::Extenders;
use crate::framework::{
    ActionType, ApiRequest, Bind, BindOutcome, CycleState, EventHint, EventObject, EventResource, Handle, Observer,
    Plugin, PostBind, PreBind, PreBindAction, PreBindFailure, PreBindWork, PreEnqueue, Profile, Profiles, QueueSort,
    QueueingHint, Registry, Reserve, SortKey, Status, VolumeRequest,
};
use crate::ids::{NodeIdx, PodUid, Symbol};
use crate::ledger::{Checks, PromiseState};
use crate::queue::{QueueConfig, SchedulingQueue};
use crate::sync::Mutex;
use crate::telemetry::{Metrics, MetricsOptions};
use crate::testing::{PodBuilder, node};

/// What the plugin called `Actor` is told to do, and what was asked of it.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) panic_in_bind: AtomicBool,
    pub(super) panic_in_post_bind: AtomicBool,
    pub(super) pre_bind: Mutex<Option<Status>>,
    /// PreBind that never ends.
    pub(super) hang_in_pre_bind: AtomicBool,
    /// Requests and a wait in PreBind.
    pub(super) work: Mutex<Option<Arc<Work>>>,
    /// PreEnqueue holds every pod back.
    pub(super) holds_back: AtomicBool,
    pub(super) unreserved: Mutex<Vec<PodUid>>,
    pub(super) post_bound: Mutex<Vec<PodUid>>,
}

/// Requests, and a wait for `done`.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) requests: Vec<VolumeRequest>,
    pub(super) timeout: Duration,
    pub(super) done: AtomicBool,
    /// What was applied, with the resource version that came of it.
    pub(super) applied: Mutex<Vec<(usize, String)>>,
}

impl PreBindWork for Work {
    fn requests(&self) -> Vec<VolumeRequest> {
        self.requests.clone()
    }

    fn applied(&self, position: usize, resource_version: &str) {
        self.applied.lock().push((position, resource_version.to_owned()));
    }

    fn is_done(&self, node: &NodeSpec) -> Result<bool, String> {
        assert_eq!(node.name, Some(Symbol::new("n1")));
        Ok(self.done.load(Ordering::Relaxed))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn failed(&self, failure: PreBindFailure) -> Status {
        Status::error(format!("{failure:?}"))
    }
}

struct Actor(Arc<Script>);

impl Plugin for Actor {
    fn name(&self) -> Symbol {
        Symbol::new("Actor")
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let left_a_node = |_: &PodInfo, event: &EventObject| match event {
            EventObject::Pod { old: Some(old), .. } if old.bound_to.is_some() => Ok(QueueingHint::Queue),
            _ => Ok(QueueingHint::QueueSkip),
        };
        Some(vec![EventHint::when(
            EventResource::AssignedPod,
            ActionType::DELETE,
            left_a_node,
        )])
    }

    fn pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        Some(self)
    }

    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        Some(self)
    }

    fn reserve(&self) -> Option<&dyn Reserve> {
        Some(self)
    }

    fn pre_bind(&self) -> Option<&dyn PreBind> {
        Some(self)
    }

    fn bind(&self) -> Option<&dyn Bind> {
        Some(self)
    }

    fn post_bind(&self) -> Option<&dyn PostBind> {
        Some(self)
    }
}

impl PreEnqueue for Actor {
    fn pre_enqueue_pod(&self, _: &PodInfo) -> Status {
        if self.0.holds_back.load(Ordering::Relaxed) {
            Status::unschedulable(Symbol::new("as told"))
        } else {
            Status::SUCCESS
        }
    }
}

impl QueueSort for Actor {
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool {
        a.timestamp < b.timestamp
    }
}

impl Reserve for Actor {
    fn reserve_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, _: &PodInfo, _: &NodeInfo) -> Status {
        Status::SUCCESS
    }

    fn unreserve_pod(&self, _: &mut CycleState, pod: &PodInfo, _: Symbol) {
        self.0.unreserved.lock().push(pod.uid);
    }
}

impl PreBind for Actor {
    fn pre_bind_pre_flight(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> Status {
        let acts = self.0.hang_in_pre_bind.load(Ordering::Relaxed)
            || self.0.pre_bind.lock().is_some()
            || self.0.work.lock().is_some();
        if acts { Status::SUCCESS } else { Status::SKIP }
    }

    fn pre_bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> PreBindAction {
        if self.0.hang_in_pre_bind.load(Ordering::Relaxed) {
            return PreBindAction::Future(Box::pin(std::future::pending()));
        }
        if let Some(work) = &*self.0.work.lock() {
            let work: Arc<Work> = Arc::clone(work);
            return PreBindAction::Work(work);
        }
        let status = self.0.pre_bind.lock().clone().unwrap_or_default();
        PreBindAction::Future(Box::pin(std::future::ready(status)))
    }
}

impl Bind for Actor {
    fn bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> BindOutcome {
        assert!(!self.0.panic_in_bind.load(Ordering::Relaxed), "told to panic");
        BindOutcome::Request(ApiRequest::BindPod)
    }
}

impl PostBind for Actor {
    fn post_bind_pod(&self, _: &CycleState, pod: &PodInfo, _: Symbol) {
        self.0.post_bound.lock().push(pod.uid);
        assert!(!self.0.panic_in_post_bind.load(Ordering::Relaxed), "told to panic");
    }
}

/// Everything that a bind needs. Nodes `n1` and `n2` exist.
pub(super) struct Kit {
    pub(super) server: ServerHandle,
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<SchedulingQueue>,
    pub(super) pool: Arc<BindingPool>,
    pub(super) failures: Arc<FailureHandler>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: ManualClock,
    pub(super) script: Arc<Script>,
    pub(super) may_act: Arc<AtomicBool>,
}

pub(super) fn settings() -> Settings {
    Settings {
        bind_deadline: Duration::from_secs(60),
        ..Settings::default()
    }
}

fn profiles(script: &Arc<Script>, observer: &Observer) -> Arc<Profiles> {
    let mut registry = Registry::default();
    let script = Arc::clone(script);
    registry
        .register("Actor", move |_| Ok(Arc::new(Actor(Arc::clone(&script)))))
        .unwrap();
    let mut plugins = Plugins::new();
    plugins.multi_point.enabled.push(EnabledPlugin::new("Actor", 1));
    let config = supercargo_config::Profile {
        scheduler_name: "default-scheduler".to_owned(),
        percentage_of_nodes_to_score: None,
        plugins,
        plugin_config: Vec::new(),
    };
    let profile = Profile::build(&config, 0, &registry, &Arc::new(Handle::default())).unwrap();
    Arc::new(Profiles::new(vec![Arc::new(profile.observed_by(observer))]))
}

impl Kit {
    pub(super) async fn new() -> Self {
        Self::with(settings()).await
    }

    /// One whose evictions are over when the call returns.
    pub(super) async fn synchronous() -> Self {
        Self::make(settings(), Arc::default(), false).await
    }

    pub(super) async fn with(settings: Settings) -> Self {
        Self::make(settings, Arc::default(), true).await
    }

    pub(super) async fn extended(settings: Settings, extenders: Arc<Extenders>) -> Self {
        Self::make(settings, extenders, true).await
    }

    async fn make(settings: Settings, extenders: Arc<Extenders>, async_preemption: bool) -> Self {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        let script = Arc::new(Script::default());
        let metrics = Arc::new(Metrics::new(&MetricsOptions {
            profiles: vec!["default-scheduler".to_owned()],
            plugins: vec!["Actor".to_owned()],
            ..Default::default()
        }));
        let clock = ManualClock::default();
        clock.advance(Duration::from_secs(1_700_000_000));
        let manual = Clock::Manual(clock.clone());
        let observer = Observer {
            metrics: Arc::clone(&metrics),
            clock: manual.clone(),
        };
        let profiles = profiles(&script, &observer);
        let queue = SchedulingQueue::new(profiles, manual.clone(), QueueConfig::default(), Arc::clone(&metrics));
        let cluster = Arc::new(Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All));
        for name in ["n1", "n2"] {
            cluster.apply_node((*node(name).build()).clone());
        }
        let options = ClientOptions {
            source: Source::Address(server.url()),
            rate: None,
            binds_in_flight: settings.binding_concurrency,
        };
        let (queue, may_act) = (Arc::new(queue), Arc::new(AtomicBool::new(true)));
        let (pool, failures) = start(BindingParts {
            cluster: Arc::clone(&cluster),
            queue: Arc::clone(&queue),
            clients: ClientSet::new(&options, None).unwrap(),
            extenders,
            metrics: Arc::clone(&metrics),
            clock: manual,
            settings,
            may_act: {
                let may_act = Arc::clone(&may_act);
                Arc::new(move || may_act.load(Ordering::Relaxed))
            },
            async_preemption,
        });
        Self {
            server,
            cluster,
            queue,
            pool,
            failures,
            metrics,
            clock,
            script,
            may_act,
        }
    }

    pub(super) fn fault(&self, verb: &str, resource: &str, action: FaultAction, times: u64) {
        let rule = FaultRule::on(verb, resource).with(action).times(times);
        self.server.faults().add(rule).unwrap();
    }

    pub(super) fn refuse_bind(&self, code: u16, retry_after_seconds: Option<u32>, times: u64) {
        let action = FaultAction::Status {
            code,
            retry_after_seconds,
        };
        self.fault("create", "pods/binding", action, times);
    }

    /// Puts a pod on the server and tells the cluster and the queue of it.
    pub(super) fn create(&self, pod: &PodBuilder) -> Arc<PodInfo> {
        self.server.store().insert_raw("", "pods", pod.json().clone()).unwrap();
        self.see(pod)
    }

    /// Tells the cluster and the queue of a pod.
    pub(super) fn see(&self, pod: &PodBuilder) -> Arc<PodInfo> {
        let mut info = pod.decode().unwrap().classify(&self.cluster.classes);
        info.text = ObjectText::from_json(&pod.json().to_string()).map(Arc::new);
        let uid = info.uid;
        self.cluster.apply_pod(info);
        let known = self.cluster.pod(uid).unwrap();
        self.queue.add(&known);
        known
    }

    /// Tells the cluster of the pod as the server has it, as its watch would.
    pub(super) fn watch(&self, name: &str) {
        let text = self.pod(name).to_string();
        let decoded = crate::cluster::watch::DecodedPod::from_json(&text).unwrap();
        self.cluster.apply_pod(decoded.classify(&self.cluster.classes));
    }

    /// Takes the next pod and reserves `n1` for it.
    pub(super) fn task(&self, waits: &[(&str, u64)]) -> BindTask {
        let queued = self.queue.try_pop().unwrap();
        let node_idx = self.idx("n1");
        let incarnation = self.cluster.node(node_idx).unwrap().incarnation;
        self.cluster
            .ledger
            .reserve(&queued.pod.charge, &Checks::default(), node_idx, incarnation)
            .unwrap();
        BindTask {
            queued,
            state: CycleState::default(),
            node: Symbol::new("n1"),
            node_idx,
            incarnation,
            started: Nanos(0),
            waits: waits
                .iter()
                .map(|(plugin, secs)| (Symbol::new(plugin), Duration::from_secs(*secs)))
                .collect(),
            span: tracing::Span::none(),
        }
    }

    pub(super) fn idx(&self, name: &str) -> NodeIdx {
        self.cluster.find_node(Symbol::new(name)).unwrap()
    }

    /// Reserves `n1` for the next pod and hands it over.
    pub(super) fn submit(&self, waits: &[(&str, u64)]) {
        let slot = self.pool.acquire_slot().unwrap();
        self.pool.submit(self.task(waits), slot);
    }

    /// Until every task has ended.
    pub(super) async fn settled(&self) {
        self.pool.tasks.close();
        self.pool.tasks.wait().await;
    }

    /// The same, and every event and status is written.
    pub(super) async fn written(&self) {
        self.settled().await;
        self.pool.drain(Duration::from_secs(60)).await;
    }

    /// A pod as the server has it.
    pub(super) fn pod(&self, name: &str) -> Value {
        self.server.store().get("", "pods", "default", name).unwrap().value()
    }

    pub(super) fn node_of(&self, name: &str) -> String {
        self.pod(name)["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The `PodScheduled` condition's status, reason and message.
    pub(super) fn condition(&self, name: &str) -> Option<[String; 3]> {
        let pod = self.pod(name);
        let conditions = pod["status"]["conditions"].as_array()?;
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == "PodScheduled")?;
        Some(["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned()))
    }

    /// Every event as the server keeps it: in the form of core/v1, where the note is the message.
    pub(super) fn stored_events(&self) -> Vec<Value> {
        self.server.store().values("events.k8s.io", "events").unwrap()
    }

    /// Reason and note of every event.
    pub(super) fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        self.stored_events()
            .iter()
            .map(|event| (text(event, "reason"), text(event, "message")))
            .collect()
    }

    pub(super) fn promise(&self, pod: &PodInfo) -> Option<PromiseState> {
        self.cluster.ledger.promise(pod.uid).map(|promise| promise.state)
    }

    /// Active, backoff, unschedulable.
    pub(super) fn counts(&self) -> [usize; 3] {
        let counts = self.queue.pending_counts();
        [counts.active, counts.backoff, counts.unschedulable]
    }

    /// Nothing is under way and nothing is out.
    pub(super) fn assert_quiet(&self) {
        assert_eq!(self.queue.pods_out(), 0);
        assert_eq!(self.metrics.bindings_in_flight(), 0);
        assert!(self.pool.waiting.list().is_empty());
    }
}
