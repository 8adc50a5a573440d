//! Claims and disks of the generated pods, and the part of the volume controller and of a provisioner: it binds a claim
//! once a scheduler has chosen, and undoes that when the pod's turn is over.
//!
//! Does not: bind claims of immediate classes; pods with such a claim are to be refused.

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::cluster::{DRIVER, HOST, IMMEDIATE_CLASS, LATE_CLASS, LOCAL_CLASS, ZONE, ZONED_CLASS, word};
use super::state::{CLAIMS, Key, State, VOLUMES, key};

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A kind of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// A bound claim whose volume is in one zone, by affinity or by labels.
    Bound,
    /// A bound claim that one pod at a time may use, shared by name.
    Shared(u32),
    /// A claim to be bound to one of the volumes that exist.
    Local,
    /// A claim whose volume is made where the pod goes.
    Late,
    /// The same, in some zones alone.
    Zoned,
    /// An unbound claim of an immediate class.
    Immediate,
    /// A claim that does not exist.
    Missing,
    /// A claim of the pod's own that nobody has made yet.
    Ephemeral,
    /// A disk without a claim that two pods of a node may not share.
    Inline(u32),
}

impl Disk {
    /// One or two disks.
    pub(super) fn some(random: &mut Pcg64Mcg) -> Vec<Self> {
        let count = if random.random_range(0..4) == 0 { 2 } else { 1 };
        (0..count).map(|_| Self::one(random)).collect()
    }

    fn one(random: &mut Pcg64Mcg) -> Self {
        match random.random_range(0..100) {
            0..30 => Self::Bound,
            30..36 => Self::Shared(random.random_range(0..2)),
            36..54 => Self::Local,
            54..68 => Self::Late,
            68..78 => Self::Zoned,
            78..82 => Self::Immediate,
            82..86 => Self::Missing,
            86..90 => Self::Ephemeral,
            _ => Self::Inline(random.random_range(0..3)),
        }
    }

    const fn is_late(self) -> bool {
        matches!(self, Self::Local | Self::Late | Self::Zoned)
    }
}

/// The claims of one pod that are its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Attached {
    claims: Vec<(Key, Disk, Value)>,
}

impl Attached {
    /// Whether some claim is bound only when a node is chosen.
    pub(super) fn is_late(&self) -> bool {
        self.claims.iter().any(|(_, disk, _)| disk.is_late())
    }

