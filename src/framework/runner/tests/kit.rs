//! Plugins that answer as a test says and note what they are asked, and three nodes.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use supercargo_config::plugins::{EnabledPlugin, Plugins};

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::cycle::full::{self, Evaluation};
use crate::framework::{
    Bind, BindOutcome, CycleState, Filter, Handle, NodeStatuses, Permit, Plugin, PostFilter, PostFilterResult,
    PreFilter, PreFilterExtensions, PreFilterOutcome, PreScore, Profile, QueueSort, Registry, Reserve, Score, SortKey,
    Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::sync::Mutex;
use crate::testing::{PodBuilder, World, node};

type Calls = Arc<Mutex<Vec<String>>>;

/// A plugin that takes part where it was given an answer.
#[derive(Clone, Default)]
pub(super) struct Actor {
    name: &'static str,
    pre_filter: Option<PreFilterOutcome>,
    add_pod: Option<Status>,
    filter: Option<FxHashMap<&'static str, Status>>,
    refuses_added: bool,
    pre_score: Option<Status>,
    scores: Option<[i64; 3]>,
    post_filter: Option<PostFilterResult>,
    reserve: Option<Status>,
    permit: Option<(Status, Duration)>,
    is_base: bool,
    calls: Calls,
}

/// How many pods `add_pod` was told of.
#[derive(Clone, Default)]
struct Added(usize);

pub(super) fn rejected(reason: &str) -> Status {
    Status::unschedulable(reason.to_owned())
}

pub(super) fn unresolvable(reason: &str) -> Status {
    Status::unresolvable(reason.to_owned())
}

impl Actor {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    pub(super) fn pre_filter(mut self, status: Status) -> Self {
        self.pre_filter = Some(status.into());
        self
    }

    /// PreFilter leaves these nodes.
    pub(super) fn narrows(mut self, nodes: &[&str]) -> Self {
        self.pre_filter = Some(PreFilterOutcome {
            status: Status::SUCCESS,
            nodes: Some(nodes.iter().map(|name| Symbol::new(name)).collect()),
        });
        self
    }

    pub(super) fn refuses(mut self, node: &'static str, status: Status) -> Self {
        self.filter.get_or_insert_default().insert(node, status);
        self
    }

    /// Refuses a node when a pod was added.
    pub(super) fn counts_added(mut self) -> Self {
        self.refuses_added = true;
        self.add_pod = Some(Status::SUCCESS);
        self.filter.get_or_insert_default();
        self
    }

    pub(super) fn add_pod(mut self, status: Status) -> Self {
        self.add_pod = Some(status);
        self
    }

    pub(super) fn pre_score(mut self, status: Status) -> Self {
        self.pre_score = Some(status);
        self
    }

    pub(super) const fn scores(mut self, scores: [i64; 3]) -> Self {
        self.scores = Some(scores);
        self
    }

    pub(super) fn post_filter(mut self, result: PostFilterResult) -> Self {
        self.post_filter = Some(result);
        self
    }

    pub(super) fn reserve(mut self, status: Status) -> Self {
        self.reserve = Some(status);
        self
    }

    pub(super) fn permit(mut self, answer: (Status, Duration)) -> Self {
        self.permit = Some(answer);
        self
    }

    fn note(&self, point: &str) {
        self.calls.lock().push(format!("{}.{point}", self.name));
    }
}

impl Plugin for Actor {
    fn name(&self) -> Symbol {
        Symbol::new(self.name)
    }

    fn queue_sort(&self) -> Option<&dyn QueueSort> {
        if self.is_base { Some(self) } else { None }
    }

    fn bind(&self) -> Option<&dyn Bind> {
        if self.is_base { Some(self) } else { None }
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        self.pre_filter.as_ref().map(|_| self as &dyn PreFilter)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        self.filter.as_ref().map(|_| self as &dyn Filter)
    }

    fn post_filter(&self) -> Option<&dyn PostFilter> {
        self.post_filter.as_ref().map(|_| self as &dyn PostFilter)
    }

    fn pre_score(&self) -> Option<&dyn PreScore> {
        self.pre_score.as_ref().map(|_| self as &dyn PreScore)
    }

    fn score(&self) -> Option<&dyn Score> {
        self.scores.as_ref().map(|_| self as &dyn Score)
    }

    fn reserve(&self) -> Option<&dyn Reserve> {
        self.reserve.as_ref().map(|_| self as &dyn Reserve)
    }

    fn permit(&self) -> Option<&dyn Permit> {
        self.permit.as_ref().map(|_| self as &dyn Permit)
    }
}

impl QueueSort for Actor {
    fn less(&self, a: SortKey<'_>, b: SortKey<'_>) -> bool {
        a.timestamp < b.timestamp
    }
}

impl Bind for Actor {
    fn bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> BindOutcome {
        BindOutcome::Skip
    }
}

impl PreFilter for Actor {
    fn pre_filter_pod(&self, _: &ClusterView<'_>, state: &mut CycleState, _: &PodInfo) -> PreFilterOutcome {
        self.note("pre_filter");
        state.write(Added::default());
        self.pre_filter.clone().unwrap_or_default()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        self.add_pod.as_ref().map(|_| self as &dyn PreFilterExtensions)
    }
}

impl PreFilterExtensions for Actor {
    fn add_pod(&self, state: &mut CycleState, _: &PodInfo, _: &PodInfo, _: &NodeInfo) -> Status {
        self.note("add_pod");
        if let Some(added) = state.read_mut::<Added>() {
            added.0 += 1;
        }
        self.add_pod.clone().unwrap_or_default()
    }

    fn remove_pod(&self, _: &mut CycleState, _: &PodInfo, _: &PodInfo, _: &NodeInfo) -> Status {
        Status::SUCCESS
    }
}

impl Filter for Actor {
    fn filter_node(&self, _: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Status {
        self.note("filter");
        if self.refuses_added && state.read::<Added>().is_some_and(|added| added.0 > 0) {
            return rejected("somebody was added");
        }
        let answers = self.filter.as_ref();
        answers
            .and_then(|answers| answers.get(node.name.as_str()).cloned())
            .unwrap_or_default()
    }
}

impl PostFilter for Actor {
    fn post_filter_pod(
        &self,
        _: &ClusterView<'_>,
        _: &Profile,
        _: &CycleState,
        _: &PodInfo,
        _: &NodeStatuses,
    ) -> PostFilterResult {
        self.note("post_filter");
        self.post_filter.clone().unwrap()
    }
}

impl PreScore for Actor {
    fn pre_score_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, _: &PodInfo, _: &[NodeIdx]) -> Status {
        self.note("pre_score");
        self.pre_score.clone().unwrap_or_default()
    }
}

impl Score for Actor {
    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        self.note("score");
        Ok(self.scores.map_or(0, |scores| scores[node.idx.0 as usize]))
    }
}

