//! Claims that wait for their first consumer: the scheduler chooses their volumes, and the volume controller completes
//! what it began.
//!
//! Names of classes are a scenario's own, since a real server keeps volumes from one scenario to the next.
//!
//! Does not: concern claims that are bound before their pod comes.

use std::fmt::Debug;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use supercargo_apiserver::faults::{FaultAction, FaultRule};

use crate::e2e::objects::{PodBuilder, node, pod};
use crate::e2e::volume_controller::{PROVISIONER, VolumeController};
use crate::e2e::wait::eventually;
use crate::e2e::world::World;

const BY_HAND: &str = "kubernetes.io/no-provisioner";

fn claims(world: &World) -> Api<PersistentVolumeClaim> {
    Api::namespaced(world.client.clone(), "default")
}

fn volumes(world: &World) -> Api<PersistentVolume> {
    Api::all(world.client.clone())
}

/// The controller that completes bindings, unless the control plane has one.
fn controller(world: &World) -> Option<VolumeController> {
    (!world.has_controllers).then(|| VolumeController::start(&world.client))
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: kube::Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let shown = object["metadata"]["name"].to_string();
    let object: K = serde_json::from_value(object).with_context(|| format!("making {shown}"))?;
    api.create(&PostParams::default(), &object)
        .await
        .map(drop)
        .with_context(|| format!("creating {shown}"))
}

async fn add_class(world: &World, name: &str, provisioner: &str) -> Result<()> {
    let object = json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"});
    create::<StorageClass>(&Api::all(world.client.clone()), object).await
}

async fn add_volume(world: &World, name: &str, class: &str, node: &str) -> Result<()> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": format!("/mnt/{name}")},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}},
        },
    });
    create(&volumes(world), object).await
}

async fn add_claim(world: &World, name: &str, class: &str) -> Result<()> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    create(&claims(world), object).await
}

/// A pod that uses claims.
fn using(name: &str, claims: &[&str]) -> PodBuilder {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod(name).volumes(claims.iter().map(volume).collect())
}

/// The volume that a claim is bound to, once it is.
async fn volume_of(world: &World, claim: &str) -> Result<String> {
    let found = eventually(async || {
        let claim = claims(world).get(claim).await?;
        let phase = claim.status.and_then(|status| status.phase).unwrap_or_default();
        let volume = claim.spec.and_then(|spec| spec.volume_name);
        Ok(volume.filter(|_| phase == "Bound"))
    });
    found.await.with_context(|| format!("claim {claim} is not bound"))
}

/// The claim that a volume is reserved for.
async fn claim_of(world: &World, volume: &str) -> Result<Option<String>> {
    let volume = volumes(world).get(volume).await?;
    let claim = volume.spec.and_then(|spec| spec.claim_ref);
    Ok(claim.and_then(|claim| claim.name))
}

/// A pod goes where the one volume for its claim is, and both are bound; a second pod finds none, until one comes.
///
/// # Errors
/// When a pod or a claim is bound wrongly or not at all.
pub async fn local_volumes_are_bound(world: &mut World) -> Result<()> {
    let _controller = controller(world);
    for name in ["n1", "n2", "n3"] {
        world.add_node(node(name)).await?;
    }
    add_class(world, "local-bound", BY_HAND).await?;
    add_volume(world, "bound-v2", "local-bound", "n2").await?;
    add_claim(world, "bound-c1", "local-bound").await?;
    add_claim(world, "bound-c2", "local-bound").await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(using("first", &["bound-c1"])).await?;
    let place = world.bound("first").await?;
    ensure!(place == "n2", "the pod is on {place}");
    let volume = volume_of(world, "bound-c1").await?;
    ensure!(volume == "bound-v2", "the claim is bound to {volume}");
    let claim = claim_of(world, "bound-v2").await?;
    ensure!(claim.as_deref() == Some("bound-c1"), "the volume is bound to {claim:?}");
    world.add_pod(using("second", &["bound-c2"])).await?;
    let told = world.refused("second", "Unschedulable").await?;
    let expected = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    ensure!(told.starts_with(expected), "the condition says {told:?}");
    add_volume(world, "bound-v3", "local-bound", "n3").await?;
    let place = world.bound("second").await?;
    ensure!(place == "n3", "the second pod is on {place}");
    volume_of(world, "bound-c2").await.map(drop)
}

/// A pod whose claim is not there is told so, and woken by the claim.
///
/// # Errors
/// When it is told something else, or sleeps on.
pub async fn late_claim_wakes_its_pod(world: &mut World) -> Result<()> {
    let _controller = controller(world);
    world.add_node(node("n1")).await?;
    add_class(world, "local-late", BY_HAND).await?;
    add_volume(world, "late-v", "local-late", "n1").await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(using("early", &["late-c"])).await?;
    let told = world.refused("early", "Unschedulable").await?;
    let expected = "0/1 nodes are available: persistentvolumeclaim \"late-c\" not found.";
    ensure!(told.starts_with(expected), "the condition says {told:?}");
    // Somebody else's broken claim is nobody's business.
    world.add_pod(pod("plain")).await?;
    world.bound("plain").await?;
    add_claim(world, "late-c", "local-late").await?;
    world.bound("early").await?;
    volume_of(world, "late-c").await.map(drop)
}

