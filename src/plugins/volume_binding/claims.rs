//! A pod's claims, looked up once for all nodes.

use std::sync::Arc;

use super::by_label::ByLabel;
use super::candidates::Candidates;
use crate::cluster::{
    BindingMode, CsiStorageCapacity, Labels, PersistentVolume, PersistentVolumeClaim, PodInfo, PodVolume, StorageClass,
    VolumeCatalogue,
};
use crate::framework::Status;
use crate::ids::Symbol;
use crate::resources::Quantity;

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The claims of a pod that none of them keeps from every node.
pub(super) struct Claims {
    /// The volumes of bound claims, in the pod's order; `None`: the volume is not there.
    pub(super) bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims that wait for their first consumer: those for which a node was selected before, in the pod's order, then
    /// the others, smallest first.
    pub(super) delayed: Vec<Delayed>,
}

/// A claim that waits for its first consumer.
pub(super) struct Delayed {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    /// The volumes that suit it but for the node. Not looked at when a node was selected before.
    pub(super) candidates: Candidates,
    pub(super) provision: Provision,
}

/// How a volume can be made for a claim.
pub(super) enum Provision {
    /// That cannot be found out.
    Fails(String),
    /// Not at all.
    Never,
    /// For nodes that the class allows.
    Where {
        class: Arc<StorageClass>,
        /// What is left of the class, if that matters.
        capacities: Option<Capacities>,
    },
}

impl Claims {
    /// Looks a pod's claims up.
    ///
    /// # Errors
    /// The status of a pod that one of its claims keeps from every node.
    pub(super) fn of(volumes: &VolumeCatalogue, pod: &PodInfo) -> Result<Self, Status> {
        let mut found = Vec::new();
        for volume in &pod.spec.volumes {
            let Some(name) = volume.claim_name(&pod.name) else {
                continue;
            };
            let claim = usable(volumes, pod, volume, &name)?;
            // Two volumes of a pod can be one claim.
            if found
                .iter()
                .all(|other: &Arc<PersistentVolumeClaim>| other.name != claim.name)
            {
                found.push(claim);
            }
        }
        let mut claims = Self {
            bound: Vec::new(),
            delayed: Vec::new(),
        };
        let mut waits_for_others = false;
        let mut delayed = Vec::new();
        for claim in found {
            if let Some(name) = claim.volume_name.as_deref().filter(|_| claim.is_fully_bound()) {
                claims.bound.push(volumes.volume(name));
            } else if is_delayed(volumes, &claim)? {
                delayed.push(claim);
            } else {
                waits_for_others = true;
            }
        }
        if waits_for_others {
            return Err(Status::unresolvable(Symbol::new(
                "pod has unbound immediate PersistentVolumeClaims",
            )));
        }
        delayed.sort_by_key(|claim| claim.selected_node.is_none().then(|| claim.requested()));
        for claim in delayed {
            let candidates = match claim.selected_node {
                Some(_) => Ok(Candidates::default()),
                None => Candidates::of(volumes, &claim),
            };
            claims.delayed.push(Delayed {
                candidates: candidates.map_err(Status::error)?,
                provision: provision(volumes, &claim),
                claim,
            });
        }
        Ok(claims)
    }
}

fn usable(
    volumes: &VolumeCatalogue,
    pod: &PodInfo,
    volume: &PodVolume,
    name: &str,
) -> Result<Arc<PersistentVolumeClaim>, Status> {
    let Some(claim) = volumes.claim(pod.namespace, name) else {
        return Err(Status::unresolvable(if volume.is_ephemeral() {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
        } else {
            format!("persistentvolumeclaim {name:?} not found")
        }));
    };
    let reason = if claim.lost {
        let lost = claim.volume_name.as_deref().unwrap_or_default();
        format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {lost:?}")
    } else if claim.terminating {
        format!("persistentvolumeclaim {name:?} is being deleted")
    } else if volume.is_ephemeral() && claim.controller != Some(pod.uid) {
        let (claim, pod) = (claim.full_name(), pod.full_name());
        format!("PVC {claim} was not created for pod {pod} (pod is not owner)")
    } else {
        return Ok(claim);
    };
    Err(Status::unresolvable(reason))
}

/// Whether a claim that is not bound is to be bound when a pod is given a node.
fn is_delayed(volumes: &VolumeCatalogue, claim: &PersistentVolumeClaim) -> Result<bool, Status> {
    let Some(class) = claim.class.and_then(|class| volumes.storage_class(class)) else {
        return Ok(false);
    };
    match class.binding_mode {
        None => {
            let name = class.name;
            Err(Status::error(format!(
                "VolumeBindingMode not set for StorageClass {name:?}"
            )))
        }
        Some(mode) => Ok(mode == BindingMode::WaitForFirstConsumer && claim.volume_name.is_none()),
    }
}

fn provision(volumes: &VolumeCatalogue, claim: &PersistentVolumeClaim) -> Provision {
    let Some(name) = claim.class else {
        return Provision::Fails(format!("no class for claim {:?}", claim.full_name()));
    };
    let Some(class) = volumes.storage_class(name) else {
        return Provision::Fails(format!("failed to find storage class {name:?}"));
    };
    let provisioner = class
        .provisioner
        .filter(|provisioner| provisioner.as_str() != NO_PROVISIONER);
    let Some(provisioner) = provisioner else {
        return Provision::Never;
    };
    let tells_capacity = claim.request.is_some()
        && volumes
            .csi_driver(provisioner)
            .is_some_and(|driver| driver.storage_capacity);
    Provision::Where {
        capacities: tells_capacity.then(|| Capacities::of(volumes, name, claim.requested())),
        class,
    }
}

/// Where enough is left of a class for a claim.
pub(super) struct Capacities {
    enough: Vec<Arc<CsiStorageCapacity>>,
    index: ByLabel,
}

impl Capacities {
    fn of(volumes: &VolumeCatalogue, class: Symbol, size: Quantity) -> Self {
        let mut enough = volumes.capacities(class);
        enough.retain(|capacity| capacity.limit().is_some_and(|limit| limit.value() >= size.value()));
        let mut index = ByLabel::default();
        for (at, capacity) in (0_u32..).zip(&enough) {
            index.push(at, capacity.nodes.values_in());
        }
        Self { enough, index }
    }

    /// The first that a node with these labels can reach.
    pub(super) fn reachable(&self, labels: &Labels) -> Option<&Arc<CsiStorageCapacity>> {
        let capacity = |at: u32| self.enough.get(at as usize);
        let reaches = |at| capacity(at).is_some_and(|capacity| capacity.nodes.matches(labels));
        self.index.first(labels, reaches).and_then(capacity)
    }
}
