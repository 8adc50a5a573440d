//! Volumes: claims for one pod and attach limits, with several workers at once.
//!
//! Claims and volumes are made as bound to each other, since no controller runs that would bind them. A real server
//! keeps them from one run to the next.
//!
//! Does not: provision volumes.

use std::fmt::Debug;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::e2e::objects::{node, pod};
use crate::e2e::wait::eventually;
use crate::e2e::world::World;

const DRIVER: &str = "csi.example.com";

/// Creates an object, or gives the one that is there.
async fn there<K>(api: &Api<K>, name: &str, object: Value) -> Result<K>
where
    K: kube::Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).with_context(|| format!("making {name}"))?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(api.get(name).await?),
        other => other.with_context(|| format!("creating {name}")),
    }
}

/// A claim that is bound to a volume of a CSI driver.
async fn bound_claim(world: &World, name: &str, mode: &str) -> Result<()> {
    let volume = format!("{name}-volume");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client.clone(), "default");
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    let claim = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    });
    let claim = there(&claims, name, claim).await?;
    let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
    let reference = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": name,
        "uid": claim.metadata.uid,
    });
    let object = json!({
        "metadata": {"name": volume},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": "1Gi"},
            "claimRef": reference,
            "csi": {"driver": DRIVER, "volumeHandle": volume},
        },
    });
    there(&volumes, &volume, object).await.map(drop)
}

/// The volumes of a pod that uses a claim.
fn volumes_from(claim: &str) -> Vec<Value> {
    vec![json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})]
}

/// Waits until every one of `pods` has a node or is refused, and gives those that have one and what one of the others
/// was told.
async fn settled(world: &World, pods: &[String]) -> Result<(Vec<String>, String)> {
    let (mut bound, mut told) = (Vec::new(), String::new());
    for name in pods {
        let api = world.pods();
        let answer = eventually(async || {
            let pod = api.get(name).await?;
            if pod.spec.is_some_and(|spec| spec.node_name.is_some()) {
                return Ok(Some(None));
            }
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            let refused = conditions
                .into_iter()
                .find(|one| one.type_ == "PodScheduled" && one.status == "False");
            Ok(refused.map(|one| Some(one.message.unwrap_or_default())))
        });
        match answer
            .await
            .with_context(|| format!("pod {name} is neither bound nor refused"))?
        {
            None => bound.push(name.clone()),
            Some(message) => told = message,
        }
    }
    Ok((bound, told))
}

/// Of many pods with one claim for one pod, one gets a node at a time, though all are tried at once.
///
/// # Errors
/// When several do, or none.
pub async fn claim_for_one_pod_has_one_pod(world: &mut World) -> Result<()> {
    bound_claim(world, "single", "ReadWriteOncePod").await?;
    for name in ["n1", "n2", "n3"] {
        world.add_node(node(name)).await?;
    }
    let names: Vec<String> = (0..12).map(|at| format!("user-{at}")).collect();
    for name in &names {
        world.add_pod(pod(name).volumes(volumes_from("single"))).await?;
    }
    let _scheduler = world.scheduler().await?;
    let (bound, told) = settled(world, &names).await?;
    ensure!(bound.len() == 1, "these have a node: {bound:?}");
    let expected = "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                    access mode already in-use by another pod.";
    ensure!(told.starts_with(expected), "the condition says {told:?}");
    world.delete_pod(&bound[0]).await?;
    let left: Vec<String> = names.into_iter().filter(|name| *name != bound[0]).collect();
    let next = eventually(async || {
        let pods = world.pods().list(&kube::api::ListParams::default()).await?.items;
        let mut placed = pods
            .into_iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok(placed.next().and_then(|pod| pod.metadata.name))
    });
    let next = next.await.context("nobody gets the claim after its holder")?;
    world.add_pod(pod("later")).await?;
    world.bound("later").await?;
    let (bound, _) = settled(world, &left).await?;
    ensure!(bound == [next.clone()], "{next} has a node, and so have {bound:?}");
    Ok(())
}

/// No node gets more volumes than its driver can attach, though all pods are tried at once; a pod that goes lets one
/// of those that wait in.
///
/// # Errors
/// When a node gets too many, or room stays empty.
pub async fn attach_limits_hold(world: &mut World) -> Result<()> {
    let csi_nodes: Api<CSINode> = Api::all(world.client.clone());
    for name in ["n1", "n2"] {
        world.add_node(node(name)).await?;
        let driver = json!({"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": 2}});
        let object = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
        there(&csi_nodes, name, object).await?;
    }
    let names: Vec<String> = (0..10).map(|at| format!("disk-{at}")).collect();
    for name in &names {
        bound_claim(world, name, "ReadWriteOnce").await?;
        world.add_pod(pod(name).volumes(volumes_from(name))).await?;
    }
    let _scheduler = world.scheduler().await?;
    let (bound, told) = settled(world, &names).await?;
    let mut nodes = Vec::new();
    for name in &bound {
        nodes.push(world.bound(name).await?);
    }
    nodes.sort_unstable();
    ensure!(nodes == ["n1", "n1", "n2", "n2"], "pods are on {nodes:?}");
    let expected = "0/2 nodes are available: 2 node(s) exceed max volume count.";
    ensure!(told.starts_with(expected), "the condition says {told:?}");
    world.delete_pod(&bound[0]).await?;
    let placed = eventually(async || {
        let pods = world.pods().list(&kube::api::ListParams::default()).await?.items;
        let placed = pods
            .iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok((placed.count() == 4).then_some(()))
    });
    placed.await.context("room for a volume stays empty")
}