    /// Gives a pod its disks and creates what they need.
    pub(super) async fn create(
        state: &mut State,
        random: &mut Pcg64Mcg,
        pod: &mut Value,
        disks: &[Disk],
    ) -> Result<Self> {
        let mut this = Self::default();
        let (namespace, name) = key(pod);
        let mut volumes = Vec::new();
        for (index, disk) in disks.iter().enumerate() {
            let own = (namespace.clone(), format!("{name}-{index}"));
            let mut claim_name = own.1.clone();
            let size = word(random, &["1Gi", "3Gi", "10Gi"]);
            match disk {
                Disk::Bound => {
                    let body = claim(&own, "", size, "ReadWriteOnce");
                    let zone = format!("zone-{}", random.random_range(0..super::cluster::ZONES));
                    bound(state, &body, Some((&zone, random.random_range(0..2) == 0))).await?;
                    this.claims.push((own, *disk, body));
                }
                Disk::Shared(number) => {
                    claim_name = format!("shared-{number}");
                    let shared = (namespace.clone(), claim_name.clone());
                    if state.get(CLAIMS, &shared).is_none() {
                        bound(state, &claim(&shared, "", size, "ReadWriteOncePod"), None).await?;
                    }
                }
                Disk::Local | Disk::Late | Disk::Zoned | Disk::Immediate => {
                    let body = claim(&own, class(*disk), size, "ReadWriteOnce");
                    create_claim(state, &body).await?;
                    this.claims.push((own, *disk, body));
                }
                Disk::Missing | Disk::Ephemeral | Disk::Inline(_) => {}
            }
            volumes.push(volume(*disk, index, &claim_name));
        }
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = volumes.into();
        }
        Ok(this)
    }

    /// Binds what a scheduler has chosen a volume or a node for.
    pub(super) async fn step(&self, state: &mut State) -> Result<()> {
        for (claim, disk, body) in self.claims.iter().filter(|(_, disk, _)| disk.is_late()) {
            let Some(object) = state.refresh(CLAIMS, claim).await? else {
                continue;
            };
            if object["spec"]["volumeName"].is_string() {
                continue;
            }
            if *disk == Disk::Local {
                if let Some(volume) = chosen_volume(state, claim).await? {
                    finish(state, claim, &volume).await?;
                }
            } else if let Some(node) = object["metadata"]["annotations"][SELECTED].as_str() {
                let volume = provisioned(&object, body, &[(HOST, node)]);
                create_volume(state, &volume, "Bound").await?;
                finish(state, claim, &key(&volume)).await?;
            }
        }
        Ok(())
    }

    /// Takes back what a scheduler had bound, so that the next one finds what this one found.
    pub(super) async fn reset(&self, state: &mut State) -> Result<()> {
        for (claim, disk, body) in self.claims.iter().filter(|(_, disk, _)| disk.is_late()) {
            release(state, claim, *disk).await?;
            create_claim(state, body).await?;
        }
        Ok(())
    }

    /// Reads back what was bound, volumes that a scheduler wrote itself included.
    pub(super) async fn mirror(&self, state: &mut State) -> Result<()> {
        for (claim, ..) in &self.claims {
            let object = state.refresh(CLAIMS, claim).await?.context("a claim is gone")?;
            if let Some(volume) = object["spec"]["volumeName"].as_str() {
                state.refresh(VOLUMES, &(String::new(), volume.to_owned())).await?;
            }
        }
        Ok(())
    }

    /// Deletes the claims and their volumes with their pod.
    pub(super) async fn delete(&self, state: &mut State) -> Result<()> {
        for (claim, disk, _) in &self.claims {
            release(state, claim, *disk).await?;
        }
        Ok(())
    }
}

const fn class(disk: Disk) -> &'static str {
    match disk {
        Disk::Local => LOCAL_CLASS,
        Disk::Late => LATE_CLASS,
        Disk::Zoned => ZONED_CLASS,
        _ => IMMEDIATE_CLASS,
    }
}

fn volume(disk: Disk, index: usize, claim: &str) -> Value {
    let name = format!("disk-{index}");
    match disk {
        Disk::Inline(lun) => json!({
            "name": name, "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:disks", "lun": lun},
        }),
        Disk::Ephemeral => {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "storageClassName": LATE_CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            });
            json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
        }
        _ => json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}),
    }
}

fn claim((namespace, name): &Key, class: &str, size: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": size}},
        },
    })
}

async fn create_claim(state: &mut State, body: &Value) -> Result<Value> {
    state.create(CLAIMS, body).await?;
    state.unprotect(CLAIMS, &key(body)).await
}

/// Creates a volume with its phase, which somebody must have given it before it is looked at.
pub(super) async fn create_volume(state: &mut State, body: &Value, phase: &str) -> Result<()> {
    state.create(VOLUMES, body).await?;
    state.unprotect(VOLUMES, &key(body)).await?;
    let patch = json!({"status": {"phase": phase}});
    state.patch(VOLUMES, &key(body), "status", &patch).await.map(drop)
}

/// A claim with a volume of the driver, in a zone by labels or by affinity, or anywhere.
async fn bound(state: &mut State, body: &Value, zone: Option<(&str, bool)>) -> Result<()> {
    let created = create_claim(state, body).await?;
    let mut volume = provisioned(&created, body, &[]);
    match zone {
        Some((zone, true)) => volume["metadata"]["labels"] = json!({ZONE: zone}),
        Some((zone, false)) => volume["spec"]["nodeAffinity"] = affinity(&[(ZONE, zone)]),
        None => {}
    }
    create_volume(state, &volume, "Bound").await?;
    finish(state, &key(body), &key(&volume)).await
}

