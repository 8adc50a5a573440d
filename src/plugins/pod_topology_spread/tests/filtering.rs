//! Hard constraints.

use serde_json::json;
use supercargo_config::plugin_args::WhenUnsatisfiable;

use super::support::*;
use crate::cluster::OwnerKind;
use crate::framework::Plugin;
use crate::plugins::check::{self, built, world};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

const ALL_FIT: &str = "fits fits fits fits";

#[test]
fn pods_of_the_namespace_that_the_selector_matches_are_counted() {
    let zone = || own().spread_as(hard(1, ZONE));
    assert_eq!(codes(&zone(), &nodes(), &[]), ALL_FIT, "no pods");
    let elsewhere: Vec<_> = placed(&[("a", 3)])
        .into_iter()
        .map(|pod| pod.namespace("other"))
        .collect();
    assert_eq!(codes(&zone(), &nodes(), &elsewhere), ALL_FIT, "another namespace");
    let even = placed(&[("a", 1), ("b", 2), ("x", 3)]);
    assert_eq!(codes(&zone(), &nodes(), &even), ALL_FIT, "3 and 3");
    let uneven = placed(&[("a", 2), ("b", 1), ("y", 3)]);
    let host = |skew| own().spread_as(hard(skew, HOST));
    assert_eq!(codes(&host(1), &nodes(), &uneven), "U U fits U");
    assert_eq!(codes(&host(2), &nodes(), &uneven), "U fits fits U");
    let other = pod("p").label("app", "y").spread_as(hard(1, HOST));
    assert_eq!(
        codes(&other, &nodes(), &uneven),
        "U fits fits U",
        "the pod does not count for itself"
    );
}

#[test]
fn an_absent_selector_counts_nobody_and_an_empty_one_only_the_pod_itself() {
    let uneven = placed(&[("a", 2), ("b", 1), ("y", 3)]);
    let nothing = json!({"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"});
    let empty = with(nothing.clone(), &[("labelSelector", json!({}))]);
    assert_eq!(codes(&own().spread_as(nothing), &nodes(), &uneven), ALL_FIT);
    assert_eq!(codes(&own().spread_as(empty), &nodes(), &uneven), ALL_FIT);
}

#[test]
fn a_node_without_the_label_is_out_and_does_not_count() {
    let without = |removed: &str| {
        nodes().map(|n| {
            if n.json()["metadata"]["name"] == removed {
                node(removed)
            } else {
                n
            }
        })
    };
    let pods = placed(&[("a", 1), ("b", 1), ("y", 2)]);
    let pod = own().spread_as(hard(1, ZONE));
    assert_eq!(codes(&pod, &without("b"), &pods), "fits UU U U");
    let told = check::filter(&*spread(), &pod, &world(&without("b"), &pods));
    assert_eq!(
        told[1..3],
        [
            "UU node(s) didn't match pod topology spread constraints (missing required label)",
            "U node(s) didn't match pod topology spread constraints",
        ]
    );
    let nowhere = own().spread_as(hard(1, "rack"));
    assert_eq!(codes(&nowhere, &nodes(), &pods), "UU UU UU UU");
    let empty_value = nodes().map(|node| node.label("rack", ""));
    assert_eq!(
        codes(&nowhere, &empty_value, &[]),
        ALL_FIT,
        "an empty value is a domain"
    );
}

