//! Preempt and bind.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use supercargo_config::extender::Extender as ExtenderConfig;

use super::kit::*;
use crate::cluster::{Budget, PodInfo, PodLister};
use crate::extender::{Extenders, VictimsAnswer, VictimsQuestion};
use crate::ids::{NodeIdx, Symbol};
use crate::preemption::Candidate;
use crate::testing::pod;

/// Pods by node.
#[derive(Default)]
struct OnNodes(FxHashMap<NodeIdx, Vec<Arc<PodInfo>>>);

impl PodLister for OnNodes {
    fn on_node(&self, node: NodeIdx) -> Vec<Arc<PodInfo>> {
        self.0.get(&node).cloned().unwrap_or_default()
    }

    fn nominated_to(&self, _: NodeIdx) -> Vec<Arc<PodInfo>> {
        Vec::new()
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        Vec::new()
    }
}

/// Two nodes with pods `n0-a`, `n0-b`, `n1-a`, `n1-b`; the candidates would evict the first of each.
fn scene() -> (OnNodes, Vec<Candidate>) {
    let mut on_nodes = OnNodes::default();
    let mut candidates = Vec::new();
    for at in 0..2 {
        let pods: Vec<_> = ["a", "b"]
            .map(|letter| with_text(&pod(&format!("n{at}-{letter}")).uid(&format!("uid-n{at}-{letter}"))))
            .into();
        candidates.push(Candidate {
            node: NodeIdx(at),
            name: Symbol::new(&format!("n{at}")),
            victims: vec![Arc::clone(&pods[0])],
            version: 0,
            pdb_violations: at as usize,
        });
        on_nodes.0.insert(NodeIdx(at), pods);
    }
    (on_nodes, candidates)
}

fn preempting(url: &str) -> ExtenderConfig {
    ExtenderConfig {
        preempt_verb: "preempt".to_owned(),
        ..extender(url)
    }
}

async fn choose(extenders: &Extenders) -> VictimsAnswer {
    let (on_nodes, candidates) = scene();
    let pod = with_text(&pod("p"));
    let question = VictimsQuestion {
        interest: extenders.interest(&pod).unwrap(),
        pod,
        candidates,
    };
    extenders.choose_victims(&question, &on_nodes).await
}

/// What is left, by node.
fn left(answer: &VictimsAnswer) -> Vec<(&'static str, usize, usize)> {
    let answers = answer.0.as_ref().unwrap();
    let mut left: Vec<_> = answers
        .iter()
        .map(|(name, victims)| (name.as_str(), victims.pods.len(), victims.pdb_violations))
        .collect();
    left.sort_unstable();
    left
}

fn victims(of: &[(&str, &[&str])]) -> Value {
    let pods = |uids: &[&str]| uids.iter().map(|uid| json!({"UID": uid})).collect::<Vec<_>>();
    let nodes = of
        .iter()
        .map(|(node, uids)| ((*node).to_owned(), json!({"Pods": pods(uids), "NumPDBViolations": 7})));
    json!({"NodeNameToMetaVictims": Value::Object(nodes.collect())})
}

#[tokio::test]
async fn uids_are_sent_to_who_knows_the_pods_and_victims_may_be_changed() {
    let hook = Webhook::start(|_, _| Reply::Json(victims(&[("n1", &["uid-n1-b", "uid-n1-a"])]))).await;
    let extenders = extenders(&[preempting(&hook.url)]);
    let answer = choose(&extenders).await;
    assert_eq!(left(&answer), [("n1", 2, 7)]);
    let (verb, sent) = hook.calls().remove(0);
    assert_eq!(verb, "preempt");
    assert_eq!(sent["NodeNameToVictims"], Value::Null);
    assert_eq!(
        sent["NodeNameToMetaVictims"],
        json!({
            "n0": {"Pods": [{"UID": "uid-n0-a"}], "NumPDBViolations": 0},
            "n1": {"Pods": [{"UID": "uid-n1-a"}], "NumPDBViolations": 1},
        })
    );
}

