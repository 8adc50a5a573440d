//! Binding and eviction.

use serde_json::json;

use super::{Context, ContractResult, binding, condition, ensure, pod, tests, text, version};
use crate::meta;

tests![
    bind_sets_the_node_and_the_condition,
    bind_clears_the_nomination,
    second_bind_conflicts,
    bind_checks_uid_and_existence,
    bind_through_the_collection,
    gated_and_leaving_pods_cannot_be_bound,
    bind_without_a_node_is_refused,
    bound_pod_carries_the_nodes_topology,
    eviction_without_a_budget_deletes,
    eviction_against_a_budget_is_refused,
];

async fn bind_sets_the_node_and_the_condition(context: Context) -> ContractResult {
    let before = context.create_pod("a").await?;
    let answer = context.bind("a", "node-that-need-not-exist").await?;
    ensure!(
        text(&answer, &["kind"]) == "Status" && text(&answer, &["status"]) == "Success",
        "the answer is {answer}"
    );
    let after = context.get(&context.pod("a")).await?;
    ensure!(
        text(&after, &["spec", "nodeName"]) == "node-that-need-not-exist",
        "the pod is {after}"
    );
    let scheduled = condition(&after, "PodScheduled").cloned().unwrap_or_default();
    ensure!(text(&scheduled, &["status"]) == "True", "the condition is {scheduled}");
    ensure!(
        text(&after, &["status", "phase"]) == "Pending",
        "the phase is {}",
        after["status"]["phase"]
    );
    ensure!(version(&before) != version(&after), "the version stayed");
    ensure!(before["metadata"]["uid"] == after["metadata"]["uid"], "the UID changed");
    ensure!(
        before["metadata"]["labels"] == after["metadata"]["labels"] || after["metadata"]["labels"]["app"] == "contract",
        "labels changed"
    );
    Ok(())
}

async fn bind_clears_the_nomination(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let nominate = json!({"status": {"nominatedNodeName": "n1"}});
    let path = format!("{}/status", context.pod("a"));
    context.patch(&path, "strategic-merge-patch+json", &nominate).await?;
    context.bind("a", "n2").await?;
    let pod = context.get(&context.pod("a")).await?;
    ensure!(
        text(&pod, &["status", "nominatedNodeName"]).is_empty(),
        "the nomination stays: {}",
        pod["status"]
    );
    Ok(())
}

async fn second_bind_conflicts(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    context.bind("a", "n1").await?;
    for node in ["n1", "n2"] {
        let path = format!("{}/binding", context.pod("a"));
        let refusal = context.refused(409, "POST", &path, Some(&binding("a", node))).await?;
        ensure!(refusal.reason == "Conflict", "the reason is {}", refusal.reason);
    }
    let pod = context.get(&context.pod("a")).await?;
    ensure!(
        text(&pod, &["spec", "nodeName"]) == "n1",
        "the node changed to {}",
        pod["spec"]["nodeName"]
    );
    Ok(())
}

