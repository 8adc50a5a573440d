//! Filter and prioritise.

use serde_json::{Value, json};

use super::kit::*;
use crate::framework::{Code, Status};
use crate::ids::Symbol;
use crate::testing::{node, pod};

#[tokio::test]
async fn names_are_sent_to_who_knows_the_nodes_and_survivors_are_kept_in_order() {
    let hook = Webhook::start(|_, _| {
        Reply::Json(json!({
            "nodenames": ["c", "a", "a"],
            "FailedNodes": {"b": "too small", "d": "no", "never-seen": "x"},
            "FailedAndUnresolvableNodes": {"d": "no such card"},
        }))
    })
    .await;
    let extenders = extenders(&[filtering(&hook.url)]);
    let pod = with_text(&pod("p").cpu(100));
    let question = question(&extenders, &pod, &["a", "b", "c", "d"]);
    let answer = extenders.decide(&question).await;
    assert_eq!(passed(&question, &answer), [("a", 0), ("c", 0)]);
    assert!(answer.turned_away() && answer.failure.is_none());
    let said = |name: &str, code, text: &str| (Symbol::new(name), Status::new(code, text.to_owned()));
    assert_eq!(
        answer.rejections,
        [
            said("d", Code::UnschedulableAndUnresolvable, "no such card"),
            said("b", Code::Unschedulable, "too small"),
        ]
    );
    let (verb, sent) = hook.calls().remove(0);
    assert_eq!(verb, "filter");
    assert_eq!(sent["NodeNames"], json!(["a", "b", "c", "d"]));
    assert_eq!(sent["Nodes"], Value::Null);
    assert_eq!(
        sent["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        "100m"
    );
    assert_eq!(sent["Pod"].get("kind"), None);
}

#[tokio::test]
async fn whole_nodes_are_sent_to_who_does_not_know_them_and_come_back_as_the_extender_says() {
    let hook = Webhook::start(|_, question| {
        let mut nodes = question["Nodes"].clone();
        let items = nodes["items"].as_array_mut().unwrap();
        items.remove(0);
        items[0]["metadata"]["labels"]["added"] = json!("yes");
        Reply::Json(json!({"Nodes": nodes, "NodeNames": null}))
    })
    .await;
    let mut config = filtering(&hook.url);
    config.node_cache_capable = false;
    let extenders = extenders(&[config]);
    let pod = with_text(&pod("p"));
    let mut question = question(&extenders, &pod, &["a"]);
    let builder = node("b").field(&["status", "nodeInfo", "kernelVersion"], "6.1");
    question.nodes.push(asked(1, &builder));
    let answer = extenders.decide(&question).await;
    assert_eq!(passed(&question, &answer), [("b", 0)]);
    let (_, sent) = hook.calls().remove(0);
    assert_eq!(sent["NodeNames"], Value::Null);
    assert_eq!(sent["Nodes"]["items"][1]["status"]["nodeInfo"]["kernelVersion"], "6.1");
    let object = answer.nodes[&question.nodes[1].idx].object.clone().unwrap();
    assert_eq!(object.labels.get(Symbol::new("added")), Some(Symbol::new("yes")));
}

#[tokio::test]
async fn who_does_not_know_the_nodes_cannot_answer_with_names() {
    let hook = Webhook::start(|_, _| names(&["a"])).await;
    let mut config = filtering(&hook.url);
    config.node_cache_capable = false;
    let extenders = extenders(&[config]);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b"]);
    let answer = extenders.decide(&question).await;
    assert!(passed(&question, &answer).is_empty() && answer.failure.is_none());
}

#[tokio::test]
async fn who_knows_the_nodes_may_answer_with_nodes() {
    let hook = Webhook::start(|_, _| Reply::Json(json!({"Nodes": {"Items": [{"Metadata": {"NAME": "b"}}]}}))).await;
    let extenders = extenders(&[filtering(&hook.url)]);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b"]);
    let answer = extenders.decide(&question).await;
    assert_eq!(passed(&question, &answer), [("b", 0)]);
}

#[tokio::test]
async fn each_is_asked_about_the_survivors_and_none_about_nothing() {
    let first = Webhook::start(|_, _| names(&["a", "b"])).await;
    let second = Webhook::start(|_, _| Reply::Json(json!({"FailedNodes": {"a": "2nd", "b": "2nd"}}))).await;
    let third = Webhook::start(|_, _| names(&["a"])).await;
    let configs = [&first, &second, &third].map(|hook| filtering(&hook.url));
    let extenders = extenders(&configs);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b", "c"]);
    let answer = extenders.decide(&question).await;
    assert!(passed(&question, &answer).is_empty());
    assert_eq!(second.calls()[0].1["NodeNames"], json!(["a", "b"]));
    assert!(third.calls().is_empty());
    assert_eq!(answer.rejections.len(), 2);
}

#[tokio::test]
async fn the_ignorable_are_asked_last_and_passed_over_when_they_fail() {
    let order = std::sync::Arc::new(crate::sync::Mutex::new(Vec::new()));
    let noting = |name: &'static str, reply: fn() -> Reply| {
        let order = std::sync::Arc::clone(&order);
        Webhook::start(move |_, _| {
            order.lock().push(name);
            reply()
        })
    };
    let ignorable = noting("ignorable", || Reply::Json(json!({"Error": "out of order"}))).await;
    let needed = noting("needed", || names(&["a", "b"])).await;
    let mut first = filtering(&ignorable.url);
    first.ignorable = true;
    let extenders = extenders(&[first, filtering(&needed.url)]);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b", "c"]);
    let answer = extenders.decide(&question).await;
    assert_eq!(*order.lock(), ["needed", "ignorable"]);
    assert_eq!(passed(&question, &answer), [("a", 0), ("b", 0)]);
}

