use serde_json::{Value, json};
use supercargo_config::PluginArgs;
use supercargo_config::selectors::{
    NodeAffinity as AffinityArgs, NodeSelector, NodeSelectorOperator, PreferredSchedulingTerm,
};

use super::*;
use crate::framework::EventObject;
use crate::framework::QueueingHint::{Queue, QueueSkip};
use crate::plugins::check::{self, node_event, plugin, plugin_with, world};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

const REQUIRED: [&str; 4] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
];
const NO_MATCH: &str = "UU node(s) didn't match Pod's node affinity/selector";

fn affinity() -> Arc<dyn Plugin> {
    plugin("NodeAffinity")
}

fn requiring(terms: &[Value]) -> PodBuilder {
    pod("p").field(&REQUIRED, json!({"nodeSelectorTerms": terms}))
}

fn foo_bar() -> NodeBuilder {
    node("node1").label("foo", "bar")
}

fn told(pod: &PodBuilder) -> String {
    check::filter(&*affinity(), pod, &world(&[foo_bar()], &[])).join("; ")
}

fn is(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn terms_are_alternatives_of_requirements_that_all_hold() {
    let yes = is("foo", "In", &["bar"]);
    let no = is("foo", "In", &["other"]);
    let table = [
        (pod("p").node_selector("foo", "bar"), "fits"),
        (pod("p").node_selector("foo", "x"), NO_MATCH),
        (requiring(&[json!({"matchExpressions": []})]), NO_MATCH),
        (requiring(&[]), NO_MATCH),
        (
            requiring(&[json!({"matchExpressions": [no]}), json!({"matchExpressions": [yes]})]),
            "fits",
        ),
        (requiring(&[json!({"matchExpressions": [yes, no]})]), NO_MATCH),
        (
            requiring(&[json!({"matchExpressions": [yes]})]).node_selector("foo", "x"),
            NO_MATCH,
        ),
        (
            requiring(&[json!({"matchExpressions": [is("foo", "NotIn", &["{bad}"])]})]),
            NO_MATCH,
        ),
        (
            requiring(&[json!({"matchExpressions": [is("new", "DoesNotExist", &[])]})]),
            "fits",
        ),
        (pod("p"), "skip"),
        (pod("p").field(&["spec", "affinity", "nodeAffinity"], json!({})), "skip"),
    ];
    for (pod, expected) in table {
        assert_eq!(told(&pod), expected, "{}", pod.json());
    }
}

fn named(names: &[&str]) -> Value {
    is("metadata.name", "In", names)
}

#[test]
fn node_names_narrow_the_search() {
    let narrowed = |terms: &[Value]| check::narrowed(&*affinity(), &requiring(terms));
    let one = json!({"matchFields": [named(&["node1"])], "matchExpressions": [is("foo", "In", &["bar"])]});
    assert_eq!(narrowed(std::slice::from_ref(&one)), Some(vec!["node1"]));
    assert_eq!(
        narrowed(&[one.clone(), json!({"matchExpressions": [is("a", "Exists", &[])]})]),
        None
    );
    assert_eq!(
        narrowed(&[json!({"matchFields": [named(&["node2"])]}), one]),
        Some(vec!["node1", "node2"])
    );
    let conflict = json!({"matchFields": [named(&["node1"]), named(&["node2"])]});
    assert_eq!(told(&requiring(&[conflict])), "UU pod affinity terms conflict");
}

fn scores(plugin: &dyn Plugin, pod: &PodBuilder, nodes: &[NodeBuilder]) -> Vec<i64> {
    check::scores(plugin, pod, &world(nodes, &[])).unwrap()
}

#[test]
fn weights_of_preferred_terms_add_up() {
    let all = json!({"weight": 5, "preference": {"matchExpressions": [
        is("foo", "In", &["bar"]), is("key", "In", &["value"]), is("az", "In", &["az1"]),
    ]}});
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ];
    let pod = pod("p").field(
        &path,
        json!([
            {"weight": 2, "preference": {"matchExpressions": [is("foo", "In", &["bar"])]}},
            {"weight": 4, "preference": {"matchExpressions": [is("key", "In", &["value"])]}},
            all,
        ]),
    );
    let nodes = [
        node("a").label("foo", "bar"),
        node("b").label("foo", "bar").label("key", "value").label("az", "az1"),
        node("c").label("key", "value"),
    ];
    assert_eq!(scores(&*affinity(), &pod, &nodes), [18, 100, 36]);
}