async fn bind_checks_uid_and_existence(context: Context) -> ContractResult {
    let pod = context.create_pod("a").await?;
    let path = format!("{}/binding", context.pod("a"));
    let mut body = binding("a", "n");
    body["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    context.refused(409, "POST", &path, Some(&body)).await?;
    body["metadata"]["uid"] = pod["metadata"]["uid"].clone();
    context.post(&path, &body).await?;
    let missing = format!("{}/binding", context.pod("missing"));
    context
        .refused(404, "POST", &missing, Some(&binding("missing", "n")))
        .await?;
    Ok(())
}

async fn bind_through_the_collection(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let path = format!("/api/v1/namespaces/{}/bindings", context.namespace);
    context.post(&path, &binding("a", "n")).await?;
    let pod = context.get(&context.pod("a")).await?;
    ensure!(text(&pod, &["spec", "nodeName"]) == "n", "the pod is not bound");
    Ok(())
}

async fn gated_and_leaving_pods_cannot_be_bound(context: Context) -> ContractResult {
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/a"}]);
    context.post(&context.pods(), &gated).await?;
    let path = format!("{}/binding", context.pod("gated"));
    context
        .refused(409, "POST", &path, Some(&binding("gated", "n")))
        .await?;
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    context.post(&context.pods(), &held).await?;
    context.delete(&context.pod("held"), &json!({})).await?;
    let path = format!("{}/binding", context.pod("held"));
    context.refused(409, "POST", &path, Some(&binding("held", "n"))).await?;
    let release = json!({"metadata": {"finalizers": null}});
    context
        .patch(&context.pod("held"), "merge-patch+json", &release)
        .await?;
    Ok(())
}

async fn bind_without_a_node_is_refused(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let path = format!("{}/binding", context.pod("a"));
    let mut to_a_pod = binding("a", "n");
    to_a_pod["target"]["kind"] = "Pod".into();
    for body in [binding("a", ""), to_a_pod] {
        // Upstream means 422 and answers 500.
        let refusal = context.call("POST", &path, "application/json", Some(&body)).await;
        let refused = refusal.as_ref().is_err_and(|refusal| matches!(refusal.code, 422 | 500));
        ensure!(refused, "the answer is {refusal:?}");
    }
    let pod = context.get(&context.pod("a")).await?;
    ensure!(meta::get(&pod, &["spec", "nodeName"]).is_none(), "the pod is bound");
    Ok(())
}

async fn bound_pod_carries_the_nodes_topology(context: Context) -> ContractResult {
    let name = format!("{}-zoned", context.namespace);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}}});
    context.post("/api/v1/nodes", &node).await?;
    context.create_pod("a").await?;
    let mut bare = pod("b");
    bare["metadata"] = json!({"name": "b"});
    context.post(&context.pods(), &bare).await?;
    let mut shown = Vec::new();
    for name_of_pod in ["a", "b"] {
        context.bind(name_of_pod, &name).await?;
        shown.push(context.get(&context.pod(name_of_pod)).await?["metadata"]["labels"].clone());
    }
    context.delete(&format!("/api/v1/nodes/{name}"), &json!({})).await?;
    let topology = json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"});
    let mut with_app = topology.clone();
    with_app["app"] = "contract".into();
    ensure!(shown == [with_app, topology], "the labels are {shown:?}");
    let selector = "labelSelector=topology.kubernetes.io%2Fzone%3Dz1";
    let list = context.get(&format!("{}?{selector}", context.pods())).await?;
    ensure!(
        super::names(&list) == ["a", "b"],
        "the list shows {:?}",
        super::names(&list)
    );
    Ok(())
}

async fn eviction_without_a_budget_deletes(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    context
        .post(&format!("{}/eviction", context.pod("a")), &eviction)
        .await?;
    context.refused(404, "GET", &context.pod("a"), None).await?;
    context
        .refused(404, "POST", &format!("{}/eviction", context.pod("a")), Some(&eviction))
        .await?;
    Ok(())
}

async fn eviction_against_a_budget_is_refused(context: Context) -> ContractResult {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "contract"}}}});
    let budget = context
        .post(&context.in_group("policy/v1", "poddisruptionbudgets"), &budget)
        .await?;
    ensure!(
        meta::get(&budget, &["status", "disruptionsAllowed"]) == Some(&json!(0)),
        "the budget is {budget}"
    );
    context.create_pod("a").await?;
    context.bind("a", "n").await?;
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    context
        .patch(
            &format!("{}/status", context.pod("a")),
            "strategic-merge-patch+json",
            &running,
        )
        .await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let refusal = context
        .refused(429, "POST", &format!("{}/eviction", context.pod("a")), Some(&eviction))
        .await?;
    ensure!(refusal.reason == "TooManyRequests", "the reason is {}", refusal.reason);
    context.get(&context.pod("a")).await?;
    Ok(())
}
