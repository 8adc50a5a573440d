use super::*;
use crate::framework::QueueingHint::{self, Queue, QueueSkip};
use crate::framework::{ActionType, EventObject, EventResource};
use crate::plugins::check::{deleted, hint, node_event, updated};
use crate::testing::{NodeBuilder, node, pod};

fn after(p: &PodBuilder, action: ActionType, object: &EventObject) -> QueueingHint {
    hint(&*affinity(), p, EventResource::Pod, action, object).unwrap()
}

fn added(other: &PodBuilder) -> EventObject {
    EventObject::Pod {
        old: None,
        new: Some(other.build()),
    }
}

fn scan(key: &str) -> Vec<Value> {
    vec![one_of("service", &["securityscan", "value2"], key)]
}

fn other(label: &str, value: &str) -> PodBuilder {
    pod("other").label(label, value).on("n")
}

#[test]
fn a_pod_that_comes_helps_if_all_terms_mean_it() {
    let p = near(pod("p"), &scan("region"));
    let add = |other: &PodBuilder| after(&p, ActionType::ADD, &added(other));
    assert_eq!(add(&other("service", "securityscan")), Queue);
    assert_eq!(add(&pod("other").label("service", "securityscan")), QueueSkip);
    assert_eq!(
        add(&pod("other").label("service", "securityscan").nominated("n")),
        Queue
    );
    assert_eq!(add(&other("aaa", "a")), QueueSkip);
    let p = near(pod("p"), &[like("a", "1", "zone"), like("b", "1", "zone")]);
    assert_eq!(after(&p, ActionType::ADD, &added(&other("a", "1"))), QueueSkip);
    assert_eq!(
        after(&p, ActionType::ADD, &added(&other("a", "1").label("b", "1"))),
        Queue
    );
}

#[test]
fn a_change_of_labels_helps_if_it_changes_who_is_meant_for_the_better() {
    let seeking = near(pod("p"), &scan("region"));
    let avoiding = apart(pod("p"), &scan("region"));
    let (yes, also, no) = (
        other("service", "securityscan"),
        other("service", "value2"),
        other("service", "x"),
    );
    let unbound = |value: &str| pod("other").label("service", value);
    let table = [
        (&seeking, &no, &yes, Queue),
        (&seeking, &yes, &also, QueueSkip),
        (&seeking, &yes, &no, QueueSkip),
        (&seeking, &unbound("x"), &unbound("securityscan"), QueueSkip),
        (&avoiding, &yes, &no, Queue),
        (&avoiding, &no, &yes, QueueSkip),
        (&avoiding, &yes, &also, QueueSkip),
    ];
    for (p, old, new, expected) in table {
        let told = after(p, ActionType::UPDATE_POD_LABEL, &updated(old, new));
        assert_eq!(told, expected, "{} {} {}", p.json(), old.json(), new.json());
    }
    let own = updated(&pod("p").label("foo", "bar"), &pod("p").label("foo", "baz"));
    assert_eq!(
        after(&pod("p").label("foo", "baz"), ActionType::UPDATE_POD_LABEL, &own),
        Queue
    );
}

#[test]
fn a_pod_that_goes_helps_if_one_of_the_two_kept_away_the_other() {
    let avoiding = apart(pod("p").label("service", "foo"), &scan("region"));
    let guard = apart(pod("other"), &scan("region")).on("n");
    let waiting = pod("other").label("service", "securityscan").nominated("n");
    let table = [
        (&avoiding, other("service", "securityscan"), Queue),
        (&avoiding, waiting, Queue),
        (&avoiding, other("aaa", "a"), QueueSkip),
        (&avoiding, guard.clone(), QueueSkip),
        (&pod("p").label("service", "securityscan"), guard, Queue),
        (
            &near(pod("p"), &scan("region")),
            other("service", "securityscan"),
            QueueSkip,
        ),
    ];
    for (p, old, expected) in table {
        assert_eq!(
            after(p, ActionType::DELETE, &deleted(&old)),
            expected,
            "{} {}",
            p.json(),
            old.json()
        );
    }
    let unknown = EventObject::Pod { old: None, new: None };
    assert_eq!(after(&avoiding, ActionType::DELETE, &unknown), Queue);
}

