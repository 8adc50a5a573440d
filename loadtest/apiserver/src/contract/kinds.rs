//! What is particular about single kinds: nodes, priority classes, leases, events, custom resources.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Context, ContractError, ContractResult, condition, ensure, names, pod, tests, text, version};
use crate::meta;

tests![
    capacity_is_allocatable_by_default,
    priority_comes_from_the_class,
    leases_are_taken_by_one,
    events_show_in_both_groups,
    claims_wait_until_they_are_bound,
    resource_claims_are_allocated_in_their_status,
    custom_resources_are_served,
];

async fn capacity_is_allocatable_by_default(context: Context) -> ContractResult {
    let name = format!("{}-node", context.namespace);
    let path = format!("/api/v1/nodes/{name}");
    let capacity = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": "a"}},
        "status": {"capacity": capacity}});
    let node = context.post("/api/v1/nodes", &body).await?;
    let checks = async {
        ensure!(
            node["status"]["allocatable"] == capacity,
            "allocatable is {}",
            node["status"]["allocatable"]
        );
        let taints = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
        let node = context.patch(&path, "strategic-merge-patch+json", &taints).await?;
        ensure!(
            node["spec"]["taints"][0]["key"] == "k",
            "taints are {}",
            node["spec"]["taints"]
        );
        let cordon = context
            .patch(&path, "merge-patch+json", &json!({"spec": {"unschedulable": true}}))
            .await?;
        ensure!(
            cordon["spec"]["unschedulable"] == true,
            "the node is {}",
            cordon["spec"]
        );
        let list = context
            .get(&format!("/api/v1/nodes?fieldSelector=metadata.name%3D{name}"))
            .await?;
        ensure!(names(&list) == [name.as_str()], "the list shows {:?}", names(&list));
        let status = json!({"status": {"capacity": {"example.com/x": "3"}}});
        let node = context
            .patch(&format!("{path}/status"), "strategic-merge-patch+json", &status)
            .await?;
        ensure!(
            node["status"]["capacity"]["example.com/x"] == "3",
            "capacity is {}",
            node["status"]["capacity"]
        );
        Ok(())
    };
    let outcome = checks.await;
    context.delete(&path, &json!({})).await?;
    outcome
}

async fn priority_comes_from_the_class(context: Context) -> ContractResult {
    let name = format!("{}-class", context.namespace);
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": 77, "preemptionPolicy": "Never"});
    context
        .post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
        .await?;
    let mut body = pod("a");
    body["spec"]["priorityClassName"] = name.as_str().into();
    let created = context.post(&context.pods(), &body).await;
    context
        .delete(
            &format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}"),
            &json!({}),
        )
        .await?;
    let created = created?;
    ensure!(
        created["spec"]["priority"] == 77,
        "the priority is {}",
        created["spec"]["priority"]
    );
    ensure!(
        created["spec"]["preemptionPolicy"] == "Never",
        "the policy is {}",
        created["spec"]["preemptionPolicy"]
    );
    let mut body = pod("b");
    body["spec"]["priorityClassName"] = "no-such-class".into();
    context.refused(403, "POST", &context.pods(), Some(&body)).await?;
    let mut body = pod("c");
    body["spec"]["priorityClassName"] = "system-cluster-critical".into();
    let created = context.post(&context.pods(), &body).await?;
    ensure!(
        created["spec"]["priority"] == 2_000_000_000,
        "the priority is {}",
        created["spec"]["priority"]
    );
    Ok(())
}

async fn leases_are_taken_by_one(context: Context) -> ContractResult {
    let path = context.in_group("coordination.k8s.io/v1", "leases");
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {
        "holderIdentity": "one", "leaseDurationSeconds": 15, "acquireTime": "2026-01-02T03:04:05.000000Z",
        "renewTime": "2026-01-02T03:04:05.000000Z", "leaseTransitions": 0}});
    let lease = context.post(&path, &body).await?;
    let (mut first, mut second) = (lease.clone(), lease);
    first["spec"]["holderIdentity"] = "two".into();
    second["spec"]["holderIdentity"] = "three".into();
    context.put(&format!("{path}/l"), &first).await?;
    context.refused(409, "PUT", &format!("{path}/l"), Some(&second)).await?;
    let read = context.get(&format!("{path}/l")).await?;
    ensure!(
        text(&read, &["spec", "holderIdentity"]) == "two",
        "the holder is {}",
        read["spec"]["holderIdentity"]
    );
    Ok(())
}