#[test]
fn nodes_that_the_pods_affinity_excludes_do_not_count_unless_ignored() {
    let required = |hosts: &[&str], key| own().require_node(HOST, "In", hosts).spread_as(hard(1, key));
    let uneven = placed(&[("a", 2), ("b", 1), ("y", 3)]);
    assert_eq!(
        codes(&required(&["a", "y"], HOST), &nodes(), &uneven),
        "fits fits fits U"
    );
    let pods = placed(&[("b", 2), ("y", 1)]);
    let all_but_b = required(&["a", "x", "y"], ZONE);
    assert_eq!(codes(&all_but_b, &nodes(), &pods), "fits fits U U");
    let labelled = || {
        nodes().map(|n| {
            if n.json()["metadata"]["name"] == "y" {
                n
            } else {
                n.label("disk", "ssd")
            }
        })
    };
    let selecting = |policy: &str| {
        let constraint = with(hard(1, HOST), &[("nodeAffinityPolicy", json!(policy))]);
        own().node_selector("disk", "ssd").spread_as(constraint)
    };
    let pods = placed(&[("a", 1), ("b", 1), ("y", 1)]);
    assert_eq!(codes(&selecting("Ignore"), &labelled(), &pods), "U U fits U");
    assert_eq!(codes(&selecting("Honor"), &labelled(), &pods), "U U fits fits");
}

#[test]
fn tainted_nodes_count_unless_honoured() {
    let tainted = || {
        let [a, b, x, y] = nodes();
        [a, b, x, y.taint("k", "v", "NoSchedule")]
    };
    let pods = placed(&[("a", 1), ("b", 1), ("x", 1)]);
    let honouring = || with(hard(1, HOST), &[("nodeTaintsPolicy", json!("Honor"))]);
    assert_eq!(codes(&own().spread_as(hard(1, HOST)), &tainted(), &pods), "U U U fits");
    assert_eq!(codes(&own().spread_as(honouring()), &tainted(), &pods), ALL_FIT);
    let tolerating = own().toleration("k", "Exists", "", "").spread_as(honouring());
    assert_eq!(codes(&tolerating, &tainted(), &pods), "U U U fits");
    let pods = placed(&[("a", 1), ("b", 1), ("y", 1)]);
    assert_eq!(codes(&own().spread_as(honouring()), &tainted(), &pods), "U U fits fits");
}

#[test]
fn with_too_few_domains_the_lowest_counts_as_empty() {
    let three: Vec<NodeBuilder> = ["a", "b", "c"].map(|name| node(name).label(ZONE, name)).into();
    let pods = placed(&[("a", 2), ("b", 2), ("c", 1)]);
    let at_least = |count: i32, key| own().spread_as(with(hard(2, key), &[("minDomains", json!(count))]));
    assert_eq!(codes(&at_least(4, ZONE), &three, &pods), "U U fits");
    assert_eq!(codes(&at_least(2, ZONE), &three, &pods), "fits fits fits");
    let pods = placed(&[("a", 1), ("b", 1), ("x", 1)]);
    assert_eq!(codes(&at_least(3, ZONE), &nodes(), &pods), "U U fits fits");
    let excluded = with(hard(1, ZONE), &[("minDomains", json!(1))]);
    let nobody = own().require_node(HOST, "In", &["nobody"]).spread_as(excluded);
    assert_eq!(codes(&nobody, &nodes(), &pods), ALL_FIT, "no domain at all");
}

#[test]
fn all_constraints_must_hold() {
    let both = own().spread_as(hard(1, ZONE)).spread_as(hard(1, HOST));
    let counts = |y| placed(&[("a", 2), ("b", 1), ("y", y)]);
    assert_eq!(codes(&both, &nodes(), &counts(3)), "U U fits U");
    assert_eq!(codes(&both, &nodes(), &counts(4)), "U U U U");
    let by = |label: &str| json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    let different = pod("p")
        .label("foo", "")
        .label("bar", "")
        .spread_as(with(hard(1, ZONE), &[("labelSelector", by("foo"))]))
        .spread_as(with(hard(1, HOST), &[("labelSelector", by("bar"))]));
    let mut pods = labelled("foo", "", &[("a", 1)]);
    pods.extend(labelled("bar", "", &[("a", 1), ("y", 1)]));
    assert_eq!(codes(&different, &nodes(), &pods), "U U fits U");
    let [a, b, _, y] = nodes().map(|node| {
        let name = node.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        node.label("node", &name)
    });
    let x = node("x").label(ZONE, "zone2");
    let keyed = own().spread_as(hard(1, ZONE)).spread_as(hard(1, "node"));
    assert_eq!(
        codes(&keyed, &[a, b, x, y], &placed(&[("a", 1), ("y", 1)])),
        "U fits UU U"
    );
}

