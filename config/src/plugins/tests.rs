//! Merge and expansion: the recorded cases of upstream's table tests, and invariants over random lists.

use proptest::prelude::*;

use super::*;
use crate::gates::FeatureGates;

/// `P1=2 P2` as enabled plugins.
fn enabled(text: &str) -> Vec<EnabledPlugin> {
    text.split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, weight)) => EnabledPlugin::new(name, weight.parse().unwrap()),
            None => EnabledPlugin::new(word, 0),
        })
        .collect()
}

fn set(on: &str, off: &str) -> PluginSet {
    PluginSet {
        enabled: enabled(on),
        disabled: off.split_whitespace().map(str::to_owned).collect(),
    }
}

fn show(plugins: &[EnabledPlugin]) -> String {
    let word = |plugin: &EnabledPlugin| match plugin.weight {
        0 => plugin.name.clone(),
        weight => format!("{}={weight}", plugin.name),
    };
    plugins.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn lists(multi_point: PluginSet, points: &[(ExtensionPoint, PluginSet)]) -> Plugins {
    let mut plugins = Plugins {
        multi_point,
        ..Plugins::default()
    };
    for (point, set) in points {
        *plugins.at_mut(*point) = set.clone();
    }
    plugins
}

fn merged(defaults: &str, on: &str, off: &str) -> String {
    let defaults = lists(PluginSet::default(), &[(ExtensionPoint::Filter, set(defaults, ""))]);
    let custom = lists(PluginSet::default(), &[(ExtensionPoint::Filter, set(on, off))]);
    show(&merge(&defaults, &custom).at(ExtensionPoint::Filter).enabled)
}

#[test]
fn profile_lists_go_over_the_defaults() {
    assert_eq!(merged("A B", "Custom", ""), "A B Custom");
    assert_eq!(merged("A B", "Custom B", "B"), "A Custom B");
    assert_eq!(merged("A B", "B A", "*"), "B A");
    assert_eq!(merged("P1 P2 P3", "P2=2 P1=1", ""), "P1=1 P2=2 P3");
    assert_eq!(merged("P1 P2 P3", "P1 P2=2 P3 P2=4", ""), "P1 P2=4 P3 P2=2");
    assert_eq!(merged("A B", "", "A X"), "B");
    assert_eq!(merged("", "A", ""), "A");
}

/// N, T, S, Q, B as in upstream's tests: N filters and scores, T and S pre-score and score, Q sorts, B binds.
fn catalogue() -> PluginCatalogue {
    use ExtensionPoint as P;
    PluginCatalogue::empty()
        .with("N", &[P::Filter, P::Score])
        .with("T", &[P::PreScore, P::Score])
        .with("S", &[P::PreScore, P::Score])
        .with("Q", &[P::QueueSort])
        .with("B", &[P::Bind])
}

fn expanded(multi: &str, point: ExtensionPoint, on: &str, off: &str) -> Result<ExpandedPlugins, Vec<String>> {
    let plugins = lists(set(&format!("{multi} Q B"), ""), &[(point, set(on, off))]);
    let result = expand("s", &plugins, &catalogue());
    result.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn scores(multi: &str, on: &str, off: &str) -> String {
    show(
        expanded(multi, ExtensionPoint::Score, on, off)
            .unwrap()
            .at(ExtensionPoint::Score),
    )
}

#[test]
fn multi_point_is_expanded_around_explicit_lists() {
    assert_eq!(scores("N T S", "S T", ""), "S=1 T=1 N=1");
    assert_eq!(scores("T S", "N S T", ""), "S=1 T=1 N=1");
    assert_eq!(scores("T=5", "", ""), "T=5");
    assert_eq!(scores("T=5", "T=3", ""), "T=3");
    assert_eq!(scores("T=5", "T=0", ""), "T=1");
    assert_eq!(scores("T S N", "", "S"), "T=1 N=1");
    assert_eq!(scores("T S N", "S", "*"), "S=1");
    assert_eq!(scores("T S N", "S", "S"), "T=1 N=1 S=1");
    let off = expanded("T S", ExtensionPoint::PreScore, "", "*").unwrap();
    assert_eq!(show(off.at(ExtensionPoint::PreScore)), "");
    assert_eq!(show(off.at(ExtensionPoint::Score)), "T=1 S=1");
}

#[test]
fn lists_that_cannot_run_say_why() {
    let errors = |multi: &str, on: &str| expanded(multi, ExtensionPoint::Filter, on, "").unwrap_err().join("; ");
    assert_eq!(
        errors("N N", ""),
        concat!(
            r#"plugin "N" already registered as "FilterPlugin"; "#,
            r#"plugin "N" already registered as "ScorePlugin""#
        )
    );
    assert_eq!(errors("", "N N"), r#"plugin "N" already registered as "FilterPlugin""#);
    assert_eq!(errors("", "X"), r#"FilterPlugin "X" does not exist"#);
    assert_eq!(errors("X", ""), r#"PreEnqueuePlugin "X" does not exist"#);
    assert_eq!(errors("", "T"), r#"plugin "T" does not extend FilterPlugin plugin"#);
    let nothing = expand("s", &Plugins::new(), &catalogue()).unwrap_err();
    assert_eq!(
        nothing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        concat!(
            r#"only one queue sort plugin required for profile with scheduler name "s", but got 0; "#,
            r#"at least one bind plugin is needed for profile with scheduler name "s""#
        )
    );
}

#[test]
fn default_list_expands_as_upstreams() {
    let plugins = default_plugins(&FeatureGates::default());
    let expanded = expand("default-scheduler", &plugins, &PluginCatalogue::in_tree()).unwrap();
    let shown: Vec<String> = ExtensionPoint::ALL
        .into_iter()
        .map(|point| format!("{}: {}", point.field(), show(expanded.at(point))))
        .collect();
    expect_test::expect![[r#"
        preEnqueue: SchedulingGates DynamicResources DefaultPreemption
        queueSort: PrioritySort
        preFilter: NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures
        filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures
        postFilter: DynamicResources DefaultPreemption
        preScore: TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
        score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
        reserve: VolumeBinding DynamicResources
        permit: 
        preBind: VolumeBinding DynamicResources
        bind: DefaultBinder
        postBind: 
        placementGenerate: 
        placementScore: "#]]
    .assert_eq(&shown.join("\n"));
    let gates = FeatureGates::parse("NodeDeclaredFeatures=false").unwrap();
    assert!(
        !default_plugins(&gates)
            .enabled_names()
            .contains(&"NodeDeclaredFeatures")
    );
}

/// Lists over the names of the test catalogue, without doubles.
fn any_set() -> impl Strategy<Value = PluginSet> {
    let names = || proptest::sample::subsequence(vec!["N", "T", "S"], 0..=3).prop_shuffle();
    let off = proptest::sample::subsequence(vec!["N", "T", "S", "*"], 0..=2);
    (names(), off, proptest::collection::vec(0_u32..4, 3)).prop_map(|(on, off, weights)| PluginSet {
        enabled: on
            .into_iter()
            .zip(weights)
            .map(|(name, weight)| EnabledPlugin::new(name, weight))
            .collect(),
        disabled: off.into_iter().map(str::to_owned).collect(),
    })
}

proptest! {
    #[test]
    fn merging_again_changes_nothing(defaults in any_set(), custom in any_set()) {
        let defaults = lists(PluginSet { disabled: Vec::new(), ..defaults }, &[]);
        let once = merge(&defaults, &lists(custom, &[]));
        prop_assert_eq!(&merge(&defaults, &once), &once);
    }

    #[test]
    fn merged_lists_hold_what_was_asked_for(defaults in any_set(), custom in any_set()) {
        let defaults = lists(PluginSet { disabled: Vec::new(), ..defaults }, &[]);
        let merged = merge(&defaults, &lists(custom.clone(), &[])).multi_point;
        for plugin in &custom.enabled {
            prop_assert_eq!(merged.enabled.iter().filter(|other| *other == plugin).count(), 1);
        }
        for plugin in &merged.enabled {
            let own = custom.enabled.contains(plugin);
            let default = defaults.multi_point.enabled.contains(plugin) && !custom.disables(&plugin.name);
            prop_assert!(own || default);
        }
    }

    #[test]
    fn expansion_runs_each_plugin_once_and_only_where_it_belongs(multi in any_set(), score in any_set()) {
        let multi = PluginSet { enabled: [multi.enabled, enabled("Q B")].concat(), disabled: multi.disabled };
        let plugins = lists(multi.clone(), &[(ExtensionPoint::Score, score.clone())]);
        let expanded = expand("s", &plugins, &catalogue()).unwrap();
        let names = expanded.names(ExtensionPoint::Score);
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), names.len());
        for name in ["N", "T", "S"] {
            let explicit = score.enabled.iter().find(|plugin| plugin.name == name);
            let from_multi = multi.enabled.iter().find(|plugin| plugin.name == name);
            let runs = explicit.is_some() || (from_multi.is_some() && !score.disables(name));
            prop_assert_eq!(names.contains(&name), runs, "{}", name);
            if runs {
                let weight = expanded.at(ExtensionPoint::Score).iter().find(|plugin| plugin.name == name).unwrap().weight;
                prop_assert_eq!(weight, explicit.or(from_multi).unwrap().weight.max(1));
            }
        }
    }
}
