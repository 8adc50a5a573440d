//! Replays one record: builds its cluster and profiles, evaluates its pods, compares.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::value::RawValue;
use supercargo::cluster::watch::{
    DecodedPod, OwnerObject, OwnerOf, ReplicaSets, ReplicationControllers, StatefulSets, Watched as _, decode_budget,
    decode_node, decode_pod, decode_volume_object,
};
use supercargo::cluster::{ClassTable, LabelVisibility, NamespaceLabels, PodInfo, ServiceSelector, VolumeKind};
use supercargo::cycle::full::{self, Evaluation, NO_NODES, Outcome};
use supercargo::framework::{CycleState, Handle, PluginScores, PreFilterRun, Profile, Profiles, ScoreRun, Status};
use supercargo::ids::NodeIdx;
use supercargo::plugins;
use supercargo::preemption::{self, CandidateLimits, DryRun, Trial};
use supercargo::testing::World;
use supercargo_config::{Loader, PluginCatalogue};

use super::diff::differences;
use super::record::{Candidate, Decision, Record, Step, Verdict};
use super::support::{self, NotSupported};

/// What came of a record.
pub(super) enum Replayed {
    /// These differences; none: it passed.
    Compared(Vec<String>),
    /// It needs a plugin that is missing.
    NotSupported(NotSupported),
}

/// Scores 0 everywhere without claims, and is not recorded.
const NOT_RECORDED: &str = "DynamicResources";

/// Collections of volume objects.
const VOLUME_OBJECTS: [(&str, VolumeKind); 7] = [
    ("persistentVolumes", VolumeKind::Volume),
    ("persistentVolumeClaims", VolumeKind::Claim),
    ("storageClasses", VolumeKind::Class),
    ("csiNodes", VolumeKind::CsiNode),
    ("csiDrivers", VolumeKind::CsiDriver),
    ("csiStorageCapacities", VolumeKind::Capacity),
    ("volumeAttachments", VolumeKind::Attachment),
];

/// Replays a record; what stands in the way of that is a difference like any other.
pub(super) fn replay(record: &Record) -> Replayed {
    try_replay(record).unwrap_or_else(|error| Replayed::Compared(vec![format!("{error:#}")]))
}

/// Evaluates a record's one pod on its cluster.
///
/// # Errors
/// When an object does not decode, the configuration cannot be used, or a plugin fails.
pub(crate) fn evaluate(record: &Record) -> Result<Decision> {
    let case = Case::build(record)?;
    let [pod] = case.pending.as_slice() else {
        bail!("not exactly one pod");
    };
    decide(&case, pod)
}

struct Case {
    profiles: Profiles,
    world: World,
    pending: Vec<Arc<PodInfo>>,
}

impl Case {
    fn build(record: &Record) -> Result<Self> {
        let classes = ClassTable::new(LabelVisibility::All);
        let mut world = World::default();
        put_namespaces_and_owners(record, &world)?;
        for raw in record.collection("nodes") {
            world.add_node(Arc::new(decode_node(raw.get())?));
        }
        for raw in record.collection("pods") {
            world.add_pod(&Arc::new(decode_pod(raw.get(), &classes)?));
        }
        for raw in record.collection("podDisruptionBudgets") {
            world.add_budget(decode_budget(raw.get())?);
        }
        for (collection, kind) in VOLUME_OBJECTS {
            for raw in record.collection(collection) {
                world.add_volume_object(decode_volume_object(kind, raw.get())?);
            }
        }
        let pending = |raw: &RawValue| -> Result<Arc<PodInfo>> {
            let decoded = DecodedPod::from_json(raw.get())?.into_pending();
            Ok(Arc::new(decoded.classify(&classes)))
        };
        Ok(Self {
            profiles: profiles(record)?,
            world,
            pending: record.pending().map(pending).collect::<Result<_>>()?,
        })
    }

    fn profile(&self, pod: &PodInfo) -> Result<&Profile> {
        let name = pod.spec.scheduler_name.context("the pod asks for no scheduler")?;
        let profile = self.profiles.get(name);
        profile
            .map(|profile| &**profile)
            .with_context(|| format!("no profile is called {name}"))
    }
}

/// Namespaces, Services and controllers.
fn put_namespaces_and_owners(record: &Record, world: &World) -> Result<()> {
    for raw in record.collection("namespaces") {
        world.namespaces().put(NamespaceLabels::decode(raw.get())?.0);
    }
    for raw in record.collection("services") {
        world.owners().put_service(ServiceSelector::decode(raw.get())?.0);
    }
    put_controllers::<ReplicationControllers>(record, "replicationControllers", world)?;
    put_controllers::<ReplicaSets>(record, "replicasets", world)?;
    put_controllers::<StatefulSets>(record, "statefulSets", world)
}

fn put_controllers<K: OwnerOf>(record: &Record, collection: &str, world: &World) -> Result<()> {
    for raw in record.collection(collection) {
        world
            .owners()
            .put_controller(OwnerObject::<K>::decode(raw.get())?.0.selector);
    }
    Ok(())
}

