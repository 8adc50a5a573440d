//! Deleting: grace, preconditions, finalizers, collections.

use serde_json::{Value, json};

use super::{Context, ContractResult, ensure, names, pod, tests, text};
use crate::meta;

tests![
    unbound_pod_goes_at_once,
    bound_pod_waits_for_its_grace,
    preconditions_are_checked,
    finalizers_hold_an_object,
    collection_is_deleted_by_selector,
    deleted_name_can_be_used_again,
];

fn deletion_time(pod: &Value) -> &str {
    text(pod, &["metadata", "deletionTimestamp"])
}

async fn unbound_pod_goes_at_once(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    context.delete(&context.pod("a"), &json!({})).await?;
    context.refused(404, "GET", &context.pod("a"), None).await?;
    context
        .refused(404, "DELETE", &context.pod("a"), Some(&json!({})))
        .await?;
    Ok(())
}

async fn bound_pod_waits_for_its_grace(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    context.bind("a", "n").await?;
    let leaving = context.delete(&context.pod("a"), &json!({})).await?;
    ensure!(
        !deletion_time(&leaving).is_empty(),
        "there is no deletion time in {leaving}"
    );
    let grace = meta::get(&leaving, &["metadata", "deletionGracePeriodSeconds"])
        .cloned()
        .unwrap_or_default();
    ensure!(grace == 30, "the grace is {grace}");
    let read = context.get(&context.pod("a")).await?;
    ensure!(
        deletion_time(&read) == deletion_time(&leaving),
        "the stored pod has another deletion time"
    );
    context
        .delete(&context.pod("a"), &json!({"gracePeriodSeconds": 0}))
        .await?;
    context.refused(404, "GET", &context.pod("a"), None).await?;
    Ok(())
}

async fn preconditions_are_checked(context: Context) -> ContractResult {
    let pod = context.create_pod("a").await?;
    let other = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}});
    let refusal = context.refused(409, "DELETE", &context.pod("a"), Some(&other)).await?;
    ensure!(refusal.reason == "Conflict", "the reason is {}", refusal.reason);
    let own = json!({"preconditions": {"uid": text(&pod, &["metadata", "uid"])}});
    context.delete(&context.pod("a"), &own).await?;
    Ok(())
}

async fn finalizers_hold_an_object(context: Context) -> ContractResult {
    let mut body = pod("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    context.post(&context.pods(), &body).await?;
    let leaving = context.delete(&context.pod("a"), &json!({})).await?;
    ensure!(
        !deletion_time(&leaving).is_empty(),
        "there is no deletion time in {leaving}"
    );
    context.get(&context.pod("a")).await?;
    context
        .patch(
            &context.pod("a"),
            "merge-patch+json",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    context.refused(404, "GET", &context.pod("a"), None).await?;
    Ok(())
}

async fn collection_is_deleted_by_selector(context: Context) -> ContractResult {
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut body = pod(name);
        body["metadata"]["labels"]["tier"] = tier.into();
        context.post(&context.pods(), &body).await?;
    }
    context
        .delete(&format!("{}?labelSelector=tier%3Dx", context.pods()), &json!({}))
        .await?;
    let list = context.get(&context.pods()).await?;
    ensure!(names(&list) == ["b"], "left are {:?}", names(&list));
    Ok(())
}

async fn deleted_name_can_be_used_again(context: Context) -> ContractResult {
    let first = context.create_pod("a").await?;
    context.delete(&context.pod("a"), &json!({})).await?;
    let second = context.create_pod("a").await?;
    ensure!(
        first["metadata"]["uid"] != second["metadata"]["uid"],
        "the UID is the same"
    );
    let mut stale = super::binding("a", "n");
    stale["metadata"]["uid"] = first["metadata"]["uid"].clone();
    context
        .refused(409, "POST", &format!("{}/binding", context.pod("a")), Some(&stale))
        .await?;
    Ok(())
}
