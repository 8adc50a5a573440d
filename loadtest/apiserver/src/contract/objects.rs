//! Creating and updating: defaults, names, conflicts, who owns what.

use serde_json::{Value, json};

use super::{Context, ContractResult, condition, ensure, names, pod, tests, text, version};
use crate::meta;

tests![
    created_pod_has_identity_and_defaults,
    generated_names_differ,
    second_create_is_already_exists,
    create_in_missing_namespace_is_not_found,
    pod_without_containers_is_invalid,
    gated_pod_says_why_it_waits,
    match_label_keys_become_selector_terms,
    update_with_old_version_conflicts,
    unchanged_update_keeps_the_version,
    pod_spec_cannot_change,
    status_and_object_updates_keep_to_their_part,
    dry_run_stores_nothing,
    missing_object_answers_with_its_name,
];

async fn created_pod_has_identity_and_defaults(context: Context) -> ContractResult {
    let mut body = pod("a");
    body["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    body["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
    body["status"] = json!({"phase": "Running"});
    let pod = context.post(&context.pods(), &body).await?;
    for path in [
        &["metadata", "uid"][..],
        &["metadata", "creationTimestamp"],
        &["metadata", "resourceVersion"],
    ] {
        ensure!(!text(&pod, path).is_empty(), "{path:?} is missing in {pod}");
    }
    for (path, expected) in [
        (&["kind"][..], "Pod"),
        (&["apiVersion"], "v1"),
        (&["metadata", "namespace"], context.namespace.as_str()),
        (&["spec", "schedulerName"], "default-scheduler"),
        (&["spec", "restartPolicy"], "Always"),
        (&["status", "phase"], "Pending"),
    ] {
        ensure!(
            text(&pod, path) == expected,
            "{path:?} is {:?}, not {expected}",
            text(&pod, path)
        );
    }
    let container = &pod["spec"]["containers"][0];
    ensure!(
        container["ports"][0]["protocol"] == "TCP",
        "the port's protocol is {}",
        container["ports"][0]
    );
    let requests = &container["resources"]["requests"];
    ensure!(
        *requests == json!({"cpu": "500m", "memory": "1Gi"}),
        "requests are {requests}"
    );
    ensure!(pod["spec"]["priority"] == 0, "priority is {}", pod["spec"]["priority"]);
    ensure!(meta::get(&pod, &["spec", "nodeName"]).is_none(), "there is a node name");
    Ok(())
}

async fn generated_names_differ(context: Context) -> ContractResult {
    let mut body = pod("a");
    body["metadata"] = json!({"generateName": "gen-"});
    let first = context.post(&context.pods(), &body).await?;
    let second = context.post(&context.pods(), &body).await?;
    let (first, second) = (
        text(&first, &["metadata", "name"]),
        text(&second, &["metadata", "name"]),
    );
    ensure!(
        first.starts_with("gen-") && second.starts_with("gen-"),
        "the names are {first} and {second}"
    );
    ensure!(first != second, "both are {first}");
    Ok(())
}

async fn second_create_is_already_exists(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let refusal = context.refused(409, "POST", &context.pods(), Some(&pod("a"))).await?;
    ensure!(refusal.reason == "AlreadyExists", "the reason is {}", refusal.reason);
    Ok(())
}

async fn create_in_missing_namespace_is_not_found(context: Context) -> ContractResult {
    context
        .refused(
            404,
            "POST",
            "/api/v1/namespaces/no-such-namespace/pods",
            Some(&pod("a")),
        )
        .await?;
    let mut elsewhere = pod("a");
    elsewhere["metadata"]["namespace"] = "default".into();
    context.refused(400, "POST", &context.pods(), Some(&elsewhere)).await?;
    Ok(())
}

async fn pod_without_containers_is_invalid(context: Context) -> ContractResult {
    let mut body = pod("a");
    body["spec"]["containers"] = json!([]);
    let refusal = context.refused(422, "POST", &context.pods(), Some(&body)).await?;
    ensure!(refusal.reason == "Invalid", "the reason is {}", refusal.reason);
    let mut body = pod("a");
    body["metadata"]["name"] = "Not A Name".into();
    context.refused(422, "POST", &context.pods(), Some(&body)).await?;
    Ok(())
}

async fn gated_pod_says_why_it_waits(context: Context) -> ContractResult {
    let mut body = pod("a");
    body["spec"]["schedulingGates"] = json!([{"name": "example.com/a"}, {"name": "example.com/b"}]);
    let mut pod = context.post(&context.pods(), &body).await?;
    let scheduled = condition(&pod, "PodScheduled").cloned().unwrap_or_default();
    ensure!(
        text(&scheduled, &["status"]) == "False" && text(&scheduled, &["reason"]) == "SchedulingGated",
        "the condition is {scheduled}"
    );
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/c"}]);
    context.refused(422, "PUT", &context.pod("a"), Some(&pod)).await?;
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/b"}]);
    let pod = context.put(&context.pod("a"), &pod).await?;
    ensure!(
        pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| gates.len() == 1),
        "gates stay: {pod}"
    );
    Ok(())
}

