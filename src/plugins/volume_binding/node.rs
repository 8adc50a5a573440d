//! Whether a pod's claims can be served on one node, and by what.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

use super::claims::{Claims, Provision};
use crate::cluster::{CsiStorageCapacity, NodeInfo, PersistentVolume, VolumeCatalogue, reaches};
use crate::framework::{Code, Status};
use crate::ids::Symbol;

static NODE_CONFLICT: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match PersistentVolume's node affinity"));
static BIND_CONFLICT: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't find available persistent volumes to bind"));
static NOT_ENOUGH_SPACE: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) did not have enough free storage"));
static VOLUME_MISSING: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"));

/// How a claim is served on the node.
pub(super) enum Served {
    /// By this volume.
    Static(Arc<PersistentVolume>),
    /// By one that is made for it, where this much is left if that is known.
    Made(Option<Arc<CsiStorageCapacity>>),
}

/// What was found on a node. The last four say what keeps the pod from it.
#[derive(Default)]
pub(super) struct Found {
    /// Positions among the delayed claims, and how they are served. Complete if the pod fits.
    pub(super) served: SmallVec<[(usize, Served); 2]>,
    out_of_reach: bool,
    unmatched: bool,
    no_space: bool,
    missing: bool,
}

impl Found {
    /// Whether nothing keeps the pod from the node.
    pub(super) const fn fits(&self) -> bool {
        !self.out_of_reach && !self.unmatched && !self.no_space && !self.missing
    }

    /// As the filter says it.
    pub(super) fn status(&self) -> Status {
        if self.fits() {
            return Status::SUCCESS;
        }
        let mut status = Status {
            code: Code::UnschedulableAndUnresolvable,
            ..Status::default()
        };
        for (applies, reason) in [
            (self.out_of_reach, &NODE_CONFLICT),
            (self.unmatched, &BIND_CONFLICT),
            (self.no_space, &NOT_ENOUGH_SPACE),
            (self.missing, &VOLUME_MISSING),
        ] {
            if applies {
                status.reasons.push((**reason).into());
            }
        }
        status
    }
}

/// Looks at one node.
///
/// # Errors
/// That cannot be found out.
pub(super) fn look(claims: &Claims, volumes: &VolumeCatalogue, node: &NodeInfo) -> Result<Found, String> {
    let mut found = Found::default();
    check_bound(claims, volumes, node, &mut found)?;
    let elsewhere = |selected: Option<Symbol>| selected.is_some_and(|selected| selected != node.name);
    if claims
        .delayed
        .iter()
        .any(|delayed| elsewhere(delayed.claim.selected_node))
    {
        found.unmatched = true;
        return Ok(found);
    }
    let mut to_make: SmallVec<[usize; 2]> = SmallVec::new();
    let mut chosen: SmallVec<[Arc<PersistentVolume>; 2]> = SmallVec::new();
    for (at, delayed) in claims.delayed.iter().enumerate() {
        let taken = |volume: &PersistentVolume| chosen.iter().any(|chosen| chosen.name == volume.name);
        match delayed.candidates.best(&node.spec.labels, taken) {
            Some(volume) => {
                let volume = Arc::clone(volume);
                chosen.push(Arc::clone(&volume));
                found.served.push((at, Served::Static(volume)));
            }
            None => to_make.push(at),
        }
    }
    for at in to_make {
        match make(claims, at, node)? {
            Making::Possible(capacity) => found.served.push((at, Served::Made(capacity))),
            Making::Impossible => {
                found.unmatched = true;
                break;
            }
            Making::NoSpace => {
                found.no_space = true;
                break;
            }
        }
    }
    Ok(found)
}

/// The volumes of bound claims, until the first that the node cannot have.
fn check_bound(claims: &Claims, volumes: &VolumeCatalogue, node: &NodeInfo, found: &mut Found) -> Result<(), String> {
    for volume in &claims.bound {
        let Some(volume) = volume else {
            found.missing = true;
            return Ok(());
        };
        if !is_reachable(volume, volumes, node.name, &node.spec.labels)? {
            found.out_of_reach = true;
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a node can reach a volume, in the words of the CSI driver where that took over.
///
/// # Errors
/// The volume cannot be put in the driver's words.
pub(super) fn is_reachable(
    volume: &PersistentVolume,
    volumes: &VolumeCatalogue,
    node: Symbol,
    labels: &crate::cluster::Labels,
) -> Result<bool, String> {
    let csi_node = volume.in_tree.as_ref().and_then(|_| volumes.csi_node(node));
    Ok(reaches(volume.affinity_on(csi_node.as_deref())?, labels))
}

enum Making {
    Possible(Option<Arc<CsiStorageCapacity>>),
    Impossible,
    NoSpace,
}

/// Whether a volume can be made for the claim and the node.
fn make(claims: &Claims, at: usize, node: &NodeInfo) -> Result<Making, String> {
    let Some(delayed) = claims.delayed.get(at) else {
        return Ok(Making::Impossible);
    };
    let (class, capacities) = match &delayed.provision {
        Provision::Fails(error) => return Err(error.clone()),
        Provision::Never => return Ok(Making::Impossible),
        Provision::Where { class, capacities } => (class, capacities),
    };
    let labels = &node.spec.labels;
    if !class.allows(labels) {
        return Ok(Making::Impossible);
    }
    let Some(capacities) = capacities else {
        return Ok(Making::Possible(None));
    };
    Ok(match capacities.reachable(labels) {
        Some(capacity) => Making::Possible(Some(Arc::clone(capacity))),
        None => Making::NoSpace,
    })
}