#[test]
fn terminating_pods_are_not_counted_but_can_be_supposed() {
    let [gone] = &placed(&[("a", 1)])[..] else {
        panic!("one pod")
    };
    let pods = [gone.clone().terminating(), placed(&[("b", 1)]).remove(0)];
    let pod = own().spread_as(hard(1, HOST));
    let two = || nodes().into_iter().take(2).collect::<Vec<_>>();
    assert_eq!(codes(&pod, &two(), &pods), "fits U");
    let world = world(&two(), &pods);
    let plugin = spread();
    let mut state = prepared(&*plugin, &pod, &world);
    let extensions = plugin.pre_filter().unwrap().extensions().unwrap();
    let node = |name: &str| world.nodes().get(world.idx(name).unwrap()).unwrap();
    let fits = |state: &crate::framework::CycleState, name: &str| {
        let filter = plugin.filter().unwrap();
        filter
            .filter_node(&world.view(), state, &built(&pod), node(name))
            .is_success()
    };
    let supposed = built(&own().terminating().nominated("a"));
    let before = state.clone();
    assert!(
        extensions
            .add_pod(&mut state, &built(&pod), &supposed, node("a"))
            .is_success()
    );
    assert!(fits(&state, "a") && fits(&state, "b"), "one each");
    assert!(fits(&before, "a") && !fits(&before, "b"), "the copy is apart");
    assert!(
        extensions
            .remove_pod(&mut state, &built(&pod), &supposed, node("a"))
            .is_success()
    );
    assert!(fits(&state, "a") && !fits(&state, "b"));
}