async fn match_label_keys_become_selector_terms(context: Context) -> ContractResult {
    let selector = json!({"matchLabels": {"app": "contract"}});
    let mut body = pod("a");
    body["metadata"]["labels"]["rev"] = "7".into();
    body["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, "matchLabelKeys": ["rev", "absent"]}]);
    body["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "mismatchLabelKeys": ["rev"]}]}});
    let pod = context.post(&context.pods(), &body).await?;
    let merged = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"];
    ensure!(
        *merged == json!([{"key": "rev", "operator": "In", "values": ["7"]}]),
        "spreading has {merged}"
    );
    let term = &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let merged = &term["labelSelector"]["matchExpressions"];
    ensure!(
        *merged == json!([{"key": "rev", "operator": "NotIn", "values": ["7"]}]),
        "anti-affinity has {merged}"
    );
    Ok(())
}

async fn update_with_old_version_conflicts(context: Context) -> ContractResult {
    let old = context.create_pod("a").await?;
    let mut new = old.clone();
    new["metadata"]["labels"]["step"] = "1".into();
    let new = context.put(&context.pod("a"), &new).await?;
    ensure!(version(&new) != version(&old), "the version stayed {}", version(&new));
    let refusal = context.refused(409, "PUT", &context.pod("a"), Some(&old)).await?;
    ensure!(refusal.reason == "Conflict", "the reason is {}", refusal.reason);
    let mut blind = new.clone();
    if let Some(metadata) = blind["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    blind["metadata"]["labels"]["step"] = "2".into();
    let last = context.put(&context.pod("a"), &blind).await?;
    ensure!(
        last["metadata"]["labels"]["step"] == "2",
        "an update without a version is taken"
    );
    let mut other = last;
    other["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    context.refused(409, "PUT", &context.pod("a"), Some(&other)).await?;
    Ok(())
}

async fn unchanged_update_keeps_the_version(context: Context) -> ContractResult {
    let pod = context.create_pod("a").await?;
    let again = context.put(&context.pod("a"), &pod).await?;
    ensure!(
        version(&again) == version(&pod),
        "the version moved from {} to {}",
        version(&pod),
        version(&again)
    );
    Ok(())
}

async fn pod_spec_cannot_change(context: Context) -> ContractResult {
    let pod = context.create_pod("a").await?;
    let mut changed = pod.clone();
    changed["spec"]["nodeName"] = "somewhere".into();
    context.refused(422, "PUT", &context.pod("a"), Some(&changed)).await?;
    let mut changed = pod.clone();
    changed["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    context.refused(422, "PUT", &context.pod("a"), Some(&changed)).await?;
    let mut allowed = pod;
    allowed["spec"]["containers"][0]["image"] = "registry.example.com/none:v2".into();
    context.put(&context.pod("a"), &allowed).await?;
    Ok(())
}

async fn status_and_object_updates_keep_to_their_part(context: Context) -> ContractResult {
    let mut pod = context.create_pod("a").await?;
    pod["spec"]["containers"][0]["image"] = "registry.example.com/other:v1".into();
    pod["status"] = json!({"phase": "Running", "nominatedNodeName": "n"});
    let after = context.put(&format!("{}/status", context.pod("a")), &pod).await?;
    ensure!(
        text(&after, &["status", "phase"]) == "Running",
        "the status is {}",
        after["status"]
    );
    let image = &after["spec"]["containers"][0]["image"];
    ensure!(
        image == "registry.example.com/none:v1",
        "a status update changed the image to {image}"
    );
    let mut pod = after;
    pod["status"]["phase"] = "Failed".into();
    pod["metadata"]["labels"]["x"] = "y".into();
    let after = context.put(&context.pod("a"), &pod).await?;
    ensure!(
        text(&after, &["status", "phase"]) == "Running",
        "an update changed the status to {}",
        after["status"]
    );
    ensure!(after["metadata"]["labels"]["x"] == "y", "the label is missing");
    let read = context.get(&format!("{}/status", context.pod("a"))).await?;
    ensure!(
        version(&read) == version(&after),
        "the status subresource reads as another version"
    );
    Ok(())
}

async fn dry_run_stores_nothing(context: Context) -> ContractResult {
    let shown = context
        .post(&format!("{}?dryRun=All", context.pods()), &pod("a"))
        .await?;
    ensure!(
        text(&shown, &["status", "phase"]) == "Pending",
        "the answer has no defaults: {shown}"
    );
    let list = context.get(&context.pods()).await?;
    ensure!(names(&list).is_empty(), "a dry run stored {:?}", names(&list));
    Ok(())
}

async fn missing_object_answers_with_its_name(context: Context) -> ContractResult {
    let refusal = context.refused(404, "GET", &context.pod("missing"), None).await?;
    ensure!(refusal.reason == "NotFound", "the reason is {}", refusal.reason);
    ensure!(
        refusal.message == "pods \"missing\" not found",
        "the message is {:?}",
        refusal.message
    );
    context
        .refused(404, "PUT", &context.pod("missing"), Some(&pod("missing")))
        .await?;
    let patch: Value = json!({"metadata": {"labels": {"a": "b"}}});
    context
        .refused_as(
            404,
            "PATCH",
            &context.pod("missing"),
            "application/merge-patch+json",
            Some(&patch),
        )
        .await?;
    Ok(())
}
