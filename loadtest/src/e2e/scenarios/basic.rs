//! Placement: who goes where, who does not, and what is said about it.
//!
//! Does not: wake pods or break anything.

use anyhow::{Result, ensure};

use crate::e2e::objects::{node, pod};
use crate::e2e::world::{Start, World};

/// A pod that fits gets the node; the Event says so in upstream's words.
///
/// # Errors
/// When it does not.
pub async fn plain_pod_gets_a_node_and_an_event(world: &mut World) -> Result<()> {
    let _scheduler = world.scheduler().await?;
    world.add_node(node("n1")).await?;
    let created = world.add_pod(pod("plain").cpu("100m")).await?;
    ensure!(world.bound("plain").await? == "n1");
    let event = world.event(&created, "Scheduled").await?;
    let message = event.message.unwrap_or_default();
    ensure!(
        message == "Successfully assigned default/plain to n1",
        "the message is {message:?}"
    );
    ensure!(
        event.type_.as_deref() == Some("Normal"),
        "the type is {:?}",
        event.type_
    );
    let reporter = event.reporting_component.filter(|name| !name.is_empty());
    let reporter = reporter.or_else(|| event.source.and_then(|source| source.component));
    ensure!(
        reporter.as_deref() == Some("default-scheduler"),
        "the reporter is {reporter:?}"
    );
    Ok(())
}

/// A pod that fits nowhere has the condition and the Event, both with upstream's message.
///
/// # Errors
/// When it does not.
pub async fn impossible_pod_is_explained(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    world.add_node(node("n2")).await?;
    world.add_node(node("n3").taint("example.com/away")).await?;
    let _scheduler = world.scheduler().await?;
    let created = world.add_pod(pod("huge").cpu("9")).await?;
    let expected = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to \
                    deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let message = world.refused("huge", "Unschedulable").await?;
    ensure!(message == expected, "the condition says {message:?}");
    let event = world.event(&created, "FailedScheduling").await?;
    let message = event.message.unwrap_or_default();
    ensure!(message == expected, "the event says {message:?}");
    ensure!(
        event.type_.as_deref() == Some("Warning"),
        "the type is {:?}",
        event.type_
    );
    Ok(())
}

/// nodeSelector and required node affinity decide.
///
/// # Errors
/// When a pod is elsewhere.
pub async fn selector_and_affinity_decide(world: &mut World) -> Result<()> {
    world.add_node(node("plain")).await?;
    world.add_node(node("ssd").label("disk", "ssd")).await?;
    world.add_node(node("east").label("zone", "east")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("wants-ssd").selector("disk", "ssd")).await?;
    world
        .add_pod(pod("wants-east").affinity("zone", &["east", "west"]))
        .await?;
    world.add_pod(pod("wants-north").affinity("zone", &["north"])).await?;
    ensure!(world.bound("wants-ssd").await? == "ssd");
    ensure!(world.bound("wants-east").await? == "east");
    let message = world.refused("wants-north", "Unschedulable").await?;
    let expected = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    ensure!(message.starts_with(expected), "the condition says {message:?}");
    Ok(())
}

/// Two pods with the same host port do not share a node.
///
/// # Errors
/// When they do.
pub async fn host_ports_conflict(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    world.add_node(node("n2")).await?;
    let _scheduler = world.scheduler().await?;
    for name in ["port-a", "port-b"] {
        world.add_pod(pod(name).host_port(8080)).await?;
    }
    let (a, b) = (world.bound("port-a").await?, world.bound("port-b").await?);
    ensure!(a != b, "both are on {a}");
    world.add_pod(pod("port-c").host_port(8080)).await?;
    let message = world.refused("port-c", "Unschedulable").await?;
    let expected = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.";
    ensure!(message.starts_with(expected), "the condition says {message:?}");
    Ok(())
}

/// Of the pods that wait, the one of higher priority gets the room.
///
/// # Errors
/// When another gets it.
pub async fn higher_priority_goes_first(world: &mut World) -> Result<()> {
    world.add_priority_class("e2e-high", 1_000).await?;
    world.add_node(node("n1").cpu("1")).await?;
    // All exist before the scheduler does, the important one last.
    world.add_pod(pod("low-a").cpu("800m")).await?;
    world.add_pod(pod("low-b").cpu("800m")).await?;
    world
        .add_pod(pod("high").cpu("800m").priority_class("e2e-high"))
        .await?;
    // One worker: of several, each takes a pod, and the important one would have to evict the other.
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                  kind: KubeSchedulerConfiguration\n\
                  ---\n\
                  apiVersion: supercargo.io/v1alpha1\n\
                  kind: SupercargoConfiguration\n\
                  workers: 1\n";
    let mut scheduler = world
        .start(&Start {
            name: "one-worker",
            config: (!world.upstream).then_some(config),
            ..Start::default()
        })
        .await?;
    world.ready(&mut scheduler).await?;
    world.bound("high").await?;
    for name in ["low-a", "low-b"] {
        world.refused(name, "Unschedulable").await?;
    }
    Ok(())
}

/// Two profiles in one process: each pod is scheduled by the one it names, with its plugins.
///
/// # Errors
/// When a pod is not scheduled as its profile says.
pub async fn profiles_are_chosen_by_scheduler_name(world: &mut World) -> Result<()> {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                  kind: KubeSchedulerConfiguration\n\
                  profiles:\n\
                  - schedulerName: default-scheduler\n\
                  - schedulerName: blind\n\
                  \x20 plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}\n";
    world.add_node(node("tainted").taint("example.com/away")).await?;
    let mut scheduler = world
        .start(&Start {
            name: "profiles",
            config: Some(config),
            ..Start::default()
        })
        .await?;
    world.ready(&mut scheduler).await?;
    world.add_pod(pod("sees")).await?;
    let created = world.add_pod(pod("blind").scheduler("blind")).await?;
    ensure!(world.bound("blind").await? == "tainted");
    let event = world.event(&created, "Scheduled").await?;
    let reporter = event.reporting_component.filter(|name| !name.is_empty());
    let reporter = reporter.or_else(|| event.source.and_then(|source| source.component));
    ensure!(reporter.as_deref() == Some("blind"), "the reporter is {reporter:?}");
    let message = world.refused("sees", "Unschedulable").await?;
    ensure!(
        message.starts_with("0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
        "it says {message:?}"
    );
    Ok(())
}

/// A pod of another scheduler is not touched.
///
/// # Errors
/// When it is.
pub async fn foreign_pod_is_left_alone(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    world.add_pod(pod("foreign").scheduler("somebody-else")).await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(pod("ours")).await?;
    world.bound("ours").await?;
    let foreign = world.pods().get("foreign").await?;
    ensure!(foreign.spec.and_then(|spec| spec.node_name).is_none(), "it got a node");
    let conditions = foreign.status.and_then(|status| status.conditions).unwrap_or_default();
    ensure!(
        conditions.iter().all(|one| one.type_ != "PodScheduled"),
        "it got a condition: {conditions:?}"
    );
    Ok(())
}