fn profiles(record: &Record) -> Result<Profiles> {
    let catalogue = PluginCatalogue::in_tree();
    let loader = Loader::new(&catalogue);
    let loaded = match &record.config {
        Some(config) => loader.load_str("config", config.get()),
        None => loader.defaults(),
    };
    let handle = Arc::new(Handle::default());
    Ok(Profiles::build(&loaded?.configuration, &plugins::registry(), &handle)?)
}

fn try_replay(record: &Record) -> Result<Replayed> {
    let mut case = Case::build(record)?;
    if let Some(missing) = support::missing(record) {
        return Ok(Replayed::NotSupported(missing));
    }
    let found = match (&record.expect, case.pending.as_slice()) {
        (Some(expected), [pod]) => single(&case, pod, expected, &record.theme)?,
        (None, pods) if pods.len() == record.steps.len() => sequence(&mut case, &record.steps)?,
        _ => bail!("neither one pod with an expectation nor as many steps as pods"),
    };
    Ok(Replayed::Compared(found))
}

fn single(case: &Case, pod: &PodInfo, expected: &Decision, theme: &str) -> Result<Vec<String>> {
    let is_preemption = theme == "preemption";
    // What a running kube-scheduler tells is not all that there is.
    let is_partial = theme == super::DIFFERENTIAL;
    let mut expected = expected.clone();
    expected.sort();
    let mut actual = decide(case, pod)?;
    if !is_preemption && expected.candidates.is_none() && expected.dry_run_rejections.is_none() {
        actual.candidates = None;
        actual.dry_run_rejections = None;
    }
    actual.sort();
    if is_partial {
        actual.only_what_is_in(&expected);
    }
    Ok(differences("", &expected, &actual))
}

fn sequence(case: &mut Case, steps: &[Step]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    // What the plugins promised stands as long as these live.
    let mut reserved = Vec::new();
    for (at, (pod, expected)) in case.pending.clone().iter().zip(steps).enumerate() {
        let mut decision = decide(case, pod)?;
        decision.sort();
        let actual = Step {
            chosen: decision.winners.as_ref().and_then(|winners| winners.first().cloned()),
            winners: decision.winners,
            totals: decision.totals,
            message: decision.message,
        };
        let mut expected = expected.clone();
        if let Some(winners) = &mut expected.winners {
            winners.sort_unstable();
        }
        found.extend(differences(&format!("steps[{at}]"), &expected, &actual));
        // As recorded, so that one difference does not bring on others.
        if let Some(node) = &expected.chosen {
            let name = supercargo::ids::Symbol::new(node);
            let promised = case.reserve(pod, name);
            reserved.push(promised.with_context(|| format!("steps[{at}]"))?);
            case.world.assume(pod, name);
        }
    }
    Ok(found)
}

/// Everything about one pod on the cluster as it stands.
fn decide(case: &Case, pod: &PodInfo) -> Result<Decision> {
    let profile = case.profile(pod)?;
    let view = case.world.view();
    let evaluation = full::evaluate(profile, &view, pod);
    let mut decision = Decision::default();
    match &evaluation.outcome {
        Outcome::NoNodes => {
            decision.message = Some(NO_NODES.to_owned());
            return Ok(decision);
        }
        Outcome::Failed(status) => bail!("the cycle failed: {}", status.message()),
        Outcome::Open => bail!("the decision waits for extenders"),
        Outcome::Best(winners) => decision.winners = Some(winners.iter().map(|idx| case.name(*idx)).collect()),
        Outcome::NoFit(_) => case.preempt(profile, &evaluation, pod, &mut decision),
    }
    decision.pre_filter = Some(match &evaluation.pre_filter {
        PreFilterRun::Proceed(_) => verdict(&Status::SUCCESS),
        PreFilterRun::Rejected { status, .. } | PreFilterRun::Failed(status) => verdict(status),
    });
    decision.filter = case.filter(&evaluation, pod);
    if let Some(run) = &evaluation.scores {
        case.scores(run, &mut decision);
    }
    Ok(decision)
}

fn verdict(status: &Status) -> Verdict {
    Verdict {
        code: status.code.name().to_owned(),
        plugin: status.plugin.map(|plugin| plugin.as_str().to_owned()),
        reasons: status.reasons.iter().map(|reason| reason.as_str().to_owned()).collect(),
    }
}

/// Raw scores as recorded: a node that takes no part in topology spreading is recorded with 0, and left out later.
fn recorded_raw(scores: &PluginScores) -> Vec<i64> {
    let lowest = if scores.plugin.as_str() == "PodTopologySpread" {
        0
    } else {
        i64::MIN
    };
    scores.raw.iter().map(|raw| (*raw).max(lowest)).collect()
}

