//! Which CSI driver attaches a volume, and which volumes are the same.

use crate::cluster::{ClusterView, CsiVolume, InTree, InlineDisk, PersistentVolumeClaim, PodVolume};
use crate::framework::Status;
use crate::ids::Symbol;
use crate::plugins::volume_use::{Owner, not_found};

/// What tells volumes of one driver apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Identity {
    /// By what the driver calls it.
    Handle(Box<str>),
    /// The volume that will be made for a claim.
    ToBeMadeFor(Symbol, Box<str>),
}

/// A volume that a CSI driver attaches.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct AttachedVolume {
    pub(super) driver: Symbol,
    identity: Identity,
}

impl AttachedVolume {
    pub(super) fn with_handle(driver: Symbol, handle: &str) -> Self {
        Self {
            driver,
            identity: Identity::Handle(handle.into()),
        }
    }
}

/// For whom volumes are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// The pod that is being scheduled, on a node with a CSINode or without.
    NewPod {
        /// Without one, no CSI driver has taken over from an in-tree plugin.
        has_csi_node: bool,
    },
    /// A pod on a node with a CSINode. Claims that are missing are left out.
    PlacedPod,
}

/// Adds all volumes of a pod that count, some perhaps more than once.
///
/// # Errors
/// A claim of the new pod is missing; the claim of an ephemeral volume is not the pod's; a disk has no name with the
/// driver that took over.
pub(super) fn volumes_of(
    cluster: &ClusterView<'_>,
    owner: Owner<'_>,
    whose: Whose,
    found: &mut Vec<AttachedVolume>,
) -> Result<(), Status> {
    for volume in &owner.spec.volumes {
        let counted = match volume {
            PodVolume::Claim(_) | PodVolume::Ephemeral(_) => of_claim_volume(cluster, owner, volume, whose)?,
            PodVolume::Inline(inline) => of_inline(inline, whose)?,
            PodVolume::Csi(_) => None,
        };
        found.extend(counted);
    }
    Ok(())
}

fn of_claim_volume(
    cluster: &ClusterView<'_>,
    owner: Owner<'_>,
    volume: &PodVolume,
    whose: Whose,
) -> Result<Option<AttachedVolume>, Status> {
    let (pod, uid) = owner.pod.map_or(("", None), |(name, uid)| (name, Some(uid)));
    let name = volume.claim_name(pod).unwrap_or_default();
    if name.is_empty() {
        return Err(Status::error("PersistentVolumeClaim had no name"));
    }
    let Some(claim) = cluster.volumes.seen_claim(owner.namespace, &name) else {
        return match whose {
            Whose::PlacedPod => Ok(None),
            Whose::NewPod { .. } => Err(Status::unresolvable(format!(
                "looking up PVC {}/{name}: {}",
                owner.namespace,
                not_found("persistentvolumeclaim", &name)
            ))),
        };
    };
    if volume.is_ephemeral() && claim.controller != uid {
        let (claim, namespace) = (claim.full_name(), owner.namespace);
        let text = format!("PVC {claim} was not created for pod {namespace}/{pod} (pod is not owner)");
        return Err(Status::error(text));
    }
    let has_csi_node = whose != (Whose::NewPod { has_csi_node: false });
    Ok(of_claim(cluster, &claim, has_csi_node))
}

/// The volume of a claim: the one that it is bound to, or else the one that will be made for it. `None`: no driver has
/// to attach it, as far as is known.
fn of_claim(cluster: &ClusterView<'_>, claim: &PersistentVolumeClaim, has_csi_node: bool) -> Option<AttachedVolume> {
    let bound_to = claim
        .volume_name
        .as_ref()
        .and_then(|name| cluster.volumes.seen_volume(name));
    let Some(volume) = bound_to else {
        return to_be_made(cluster, claim, has_csi_node);
    };
    if let Some(CsiVolume { driver, handle }) = &volume.csi {
        let is_named = !driver.as_str().is_empty() && !handle.is_empty();
        return is_named.then(|| AttachedVolume::with_handle(*driver, handle));
    }
    let in_tree = volume
        .in_tree
        .as_ref()
        .filter(|in_tree| has_csi_node && in_tree.plugin.is_migrated())?;
    let translation = in_tree.translation.as_ref().ok()?;
    let driver = Symbol::new(in_tree.plugin.driver());
    (!translation.handle.is_empty()).then(|| AttachedVolume::with_handle(driver, &translation.handle))
}

fn to_be_made(cluster: &ClusterView<'_>, claim: &PersistentVolumeClaim, has_csi_node: bool) -> Option<AttachedVolume> {
    let provisioner = cluster.volumes.storage_class(claim.class?)?.provisioner?;
    let driver = match InTree::of_provisioner(provisioner.as_str()) {
        None => provisioner,
        Some(plugin) if has_csi_node && plugin.is_migrated() => Symbol::new(plugin.driver()),
        Some(_) => return None,
    };
    Some(AttachedVolume {
        driver,
        identity: Identity::ToBeMadeFor(claim.namespace, claim.name.clone()),
    })
}

fn of_inline(inline: &InlineDisk, whose: Whose) -> Result<Option<AttachedVolume>, Status> {
    let Some(plugin) = inline.disk.in_tree() else {
        return Ok(None);
    };
    if whose == (Whose::NewPod { has_csi_node: false }) {
        return Ok(None);
    }
    match inline.disk.handle() {
        None => Ok(None),
        Some(Ok(handle)) => Ok(Some(AttachedVolume::with_handle(Symbol::new(plugin.driver()), &handle))),
        Some(Err(error)) => Err(Status::error(inline_error(inline, &error))),
    }
}

/// What is said about a disk that has no name with its driver.
pub(super) fn inline_error(inline: &InlineDisk, error: &str) -> String {
    format!("converting volume({}) from inline to csi: {error}", inline.volume)
}
