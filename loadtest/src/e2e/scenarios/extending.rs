//! HTTP extenders: who filters, scores and binds from outside, and what becomes of pods when it fails.
//!
//! Does not: concern TLS or malformed answers; unit tests do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::client::Body;
use serde_json::{Value, json};

use crate::e2e::objects::{node, pod};
use crate::e2e::wait::eventually;
use crate::e2e::webhook::Webhook;
use crate::e2e::world::{Start, World};
use crate::process::free_port;
use crate::schedulers::Scheduler;

const CARD: &str = "example.com/card";

/// Starts a scheduler with these extenders, written as flow mappings.
async fn start(world: &World, extenders: &[String]) -> Result<Scheduler> {
    let mut config =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n".to_owned();
    for extender in extenders {
        config.push_str(&format!("- {extender}\n"));
    }
    let start = Start {
        name: "extended",
        config: Some(&config),
        ..Start::default()
    };
    let mut scheduler = world.start(&start).await?;
    world.ready(&mut scheduler).await?;
    Ok(scheduler)
}

fn names(nodes: &Value) -> Vec<&str> {
    let items = nodes["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|node| node["metadata"]["name"].as_str())
        .collect()
}

/// An extender that is sent whole objects takes one node away and scores another above all.
///
/// # Errors
/// When the pod goes elsewhere.
pub async fn extender_filters_and_scores(world: &mut World) -> Result<()> {
    let hook = Webhook::start(|verb, question| {
        if verb == "prioritize" {
            return Some(json!([{"Host": "n1", "Score": 10}, {"Host": "n3", "Score": 10}]));
        }
        let mut nodes = question["Nodes"].clone();
        if let Some(items) = nodes["items"].as_array_mut() {
            items.retain(|node| node["metadata"]["name"] != "n1");
        }
        Some(json!({"Nodes": nodes, "FailedNodes": {"n1": "not this one"}}))
    })
    .await?;
    for name in ["n1", "n2", "n3", "n4"] {
        world.add_node(node(name)).await?;
    }
    let extender = format!(
        "{{urlPrefix: '{}', filterVerb: filter, prioritizeVerb: prioritize, weight: 100}}",
        hook.url()
    );
    let _scheduler = start(world, &[extender]).await?;
    world.add_pod(pod("p").cpu("100m")).await?;
    let bound = world.bound("p").await?;
    ensure!(bound == "n3", "it is on {bound}");
    let calls = hook.calls();
    let verbs: Vec<&str> = calls.iter().map(|(verb, _)| verb.as_str()).collect();
    ensure!(verbs == ["filter", "prioritize"], "it was asked {verbs:?}");
    for ((_, question), asked) in calls.iter().zip([4, 3]) {
        ensure!(question["NodeNames"].is_null(), "names were sent: {question}");
        let nodes = &question["Nodes"];
        ensure!(names(nodes).len() == asked, "asked about {:?}", names(nodes));
        ensure!(nodes["items"][0]["status"]["capacity"]["memory"] == "8Gi", "{nodes}");
        let sent = &question["Pod"];
        ensure!(sent["metadata"]["name"] == "p", "the pod is {sent}");
        ensure!(sent["spec"]["containers"][0]["image"].is_string(), "the pod is {sent}");
    }
    Ok(())
}

/// A pod that an extender refuses is told why; any event has it tried again, and once the extender agrees it is bound.
///
/// # Errors
/// When it is not so.
pub async fn extender_changes_its_mind(world: &mut World) -> Result<()> {
    let agrees = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&agrees);
    let hook = Webhook::start(move |_, question| {
        // A later pod than the one that waits.
        let bystander = question["Pod"]["metadata"]["name"] == "bystander";
        Some(if bystander || asked.load(Ordering::Relaxed) {
            json!({"NodeNames": question["NodeNames"]})
        } else {
            json!({"NodeNames": [], "FailedNodes": {"n1": "no card left"}, "FailedAndUnresolvableNodes": {"n2": "no card"}})
        })
    })
    .await?;
    for name in ["n1", "n2"] {
        world.add_node(node(name)).await?;
    }
    let extender = format!(
        "{{urlPrefix: '{}', filterVerb: filter, nodeCacheCapable: true}}",
        hook.url()
    );
    let _scheduler = start(world, &[extender]).await?;
    world.add_pod(pod("bystander")).await?;
    world.bound("bystander").await?;
    world.add_pod(pod("p")).await?;
    let message = world.refused("p", "Unschedulable").await?;
    let expected = "0/2 nodes are available: 1 no card, 1 no card left.";
    ensure!(message.starts_with(expected), "the condition says {message:?}");
    agrees.store(true, Ordering::Relaxed);
    world.delete_pod("bystander").await?;
    world.bound("p").await?;
    Ok(())
}

