//! The history as a property: whatever is written, watchers end with what a list shows, and old lists show old states.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::pod;

#[derive(Debug, Clone)]
enum Op {
    Create(u8),
    Bind(u8, u8),
    Label(u8, bool),
    Delete(u8),
    Run(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..6_u8;
    prop_oneof![
        3 => name.clone().prop_map(Op::Create),
        3 => (name.clone(), 0..3_u8).prop_map(|(name, node)| Op::Bind(name, node)),
        2 => (name.clone(), any::<bool>()).prop_map(|(name, on)| Op::Label(name, on)),
        2 => name.clone().prop_map(Op::Delete),
        1 => name.prop_map(Op::Run),
    ]
}

/// Applies an operation; a refusal (bound twice, gone) is part of the game.
fn apply(store: &Store, op: &Op) {
    let pods = store.pods().unwrap();
    let name = |number: &u8| format!("p{number}");
    let refused = match op {
        Op::Create(number) => store.create_as("", "pods", "default", pod(&name(number))).err(),
        Op::Bind(number, node) => store.bind_to("default", &name(number), &format!("n{node}")).err(),
        Op::Label(number, on) => {
            let value = if *on { json!("x") } else { Value::Null };
            let target = WriteTarget::object(&pods, "default", &name(number));
            store
                .patch(
                    &target,
                    PatchKind::Merge,
                    &json!({"metadata": {"labels": {"tier": value}}}),
                )
                .err()
        }
        Op::Delete(number) => store.delete_now("", "pods", "default", &name(number)).err(),
        Op::Run(number) => {
            let target = WriteTarget::status(&pods, "default", &name(number));
            store
                .patch(&target, PatchKind::Strategic, &json!({"status": {"phase": "Running"}}))
                .err()
        }
    };
    if let Some(error) = refused {
        assert!(matches!(error.code, 404 | 409), "{error}");
    }
}

fn selectors(store: &Store, labels: &str, fields: &str) -> Selectors {
    let kind = &store.pods().unwrap().kind;
    Selectors {
        labels: LabelSelector::parse(labels).unwrap(),
        fields: FieldSelector::parse(fields, kind).unwrap(),
    }
}

/// Key to body without the version, which an object that left and came back may show differently.
fn state(objects: &[Arc<Object>]) -> BTreeMap<String, Value> {
    objects
        .iter()
        .map(|object| (object.key().to_owned(), object.value()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn watchers_end_with_what_a_list_shows(ops in prop::collection::vec(op(), 1..60), pause in 0..60_usize) {
        let store = Store::new(HistoryLimits::default()).unwrap();
        let pods = store.pods().unwrap();
        let choices = [("", ""), ("tier=x", ""), ("", "spec.nodeName="), ("!tier", "status.phase!=Running"), ("", "spec.nodeName=n1")];
        let mut watchers: Vec<(Selectors, Watcher, BTreeMap<String, Value>)> = Vec::new();
        for (position, op) in ops.iter().enumerate() {
            if position == 0 || position == pause {
                for (labels, fields) in choices {
                    let selectors = selectors(&store, labels, fields);
                    let watcher = Watcher::open(&pods, None, selectors.clone(), WatchStart::Existing).unwrap();
                    watchers.push((selectors, watcher, BTreeMap::new()));
                }
            }
            apply(&store, op);
        }
        for (selectors, mut watcher, mut seen) in watchers {
            while let Poll::Ready(WatchBatch::Events(items)) = watcher.poll().unwrap() {
                for item in items {
                    let key = item.object.key().to_owned();
                    match item.kind {
                        EventKind::Added => prop_assert!(seen.insert(key, item.object.value()).is_none(), "added twice"),
                        EventKind::Modified => prop_assert!(seen.insert(key, item.object.value()).is_some(), "not added"),
                        EventKind::Deleted => prop_assert!(seen.remove(&key).is_some(), "deleted unseen"),
                    }
                }
            }
            let listed = pods.list(&ListQuery { selectors, ..ListQuery::default() }).unwrap();
            prop_assert_eq!(seen, state(&listed.objects));
            prop_assert_eq!(watcher.seen_rv(), store.version());
        }
    }

    #[test]
    fn an_old_list_shows_the_old_state(ops in prop::collection::vec(op(), 1..60), limit in 1..4_usize) {
        let store = Store::new(HistoryLimits::default()).unwrap();
        let pods = store.pods().unwrap();
        let mut states = Vec::new();
        for op in &ops {
            apply(&store, op);
            states.push((store.version(), state(&pods.snapshot().0)));
        }
        for (version, expected) in states {
            let mut query = ListQuery { exact: Some(version), limit, ..ListQuery::default() };
            let mut shown = Vec::new();
            loop {
                let page = pods.list(&query).unwrap();
                prop_assert_eq!(page.rv, version);
                shown.extend(page.objects);
                match page.next {
                    Some(next) => query = ListQuery { resume: Some(next), limit, ..ListQuery::default() },
                    None => break,
                }
            }
            prop_assert_eq!(shown.len(), expected.len());
            prop_assert_eq!(state(&shown), expected);
        }
    }
}
