//! What is promised to a pod between Reserve and its bind: volumes reserved for its claims, and claims for which a
//! volume is to be made.
//!
//! A promise that was written to the API server stays, whatever becomes of the pod, until the watch brings the object:
//! nobody else may be promised it in between. One that was not written is taken back by Unreserve, or at the latest when
//! the last copy is dropped.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::claims::Claims;
use super::node::{Found, Served, is_reachable};
use crate::cluster::{AssumeError, ClaimRef, NodeSpec, PersistentVolume, PersistentVolumeClaim, VolumeCatalogue};
use crate::framework::{Handle, PreBindFailure, PreBindWork, Status, VolumeRequest};
use crate::ids::Symbol;
use crate::telemetry::VolumeStage;

/// What a claim is promised.
enum What {
    /// This volume, as it is to be.
    Volume(Arc<PersistentVolume>),
    /// A volume that is made: the claim as it is to be.
    Making(Arc<PersistentVolumeClaim>),
}

struct Item {
    /// The claim when it was decided about.
    claim: Arc<PersistentVolumeClaim>,
    what: What,
    /// The object is as promised already: nothing is to be written.
    stands: bool,
    /// The object's resource version once it is written.
    written: OnceLock<Box<str>>,
}

/// Everything that is promised to one pod.
pub(super) struct Promise {
    catalogue: VolumeCatalogue,
    node: Symbol,
    timeout: Duration,
    handle: Arc<Handle>,
    /// Volumes first.
    items: Vec<Item>,
}

impl Promise {
    /// Promises what was found on the node, all or nothing.
    ///
    /// # Errors
    /// One of the objects changed since it was looked at.
    pub(super) fn make(
        catalogue: &VolumeCatalogue,
        claims: &Claims,
        found: &Found,
        node: Symbol,
        timeout: Duration,
        handle: Arc<Handle>,
    ) -> Result<Self, AssumeError> {
        // Dropped on the way out, it takes back what it has.
        let mut promise = Self {
            catalogue: catalogue.clone(),
            node,
            timeout,
            handle,
            items: Vec::with_capacity(found.served.len()),
        };
        for (at, served) in &found.served {
            let Some(delayed) = claims.delayed.get(*at) else {
                continue;
            };
            let item = match served {
                Served::Static(volume) => reserve(catalogue, &delayed.claim, volume)?,
                Served::Made(_) => select(catalogue, &delayed.claim, node)?,
            };
            promise.items.push(item);
        }
        promise.items.sort_by_key(|item| matches!(item.what, What::Making(_)));
        Ok(promise)
    }

    /// Takes back what is not written.
    pub(super) fn take_back(&self) {
        for item in self.unwritten().filter(|item| item.written.get().is_none()) {
            match &item.what {
                What::Volume(volume) => self.catalogue.restore_volume(volume),
                What::Making(claim) => self.catalogue.restore_claim(claim),
            }
        }
    }

    /// The items that are to be written, in order.
    fn unwritten(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| !item.stands)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Reserves a volume for a claim.
///
/// Source: `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go` (`GetBindVolumeToClaim`), Kubernetes 1.36.
fn reserve(
    catalogue: &VolumeCatalogue,
    claim: &Arc<PersistentVolumeClaim>,
    volume: &Arc<PersistentVolume>,
) -> Result<Item, AssumeError> {
    let to = ClaimRef {
        namespace: claim.namespace,
        name: claim.name.clone(),
        uid: claim.uid.clone(),
    };
    let by_controller = volume.bound_by_controller || !volume.is_bound_to(claim);
    let stands = volume.claim_ref.as_ref() == Some(&to) && volume.bound_by_controller == by_controller;
    let promised = if stands {
        Arc::clone(volume)
    } else {
        let after = PersistentVolume {
            claim_ref: Some(to),
            bound_by_controller: by_controller,
            ..PersistentVolume::clone(volume)
        };
        catalogue.assume_volume(volume, after)?
    };
    Ok(Item {
        claim: Arc::clone(claim),
        what: What::Volume(promised),
        stands,
        written: OnceLock::new(),
    })
}

/// Selects a node for a claim's volume.
fn select(catalogue: &VolumeCatalogue, claim: &Arc<PersistentVolumeClaim>, node: Symbol) -> Result<Item, AssumeError> {
    let stands = claim.selected_node == Some(node);
    let promised = if stands {
        Arc::clone(claim)
    } else {
        let after = PersistentVolumeClaim {
            selected_node: Some(node),
            ..PersistentVolumeClaim::clone(claim)
        };
        catalogue.assume_claim(claim, after)?
    };
    Ok(Item {
        claim: Arc::clone(claim),
        what: What::Making(promised),
        stands,
        written: OnceLock::new(),
    })
}

impl PreBindWork for Promise {
    fn requests(&self) -> Vec<VolumeRequest> {
        let request = |item: &Item| match &item.what {
            What::Volume(volume) => VolumeRequest::BindVolume {
                volume: volume.name.clone(),
                resource_version: volume.resource_version.clone(),
                namespace: item.claim.namespace,
                claim: item.claim.name.clone(),
                claim_uid: item.claim.uid.clone(),
                claim_version: item.claim.resource_version.clone(),
                by_controller: volume.bound_by_controller,
            },
            What::Making(claim) => VolumeRequest::SelectNode {
                namespace: claim.namespace,
                claim: claim.name.clone(),
                resource_version: claim.resource_version.clone(),
                node: self.node,
            },
        };
        self.unwritten().map(request).collect()
    }

