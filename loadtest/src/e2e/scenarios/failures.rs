//! Schedulers that end and API servers that fail: nothing is lost, nothing is done twice.
//!
//! Does not: concern leader election.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use http::StatusCode;
use kube::api::ListParams;
use supercargo_apiserver::faults::{FaultAction, FaultRule};

use crate::controlplane::credentials::kubeconfig;
use crate::e2e::objects::{node, pod};
use crate::e2e::wait::{eventually, health};
use crate::e2e::world::{Start, World};
use crate::process::{free_port, write_private};

/// Pods in the scenarios with many: enough to be in the middle of something when it breaks.
const MANY: usize = 200;

/// A scheduler killed in the middle of its work leaves nothing behind that its successor cannot finish.
///
/// # Errors
/// When a pod is lost or a node holds too much.
pub async fn restarted_scheduler_loses_nothing(world: &mut World) -> Result<()> {
    add_room(world).await?;
    let mut first = world.scheduler().await?;
    let creating = add_many(world, "many", MANY);
    let killing = async {
        eventually(async || Ok((bound_count(world).await? > MANY / 10).then_some(()))).await?;
        first.process.kill().map(drop)
    };
    tokio::try_join!(creating, killing)?;
    let _second = world
        .start(&Start {
            name: "second",
            ..Start::default()
        })
        .await?;
    all_bound_and_fitting(world, MANY).await
}

/// An API server that goes away in the middle and comes back finds the scheduler alive and at work.
///
/// # Errors
/// When a pod is lost, a node holds too much, or the scheduler is gone.
pub async fn api_outage_loses_nothing(world: &mut World) -> Result<()> {
    add_room(world).await?;
    let mut scheduler = world.scheduler().await?;
    add_many(world, "before", MANY / 2).await?;
    eventually(async || Ok((bound_count(world).await? > MANY / 20).then_some(()))).await?;
    world.outage_begin()?;
    // Long enough for requests to fail and for a few retries.
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.outage_end().await?;
    scheduler.process.ensure_running()?;
    add_many(world, "after", MANY / 2).await?;
    all_bound_and_fitting(world, MANY).await?;
    scheduler.process.ensure_running()
}

/// Without an API server the scheduler stays, is not ready, and says why.
///
/// # Errors
/// When it ends, calls itself ready, or is silent.
pub async fn unreachable_api_is_reported(world: &mut World) -> Result<()> {
    if world.upstream {
        return Ok(());
    }
    let nobody = format!("http://127.0.0.1:{}", free_port()?);
    let file = world.dir.join("nobody.kubeconfig");
    write_private(&file, &kubeconfig(&nobody, None, None))?;
    let mut scheduler = world
        .start(&Start {
            name: "alone",
            kubeconfig: Some(&file),
            ..Start::default()
        })
        .await?;
    let (status, text) = eventually(async || {
        let (status, text) = health(&scheduler, "/readyz?verbose").await?;
        // It may first say that it has only begun.
        Ok((status != StatusCode::OK && text.contains("failed")).then_some((status, text)))
    })
    .await
    .context("readyz does not tell of a failure")?;
    ensure!(
        status == StatusCode::INTERNAL_SERVER_ERROR || status == StatusCode::SERVICE_UNAVAILABLE,
        "{status}: {text}"
    );
    let (live, text) = health(&scheduler, "/livez").await?;
    ensure!(live == StatusCode::OK, "livez says {live}: {text}");
    scheduler.process.ensure_running()
}

/// Bindings that the server refuses for a while are tried again; answers that get lost are not bound twice.
///
/// Only the embedded server can be asked to do this.
///
/// # Errors
/// When a pod is lost or a node holds too much.
pub async fn refused_bindings_are_tried_again(world: &mut World) -> Result<()> {
    let Some(server) = world.embedded() else { return Ok(()) };
    add_room(world).await?;
    let overloaded = FaultAction::Status {
        code: 429,
        retry_after_seconds: Some(1),
    };
    let broken = FaultAction::Status {
        code: 503,
        retry_after_seconds: None,
    };
    let on = || FaultRule::on("create", "pods/binding");
    let rules = [
        on().with(overloaded).times(5),
        on().with(broken).times(10),
        on().with(FaultAction::ResetBefore).times(10),
        on().with(FaultAction::ResetAfter).times(10),
    ];
    for rule in rules {
        server.faults().add(rule)?;
    }
    let _scheduler = world.scheduler().await?;
    add_many(world, "many", MANY).await?;
    all_bound_and_fitting(world, MANY).await
}

/// Room for [`MANY`] pods of 100m and a little more.
async fn add_room(world: &World) -> Result<()> {
    try_join_all((0..6).map(|index| world.add_node(node(&format!("n{index}")))))
        .await
        .map(drop)
}

async fn add_many(world: &World, prefix: &str, count: usize) -> Result<()> {
    let creations = (0..count).map(|index| world.add_pod(pod(&format!("{prefix}-{index}")).cpu("100m")));
    try_join_all(creations).await.map(drop)
}

async fn bound_count(world: &World) -> Result<usize> {
    let pods = world.pods().list(&ListParams::default()).await?.items;
    Ok(pods
        .iter()
        .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
        .count())
}

/// Waits until all pods have nodes; then no node may hold more than its 40 pods of 100m.
async fn all_bound_and_fitting(world: &World, count: usize) -> Result<()> {
    let all = eventually(async || Ok((bound_count(world).await? == count).then_some(()))).await;
    all.with_context(|| format!("not all of {count} pods get a node"))?;
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in world.pods().list(&ListParams::default()).await?.items {
        *per_node
            .entry(pod.spec.and_then(|spec| spec.node_name).unwrap_or_default())
            .or_default() += 1;
    }
    ensure!(
        per_node.values().all(|held| *held <= 40),
        "a node holds more than it can: {per_node:?}"
    );
    Ok(())
}