impl Reserve for Actor {
    fn reserve_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, _: &PodInfo, _: &NodeInfo) -> Status {
        self.note("reserve");
        self.reserve.clone().unwrap_or_default()
    }

    fn unreserve_pod(&self, _: &mut CycleState, _: &PodInfo, _: Symbol) {
        self.note("unreserve");
    }
}

impl Permit for Actor {
    fn permit_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> (Status, Duration) {
        self.note("permit");
        self.permit.clone().unwrap_or_default()
    }
}

/// A profile of some actors, and the nodes `n1` to `n3`.
pub(super) struct Kit {
    pub(super) profile: Profile,
    pub(super) world: World,
    calls: Calls,
}

impl Kit {
    pub(super) fn new(actors: Vec<Actor>) -> Self {
        let calls = Calls::default();
        let mut registry = Registry::default();
        let mut plugins = Plugins::new();
        let base = Actor {
            is_base: true,
            ..Actor::new("Base")
        };
        for mut actor in std::iter::once(base).chain(actors) {
            actor.calls = Arc::clone(&calls);
            let (name, actor) = (actor.name, Arc::new(actor));
            registry
                .register(name, move |_| Ok(Arc::clone(&actor) as Arc<dyn Plugin>))
                .unwrap();
            plugins.multi_point.enabled.push(EnabledPlugin::new(name, 1));
        }
        let config = supercargo_config::Profile {
            scheduler_name: "default-scheduler".to_owned(),
            percentage_of_nodes_to_score: None,
            plugins,
            plugin_config: Vec::new(),
        };
        let profile = Profile::build(&config, 0, &registry, &Arc::new(Handle::default())).unwrap();
        let mut world = World::default();
        for name in ["n1", "n2", "n3"] {
            world.add_node(node(name).build());
        }
        Self { profile, world, calls }
    }

    pub(super) fn nominate(&mut self, pod: &PodBuilder, node: &str) {
        assert!(self.world.nominate(&pod.build(), Symbol::new(node)));
    }

    pub(super) fn evaluate(&self, pod: &PodBuilder) -> Evaluation {
        full::evaluate(&self.profile, &self.world.view(), &pod.build())
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    pub(super) fn count(&self, call: &str) -> usize {
        self.calls.lock().iter().filter(|made| *made == call).count()
    }
}
