//! Watches: order, selectors, starts, bookmarks, expiry; and kube's own reflector on top.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::WatchEvent;
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::{Context, ContractError, ContractResult, ensure, tests, text, version};
use crate::meta;

tests![
    changes_arrive_in_order,
    object_leaving_a_field_selector_is_deleted,
    object_entering_a_label_selector_is_added,
    watch_without_a_version_starts_with_what_exists,
    initial_events_end_with_a_bookmark,
    watch_ends_by_its_timeout,
    kube_watcher_follows_a_pod,
    kube_streaming_watcher_follows_a_pod,
];

/// Longest wait for one event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

fn failed(error: impl std::fmt::Display) -> ContractError {
    ContractError::new(error.to_string())
}

/// The first `count` events of a watch as (type, name, object).
async fn events(context: &Context, path: &str, count: usize) -> Result<Vec<(String, String, Value)>, ContractError> {
    let request = http::Request::get(path).body(Vec::new()).map_err(failed)?;
    let stream = context.client.request_events::<Value>(request).await.map_err(failed)?;
    let mut stream = pin!(stream);
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = tokio::time::timeout(EVENT_TIMEOUT, stream.try_next()).await;
        let Ok(next) = next else {
            return Err(failed(format!("{path}: no event after {seen:?}")));
        };
        let (kind, object) = match next.map_err(failed)? {
            Some(WatchEvent::Added(object)) => ("ADDED", object),
            Some(WatchEvent::Modified(object)) => ("MODIFIED", object),
            Some(WatchEvent::Deleted(object)) => ("DELETED", object),
            Some(WatchEvent::Bookmark(bookmark)) => {
                let annotations = json!(bookmark.metadata.annotations);
                (
                    "BOOKMARK",
                    json!({"metadata": {"resourceVersion": bookmark.metadata.resource_version, "annotations": annotations}}),
                )
            }
            Some(WatchEvent::Error(status)) => ("ERROR", json!({"code": status.code, "reason": status.reason})),
            None => break,
        };
        let name = text(&object, &["metadata", "name"]).to_owned();
        seen.push((kind.to_owned(), name, object));
    }
    Ok(seen)
}

fn kinds(events: &[(String, String, Value)]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|(kind, name, _)| (kind.as_str(), name.as_str()))
        .collect()
}

async fn now(context: &Context) -> Result<String, ContractError> {
    Ok(version(&context.get(&context.pods()).await?).to_owned())
}

async fn changes_arrive_in_order(context: Context) -> ContractResult {
    let start = now(&context).await?;
    context.create_pod("a").await?;
    context.create_pod("b").await?;
    context.bind("a", "n").await?;
    context.delete(&context.pod("b"), &json!({})).await?;
    let seen = events(
        &context,
        &format!("{}?watch=true&resourceVersion={start}", context.pods()),
        5,
    )
    .await?;
    // A deleted pod first shows its deletion time, even when it goes at once.
    let expected = [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("MODIFIED", "b"),
        ("DELETED", "b"),
    ];
    ensure!(kinds(&seen) == expected, "the events are {:?}", kinds(&seen));
    let versions: Vec<u64> = seen
        .iter()
        .map(|(_, _, object)| version(object).parse().unwrap_or_default())
        .collect();
    ensure!(
        versions.is_sorted_by(|left, right| left < right),
        "the versions are {versions:?}"
    );
    let bound = seen
        .get(2)
        .map(|(_, _, object)| text(object, &["spec", "nodeName"]).to_owned());
    ensure!(bound.as_deref() == Some("n"), "the third event shows node {bound:?}");
    // A watch from the middle shows only the rest.
    let middle = versions.get(1).copied().unwrap_or_default();
    let rest = events(
        &context,
        &format!("{}?watch=true&resourceVersion={middle}", context.pods()),
        3,
    )
    .await?;
    ensure!(
        Some(kinds(&rest).as_slice()) == expected.get(2..),
        "the rest is {:?}",
        kinds(&rest)
    );
    Ok(())
}

async fn object_leaving_a_field_selector_is_deleted(context: Context) -> ContractResult {
    let start = now(&context).await?;
    context.create_pod("a").await?;
    context.create_pod("b").await?;
    context.bind("a", "n").await?;
    let path = format!("{}?watch=true&resourceVersion={start}", context.pods());
    let unbound = events(&context, &format!("{path}&fieldSelector=spec.nodeName%3D"), 3).await?;
    ensure!(
        kinds(&unbound) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")],
        "unbound: {:?}",
        kinds(&unbound)
    );
    let bound = events(&context, &format!("{path}&fieldSelector=spec.nodeName!%3D"), 1).await?;
    ensure!(kinds(&bound) == [("ADDED", "a")], "bound: {:?}", kinds(&bound));
    Ok(())
}

