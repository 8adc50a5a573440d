//! The volumes that suit a claim but for the node, best first.
//!
//! A local volume names its node by the hostname label. So that a node is not held against the volumes of all others,
//! such volumes are kept by that name.
//!
//! Source: `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go` (`FindMatchingVolume`), Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use super::by_label::ByLabel;
use crate::cluster::{LabelSelector, Labels, PersistentVolume, PersistentVolumeClaim, VolumeCatalogue, reaches};
use crate::ids::Symbol;

static HOSTNAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("kubernetes.io/hostname"));

/// Volumes for one claim.
#[derive(Default)]
pub(super) struct Candidates {
    /// Reserved for the claim: one of them, or none at all.
    reserved: Vec<Arc<PersistentVolume>>,
    /// Free ones, smallest first.
    free: Vec<Arc<PersistentVolume>>,
    /// Positions in `free`.
    index: ByLabel,
}

impl Candidates {
    /// Looks for them. O(volumes of the class).
    ///
    /// # Errors
    /// The claim's selector is wrong.
    pub(super) fn of(volumes: &VolumeCatalogue, claim: &PersistentVolumeClaim) -> Result<Self, String> {
        let selector = match &claim.selector {
            None => None,
            Some(Ok(selector)) => Some(selector),
            Some(Err(error)) => {
                let name = claim.full_name();
                return Err(format!(
                    "error creating internal label selector for claim: {name}: {error}"
                ));
            }
        };
        let mut candidates = Self::default();
        for volume in volumes.volumes_of_class(claim.class) {
            if !is_fit(claim, &volume) {
                continue;
            }
            if volume.claim_ref.is_some() {
                candidates.reserved.push(volume);
            } else if is_free(claim, selector, &volume) {
                candidates.free.push(volume);
            }
        }
        candidates.reserved.sort_by(|a, b| a.name.cmp(&b.name));
        candidates
            .free
            .sort_by(|a, b| (a.capacity, &a.name).cmp(&(b.capacity, &b.name)));
        for (at, volume) in (0_u32..).zip(&candidates.free) {
            let hosts = hosts(volume);
            candidates
                .index
                .push(at, hosts.as_deref().map(|hosts| (*HOSTNAME, hosts)));
        }
        Ok(candidates)
    }

    /// The best volume that a node with these labels can reach and that is not `taken`.
    pub(super) fn best(
        &self,
        labels: &Labels,
        taken: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        let suits =
            |volume: &&Arc<PersistentVolume>| !taken(volume) && reaches(volume.node_affinity.as_deref(), labels);
        if let Some(reserved) = self.reserved.iter().find(|volume| !taken(volume)) {
            return Some(reserved).filter(suits);
        }
        let volume = |at: u32| self.free.get(at as usize);
        let best = self.index.first(labels, |at| volume(at).as_ref().is_some_and(suits));
        best.and_then(volume)
    }
}

/// What a volume must fulfil even if it is reserved for the claim.
fn is_fit(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    (volume.claim_ref.is_none() || volume.is_bound_to(claim))
        && volume.capacity >= claim.requested()
        && volume.block == claim.block
        && volume.attributes_class == claim.attributes_class
        && !volume.terminating
}

fn is_free(claim: &PersistentVolumeClaim, selector: Option<&LabelSelector>, volume: &PersistentVolume) -> bool {
    volume.available
        && selector.is_none_or(|selector| selector.matches(&volume.labels))
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// The hostnames that the volume's affinity asks for in each of its terms; `None`: some term asks for none.
fn hosts(volume: &PersistentVolume) -> Option<Vec<Symbol>> {
    let terms = volume.node_affinity.as_deref()?;
    let mut hosts = Vec::new();
    for term in terms {
        hosts.extend_from_slice(term.values_in(*HOSTNAME)?);
    }
    hosts.sort_unstable();
    hosts.dedup();
    Some(hosts)
}