async fn events_show_in_both_groups(context: Context) -> ContractResult {
    let path = context.in_group("events.k8s.io/v1", "events");
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e.1"},
        "eventTime": "2026-01-02T03:04:05.000000Z", "type": "Normal", "reason": "Scheduled", "action": "Binding",
        "note": "bound to n", "reportingController": "contract", "reportingInstance": "contract-1",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": context.namespace}});
    let created = context.post(&path, &event).await?;
    ensure!(text(&created, &["note"]) == "bound to n", "the answer is {created}");
    let core = format!("/api/v1/namespaces/{}/events", context.namespace);
    let read = context.get(&format!("{core}/e.1")).await?;
    ensure!(text(&read, &["message"]) == "bound to n", "the core form is {read}");
    ensure!(
        text(&read, &["involvedObject", "name"]) == "a",
        "the core form is {read}"
    );
    let list = context
        .get(&format!(
            "{core}?fieldSelector=involvedObject.name%3Da,reason%3DScheduled"
        ))
        .await?;
    ensure!(names(&list) == ["e.1"], "the list shows {:?}", names(&list));
    let none = context
        .get(&format!("{core}?fieldSelector=involvedObject.name%3Db"))
        .await?;
    ensure!(names(&none).is_empty(), "the list shows {:?}", names(&none));
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}});
    let patched = context
        .patch(&format!("{path}/e.1"), "merge-patch+json", &series)
        .await?;
    ensure!(
        meta::get(&patched, &["series", "count"]) == Some(&json!(2)),
        "the series is {}",
        patched["series"]
    );
    Ok(())
}

async fn claims_wait_until_they_are_bound(context: Context) -> ContractResult {
    let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", context.namespace);
    let body = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = context.post(&path, &body).await?;
    ensure!(
        text(&claim, &["status", "phase"]) == "Pending",
        "the claim is {}",
        claim["status"]
    );
    ensure!(
        text(&claim, &["spec", "volumeMode"]) == "Filesystem",
        "the claim is {}",
        claim["spec"]
    );
    let note = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    let claim = context.patch(&format!("{path}/c"), "merge-patch+json", &note).await?;
    let selected = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
    ensure!(selected == "n", "the annotation is {selected}");
    let bound = context
        .patch(
            &format!("{path}/c/status"),
            "merge-patch+json",
            &json!({"status": {"phase": "Bound"}}),
        )
        .await?;
    ensure!(
        text(&bound, &["status", "phase"]) == "Bound",
        "the claim is {}",
        bound["status"]
    );
    Ok(())
}

async fn resource_claims_are_allocated_in_their_status(context: Context) -> ContractResult {
    let path = context.in_group("resource.k8s.io/v1", "resourceclaims");
    let body = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "r"},
        "spec": {"devices": {"requests": [{"name": "q", "exactly": {"deviceClassName": "class"}}]}}});
    let claim = context.post(&path, &body).await?;
    let reserved = json!({"metadata": {"resourceVersion": version(&claim)}, "status": {
        "allocation": {"devices": {"results": [{"request": "q", "driver": "d.example.com", "pool": "p", "device": "x"}]}},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "00000000-0000-4000-8000-000000000001"}]}});
    let claim = context
        .patch(&format!("{path}/r/status"), "merge-patch+json", &reserved)
        .await?;
    let results = claim["status"]["allocation"]["devices"]["results"]
        .as_array()
        .map_or(0, Vec::len);
    ensure!(results == 1, "the status is {}", claim["status"]);
    Ok(())
}

async fn custom_resources_are_served(context: Context) -> ContractResult {
    let group = format!("{}.example.com", context.namespace);
    let name = format!("links.{group}");
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "links", "singular": "link", "kind": "Link", "listKind": "LinkList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    context.post(definitions, &body).await?;
    let outcome = use_links(
        &context,
        &format!("{definitions}/{name}"),
        &format!("/apis/{group}/v1alpha1/links"),
    )
    .await;
    context.delete(&format!("{definitions}/{name}"), &json!({})).await?;
    outcome
}

async fn use_links(context: &Context, definition: &str, path: &str) -> ContractResult {
    // A real server establishes a definition some time after its creation.
    for _ in 0..100 {
        let read = context.get(definition).await?;
        let established =
            condition(&read, "Established").is_some_and(|established| text(established, &["status"]) == "True");
        if established && context.get(path).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let group_version = path.trim_start_matches("/apis/").trim_end_matches("/links");
    let link = json!({"apiVersion": group_version, "kind": "Link", "metadata": {"name": "a"}, "spec": {"ms": 5}});
    let created = context.post(path, &link).await?;
    ensure!(
        created["metadata"]["generation"] == 1,
        "the generation is {}",
        created["metadata"]["generation"]
    );
    let patched = context
        .patch(&format!("{path}/a"), "merge-patch+json", &json!({"spec": {"ms": 6}}))
        .await?;
    ensure!(
        patched["metadata"]["generation"] == 2,
        "the generation is {}",
        patched["metadata"]["generation"]
    );
    let status = json!({"status": {"seen": true}, "spec": {"ms": 7}});
    let patched = context
        .patch(&format!("{path}/a/status"), "merge-patch+json", &status)
        .await?;
    ensure!(
        patched["spec"]["ms"] == 6 && patched["status"]["seen"] == true,
        "the object is {patched}"
    );
    let strategic = context
        .call(
            "PATCH",
            &format!("{path}/a"),
            "application/strategic-merge-patch+json",
            Some(&status),
        )
        .await;
    ensure!(
        strategic.as_ref().is_err_and(|refusal| refusal.code == 415),
        "a strategic patch gives {strategic:?}"
    );
    let list: Value = context.get(path).await?;
    ensure!(
        text(&list, &["kind"]) == "LinkList" && names(&list) == ["a"],
        "the list is {list}"
    );
    context
        .delete(&format!("{path}/a"), &json!({}))
        .await
        .map(|_| ())
        .map_err(|error| ContractError::new(error.to_string()))
}