#[test]
fn a_supposed_pod_counts_only_where_the_constraint_counts() {
    let plugin = spread();
    let pod = own()
        .require_node(HOST, "In", &["b", "x", "y"])
        .spread_as(hard(1, HOST));
    let world = world(&nodes(), &[]);
    let extensions = plugin.pre_filter().unwrap().extensions().unwrap();
    let after = |other: &PodBuilder, name: &str| {
        let mut state = prepared(&*plugin, &pod, &world);
        for _ in 0..2 {
            let node = world.nodes().get(world.idx(name).unwrap()).unwrap();
            assert!(
                extensions
                    .add_pod(&mut state, &built(&pod), &built(other), node)
                    .is_success()
            );
        }
        let filter = plugin.filter().unwrap();
        let nodes = world.nodes().iter();
        nodes
            .map(|node| {
                filter
                    .filter_node(&world.view(), &state, &built(&pod), node)
                    .is_success()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(after(&own(), "b"), [true, false, true, true]);
    assert_eq!(after(&own(), "a"), [true; 4], "excluded by the pod's affinity");
    assert_eq!(after(&own().namespace("other"), "b"), [true; 4]);
    assert_eq!(after(&crate::testing::pod("q"), "b"), [true; 4]);
}

#[test]
fn own_values_of_match_label_keys_join_the_selector() {
    let constraint = with(hard(1, HOST), &[("matchLabelKeys", json!(["hash", "absent"]))]);
    let pod = own().label("hash", "v2").spread_as(constraint.clone());
    let old: Vec<_> = placed(&[("a", 2), ("b", 2), ("x", 1)])
        .into_iter()
        .map(|pod| pod.label("hash", "v1"))
        .collect();
    assert_eq!(codes(&pod, &nodes(), &old), ALL_FIT, "only pods of the same hash count");
    assert_eq!(
        codes(&own().spread_as(constraint), &nodes(), &old),
        "U U U fits",
        "a key that the pod lacks is ignored"
    );
    let without =
        json!({"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]});
    assert_eq!(
        codes(&own().spread_as(without.clone()), &nodes(), &old),
        ALL_FIT,
        "an absent selector stays so"
    );
    let empty = with(without, &[("labelSelector", json!({}))]);
    assert_eq!(
        codes(&own().spread_as(empty), &nodes(), &old),
        "U U U fits",
        "an empty one becomes app=x"
    );
}

#[test]
fn pods_without_hard_constraints_are_none_of_its_business() {
    for pod in [own(), own().spread_as(soft(1, ZONE))] {
        assert_eq!(codes(&pod, &nodes(), &[]), "skip");
    }
}

#[test]
fn a_wrong_selector_fails_the_cycle() {
    let wrong = |when| {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]});
        own().spread_as(with(constraint(when, 1, ZONE), &[("labelSelector", selector)]))
    };
    let told = check::filter(&*spread(), &wrong("DoNotSchedule"), &world(&nodes(), &[]));
    assert!(
        told[0].starts_with("E get constraints from pod: obtaining pod's hard topology spread constraints: "),
        "{told:?}"
    );
    let told = check::scores(&*spread(), &wrong("ScheduleAnyway"), &world(&nodes(), &[]));
    let error = told.unwrap_err();
    assert!(
        error.contains("calculating preScoreState: obtaining pod's soft topology spread constraints: "),
        "{error}"
    );
}

#[test]
fn hard_defaults_take_the_selector_of_whatever_owns_the_pod() {
    let plugin = spread_by_default(&[HOST], WhenUnsatisfiable::DoNotSchedule);
    let world = world(&nodes(), &placed(&[("a", 1), ("b", 1), ("y", 1)]));
    let says = |pod: &PodBuilder| codes_in(&*plugin, pod, &world);
    assert_eq!(says(&own()), "skip", "no owner");
    put_service(&world, "everybody", Some(&[]));
    put_service(&world, "nobody", None);
    assert_eq!(says(&own()), "skip", "a Service without pairs adds nothing");
    let owned = own().owned_by("apps/v1", "ReplicaSet", "rs");
    assert_eq!(says(&owned), "skip", "an owner that is not there");
    put_owner(&world, OwnerKind::ReplicaSet, "rs", &[("app", "x")]);
    assert_eq!(says(&owned), "U U fits U");
    let foreign = pod("p").label("app", "z").owned_by("apps/v1", "ReplicaSet", "rs");
    assert_eq!(says(&foreign), ALL_FIT, "the pod itself does not match");
    assert_eq!(
        says(&own().owned_by("batch/v1", "Job", "rs")),
        "skip",
        "an owner of another kind"
    );
    assert_eq!(
        says(&own().owned_by("apps/v1beta1", "ReplicaSet", "rs")),
        "skip",
        "another version"
    );
    put_service(&world, "web", Some(&[("app", "x")]));
    assert_eq!(says(&own()), "U U fits U");
    put_owner(&world, OwnerKind::ReplicationController, "rc", &[("app", "q")]);
    let replicated = own().owned_by("v1", "ReplicationController", "rc");
    assert_eq!(
        says(&replicated),
        ALL_FIT,
        "a replication controller's map goes over the Services'"
    );
    put_owner(&world, OwnerKind::StatefulSet, "set", &[("app", "q")]);
    let stateful = own().owned_by("apps/v1", "StatefulSet", "set");
    assert_eq!(says(&stateful), ALL_FIT, "both must hold");
    let own_constraint = owned.spread_as(soft(1, ZONE));
    assert_eq!(
        says(&own_constraint),
        "skip",
        "any constraint of its own replaces the defaults"
    );
}

#[test]
fn defaults_cannot_apply_to_a_pod_without_labels_and_controller() {
    let plugin: &dyn Plugin = &*spread();
    let applies = |pod: &PodBuilder| plugin.applies_to(&built(pod));
    assert!(!applies(&pod("p")));
    assert!(applies(&own()) && applies(&pod("p").owned_by("apps/v1", "ReplicaSet", "rs")));
    assert!(applies(&pod("p").spread_as(soft(1, ZONE))));
    let none = spread_by_default(&[], WhenUnsatisfiable::DoNotSchedule);
    assert!(!none.applies_to(&built(&own())) && none.applies_to(&built(&own().spread_as(hard(1, ZONE)))));
}