#[tokio::test]
async fn a_node_that_was_not_asked_about_is_refused() {
    for reply in [
        json!({"NodeNames": ["a", "elsewhere"]}),
        json!({"Nodes": {"items": [{"metadata": {"name": "elsewhere"}}]}}),
        json!({"Nodes": {"items": [null]}}),
    ] {
        let hook = Webhook::start(move |_, _| Reply::Json(reply.clone())).await;
        let extenders = extenders(&[filtering(&hook.url)]);
        let question = question(&extenders, &with_text(&pod("p")), &["a", "b"]);
        let failure = extenders.decide(&question).await.failure.unwrap().message();
        assert!(
            failure.contains("which is not found in the input node list"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn scores_are_weighted_added_up_and_bounded() {
    let first = Webhook::start(|_, _| scores(&[("a", 3), ("b", 10), ("nobody", 10)])).await;
    let second = Webhook::start(|_, _| scores(&[("b", 1), ("b", 1), ("c", i64::MAX)])).await;
    let failing = Webhook::start(|_, _| Reply::Text(500, String::new())).await;
    let extenders = extenders(&[
        prioritizing(&first.url, 2),
        prioritizing(&second.url, 5),
        prioritizing(&failing.url, 1),
    ]);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b", "c", "d"]);
    let answer = extenders.decide(&question).await;
    assert!(answer.failure.is_none(), "a prioritiser that fails is passed over");
    assert_eq!(
        passed(&question, &answer),
        [("a", 60), ("b", 300), ("c", i64::MAX), ("d", 0)]
    );
    assert_eq!(failing.verbs(), ["prioritize"]);
}

#[tokio::test]
async fn a_single_survivor_is_not_scored() {
    let hook = Webhook::start(|verb, _| if verb == "filter" { names(&["b"]) } else { scores(&[]) }).await;
    let mut config = filtering(&hook.url);
    config.prioritize_verb = "prioritize".to_owned();
    let extenders = extenders(&[config]);
    let question = question(&extenders, &with_text(&pod("p")), &["a", "b"]);
    let answer = extenders.decide(&question).await;
    assert_eq!(passed(&question, &answer), [("b", 0)]);
    assert_eq!(hook.verbs(), ["filter"]);
}

#[tokio::test]
async fn interest_follows_from_any_mention_of_a_managed_resource() {
    let card = "example.com/card";
    let extenders = extenders(&[managing(filtering("http://localhost:1"), &[card])]);
    let limit_of_init = json!([{"name": "i", "resources": {"limits": {card: "1"}}}]);
    for (pod, interested) in [
        (pod("none").cpu(100), false),
        (pod("zero").request(card, "0"), true),
        (pod("second").container(&[(card, "1")]), true),
        (pod("limit").field(&["spec", "initContainers"], limit_of_init), true),
        (pod("overhead").overhead(card, "1"), false),
        (pod("other").request("example.com/other", "1"), false),
    ] {
        let info = with_text(&pod);
        assert_eq!(extenders.interest(&info).is_some(), interested, "{}", info.name);
        let text = info.text.as_deref().unwrap();
        assert_eq!(extenders.want_pod(&info, text), interested, "{}", info.name);
    }
    let bound = with_text(&pod("bound").request(card, "1").on("n"));
    assert!(!extenders.want_pod(&bound, bound.text.as_deref().unwrap()));
    assert!(!extenders.want_nodes());
}

#[test]
fn texts_are_kept_for_those_who_want_whole_objects() {
    let mut filter = filtering("http://localhost:1");
    filter.node_cache_capable = false;
    assert!(extenders(&[filter]).want_nodes());
    let mut preempt = extender("http://localhost:1");
    preempt.preempt_verb = "preempt".to_owned();
    preempt.node_cache_capable = false;
    let whole = extenders(&[managing(preempt.clone(), &["example.com/card"])]);
    let bound = with_text(&pod("bound").on("n"));
    assert!(
        whole.want_pod(&bound, bound.text.as_deref().unwrap()),
        "it may be a victim"
    );
    assert!(!whole.want_nodes());
    preempt.node_cache_capable = true;
    assert!(!extenders(&[preempt]).want_pod(&bound, bound.text.as_deref().unwrap()));
}

#[tokio::test]
async fn a_pod_whose_object_is_not_at_hand_is_an_error() {
    let hook = Webhook::start(|_, _| names(&["a"])).await;
    let extenders = extenders(&[filtering(&hook.url)]);
    let question = question(&extenders, &pod("p").build(), &["a"]);
    let failure = extenders.decide(&question).await.failure.unwrap().message();
    assert!(
        failure.contains("the object of pod default/p is not at hand"),
        "{failure}"
    );
    assert!(hook.calls().is_empty());
}
