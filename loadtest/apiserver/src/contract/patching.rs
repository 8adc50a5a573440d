//! Patches of all four kinds.

use serde_json::{Value, json};

use super::{Context, ContractResult, condition, ensure, tests, text, version};
use crate::meta;

tests![
    merge_patch_sets_and_removes,
    json_patch_tests_before_it_writes,
    strategic_patch_merges_conditions_by_type,
    strategic_patch_follows_its_directives,
    patch_with_old_version_conflicts,
    unchanged_patch_keeps_the_version,
    apply_creates_then_changes,
];

async fn merge_patch_sets_and_removes(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let path = context.pod("a");
    let patch = json!({"metadata": {"labels": {"app": null, "new": "1"}, "annotations": {"note": "x"}}});
    let pod = context.patch(&path, "merge-patch+json", &patch).await?;
    ensure!(
        pod["metadata"]["labels"] == json!({"new": "1"}),
        "labels are {}",
        pod["metadata"]["labels"]
    );
    ensure!(
        pod["metadata"]["annotations"]["note"] == "x",
        "annotations are {}",
        pod["metadata"]["annotations"]
    );
    let forbidden = json!({"spec": {"nodeName": "n"}});
    context
        .refused_as(422, "PATCH", &path, "application/merge-patch+json", Some(&forbidden))
        .await?;
    Ok(())
}

async fn json_patch_tests_before_it_writes(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let path = context.pod("a");
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/app", "value": "contract"},
        {"op": "replace", "path": "/metadata/labels/app", "value": "changed"},
        {"op": "add", "path": "/metadata/labels/example.com~1x", "value": "1"},
    ]);
    let pod = context.patch(&path, "json-patch+json", &patch).await?;
    let labels = &pod["metadata"]["labels"];
    ensure!(
        *labels == json!({"app": "changed", "example.com/x": "1"}),
        "labels are {labels}"
    );
    let failing = json!([
        {"op": "test", "path": "/metadata/labels/app", "value": "contract"},
        {"op": "remove", "path": "/metadata/labels/app"},
    ]);
    context
        .refused_as(422, "PATCH", &path, "application/json-patch+json", Some(&failing))
        .await?;
    Ok(())
}

async fn strategic_patch_merges_conditions_by_type(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let path = format!("{}/status", context.pod("a"));
    let set = |status: &str, reason: &str| {
        json!({"status": {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason, "message": "m",
            "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z"}], "nominatedNodeName": "n"}})
    };
    context
        .patch(&path, "strategic-merge-patch+json", &set("False", "Unschedulable"))
        .await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    context.patch(&path, "strategic-merge-patch+json", &ready).await?;
    let pod = context
        .patch(&path, "strategic-merge-patch+json", &set("False", "SchedulerError"))
        .await?;
    let conditions = meta::get(&pod, &["status", "conditions"])
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    ensure!(conditions == 2, "there are {conditions} conditions: {}", pod["status"]);
    let scheduled = condition(&pod, "PodScheduled").cloned().unwrap_or_default();
    ensure!(
        text(&scheduled, &["reason"]) == "SchedulerError",
        "the condition is {scheduled}"
    );
    let cleared = json!({"status": {"nominatedNodeName": null}});
    let pod = context.patch(&path, "strategic-merge-patch+json", &cleared).await?;
    ensure!(
        text(&pod, &["status", "nominatedNodeName"]).is_empty(),
        "the nomination stays"
    );
    Ok(())
}

async fn strategic_patch_follows_its_directives(context: Context) -> ContractResult {
    let mut body = super::pod("a");
    body["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    context.post(&context.pods(), &body).await?;
    let path = context.pod("a");
    let image = json!({"spec": {"containers": [{"name": "c", "image": "registry.example.com/none:v3"}]}});
    let pod = context.patch(&path, "strategic-merge-patch+json", &image).await?;
    let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    ensure!(containers == 1, "there are {containers} containers");
    let finalizers = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"], "finalizers": ["example.com/c"]}});
    let pod = context.patch(&path, "strategic-merge-patch+json", &finalizers).await?;
    let mut left: Vec<&str> = pod["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    left.sort_unstable();
    ensure!(left == ["example.com/b", "example.com/c"], "finalizers are {left:?}");
    let labels = json!({"metadata": {"labels": {"$patch": "replace", "only": "1"}}});
    let pod = context.patch(&path, "strategic-merge-patch+json", &labels).await?;
    ensure!(
        pod["metadata"]["labels"] == json!({"only": "1"}),
        "labels are {}",
        pod["metadata"]["labels"]
    );
    context
        .patch(&path, "merge-patch+json", &json!({"metadata": {"finalizers": null}}))
        .await?;
    Ok(())
}

async fn patch_with_old_version_conflicts(context: Context) -> ContractResult {
    let old = context.create_pod("a").await?;
    let path = context.pod("a");
    let step = |version: &str, step: &str| json!({"metadata": {"resourceVersion": version, "labels": {"step": step}}});
    context
        .patch(&path, "merge-patch+json", &step(version(&old), "1"))
        .await?;
    let stale = step(version(&old), "2");
    context
        .refused_as(409, "PATCH", &path, "application/merge-patch+json", Some(&stale))
        .await?;
    // A UID in a patch is no precondition but a change of an immutable field.
    let other = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "labels": {"step": "3"}}});
    context
        .refused_as(
            422,
            "PATCH",
            &path,
            "application/strategic-merge-patch+json",
            Some(&other),
        )
        .await?;
    Ok(())
}

async fn unchanged_patch_keeps_the_version(context: Context) -> ContractResult {
    let pod = context.create_pod("a").await?;
    let patch = json!({"metadata": {"labels": {"app": "contract"}}});
    let again = context
        .patch(&context.pod("a"), "strategic-merge-patch+json", &patch)
        .await?;
    ensure!(
        version(&again) == version(&pod),
        "the version moved from {} to {}",
        version(&pod),
        version(&again)
    );
    Ok(())
}

async fn apply_creates_then_changes(context: Context) -> ContractResult {
    let path = format!(
        "/api/v1/namespaces/{}/configmaps/a?fieldManager=contract&force=true",
        context.namespace
    );
    let document = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": value}}, "data": {"k": value}});
    let first = context.patch(&path, "apply-patch+yaml", &document("1")).await?;
    ensure!(text(&first, &["data", "k"]) == "1", "apply created {first}");
    let second = context.patch(&path, "apply-patch+yaml", &document("2")).await?;
    ensure!(text(&second, &["data", "k"]) == "2", "apply changed to {second}");
    ensure!(first["metadata"]["uid"] == second["metadata"]["uid"], "the UID changed");
    Ok(())
}