fn affinity(labels: &[(&str, &str)]) -> Value {
    let expressions: Vec<Value> = labels
        .iter()
        .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
        .collect();
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}})
}

/// The volume that a provisioner makes for a claim.
fn provisioned(claim: &Value, body: &Value, labels: &[(&str, &str)]) -> Value {
    let (namespace, name) = key(claim);
    let uid = &claim["metadata"]["uid"];
    let volume = format!("volume-{namespace}-{name}");
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": body["spec"]["resources"]["requests"]["storage"]},
            "accessModes": body["spec"]["accessModes"], "storageClassName": body["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": DRIVER, "volumeHandle": volume},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid,
            },
        },
    });
    if !labels.is_empty() {
        volume["spec"]["nodeAffinity"] = affinity(labels);
    }
    volume
}

/// The volume that a scheduler has reserved for a claim.
async fn chosen_volume(state: &mut State, (namespace, name): &Key) -> Result<Option<Key>> {
    let list: Value = state.client.get("/api/v1/persistentvolumes").await?;
    let mut volumes = list["items"].as_array().into_iter().flatten();
    let found = volumes.find(|volume| {
        let claim = &volume["spec"]["claimRef"];
        claim["namespace"] == namespace.as_str() && claim["name"] == name.as_str()
    });
    Ok(found.map(key))
}

/// What the volume controller writes when both sides agree.
async fn finish(state: &mut State, claim: &Key, volume: &Key) -> Result<()> {
    let bind = json!({
        "metadata": {"annotations": {COMPLETED: "yes", BY_CONTROLLER: "yes"}}, "spec": {"volumeName": volume.1},
    });
    let object = state.patch(CLAIMS, claim, "", &bind).await?;
    let status = json!({"status": {
        "phase": "Bound", "accessModes": object["spec"]["accessModes"],
        "capacity": object["spec"]["resources"]["requests"],
    }});
    state.patch(CLAIMS, claim, "status", &status).await?;
    let patch = json!({"status": {"phase": "Bound"}});
    state.patch(VOLUMES, volume, "status", &patch).await.map(drop)
}

/// Deletes a claim and its volume; one that existed before the claim is made anew, free.
async fn release(state: &mut State, claim: &Key, disk: Disk) -> Result<()> {
    let object = state.refresh(CLAIMS, claim).await?;
    let named = object.and_then(|object| object["spec"]["volumeName"].as_str().map(str::to_owned));
    let volume = match named {
        Some(name) => Some((String::new(), name)),
        None if disk == Disk::Local => chosen_volume(state, claim).await?,
        None => None,
    };
    state.delete(CLAIMS, claim).await?;
    let Some(volume) = volume else { return Ok(()) };
    let object = state.refresh(VOLUMES, &volume).await?;
    state.delete(VOLUMES, &volume).await?;
    if disk == Disk::Local {
        let object = object.context("the volume of a bound claim is gone")?;
        let mut spec = object["spec"].clone();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("claimRef");
        }
        let fresh = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume.1}, "spec": spec,
        });
        create_volume(state, &fresh, "Available").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provisioned_volume_refers_to_its_claim() {
        let own = ("a".to_owned(), "p-0".to_owned());
        let body = claim(&own, LATE_CLASS, "3Gi", "ReadWriteOnce");
        let mut created = body.clone();
        created["metadata"]["uid"] = "u".into();
        let volume = provisioned(&created, &body, &[(HOST, "n")]);
        assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
        assert_eq!(volume["spec"]["capacity"]["storage"], "3Gi");
        assert_eq!(key(&volume).1, "volume-a-p-0");
        let expression = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        assert_eq!(expression["values"], json!(["n"]));
    }
}