async fn object_entering_a_label_selector_is_added(context: Context) -> ContractResult {
    let start = now(&context).await?;
    context.create_pod("a").await?;
    let label = |value: Value| json!({"metadata": {"labels": {"tier": value}}});
    for value in [json!("x"), json!("y"), json!(null)] {
        context
            .patch(&context.pod("a"), "merge-patch+json", &label(value))
            .await?;
    }
    let path = format!(
        "{}?watch=true&resourceVersion={start}&labelSelector=tier%3Dx",
        context.pods()
    );
    let seen = events(&context, &path, 2).await?;
    ensure!(
        kinds(&seen) == [("ADDED", "a"), ("DELETED", "a")],
        "the events are {:?}",
        kinds(&seen)
    );
    Ok(())
}

async fn watch_without_a_version_starts_with_what_exists(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    context.create_pod("b").await?;
    for start in ["", "&resourceVersion=0"] {
        let seen = events(&context, &format!("{}?watch=true{start}", context.pods()), 2).await?;
        let mut kinds = kinds(&seen);
        kinds.sort_unstable();
        ensure!(
            kinds == [("ADDED", "a"), ("ADDED", "b")],
            "{start:?} starts with {kinds:?}"
        );
    }
    Ok(())
}

async fn initial_events_end_with_a_bookmark(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let seen = events(&context, &format!("{}?{query}", context.pods()), 2).await?;
    let shown: Vec<&str> = seen.iter().map(|(kind, ..)| kind.as_str()).collect();
    ensure!(shown == ["ADDED", "BOOKMARK"], "the events are {shown:?}");
    let mark = seen
        .last()
        .and_then(|(_, _, object)| meta::get(object, &["metadata", "annotations", "k8s.io/initial-events-end"]));
    ensure!(mark == Some(&json!("true")), "the bookmark is {:?}", seen.last());
    let unmatched = format!("{}?watch=true&sendInitialEvents=true", context.pods());
    context.refused(422, "GET", &unmatched, None).await?;
    Ok(())
}

async fn watch_ends_by_its_timeout(context: Context) -> ContractResult {
    let start = now(&context).await?;
    let path = format!("{}?watch=true&resourceVersion={start}&timeoutSeconds=1", context.pods());
    let seen = events(&context, &path, 1).await?;
    ensure!(seen.is_empty(), "the events are {:?}", kinds(&seen));
    Ok(())
}

async fn kube_watcher_follows_a_pod(context: Context) -> ContractResult {
    follow(context, watcher::Config::default().page_size(2)).await
}

async fn kube_streaming_watcher_follows_a_pod(context: Context) -> ContractResult {
    follow(context, watcher::Config::default().streaming_lists()).await
}

/// Uses kube's watcher as a scheduler does: list, then see a pod created, bound and deleted. A streamed list starts from
/// any version that the server has at hand: what it does not show yet, the watch does.
async fn follow(context: Context, config: watcher::Config) -> ContractResult {
    for name in ["a", "b", "c"] {
        context.create_pod(name).await?;
    }
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &context.namespace);
    let streamed = config.initial_list_strategy == watcher::InitialListStrategy::StreamingList;
    let mut stream = watcher(api, config).boxed();
    let mut listed = Vec::new();
    let mut complete = false;
    while !complete || listed.len() < 3 {
        let next = tokio::time::timeout(EVENT_TIMEOUT, stream.try_next())
            .await
            .map_err(failed)?;
        match next.map_err(failed)? {
            Some(watcher::Event::Init) => {}
            Some(watcher::Event::InitApply(pod)) => listed.extend(pod.metadata.name),
            Some(watcher::Event::Apply(pod)) if complete && streamed => listed.extend(pod.metadata.name),
            Some(watcher::Event::InitDone) => complete = true,
            other => return Err(failed(format!("the list gives {other:?} after {listed:?}"))),
        }
    }
    listed.sort();
    ensure!(listed == ["a", "b", "c"], "these pods were listed: {listed:?}");
    context.create_pod("d").await?;
    context.bind("d", "n").await?;
    context
        .delete(&context.pod("d"), &json!({"gracePeriodSeconds": 0}))
        .await?;
    let mut shown = Vec::new();
    while shown.len() < 4 {
        let next = tokio::time::timeout(EVENT_TIMEOUT, stream.try_next())
            .await
            .map_err(failed)?;
        let (kind, pod) = match next.map_err(failed)? {
            Some(watcher::Event::Apply(pod)) => ("apply", pod),
            Some(watcher::Event::Delete(pod)) => ("delete", pod),
            other => return Err(failed(format!("the watch gives {other:?}"))),
        };
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        shown.push(format!("{kind} {} {node}", pod.metadata.name.unwrap_or_default()));
    }
    ensure!(
        shown == ["apply d ", "apply d n", "apply d n", "delete d n"],
        "the watch shows {shown:?}"
    );
    Ok(())
}
