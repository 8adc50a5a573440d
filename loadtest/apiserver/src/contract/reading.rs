//! Lists: selectors, pages, versions; discovery and reviews.

use serde_json::{Value, json};

use super::{Context, ContractResult, ensure, names, pod, tests, text, version};
use crate::meta;

tests![
    label_selectors_filter_lists,
    field_selectors_filter_lists,
    unknown_field_selector_is_refused,
    pages_show_one_version,
    bad_continue_token_is_refused,
    list_of_the_future_is_refused,
    list_across_namespaces_is_sorted,
    discovery_names_what_a_scheduler_needs,
    access_reviews_are_answered,
    tables_have_the_usual_columns,
];

async fn label_selectors_filter_lists(context: Context) -> ContractResult {
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "z")] {
        let mut body = pod(name);
        body["metadata"]["labels"]["tier"] = tier.into();
        context.post(&context.pods(), &body).await?;
    }
    for (selector, expected) in [
        ("tier%3Dx", &["a"][..]),
        ("tier!%3Dx", &["b", "c"]),
        ("tier%20in%20(x,y)", &["a", "b"]),
        ("tier%20notin%20(x,y),app", &["c"]),
        ("!tier", &[]),
        ("tier%3D%3Dz,app%3Dcontract", &["c"]),
    ] {
        let list = context
            .get(&format!("{}?labelSelector={selector}", context.pods()))
            .await?;
        ensure!(names(&list) == expected, "{selector} gives {:?}", names(&list));
    }
    context
        .refused(400, "GET", &format!("{}?labelSelector=a%20b", context.pods()), None)
        .await?;
    Ok(())
}

async fn field_selectors_filter_lists(context: Context) -> ContractResult {
    for name in ["a", "b"] {
        context.create_pod(name).await?;
    }
    let mut other = pod("c");
    other["spec"]["schedulerName"] = "other".into();
    context.post(&context.pods(), &other).await?;
    context.bind("b", "n1").await?;
    let running = json!({"status": {"phase": "Running"}});
    context
        .patch(&format!("{}/status", context.pod("b")), "merge-patch+json", &running)
        .await?;
    for (selector, expected) in [
        ("spec.nodeName%3Dn1", &["b"][..]),
        ("spec.nodeName%3D", &["a", "c"]),
        ("spec.nodeName!%3D", &["b"]),
        ("status.phase%3DRunning", &["b"]),
        ("status.phase!%3DSucceeded,status.phase!%3DFailed", &["a", "b", "c"]),
        ("spec.schedulerName%3Dother", &["c"]),
        ("metadata.name%3D%3Da", &["a"]),
    ] {
        let list = context
            .get(&format!("{}?fieldSelector={selector}", context.pods()))
            .await?;
        ensure!(names(&list) == expected, "{selector} gives {:?}", names(&list));
    }
    Ok(())
}

async fn unknown_field_selector_is_refused(context: Context) -> ContractResult {
    context
        .refused(
            400,
            "GET",
            &format!("{}?fieldSelector=spec.nothing%3Da", context.pods()),
            None,
        )
        .await?;
    Ok(())
}

async fn pages_show_one_version(context: Context) -> ContractResult {
    let expected = ["a", "b", "c", "d", "e"];
    for name in expected {
        context.create_pod(name).await?;
    }
    let mut page = context.get(&format!("{}?limit=2", context.pods())).await?;
    let first_version = version(&page).to_owned();
    let left = &page["metadata"]["remainingItemCount"];
    ensure!(*left == 3, "after the first page {left} are left");
    context.delete(&context.pod("d"), &json!({})).await?;
    context.create_pod("bb").await?;
    let mut seen: Vec<String> = names(&page).into_iter().map(str::to_owned).collect();
    ensure!(seen.len() == 2, "the first page has {seen:?}");
    loop {
        let token = text(&page, &["metadata", "continue"]).to_owned();
        if token.is_empty() {
            break;
        }
        page = context
            .get(&format!("{}?limit=2&continue={token}", context.pods()))
            .await?;
        ensure!(
            version(&page) == first_version,
            "a page has version {}, not {first_version}",
            version(&page)
        );
        seen.extend(names(&page).into_iter().map(str::to_owned));
        ensure!(seen.len() <= 6, "there are too many: {seen:?}");
    }
    ensure!(seen == expected, "the pages show {seen:?}");
    Ok(())
}

