//! Which events are worth another try.

use serde_json::json;
use supercargo_config::plugin_args::WhenUnsatisfiable;

use super::support::*;
use crate::framework::QueueingHint::{self, Queue, QueueSkip};
use crate::framework::{ActionType, EventObject, EventResource, Plugin};
use crate::plugins::check::{built, deleted, hint, updated};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

fn added(pod: &PodBuilder) -> EventObject {
    EventObject::Pod {
        old: None,
        new: Some(built(pod)),
    }
}

fn after_pod(plugin: &dyn Plugin, pod: &PodBuilder, action: ActionType, event: &EventObject) -> QueueingHint {
    hint(plugin, pod, EventResource::AssignedPod, action, event).expect("a registered event")
}

fn after_node(pod: &PodBuilder, old: Option<&NodeBuilder>, new: Option<&NodeBuilder>) -> QueueingHint {
    let event = EventObject::Node {
        old: old.map(NodeBuilder::build),
        new: new.map(NodeBuilder::build),
    };
    let action = match (old, new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => ActionType::UPDATE_NODE_LABEL,
    };
    hint(&*spread(), pod, EventResource::Node, action, &event).expect("a registered event")
}

#[test]
fn pods_that_count_are_worth_another_try() {
    let plugin = spread();
    let waiting = own().spread_as(hard(1, ZONE));
    let other = |name: &str| pod(name).label("app", "x");
    let table = [
        (added(&other("q").on("a")), Queue),
        (added(&other("q").nominated("a")), Queue),
        (added(&other("q")), QueueSkip),
        (added(&other("q").namespace("other").on("a")), QueueSkip),
        (added(&pod("q").label("app", "y").on("a")), QueueSkip),
        (deleted(&other("q").on("a")), Queue),
        (deleted(&pod("q").on("a")), QueueSkip),
    ];
    for (event, expected) in table {
        assert_eq!(
            after_pod(&*plugin, &waiting, ActionType::ADD, &event),
            expected,
            "{event:?}"
        );
    }
    let soft_only = own().spread_as(soft(1, ZONE));
    assert_eq!(
        after_pod(&*plugin, &soft_only, ActionType::ADD, &added(&other("q").on("a"))),
        QueueSkip
    );
}

#[test]
fn a_label_matters_when_the_selector_matches_no_longer_or_now() {
    let plugin = spread();
    let exists = json!({"matchExpressions": [{"key": "foo", "operator": "Exists"}]});
    let waiting = pod("p")
        .label("foo", "")
        .spread_as(with(hard(1, ZONE), &[("labelSelector", exists)]));
    let with_label = |value: Option<&str>| {
        let q = pod("q").on("a");
        match value {
            Some(value) => q.label("foo", value),
            None => q,
        }
    };
    let after = |old: Option<&str>, new: Option<&str>| {
        let event = updated(&with_label(old), &with_label(new));
        after_pod(&*plugin, &waiting, ActionType::UPDATE_POD_LABEL, &event)
    };
    assert_eq!(after(Some("1"), Some("2")), QueueSkip, "it matches before and after");
    assert_eq!((after(Some("1"), None), after(None, Some("1"))), (Queue, Queue));
    assert_eq!(after(None, None), QueueSkip);
}

#[test]
fn a_toleration_matters_when_taints_are_honoured() {
    let plugin = spread();
    let waiting = |policy: &str| own().spread_as(with(hard(1, ZONE), &[("nodeTaintsPolicy", json!(policy))]));
    let after = |policy: &str, name: &str| {
        let old = pod(name).label("app", "x");
        let event = updated(&old, &old.clone().toleration("k", "Exists", "", ""));
        after_pod(&*plugin, &waiting(policy), ActionType::UPDATE_POD_TOLERATION, &event)
    };
    assert_eq!(
        (after("Honor", "p"), after("Ignore", "p"), after("Honor", "q")),
        (Queue, QueueSkip, QueueSkip)
    );
}

#[test]
fn nodes_with_all_labels_matter() {
    let waiting = own().spread_as(hard(1, ZONE)).spread_as(hard(1, "rack"));
    let both = || node("n").label(ZONE, "z").label("rack", "r");
    let one = || node("n").label(ZONE, "z");
    assert_eq!(
        (
            after_node(&waiting, None, Some(&both())),
            after_node(&waiting, None, Some(&one()))
        ),
        (Queue, QueueSkip)
    );
    assert_eq!(
        (
            after_node(&waiting, Some(&both()), None),
            after_node(&waiting, Some(&one()), None)
        ),
        (Queue, QueueSkip)
    );
    let table = [
        (both(), both().label("other", "v"), QueueSkip),
        (both(), both().label("rack", "s"), Queue),
        (one(), both(), Queue),
        (both(), one(), Queue),
        (one(), one().label(ZONE, "y"), QueueSkip),
        (both(), both().taint("k", "v", "NoSchedule"), Queue),
        (one(), one().taint("k", "v", "NoSchedule"), QueueSkip),
    ];
    for (old, new, expected) in table {
        assert_eq!(
            after_node(&waiting, Some(&old), Some(&new)),
            expected,
            "{} -> {}",
            old.json(),
            new.json()
        );
    }
}

#[test]
fn with_hard_defaults_every_pod_nearby_may_matter() {
    let plugin = spread_by_default(&[ZONE], WhenUnsatisfiable::DoNotSchedule);
    let other = pod("q").label("app", "y");
    let after = |event: &EventObject| after_pod(&*plugin, &own(), ActionType::ADD, event);
    assert_eq!(after(&added(&other.clone().on("a"))), Queue);
    assert_eq!(after(&added(&other)), QueueSkip);
    assert_eq!(
        after(&updated(&other.clone().on("a"), &other.on("a"))),
        QueueSkip,
        "nothing changed"
    );
}

#[test]
fn an_object_of_another_kind_or_a_wrong_selector_is_an_error() {
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Like"}]});
    let wrong = own().spread_as(with(hard(1, ZONE), &[("labelSelector", selector)]));
    let events = spread().events().unwrap();
    for registered in events {
        let hint = registered.hint.unwrap();
        assert!(hint(&built(&own()), &EventObject::None).is_err());
        let (pod_event, node_event) = (
            added(&own().on("a")),
            EventObject::Node {
                old: None,
                new: Some(node("n").build()),
            },
        );
        assert!(hint(&built(&wrong), &pod_event).is_err() && hint(&built(&wrong), &node_event).is_err());
    }
}
