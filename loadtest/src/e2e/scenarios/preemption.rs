//! Pods that give way to pods of higher priority.
//!
//! Victims that must be seen on their way out have a finalizer, which holds them until the scenario takes it away.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::e2e::objects::{node, pod};
use crate::e2e::wait::eventually;
use crate::e2e::world::World;

/// A pod of higher priority has a lower one evicted: the victim is marked, told and removed, the preemptor says where it
/// is headed and gets the place.
///
/// # Errors
/// When something of that does not happen.
pub async fn higher_priority_evicts_lower(world: &mut World) -> Result<()> {
    priorities(world).await?;
    world.add_node(node("n1").cpu("1")).await?;
    let _scheduler = world.scheduler().await?;
    let low = world
        .add_pod(
            pod("low")
                .cpu("800m")
                .priority_class("e2e-low")
                .finalizer("example.com/hold"),
        )
        .await?;
    world.bound("low").await?;
    let high = world
        .add_pod(pod("high").cpu("800m").priority_class("e2e-high"))
        .await?;
    let leaving = leaving(world, "low").await?;
    let mark = mark(&leaving).context("the victim has no condition DisruptionTarget")?;
    ensure!(
        mark == "True, PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod",
        "the victim's condition says {mark:?}"
    );
    let event = world.event(&low, "Preempted").await?;
    let told = format!("Preempted by pod {} on node n1", high.metadata.uid.unwrap_or_default());
    ensure!(
        event.message.as_deref() == Some(told.as_str()),
        "the event says {:?}",
        event.message
    );
    nominated(world, "high", Some("n1")).await?;
    ensure!(
        world.node_of("high").await?.is_none(),
        "it got the node before its victim was gone"
    );
    let message = world.refused("high", "Unschedulable").await?;
    ensure!(
        message.starts_with("0/1 nodes are available: 1 Insufficient cpu."),
        "the condition says {message:?}"
    );
    release(world, "low").await?;
    ensure!(world.bound("high").await? == "n1");
    ensure!(world.pods().get_opt("low").await?.is_none());
    Ok(())
}

/// The room that a victim leaves is the preemptor's: neither an equal pod nor a lower one that comes meanwhile takes it,
/// and nobody else is evicted for it while the victim is on its way.
///
/// # Errors
/// When somebody does, or is.
pub async fn nominated_room_is_kept(world: &mut World) -> Result<()> {
    priorities(world).await?;
    world.add_node(node("n1").cpu("1").label("only", "n1")).await?;
    world.add_node(node("n2").cpu("1")).await?;
    let _scheduler = world.scheduler().await?;
    for (name, on) in [("low1", "n1"), ("low2", "n2")] {
        let low = pod(name)
            .cpu("800m")
            .priority_class("e2e-low")
            .finalizer("example.com/hold");
        let low = if on == "n1" { low.selector("only", "n1") } else { low };
        world.add_pod(low).await?;
        ensure!(world.bound(name).await? == on);
    }
    let high = pod("high")
        .cpu("800m")
        .priority_class("e2e-high")
        .selector("only", "n1");
    world.add_pod(high).await?;
    leaving(world, "low1").await?;
    nominated(world, "high", Some("n1")).await?;
    world
        .add_pod(pod("late").cpu("800m").priority_class("e2e-low").selector("only", "n1"))
        .await?;
    world.refused("late", "Unschedulable").await?;
    release(world, "low1").await?;
    ensure!(world.bound("high").await? == "n1");
    ensure!(world.node_of("late").await?.is_none(), "a lower pod took the room");
    let spared = world.pods().get("low2").await?;
    ensure!(
        spared.metadata.deletion_timestamp.is_none(),
        "a pod was evicted in vain"
    );
    release(world, "low2").await?;
    Ok(())
}

/// A pod that may not preempt waits, and evicts nobody; so does one that finds only its equals.
///
/// # Errors
/// When somebody is evicted.
pub async fn some_pods_preempt_nobody(world: &mut World) -> Result<()> {
    priorities(world).await?;
    world.add_node(node("n1").cpu("1")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("low").cpu("800m").priority_class("e2e-low")).await?;
    world.bound("low").await?;
    let patient = pod("patient").cpu("800m").priority_class("e2e-patient");
    world.add_pod(patient).await?;
    let message = world.refused("patient", "Unschedulable").await?;
    ensure!(
        message.ends_with("preemption: not eligible due to preemptionPolicy=Never."),
        "the condition says {message:?}"
    );
    world
        .add_pod(pod("equal").cpu("800m").priority_class("e2e-low"))
        .await?;
    let message = world.refused("equal", "Unschedulable").await?;
    ensure!(
        message.ends_with("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        "the condition says {message:?}"
    );
    let spared = world.pods().get("low").await?;
    ensure!(spared.metadata.deletion_timestamp.is_none(), "a pod was evicted");
    Ok(())
}

async fn priorities(world: &World) -> Result<()> {
    world.add_priority_class("e2e-low", 10).await?;
    world.add_priority_class("e2e-high", 1000).await?;
    world.add_patient_priority_class("e2e-patient", 1000).await
}

/// Waits until a pod is on its way out.
async fn leaving(world: &World, name: &str) -> Result<Pod> {
    let pods = world.pods();
    let seen = eventually(async || {
        let pod = pods.get(name).await?;
        Ok(pod.metadata.deletion_timestamp.is_some().then_some(pod))
    });
    seen.await.with_context(|| format!("pod {name} is not evicted"))
}

/// The condition that says who disrupts a pod.
fn mark(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mark = conditions.iter().find(|one| one.type_ == "DisruptionTarget")?;
    let (reason, message) = (mark.reason.as_deref()?, mark.message.as_deref()?);
    Some(format!("{}, {reason}: {message}", mark.status))
}

async fn nominated(world: &World, name: &str, node: Option<&str>) -> Result<()> {
    let pods = world.pods();
    let seen = eventually(async || {
        let status = pods.get(name).await?.status.unwrap_or_default();
        let named = status.nominated_node_name.filter(|name| !name.is_empty());
        Ok((named.as_deref() == node).then_some(()))
    });
    seen.await
        .with_context(|| format!("pod {name} is not nominated to {node:?}"))
}

/// Takes a pod's finalizers away.
async fn release(world: &World, name: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.pods().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}