#[test]
fn a_node_helps_if_it_comes_into_a_domain_or_leaves_one() {
    let seeking = near(pod("p"), &scan("zone"));
    let avoiding = apart(pod("p"), &scan("zone"));
    let (z1, z2) = (node("n").label("zone", "z1"), node("n").label("zone", "z2"));
    let (bare, more) = (
        node("n").label("aaa", "a"),
        node("n").label("zone", "z1").label("b", "b"),
    );
    let table: [(&PodBuilder, Option<&NodeBuilder>, &NodeBuilder, QueueingHint); 13] = [
        (&seeking, None, &z1, Queue),
        (&seeking, None, &bare, QueueSkip),
        (&seeking, Some(&bare), &z1, Queue),
        (&seeking, Some(&z1), &z2, Queue),
        (&seeking, Some(&z1), &more, QueueSkip),
        (&seeking, Some(&z1), &bare, QueueSkip),
        (&avoiding, None, &z1, Queue),
        (&avoiding, None, &bare, Queue),
        (&avoiding, Some(&z1), &z2, Queue),
        (&avoiding, Some(&z1), &bare, Queue),
        (&avoiding, Some(&bare), &z1, QueueSkip),
        (&avoiding, Some(&z1), &more, QueueSkip),
        (&pod("p"), None, &z1, QueueSkip),
    ];
    for (p, old, new, expected) in table {
        let action = old.map_or(ActionType::ADD, |_| ActionType::UPDATE_NODE_LABEL);
        let told = hint(&*affinity(), p, EventResource::Node, action, &node_event(old, new));
        assert_eq!(told, Some(expected), "{} {}", p.json(), new.json());
    }
}

fn red(term: Value) -> Value {
    with(term, "namespaceSelector", json!({"matchLabels": {"team": "red"}}))
}

#[test]
fn a_pod_in_a_namespace_that_may_be_selected_helps() {
    let p = near(pod("p").namespace("c"), &[red(like("app", "worker", "zone"))]);
    let worker = |namespace: &str| pod("w").namespace(namespace).label("app", "worker").on("n1");
    assert_eq!(after(&p, ActionType::ADD, &added(&worker("a"))), Queue);
    let named = near(pod("p").namespace("c"), &[like("app", "worker", "zone")]);
    assert_eq!(after(&named, ActionType::ADD, &added(&worker("a"))), QueueSkip);
}

#[test]
fn a_namespace_helps_if_it_comes_into_the_reach_of_a_term_or_leaves_it() {
    let labels = |team: Option<&str>| Arc::new(team.map(|team| ("team", team)).into_iter().collect::<Labels>());
    let told = |p: &PodBuilder, name: &str, old: Option<Option<&str>>, new: Option<Option<&str>>| {
        let event = EventObject::Namespace {
            name: Symbol::new(name),
            old: old.map(labels),
            new: new.map(labels),
        };
        hint(&*affinity(), p, EventResource::Namespace, ActionType::UPDATE, &event).unwrap()
    };
    let seeking = near(pod("p").namespace("c"), &[red(like("app", "worker", "zone"))]);
    let avoiding = apart(pod("p").namespace("c"), &[red(like("app", "worker", "zone"))]);
    let named = near(pod("p").namespace("c"), &[like("app", "worker", "zone")]);
    let (none, red, blue) = (Some(None), Some(Some("red")), Some(Some("blue")));
    assert_eq!(told(&seeking, "a", none, red), Queue);
    assert_eq!(told(&seeking, "a", None, red), Queue);
    assert_eq!(told(&seeking, "a", none, blue), QueueSkip);
    assert_eq!(told(&avoiding, "a", red, blue), Queue);
    assert_eq!(told(&avoiding, "a", red, None), Queue);
    assert_eq!(told(&named, "a", none, red), QueueSkip);
    // Terms of placed pods may mean the pod no longer.
    assert_eq!(told(&named, "c", none, red), Queue);
}
