//! Counted change by change, the state answers as one that is computed from scratch.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::filtering::FilterState;
use super::super::scoring::ScoreState;
use super::*;
use crate::cluster::{ClassTable, LabelVisibility, NodeInfo, PodClass, PodInfo};
use crate::framework::{CycleState, DomainKey};
use crate::plugins::check::{told, world};
use crate::testing::{node, pod};

/// Pods to be placed and to be scheduled, with all kinds of terms.
fn kinds() -> Vec<PodBuilder> {
    let (x, y) = (
        |name: &str| pod(name).label("app", "x"),
        |name: &str| pod(name).label("app", "y"),
    );
    let by = |key: &str| like("app", "x", key);
    let reaching = with(by("zone"), "namespaceSelector", json!({"matchLabels": {"team": "red"}}));
    vec![
        x("plain-x"),
        y("plain-y"),
        x("far").namespace("other"),
        near(x("near-zone"), &[by("zone")]),
        near(x("near-both"), &[by("zone"), like("app", "x", "host")]),
        apart(x("apart-host"), &[by("host")]),
        apart(y("apart-zone"), &[by("zone"), by("rack")]),
        apart(y("apart-red").namespace("other"), std::slice::from_ref(&reaching)),
        likes(x("likes"), &[weighted(5, &by("zone")), weighted(3, &reaching)]),
        dislikes(
            likes(y("cancels"), &[weighted(5, &by("host"))]),
            &[weighted(5, &by("host"))],
        ),
        likes(near(y("draws"), &[by("rack")]), &[weighted(7, &by("host"))]),
    ]
}

struct Kept {
    state: CycleState,
    pod: Arc<PodInfo>,
}

fn prepared(plugin: &dyn Plugin, world: &World, pod: &PodInfo) -> CycleState {
    let mut state = CycleState::default();
    let view = world.view();
    let _ = plugin.pre_filter().unwrap().pre_filter_pod(&view, &mut state, pod);
    let _ = plugin.pre_score().unwrap().pre_score_pod(&view, &mut state, pod, &[]);
    state
}

type Counts = BTreeMap<(&'static str, &'static str), i64>;

fn counts(state: &CycleState) -> (Option<[Counts; 3]>, Option<(Counts, i64)>) {
    let filtering = state.read::<FilterState>().unwrap().0.as_ref();
    let scoring = state.read::<ScoreState>().unwrap().0.as_ref();
    (filtering.map(|kept| kept.counts()), scoring.map(|kept| kept.counts()))
}

fn answers(plugin: &dyn Plugin, world: &World, state: &CycleState, pod: &PodInfo) -> Vec<(String, i64)> {
    let view = world.view();
    let (filter, score) = (plugin.filter().unwrap(), plugin.score().unwrap());
    let answer = |node: &NodeInfo| {
        let status = told(&filter.filter_node(&view, state, pod, node));
        (status, score.score_node(&view, state, pod, node).unwrap())
    };
    view.nodes.iter().map(answer).collect()
}

fn check_domains(
    plugin: &dyn Plugin,
    world: &World,
    kept: &Kept,
    answers: &[(String, i64)],
) -> Result<(), TestCaseError> {
    let mut by_key: BTreeMap<DomainKey, (String, i64)> = BTreeMap::new();
    for (node, answer) in world.view().nodes.iter().zip(answers) {
        let mut key = DomainKey::new();
        plugin
            .domain_counts()
            .unwrap()
            .domains(&kept.state, &kept.pod, node, &mut key);
        let first = by_key.entry(key).or_insert_with(|| answer.clone());
        prop_assert_eq!(&*first, answer);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn counting_change_by_change_equals_counting_anew(
        steps in prop::collection::vec((0..11_usize, 0..5_usize, any::<bool>()), 1..40),
        teams in prop::array::uniform2(any::<bool>()),
    ) {
        let classes = ClassTable::new(LabelVisibility::All);
        let nodes: Vec<_> = (0..5).map(|at| {
            let built = node(&format!("n{at}")).label("host", &format!("h{at}"));
            let built = if at < 4 { built.label("zone", ["a", "a", "b", "b"][at]) } else { built };
            if at % 2 == 0 { built.label("rack", &format!("r{}", at / 2)) } else { built }
        }).collect();
        let mut world = world(&nodes, &[]);
        for (name, is_red) in ["default", "other"].into_iter().zip(teams) {
            put_namespace(&world, name, if is_red { &[("team", "red")] } else { &[] });
        }
        let plugin = affinity();
        let domain_counts = plugin.domain_counts().unwrap();
        let kinds: Vec<_> = kinds().iter().map(|kind| kind.build_in(&classes)).collect();
        let mut kept: Vec<_> = kinds.iter().map(|pod| Kept {
            state: prepared(&*plugin, &world, pod),
            pod: Arc::clone(pod),
        }).collect();
        let mut placed: Vec<(usize, usize)> = Vec::new();
        for (kind, at, comes) in steps {
            let name = Symbol::new(&format!("n{at}"));
            let found = placed.iter().position(|have| *have == (kind, at));
            let by = match found {
                Some(position) if !comes => {
                    placed.remove(position);
                    prop_assert!(world.remove(&kinds[kind], name));
                    -1
                }
                _ => {
                    placed.push((kind, at));
                    prop_assert!(world.assume(&kinds[kind], name));
                    1
                }
            };
            let other: Arc<PodClass> = classes.get(kinds[kind].class).unwrap();
            let view = world.view();
            let node = view.nodes.get(view.nodes.find(name).unwrap()).unwrap();
            for kept in &mut kept {
                let concerned = domain_counts.concerns(&view, &kept.pod, &other);
                let scratch = prepared(&*plugin, &world, &kept.pod);
                if !concerned {
                    prop_assert_eq!(counts(&kept.state), counts(&scratch));
                } else if !domain_counts.count(&view, &mut kept.state, &kept.pod, &other, node, by) {
                    kept.state = scratch.clone();
                }
                prop_assert_eq!(counts(&kept.state), counts(&scratch));
                let now = answers(&*plugin, &world, &kept.state, &kept.pod);
                prop_assert_eq!(&now, &answers(&*plugin, &world, &scratch, &kept.pod));
                check_domains(&*plugin, &world, kept, &now)?;
            }
        }
    }
}

#[test]
fn numbers_change_without_counting_anew_and_what_was_skipped_does_not() {
    let classes = ClassTable::new(LabelVisibility::All);
    let world = world(&[node("n1").label("host", "h1")], &[]);
    let view = world.view();
    let node = view.nodes.iter().next().unwrap();
    let plugin = affinity();
    let counting = plugin.domain_counts().unwrap();
    let rule = [like("app", "x", "host")];
    let guard = apart(pod("g").label("app", "x"), &rule).build_in(&classes);
    let plain = pod("p").label("app", "x").build_in(&classes);
    let class = classes.get(guard.class).unwrap();
    assert!(counting.concerns(&view, &plain, &class) && counting.concerns(&view, &guard, &class));
    assert!(!counting.concerns(&view, &plain, &classes.get(plain.class).unwrap()));
    let mut skipped = prepared(&*plugin, &world, &plain);
    assert!(!counting.count(&view, &mut skipped, &plain, &class, node, 1));
    let mut state = prepared(&*plugin, &world, &guard);
    assert!(counting.count(&view, &mut state, &guard, &class, node, 1));
    // A key that did not matter before.
    let other = apart(pod("o"), &[like("app", "x", "kubernetes.io/hostname")]).build_in(&classes);
    let other = classes.get(other.class).unwrap();
    assert!(!counting.count(&view, &mut state, &guard, &other, node, 1));
}