#[tokio::test]
async fn whole_pods_are_sent_to_who_does_not_know_them() {
    let hook = Webhook::start(|_, _| Reply::Json(json!({}))).await;
    let mut config = preempting(&hook.url);
    config.node_cache_capable = false;
    let answer = choose(&extenders(&[config])).await;
    assert!(left(&answer).is_empty(), "no node is left");
    let (_, sent) = hook.calls().remove(0);
    assert_eq!(sent["NodeNameToMetaVictims"], Value::Null);
    assert_eq!(sent["NodeNameToVictims"]["n0"]["Pods"][0]["metadata"]["name"], "n0-a");
}

#[tokio::test]
async fn each_is_asked_about_what_the_last_left_and_none_about_nothing() {
    let all = Webhook::start(|_, _| Reply::Json(victims(&[("n0", &["uid-n0-a"]), ("n1", &["uid-n1-a"])]))).await;
    let one = Webhook::start(|_, _| Reply::Json(victims(&[("n1", &["uid-n1-a"])]))).await;
    let none = Webhook::start(|_, _| Reply::Json(victims(&[]))).await;
    let last = Webhook::start(|_, _| Reply::Hang).await;
    let answer = choose(&extenders(&[preempting(&all.url), preempting(&one.url)])).await;
    assert_eq!(left(&answer), [("n1", 1, 7)]);
    assert_eq!(one.calls()[0].1["NodeNameToMetaVictims"]["n0"]["NumPDBViolations"], 7);
    let answer = choose(&extenders(&[preempting(&none.url), preempting(&last.url)])).await;
    assert!(left(&answer).is_empty() && last.calls().is_empty());
}

#[tokio::test]
async fn lies_about_victims_are_errors_and_ignorable_liars_are_passed_over() {
    let cases = [
        (victims(&[("n9", &["uid-n0-a"])]), "claims victims on node \"n9\""),
        (
            victims(&[("n0", &["uid-n1-a"])]),
            "claims to preempt pod (UID: uid-n1-a) on node: n0, but the pod is not found on that node",
        ),
        (
            victims(&[("n0", &[])]),
            "expected at least one victim pod on node \"n0\"",
        ),
        (
            json!({"NodeNameToMetaVictims": {"n0": null}}),
            "expected at least one victim pod on node \"n0\"",
        ),
    ];
    for (reply, expected) in cases {
        let hook = Webhook::start(move |_, _| Reply::Json(reply.clone())).await;
        let mut config = preempting(&hook.url);
        let failure = choose(&extenders(&[config.clone()])).await.0.unwrap_err().message();
        assert!(failure.contains(expected), "{failure}");
        config.ignorable = true;
        let answer = choose(&extenders(&[config])).await;
        // Who names no victim says that the node is no candidate; anything else is no answer at all.
        let count = if expected.starts_with("expected") { 0 } else { 2 };
        assert_eq!(left(&answer).len(), count, "{expected}");
    }
}

#[tokio::test]
async fn binders_are_those_with_the_verb_that_are_interested() {
    let hook = Webhook::start(|_, question| {
        if question["Node"] == "full" {
            Reply::Json(json!({"error": "no room"}))
        } else {
            Reply::Json(json!({}))
        }
    })
    .await;
    let mut config = managing(extender(&hook.url), &["example.com/card"]);
    config.bind_verb = "bind".to_owned();
    let extenders = extenders(&[filtering(&hook.url), config]);
    assert!(!extenders.bind(&with_text(&pod("plain"))));
    let pod = with_text(&pod("p").uid("u").request("example.com/card", "1"));
    let binder = extenders.binders(&pod).next().unwrap();
    assert_eq!(binder.bind(&pod, Symbol::new("n1")).await, Ok(()));
    assert_eq!(
        hook.calls(),
        [(
            "bind".to_owned(),
            json!({"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n1"})
        )]
    );
    let error = binder.bind(&pod, Symbol::new("full")).await.unwrap_err();
    assert_eq!((error.text.as_str(), error.is_unsure), ("no room", true));
}
