//! What a user sees with kubectl, on the embedded API server and on a real one.
//!
//! Needs kubectl, which is built from a Go module.

#![cfg(feature = "real-control-plane")]

use anyhow::{Context as _, Result, ensure};
use supercargo_loadtest::e2e::objects::{node, pod};
use supercargo_loadtest::e2e::wait::eventually;
use supercargo_loadtest::e2e::{Backend, World};
use supercargo_loadtest::tools::Kubectl;

/// kube-scheduler 1.36's words for a pod that is larger than the only node.
const TOO_LARGE: &str = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes \
                         are available: 1 Preemption is not helpful for scheduling.";

#[test]
fn kubectl_shows_decisions_of_the_embedded_server() {
    supercargo_loadtest::e2e::run(Backend::Embedded, "decisions", async |world| decisions(world).await);
}

#[test]
fn kubectl_shows_decisions_of_a_real_server() {
    supercargo_loadtest::e2e::run(Backend::Real, "decisions", async |world| decisions(world).await);
}

#[test]
fn kubectl_steers_the_embedded_server() {
    supercargo_loadtest::e2e::run(Backend::Embedded, "steering", async |world| steering(world).await);
}

#[test]
fn kubectl_steers_a_real_server() {
    supercargo_loadtest::e2e::run(Backend::Real, "steering", async |world| steering(world).await);
}

/// A pod with the scheduler's name gets a node; `describe` shows why, or why not.
async fn decisions(world: &mut World) -> Result<()> {
    let kubectl = Kubectl::new(world.admin_kubeconfig(), &world.dir)?;
    let _scheduler = world.scheduler().await?;
    let create = |object: String| kubectl.run_with(&["create", "-f", "-"], &object);
    create(serde_json::to_string(&node("n1").build())?)?;
    let fits = serde_json::to_string(&pod("fits").cpu("100m").scheduler("default-scheduler").build())?;
    create(fits)?;
    create(serde_json::to_string(&pod("huge").cpu("9").build())?)?;

    let scheduled = ["wait", "--for=condition=PodScheduled", "pod/fits", "--timeout=60s"];
    kubectl.run(&scheduled)?;
    let wide = kubectl.run(&["get", "pods", "-o", "wide", "--field-selector=spec.nodeName=n1"])?;
    ensure!(
        wide.contains("fits") && !wide.contains("huge"),
        "get pods -o wide: {wide}"
    );
    let nodes = kubectl.run(&["get", "nodes"])?;
    ensure!(nodes.contains("n1") && nodes.contains("Ready"), "get nodes: {nodes}");

    describes(
        &kubectl,
        "fits",
        "Scheduled",
        "Successfully assigned default/fits to n1",
    )
    .await?;
    describes(&kubectl, "huge", "FailedScheduling", TOO_LARGE).await?;
    let path = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
    let condition = kubectl.run(&["get", "pod", "huge", "-o", path])?;
    ensure!(condition == TOO_LARGE, "the condition says {condition:?}");
    let events = kubectl.run(&["events", "--for", "pod/huge"])?;
    ensure!(events.contains("FailedScheduling"), "events: {events}");
    let node = kubectl.run(&["describe", "node", "n1"])?;
    ensure!(node.contains("100m (2%)"), "describe node: {node}");
    Ok(())
}

/// Waits until `kubectl describe pod` shows an event of ours.
async fn describes(kubectl: &Kubectl, pod: &str, reason: &str, message: &str) -> Result<()> {
    let shown = eventually(async || {
        let text = kubectl.run(&["describe", "pod", pod])?;
        let line = text.lines().find(|line| line.contains(message)).map(str::to_owned);
        Ok(line)
    });
    let line = shown
        .await
        .with_context(|| format!("describe pod {pod} does not show {message:?}"))?;
    ensure!(
        line.contains(reason) && line.contains("default-scheduler"),
        "the event is {line:?}"
    );
    Ok(())
}

/// Apply, label, taint, cordon, drain and delete have the effect that they have on any cluster.
async fn steering(world: &mut World) -> Result<()> {
    let kubectl = Kubectl::new(world.admin_kubeconfig(), &world.dir)?;
    let _scheduler = world.scheduler().await?;
    for name in ["n1", "n2"] {
        kubectl.run_with(&["create", "-f", "-"], &serde_json::to_string(&node(name).build())?)?;
    }
    let shipyard = "shipyard";
    kubectl.run(&["create", "namespace", shipyard])?;
    kubectl.run(&["create", "priorityclass", "urgent", "--value=1000"])?;
    let in_shipyard = |arguments: &[&str]| kubectl.run(&[&["-n", shipyard], arguments].concat());

    kubectl.run(&["label", "node", "n2", "disk=ssd"])?;
    let wanted = pod("wants-ssd")
        .selector("disk", "ssd")
        .priority_class("urgent")
        .build();
    let mut wanted = serde_json::to_value(wanted)?;
    wanted["metadata"]["namespace"] = shipyard.into();
    let text = wanted.to_string();
    let applied = kubectl.run_with(&["apply", "-f", "-"], &text)?;
    ensure!(applied.contains("created"), "apply: {applied}");
    in_shipyard(&["wait", "--for=condition=PodScheduled", "pod/wants-ssd", "--timeout=60s"])?;
    let place = in_shipyard(&[
        "get",
        "pod",
        "wants-ssd",
        "-o",
        "jsonpath={.spec.nodeName} {.spec.priority}",
    ])?;
    ensure!(place == "n2 1000", "node and priority are {place:?}");
    let again = kubectl.run_with(&["apply", "-f", "-"], &text)?;
    // With kube-apiserver kubectl calls it configured where it cannot see that a defaulted field is the same.
    let is_real = world.embedded().is_none();
    ensure!(
        again.contains("unchanged") || (is_real && again.contains("configured")),
        "apply again: {again}"
    );

    kubectl.run(&["cordon", "n1"])?;
    kubectl.run(&["taint", "node", "n2", "example.com/away=:NoSchedule"])?;
    kubectl.run(&["run", "late", "--image=registry.k8s.io/pause:3.10"])?;
    world.refused("late", "Unschedulable").await?;
    kubectl.run(&["uncordon", "n1"])?;
    ensure!(world.bound("late").await? == "n1");
    let all = kubectl.run(&["get", "all"])?;
    ensure!(all.contains("pod/late"), "get all: {all}");

    kubectl.run(&[
        "drain",
        "n1",
        "--force",
        "--ignore-daemonsets",
        "--grace-period=0",
        "--timeout=60s",
    ])?;
    let left = kubectl.run(&["get", "pods"])?;
    ensure!(!left.contains("late"), "after the drain: {left}");
    in_shipyard(&[
        "delete",
        "pod",
        "wants-ssd",
        "--grace-period=0",
        "--force",
        "--timeout=60s",
    ])?;
    let left = in_shipyard(&["get", "pods"])?;
    ensure!(left.is_empty(), "after the deletion: {left}");
    Ok(())
}