/// A class that is gone keeps its claims from being bound; when it is back, the pod is.
///
/// # Errors
/// When the pod is told something else, or sleeps on.
pub async fn class_that_is_gone_is_waited_for(world: &mut World) -> Result<()> {
    let _controller = controller(world);
    world.add_node(node("n1")).await?;
    add_class(world, "local-gone", BY_HAND).await?;
    add_claim(world, "gone-c", "local-gone").await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(using("waiting", &["gone-c"])).await?;
    let told = world.refused("waiting", "Unschedulable").await?;
    ensure!(told.contains("didn't find available"), "the condition says {told:?}");
    let classes: Api<StorageClass> = Api::all(world.client.clone());
    classes.delete("local-gone", &DeleteParams::default()).await?;
    let touched = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
    let patch = kube::api::Patch::Merge(touched);
    claims(world)
        .patch("gone-c", &kube::api::PatchParams::default(), &patch)
        .await?;
    let told = eventually(async || {
        let told = world.refused("waiting", "Unschedulable").await?;
        Ok(told.contains("unbound immediate PersistentVolumeClaims").then_some(()))
    });
    told.await.context("the pod is not told that its class is gone")?;
    add_class(world, "local-gone", BY_HAND).await?;
    add_volume(world, "gone-v", "local-gone", "n1").await?;
    world.bound("waiting").await.map(drop)
}

/// A volume is made for the node that the scheduler selects.
///
/// # Errors
/// When the pod is not bound or the claim names another node.
pub async fn volumes_are_made_for_the_selected_node(world: &mut World) -> Result<()> {
    // A real controller manager leaves this to a provisioner that nobody runs.
    let _controller = VolumeController::start(&world.client);
    world.add_node(node("n1")).await?;
    world.add_node(node("n2")).await?;
    add_class(world, "made-here", PROVISIONER).await?;
    add_claim(world, "made-c", "made-here").await?;
    let _scheduler = world.scheduler().await?;
    world.add_pod(using("owner", &["made-c"])).await?;
    let place = world.bound("owner").await?;
    let claim = claims(world).get("made-c").await?;
    let annotations = claim.metadata.annotations.unwrap_or_default();
    let selected = annotations.get("volume.kubernetes.io/selected-node");
    ensure!(
        selected == Some(&place),
        "the pod is on {place}, selected was {selected:?}"
    );
    volume_of(world, "made-c").await.map(drop)
}

/// Of two claims of a pod one is bound when the update for the other is refused: the first volume stays the pod's, the
/// other is free again, and a second try binds both. No volume goes to two claims.
///
/// Only the embedded server can be asked to do this.
///
/// # Errors
/// When the pods do not end bound, or two claims have one volume.
pub async fn half_done_bindings_are_taken_back(world: &mut World) -> Result<()> {
    let _controller = controller(world);
    world.add_node(node("n1")).await?;
    world.add_node(node("n2")).await?;
    add_class(world, "local-half", BY_HAND).await?;
    for (name, node) in [("half-v1", "n1"), ("half-v2", "n1"), ("half-v3", "n2")] {
        add_volume(world, name, "local-half", node).await?;
    }
    for name in ["half-c1", "half-c2", "half-d"] {
        add_claim(world, name, "local-half").await?;
    }
    let Some(server) = world.embedded() else { return Ok(()) };
    let on = || FaultRule::on("patch", "persistentvolumes/");
    let refused = FaultAction::Status {
        code: 409,
        retry_after_seconds: None,
    };
    let rules = [
        on().times(1),
        on().with(refused).times(1),
        on().with(FaultAction::ResetAfter).times(1),
    ];
    for rule in rules {
        server.faults().add(rule)?;
    }
    let _scheduler = world.scheduler().await?;
    world.add_pod(using("two", &["half-c1", "half-c2"])).await?;
    world.refused("two", "SchedulerError").await?;
    world.bound("two").await?;
    world.add_pod(using("one", &["half-d"])).await?;
    world.bound("one").await?;
    let mut taken = Vec::new();
    for claim in ["half-c1", "half-c2", "half-d"] {
        taken.push(volume_of(world, claim).await?);
    }
    taken.sort_unstable();
    ensure!(taken == ["half-v1", "half-v2", "half-v3"], "the claims have {taken:?}");
    ensure!(
        world.node_of("two").await?.as_deref() == Some("n1"),
        "the pod left its first volume"
    );
    Ok(())
}
