//! What kube-controller-manager and a CSI provisioner do about volumes, as far as the scenarios need it.
//!
//! It makes volumes available, completes bindings that the scheduler began, and makes a volume for a claim for which
//! the scheduler selected a node.
//!
//! Does not: bind claims by itself, delete or recycle.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const LOOK: Duration = Duration::from_millis(25);
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The provisioner whose volumes it makes.
pub const PROVISIONER: &str = "volumes.example.com";

/// The controller, at work until it is dropped.
#[derive(Debug)]
pub struct VolumeController {
    task: JoinHandle<()>,
}

impl VolumeController {
    /// Starts it for volumes and the claims of the default namespace.
    #[must_use]
    pub fn start(client: &kube::Client) -> Self {
        let volumes = Api::all(client.clone());
        let claims = Api::namespaced(client.clone(), "default");
        let task = tokio::spawn(async move {
            loop {
                // Conflicts and outages are settled by the next look.
                if let Err(error) = look(&volumes, &claims).await {
                    tracing::debug!(error = %error, "the volume controller looks again");
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { task }
    }
}

impl Drop for VolumeController {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(volumes: &Api<PersistentVolume>, claims: &Api<PersistentVolumeClaim>) -> Result<()> {
    let all = claims.list(&ListParams::default()).await?.items;
    for volume in volumes.list(&ListParams::default()).await?.items {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let phase = volume.status.and_then(|status| status.phase).unwrap_or_default();
        let claim = volume.spec.and_then(|spec| spec.claim_ref);
        let uid = claim.and_then(|claim| claim.uid);
        let Some(uid) = uid else {
            if phase != "Available" {
                patch(volumes, &name, true, json!({"status": {"phase": "Available"}})).await?;
            }
            continue;
        };
        let claim = all.iter().find(|claim| claim.metadata.uid.as_ref() == Some(&uid));
        if let Some(claim) = claim.filter(|_| phase != "Bound") {
            complete(volumes, claims, &name, claim).await?;
        }
    }
    for claim in &all {
        make(volumes, claim).await?;
    }
    Ok(())
}

/// Binds a claim to the volume that is reserved for it.
async fn complete(
    volumes: &Api<PersistentVolume>,
    claims: &Api<PersistentVolumeClaim>,
    volume: &str,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    patch(volumes, volume, true, json!({"status": {"phase": "Bound"}})).await?;
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    let bound = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}});
    patch(claims, name, false, bound).await?;
    patch(claims, name, true, json!({"status": {"phase": "Bound"}})).await
}

/// Makes a volume for a claim for which a node was selected.
async fn make(volumes: &Api<PersistentVolume>, claim: &PersistentVolumeClaim) -> Result<()> {
    let annotations = claim.metadata.annotations.as_ref();
    let node = annotations.and_then(|all| all.get(SELECTED_NODE));
    let (Some(node), Some(spec)) = (node, &claim.spec) else {
        return Ok(());
    };
    let class = spec.storage_class_name.as_deref().unwrap_or_default();
    if spec.volume_name.is_some() || !class.starts_with("made") {
        return Ok(());
    }
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let object = json!({
        "metadata": {"name": format!("made-{uid}")},
        "spec": {
            "storageClassName": class,
            "accessModes": spec.access_modes,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": PROVISIONER, "volumeHandle": uid},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                "name": claim.metadata.name, "uid": uid},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}},
        },
    });
    match volumes
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn patch<K>(api: &Api<K>, name: &str, is_status: bool, patch: Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    if is_status {
        api.patch_status(name, &params, &patch).await?;
    } else {
        api.patch(name, &params, &patch).await?;
    }
    Ok(())
}