#[test]
fn without_preferred_terms_there_is_no_score_and_a_wrong_one_fails() {
    assert_eq!(scores(&*affinity(), &pod("p"), &[node("a")]), [] as [i64; 0]);
    let wrong = pod("p").prefer_node(1, "a b", "In", &["x"]);
    let failed = check::scores(&*affinity(), &wrong, &world(&[node("a")], &[]));
    assert!(failed.unwrap_err().starts_with("E "));
}

fn added(required: Option<(&str, &str)>, preferred: &[(i32, &str, &str)]) -> PluginArgs {
    let term = |key: &str, value: &str| TermArgs {
        match_expressions: vec![NodeSelectorRequirement {
            key: key.to_owned(),
            operator: NodeSelectorOperator::In,
            values: vec![value.to_owned()],
        }],
        match_fields: Vec::new(),
    };
    let preferred = preferred.iter().map(|(weight, key, value)| PreferredSchedulingTerm {
        weight: *weight,
        preference: term(key, value),
    });
    PluginArgs::NodeAffinity(NodeAffinityArgs {
        added_affinity: Some(AffinityArgs {
            required_during_scheduling_ignored_during_execution: required.map(|(key, value)| NodeSelector {
                node_selector_terms: vec![term(key, value)],
            }),
            preferred_during_scheduling_ignored_during_execution: preferred.collect(),
        }),
    })
}

#[test]
fn added_affinity_holds_for_every_pod() {
    let plugin = plugin_with("NodeAffinity", &added(Some(("zone", "a")), &[(3, "key", "value")]));
    let nodes = world(&[foo_bar(), node("in-zone").label("zone", "a")], &[]);
    assert_eq!(
        check::filter(&*plugin, &pod("p"), &nodes),
        ["UU node(s) didn't match scheduler-enforced node affinity", "fits"]
    );
    let prefers = pod("p").prefer_node(2, "foo", "In", &["bar"]);
    let nodes = [
        node("a").label("foo", "bar"),
        node("b").label("key", "value"),
        node("c").label("foo", "bar").label("key", "value"),
    ];
    assert_eq!(scores(&*plugin, &prefers, &nodes), [40, 60, 100]);
}

#[test]
fn wrong_added_affinity_is_refused_at_the_start() {
    let error = check::make("NodeAffinity", Some(&added(Some(("a b", "x")), &[])))
        .err()
        .unwrap();
    assert!(error.contains("required term 0"), "{error}");
    let error = check::make("NodeAffinity", Some(&added(None, &[(1, "k", "{bad}")])))
        .err()
        .unwrap();
    assert!(error.contains("preferred term 0"), "{error}");
}

#[test]
fn a_node_that_begins_to_match_is_worth_another_try() {
    let pending = pod("p").node_selector("foo", "bar");
    let after = |old: Option<&NodeBuilder>, new: &NodeBuilder| {
        let event: EventObject = node_event(old, new);
        let action = if old.is_some() {
            ActionType::UPDATE_NODE_LABEL
        } else {
            ActionType::ADD
        };
        check::hint(&*affinity(), &pending, EventResource::Node, action, &event)
    };
    let without = node("node1");
    assert_eq!(after(None, &foo_bar()), Some(Queue));
    assert_eq!(after(None, &without), Some(QueueSkip));
    assert_eq!(after(Some(&without), &foo_bar()), Some(Queue));
    assert_eq!(after(Some(&foo_bar()), &without), Some(QueueSkip));
    assert_eq!(after(Some(&foo_bar()), &foo_bar().label("x", "y")), Some(QueueSkip));
}