impl Case {
    /// Lets the plugins reserve what a pod needs on a node.
    fn reserve(&self, pod: &PodInfo, node: supercargo::ids::Symbol) -> Result<CycleState> {
        let (profile, view) = (self.profile(pod)?, self.world.view());
        let node = view.nodes.find(node).and_then(|idx| view.nodes.get(idx));
        let node = node.context("the chosen node is not there")?;
        let mut state = CycleState::default();
        let prepared = profile.run_pre_filter(&view, &mut state, pod);
        anyhow::ensure!(matches!(prepared, PreFilterRun::Proceed(_)), "the pod is rejected");
        let reserved = profile.run_reserve(&view, &mut state, pod, node);
        reserved.map_err(|status| anyhow::anyhow!("cannot reserve: {}", status.message()))?;
        Ok(state)
    }

    fn name(&self, idx: NodeIdx) -> String {
        let node = self.world.nodes().get(idx);
        node.map_or_else(|| format!("{idx:?}"), |node| node.name.as_str().to_owned())
    }

    /// The status of every node that was looked at or left out; of the nominated node alone if it was enough.
    fn filter(&self, evaluation: &Evaluation, pod: &PodInfo) -> Option<super::record::ByNode<Verdict>> {
        let PreFilterRun::Proceed(narrowed) = &evaluation.pre_filter else {
            return None;
        };
        let nominated = pod.nominated_node.and_then(|name| self.world.nodes().find(name));
        let is_enough = nominated.is_some_and(|idx| evaluation.feasible == [idx]);
        let mut by_node = super::record::ByNode::new();
        for node in self.world.nodes().iter() {
            let explicit = evaluation.statuses.explicit.iter().find(|(idx, _)| *idx == node.idx);
            let status = match (explicit, narrowed) {
                _ if evaluation.feasible.contains(&node.idx) => verdict(&Status::SUCCESS),
                _ if is_enough => continue,
                (Some((_, status)), _) => verdict(status),
                (None, Some(narrowed)) => verdict(&narrowed.absent_status()),
                (None, None) => continue,
            };
            by_node.insert(node.name.as_str().to_owned(), status);
        }
        Some(by_node)
    }

    fn scores(&self, run: &ScoreRun, decision: &mut Decision) {
        for (at, idx) in run.nodes.iter().enumerate() {
            let node = self.name(*idx);
            for plugin in run.plugins.iter().filter(|p| p.plugin.as_str() != NOT_RECORDED) {
                let name = plugin.plugin.as_str().to_owned();
                let put = |into: &mut Option<super::record::ByNode<_>>, values: &[i64]| {
                    let scores: &mut std::collections::BTreeMap<String, i64> =
                        into.get_or_insert_default().entry(node.clone()).or_default();
                    scores.insert(name.clone(), values.get(at).copied().unwrap_or_default());
                };
                put(&mut decision.scores, &plugin.weighted);
                if plugin.normalizes {
                    put(&mut decision.raw_scores, &recorded_raw(plugin));
                }
            }
            let total = run.totals.get(at).copied().unwrap_or_default();
            decision.totals.get_or_insert_default().insert(node, total);
        }
    }

    fn preempt(&self, profile: &Profile, evaluation: &Evaluation, pod: &PodInfo, decision: &mut Decision) {
        let view = self.world.view();
        let filtered = full::post_filter(profile, &view, evaluation, pod);
        decision.message = Some(filtered.error.message());
        let run = self.dry_run(profile, &evaluation.state, pod, evaluation);
        let by_node = |candidate: &preemption::Candidate| {
            let victims = candidate.victims.iter().map(|victim| victim.full_name()).collect();
            let pdb_violations = candidate.pdb_violations;
            (
                candidate.name.as_str().to_owned(),
                Candidate {
                    victims,
                    pdb_violations,
                },
            )
        };
        if !run.candidates.is_empty() {
            decision.candidates = Some(run.candidates.iter().map(by_node).collect());
            let best = preemption::best_candidates(&run.candidates);
            decision.nominated = Some(best.iter().map(|c| c.name.as_str().to_owned()).collect());
        }
        if !run.rejections.is_empty() {
            let rejections = run.rejections.iter();
            decision.dry_run_rejections = Some(
                rejections
                    .map(|(idx, status)| (self.name(*idx), verdict(status)))
                    .collect(),
            );
        }
    }

    /// Every node on which evictions may help, if the profile preempts at all.
    fn dry_run(&self, profile: &Profile, state: &CycleState, pod: &PodInfo, evaluation: &Evaluation) -> DryRun {
        let view = self.world.view();
        let preempts = profile
            .plugin_names()
            .iter()
            .any(|name| name.as_str() == "DefaultPreemption");
        if !preempts || preemption::eligible(&view, pod, &evaluation.statuses).is_err() {
            return DryRun::default();
        }
        let potential = preemption::potential_nodes(&view, &evaluation.statuses);
        let budgets = view.pods.budgets();
        let trial = Trial {
            cluster: view,
            profile,
            state,
            pod,
            budgets: &budgets,
        };
        preemption::dry_run(&trial, &potential, CandidateLimits::NONE, 0)
    }
}