    fn applied(&self, position: usize, resource_version: &str) {
        if let Some(item) = self.unwritten().nth(position) {
            item.written.get_or_init(|| resource_version.into());
        }
    }

    fn is_done(&self, node: &NodeSpec) -> Result<bool, String> {
        for item in &self.items {
            let done = match &item.what {
                What::Volume(volume) => self.is_bound(item, volume, node)?,
                What::Making(claim) => self.is_made(item, claim, node)?,
            };
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn failed(&self, failure: PreBindFailure) -> Status {
        self.handle.volume_stage_failed(VolumeStage::Bind);
        Status::error(match failure {
            PreBindFailure::Refused(text) => text,
            PreBindFailure::Hopeless(text) => format!("binding volumes: {text}"),
            PreBindFailure::TimedOut => "binding volumes: context deadline exceeded".to_owned(),
        })
    }
}

impl Promise {
    /// Whether the claim is bound to the volume that was reserved for it.
    fn is_bound(&self, item: &Item, volume: &PersistentVolume, node: &NodeSpec) -> Result<bool, String> {
        let name = &volume.name;
        let Some(volume) = self.catalogue.seen_volume(name) else {
            return Err(format!("failed to check binding: persistentvolume {name:?} not found"));
        };
        let Some(claim) = self.catalogue.seen_claim(item.claim.namespace, &item.claim.name) else {
            let name = item.claim.full_name();
            return Err(format!(
                "failed to check binding: persistentvolumeclaim {name:?} not found"
            ));
        };
        if is_older(&volume.resource_version, item) {
            return Ok(false);
        }
        self.check_reach(&volume, node)?;
        if volume.claim_ref.as_ref().is_none_or(|to| to.uid.is_empty()) {
            return Err(format!("ClaimRef got reset for pv {name:?}"));
        }
        Ok(claim.is_fully_bound())
    }

    /// Whether a volume was made for the claim.
    fn is_made(&self, item: &Item, claim: &PersistentVolumeClaim, node: &NodeSpec) -> Result<bool, String> {
        let Some(claim) = self.catalogue.seen_claim(claim.namespace, &claim.name) else {
            let name = claim.full_name();
            return Err(format!(
                "failed to check provisioning pvc: persistentvolumeclaim {name:?} not found"
            ));
        };
        if is_older(&claim.resource_version, item) {
            return Ok(false);
        }
        if claim.selected_node != Some(self.node) {
            return Err(format!("provisioning failed for PVC {:?}", claim.name));
        }
        if let Some(name) = &claim.volume_name {
            let Some(volume) = self.catalogue.seen_volume(name) else {
                return Ok(false);
            };
            self.check_reach(&volume, node)?;
        }
        Ok(claim.is_fully_bound())
    }

    fn check_reach(&self, volume: &PersistentVolume, node: &NodeSpec) -> Result<(), String> {
        if is_reachable(volume, &self.catalogue, self.node, &node.labels)? {
            return Ok(());
        }
        let (volume, node) = (&volume.name, self.node);
        Err(format!(
            "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
        ))
    }
}

/// Whether what the watch says is older than what was written. Resource versions are numbers that rise; where one is
/// none, only the version that was decided about is older.
fn is_older(seen: &str, item: &Item) -> bool {
    let Some(written) = item.written.get() else {
        return false;
    };
    match (seen.parse::<u128>(), written.parse::<u128>()) {
        (Ok(seen), Ok(written)) => seen < written,
        _ => {
            let decided = match &item.what {
                What::Volume(volume) => &volume.resource_version,
                What::Making(claim) => &claim.resource_version,
            };
            seen == &**decided
        }
    }
}
