//! Pods that cannot be placed at first, and what brings them back; names that are used again.
//!
//! Does not: stop schedulers or servers.

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::e2e::objects::{node, pod};
use crate::e2e::wait::eventually;
use crate::e2e::world::World;

/// A taint that goes away makes room.
///
/// # Errors
/// When the pod does not notice.
pub async fn removed_taint_wakes_a_pod(world: &mut World) -> Result<()> {
    world.add_node(node("n1").taint("example.com/away")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("waits")).await?;
    world.refused("waits", "Unschedulable").await?;
    world.patch_node("n1", &json!({"spec": {"taints": null}})).await?;
    ensure!(world.bound("waits").await? == "n1");
    Ok(())
}

/// A node that comes makes room; a cluster without nodes says so in upstream's words.
///
/// # Errors
/// When the pod does not notice, or the words differ.
pub async fn added_node_wakes_a_pod(world: &mut World) -> Result<()> {
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("waits")).await?;
    let message = world.refused("waits", "Unschedulable").await?;
    ensure!(
        message == "no nodes available to schedule pods",
        "the condition says {message:?}"
    );
    world.add_node(node("late")).await?;
    ensure!(world.bound("waits").await? == "late");
    Ok(())
}

/// A pod that goes gives its room to one that waits.
///
/// # Errors
/// When it does not.
pub async fn deleted_pod_frees_room(world: &mut World) -> Result<()> {
    world.add_node(node("n1").cpu("1")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("first").cpu("800m")).await?;
    world.bound("first").await?;
    world.add_pod(pod("second").cpu("800m")).await?;
    world.refused("second", "Unschedulable").await?;
    world.delete_pod("first").await?;
    ensure!(world.bound("second").await? == "n1");
    Ok(())
}

/// A gated pod is left alone, says why, and goes when its last gate does.
///
/// # Errors
/// When it goes before, or not at all.
pub async fn gated_pod_waits_for_its_gates(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    world.add_pod(pod("gated").gate("example.com/hold")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("free")).await?;
    world.bound("free").await?;
    ensure!(world.node_of("gated").await?.is_none(), "it got a node behind its gate");
    world.refused("gated", "SchedulingGated").await?;
    let patch = json!({"spec": {"schedulingGates": null}});
    world
        .pods()
        .patch("gated", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    ensure!(world.bound("gated").await? == "n1");
    Ok(())
}

/// A pod that is created again under the same name is another pod: while it waits, and once it was bound.
///
/// # Errors
/// When the second is not scheduled, or the room of the first is not free.
pub async fn recreated_pod_is_scheduled_again(world: &mut World) -> Result<()> {
    world.add_node(node("n1").cpu("1")).await?;
    let _scheduler = world.scheduler().await?;
    for size in ["900m", "800m", "700m"] {
        world.add_pod(pod("again").cpu(size)).await?;
        world.bound("again").await?;
        world.delete_pod("again").await?;
    }
    world.add_pod(pod("again").cpu("5")).await?;
    world.refused("again", "Unschedulable").await?;
    world.delete_pod("again").await?;
    let created = world.add_pod(pod("again").cpu("1")).await?;
    ensure!(world.bound("again").await? == "n1");
    let event = world.event(&created, "Scheduled").await?;
    ensure!(event.involved_object.uid == created.metadata.uid);
    Ok(())
}

/// A node that is deleted and added again, smaller, counts as the new one; pods of the old one are charged to it.
///
/// # Errors
/// When pods land on what is gone, or more land than fit.
pub async fn readded_node_is_used_afresh(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("old").cpu("1")).await?;
    world.bound("old").await?;
    world.nodes().delete("n1", &DeleteParams::default()).await?;
    world.add_pod(pod("between").cpu("1")).await?;
    world.refused("between", "Unschedulable").await?;
    world.add_node(node("n1").cpu("2")).await?;
    ensure!(world.bound("between").await? == "n1");
    world.add_pod(pod("late").cpu("1")).await?;
    let message = world.refused("late", "Unschedulable").await?;
    ensure!(
        message.starts_with("0/1 nodes are available: 1 Insufficient cpu."),
        "the condition says {message:?}"
    );
    world.delete_pod("old").await?;
    let late = eventually(async || world.node_of("late").await).await?;
    ensure!(late == "n1");
    Ok(())
}