async fn bad_continue_token_is_refused(context: Context) -> ContractResult {
    context
        .refused(
            400,
            "GET",
            &format!("{}?limit=2&continue=garbage", context.pods()),
            None,
        )
        .await?;
    Ok(())
}

async fn list_of_the_future_is_refused(context: Context) -> ContractResult {
    let list = context.get(&context.pods()).await?;
    let now: u64 = version(&list).parse().unwrap_or_default();
    ensure!(now > 0, "a list has version {:?}", version(&list));
    let future = format!(
        "{}?resourceVersion={}&resourceVersionMatch=NotOlderThan",
        context.pods(),
        now + 1_000_000
    );
    context.refused(504, "GET", &future, None).await?;
    let any = context.get(&format!("{}?resourceVersion=0", context.pods())).await?;
    ensure!(text(&any, &["kind"]) == "PodList", "the list's kind is {}", any["kind"]);
    Ok(())
}

async fn list_across_namespaces_is_sorted(context: Context) -> ContractResult {
    for name in ["b", "a"] {
        context.create_pod(name).await?;
    }
    let selector = format!("metadata.namespace%3D{}", context.namespace);
    let list = context.get(&format!("/api/v1/pods?fieldSelector={selector}")).await?;
    ensure!(names(&list) == ["a", "b"], "the list shows {:?}", names(&list));
    Ok(())
}

async fn discovery_names_what_a_scheduler_needs(context: Context) -> ContractResult {
    let core = context.get("/api/v1").await?;
    let listed = |list: &Value, name: &str| {
        let resources = list.get("resources").and_then(Value::as_array);
        resources
            .into_iter()
            .flatten()
            .any(|resource| text(resource, &["name"]) == name)
    };
    for name in [
        "pods",
        "pods/binding",
        "pods/status",
        "pods/eviction",
        "nodes",
        "services",
        "persistentvolumes",
        "bindings",
    ] {
        ensure!(listed(&core, name), "core discovery lacks {name}");
    }
    for (path, name) in [
        ("/apis/apps/v1", "replicasets"),
        ("/apis/policy/v1", "poddisruptionbudgets"),
        ("/apis/storage.k8s.io/v1", "csinodes"),
        ("/apis/resource.k8s.io/v1", "resourceclaims/status"),
        ("/apis/coordination.k8s.io/v1", "leases"),
        ("/apis/events.k8s.io/v1", "events"),
    ] {
        let list = context.get(path).await?;
        ensure!(listed(&list, name), "{path} lacks {name}");
    }
    let groups = context.get("/apis").await?;
    ensure!(
        text(&groups, &["kind"]) == "APIGroupList",
        "/apis answers {}",
        groups["kind"]
    );
    let server = context.get("/version").await?;
    ensure!(text(&server, &["major"]) == "1", "the version is {server}");
    context.refused(404, "GET", "/apis/no.such.group/v1", None).await?;
    Ok(())
}

async fn access_reviews_are_answered(context: Context) -> ContractResult {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let answer = context
        .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)
        .await?;
    ensure!(
        meta::get(&answer, &["status", "allowed"]) == Some(&json!(true)),
        "the answer is {answer}"
    );
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "no such token"}});
    let answer = context
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await?;
    let authenticated = meta::get(&answer, &["status", "authenticated"])
        .and_then(Value::as_bool)
        .unwrap_or_default();
    ensure!(!authenticated, "an unknown token is let in: {answer}");
    Ok(())
}

async fn tables_have_the_usual_columns(context: Context) -> ContractResult {
    context.create_pod("a").await?;
    let request = http::Request::get(context.pods())
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .map_err(|error| super::ContractError::new(error.to_string()))?;
    let table = context
        .client
        .request::<Value>(request)
        .await
        .map_err(|error| super::ContractError::new(error.to_string()))?;
    ensure!(text(&table, &["kind"]) == "Table", "the answer is {}", table["kind"]);
    let columns = table.get("columnDefinitions").and_then(Value::as_array);
    let columns: Vec<&str> = columns
        .into_iter()
        .flatten()
        .map(|column| text(column, &["name"]))
        .collect();
    ensure!(
        columns.starts_with(&["Name", "Ready", "Status", "Restarts", "Age"]),
        "columns are {columns:?}"
    );
    ensure!(table["rows"][0]["cells"][0] == "a", "the row is {}", table["rows"][0]);
    Ok(())
}