/// An extender that never answers holds up the pods that it manages, and no others.
///
/// # Errors
/// When others wait.
pub async fn hanging_extender_holds_up_its_own_pods_only(world: &mut World) -> Result<()> {
    if world.upstream {
        return Ok(());
    }
    let hook = Webhook::start(|_, _| None).await?;
    world.add_node(node("n1")).await?;
    let extender = format!(
        "{{urlPrefix: '{}', filterVerb: filter, httpTimeout: 1h, nodeCacheCapable: true, \
         managedResources: [{{name: {CARD}, ignoredByScheduler: true}}]}}",
        hook.url()
    );
    let _scheduler = start(world, &[extender]).await?;
    // More than are asked about at a time.
    for number in 0..40 {
        world
            .add_pod(pod(&format!("card-{number}")).extended(CARD, "1"))
            .await?;
    }
    eventually(async || Ok((hook.calls().len() >= 16).then_some(()))).await?;
    for number in 0..10 {
        world.add_pod(pod(&format!("plain-{number}"))).await?;
    }
    for number in 0..10 {
        world.bound(&format!("plain-{number}")).await?;
    }
    ensure!(world.node_of("card-0").await?.is_none(), "nobody agreed");
    Ok(())
}

/// An extender binds the pods that it manages; what it manages need not be on any node.
///
/// # Errors
/// When they are bound otherwise.
pub async fn extender_binds(world: &mut World) -> Result<()> {
    let hook = {
        let client = world.client.clone();
        let runtime = tokio::runtime::Handle::current();
        Webhook::start(move |_, question| {
            let (client, question) = (client.clone(), question.clone());
            let bound = std::thread::scope(|scope| {
                scope
                    .spawn(|| runtime.block_on(bind(client, &question)))
                    .join()
                    .map_err(|_panic| anyhow::anyhow!("binding panicked"))
            });
            let error = bound.and_then(|bound| bound).err();
            Some(json!({"Error": error.map(|error| format!("{error:#}")).unwrap_or_default()}))
        })
        .await?
    };
    world.add_node(node("n1")).await?;
    let extender = format!(
        "{{urlPrefix: '{}', bindVerb: bind, managedResources: [{{name: {CARD}, ignoredByScheduler: true}}]}}",
        hook.url()
    );
    let _scheduler = start(world, &[extender]).await?;
    let card = world.add_pod(pod("card").extended(CARD, "1")).await?;
    world.add_pod(pod("plain")).await?;
    ensure!(world.bound("card").await? == "n1");
    world.bound("plain").await?;
    world.event(&card, "Scheduled").await?;
    let expected = json!({"PodName": "card", "PodNamespace": "default", "PodUID": card.metadata.uid, "Node": "n1"});
    let calls = hook.calls();
    ensure!(calls == [("bind".to_owned(), expected)], "it was asked {calls:?}");
    Ok(())
}

async fn bind(client: kube::Client, question: &Value) -> Result<()> {
    let text = |field: &str| question[field].as_str().unwrap_or_default().to_owned();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &text("PodNamespace"));
    ensure!(pods.get(&text("PodName")).await?.metadata.uid == Some(text("PodUID")));
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": text("PodName"), "namespace": text("PodNamespace"), "uid": text("PodUID")},
        "target": {"kind": "Node", "name": text("Node")},
    });
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/binding",
        text("PodNamespace"),
        text("PodName")
    );
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(&binding)?))?;
    ensure!(client.send(request).await?.status().is_success());
    Ok(())
}

/// An ignorable extender that is not there changes nothing; one that is needed makes every attempt an error.
///
/// # Errors
/// When it is not so.
pub async fn absent_extender_is_ignored_or_an_error(world: &mut World) -> Result<()> {
    let (ignorable, needed) = (free_port()?, free_port()?);
    world.add_node(node("n1")).await?;
    let extenders = [
        format!("{{urlPrefix: 'http://127.0.0.1:{ignorable}', filterVerb: filter, bindVerb: bind, ignorable: true}}"),
        format!(
            "{{urlPrefix: 'http://127.0.0.1:{needed}', filterVerb: filter, \
             managedResources: [{{name: {CARD}, ignoredByScheduler: true}}]}}"
        ),
    ];
    let _scheduler = start(world, &extenders).await?;
    world.add_pod(pod("card").extended(CARD, "1")).await?;
    world.add_pod(pod("plain")).await?;
    ensure!(world.bound("plain").await? == "n1");
    let message = world.refused("card", "SchedulerError").await?;
    let expected = format!("Post \"http://127.0.0.1:{needed}/filter\": ");
    ensure!(message.starts_with(&expected), "the condition says {message:?}");
    Ok(())
}
