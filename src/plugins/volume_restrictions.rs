//! `VolumeRestrictions`: a claim for one pod is used by one pod, and a disk that stands in pods themselves is not
//! mounted twice on a node in ways that it does not allow.
//!
//! Does not: look at generic ephemeral volumes.
//!
//! Source: `pkg/scheduler/framework/plugins/volumerestrictions`, Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use crate::cluster::{ClusterView, Disk, NodeInfo, PersistentVolumeClaim, PodInfo, PodSpec, PodVolume};
use crate::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, Plugin, PreFilter, PreFilterExtensions,
    PreFilterOutcome, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{changed_volume_object, deleted_pod, queue_if};
use crate::plugins::volume_use::{TrialPods, claims_named, missing};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("VolumeRestrictions"));
static DISK_CONFLICT: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) had no available disk"));
static CLAIM_IN_USE: LazyLock<Symbol> = LazyLock::new(|| {
    Symbol::new(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
         another pod",
    )
});

/// The plugin.
pub(super) struct VolumeRestrictions;

/// What PreFilter found out.
#[derive(Clone, Debug)]
struct Restrictions {
    /// Names of the pod's claims that are for one pod.
    claims: Arc<[Box<str>]>,
    /// How many of them are in use by pods on nodes.
    in_use: i64,
    trial: TrialPods,
}

impl Restrictions {
    fn of(cluster: &ClusterView<'_>, pod: &PodInfo) -> Result<Self, Status> {
        let mut claims: Vec<Box<str>> = Vec::new();
        for name in claims_named(&pod.spec) {
            let claim = cluster.volumes.seen_claim(pod.namespace, name);
            let claim = claim.ok_or_else(|| missing("persistentvolumeclaim", name))?;
            if claim.is_for_one_pod() && !claims.contains(&claim.name) {
                claims.push(claim.name.clone());
            }
        }
        let used = claims
            .iter()
            .filter(|name| cluster.placed.is_claim_in_use(pod.namespace, name));
        let in_use = i64::try_from(used.count()).unwrap_or(i64::MAX);
        Ok(Self {
            claims: claims.into(),
            in_use,
            trial: TrialPods::default(),
        })
    }

    /// How often `other` names one of the claims, whatever its namespace: so does upstream.
    fn uses(&self, other: &PodInfo) -> i64 {
        let uses = claims_named(&other.spec).filter(|name| self.claims.iter().any(|claim| **claim == **name));
        i64::try_from(uses.count()).unwrap_or(i64::MAX)
    }
}

/// Whether two pods with these disks can be on one node.
///
/// Source: `volume_restrictions.go` (`isVolumeConflict`).
fn conflict(wanted: &Disk, used: &Disk) -> bool {
    match (wanted, used) {
        (Disk::GcePersistentDisk { name: a, read_only: x }, Disk::GcePersistentDisk { name: b, read_only: y }) => {
            a == b && !(*x && *y)
        }
        (Disk::AwsElasticBlockStore { id: a }, Disk::AwsElasticBlockStore { id: b }) => a == b,
        (Disk::Iscsi { iqn: a, read_only: x }, Disk::Iscsi { iqn: b, read_only: y }) => a == b && !(*x && *y),
        (
            Disk::Rbd {
                monitors: hosts,
                pool: a,
                image: i,
                read_only: x,
            },
            Disk::Rbd {
                monitors: others,
                pool: b,
                image: j,
                read_only: y,
            },
        ) => hosts.iter().any(|host| others.contains(host)) && a == b && i == j && !(*x && *y),
        _ => false,
    }
}

/// The pod's disks that can conflict with others.
fn restricted_disks(spec: &PodSpec) -> impl Iterator<Item = &Disk> {
    spec.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Inline(inline) => Some(&inline.disk).filter(|disk| is_restricted(disk)),
        PodVolume::Claim(_) | PodVolume::Ephemeral(_) | PodVolume::Csi(_) => None,
    })
}

const fn is_restricted(disk: &Disk) -> bool {
    matches!(
        disk,
        Disk::GcePersistentDisk { .. } | Disk::AwsElasticBlockStore { .. } | Disk::Iscsi { .. } | Disk::Rbd { .. }
    )
}

fn disks_conflict(wanted: &PodSpec, used: &PodSpec) -> bool {
    restricted_disks(wanted).any(|disk| restricted_disks(used).any(|other| conflict(disk, other)))
}

fn share_a_claim(one: &PodSpec, other: &PodSpec) -> bool {
    claims_named(one).any(|name| claims_named(other).any(|used| used == name))
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let pod_deleted = |pod: &PodInfo, event: &_| {
            let gone = deleted_pod(event)?;
            let helps = disks_conflict(&pod.spec, &gone.spec) || share_a_claim(&pod.spec, &gone.spec);
            queue_if(gone.namespace == pod.namespace && helps)
        };
        let claim_added = |pod: &PodInfo, event: &_| {
            let (_, claim): (_, &PersistentVolumeClaim) = changed_volume_object(event)?;
            let is_named = claims_named(&pod.spec).any(|name| name == &*claim.name);
            queue_if(claim.namespace == pod.namespace && is_named)
        };
        Some(vec![
            EventHint::when(EventResource::Pod, ActionType::DELETE, pod_deleted).by_class(),
            EventHint::always(EventResource::Node, ActionType::ADD),
            EventHint::when(EventResource::PersistentVolumeClaim, ActionType::ADD, claim_added).by_class(),
        ])
    }

    fn applies_to(&self, pod: &PodInfo) -> bool {
        claims_named(&pod.spec).next().is_some() || restricted_disks(&pod.spec).next().is_some()
    }

    /// A claim for one pod that nobody uses is skipped; another worker may be about to give it away.
    fn spans_nodes(&self, state: &CycleState) -> bool {
        state
            .read::<Restrictions>()
            .is_some_and(|found| !found.claims.is_empty())
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl PreFilter for VolumeRestrictions {
    /// Claims, and who on any node uses them.
    fn pre_filter_reads(&self) -> Reads {
        Reads::VOLUMES.and(Reads::TOPOLOGY)
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        let found = match Restrictions::of(cluster, pod) {
            Ok(found) => found,
            Err(status) => return status.into(),
        };
        let is_free = found.in_use == 0 && restricted_disks(&pod.spec).next().is_none();
        state.write(found);
        if is_free { Status::SKIP } else { Status::SUCCESS }.into()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl VolumeRestrictions {
    fn no_state() -> Status {
        Status::error(format!(
            "cannot read {:?} from cycleState",
            "PreFilterVolumeRestrictions"
        ))
    }
}

impl PreFilterExtensions for VolumeRestrictions {
    fn add_pod(&self, state: &mut CycleState, _: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        let Some(found) = state.read_mut::<Restrictions>() else {
            return Self::no_state();
        };
        found.in_use += found.uses(other);
        found.trial.add(other, node);
        Status::SUCCESS
    }

    fn remove_pod(&self, state: &mut CycleState, _: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        let Some(found) = state.read_mut::<Restrictions>() else {
            return Self::no_state();
        };
        found.in_use -= found.uses(other);
        found.trial.remove(other, node);
        Status::SUCCESS
    }
}

impl Filter for VolumeRestrictions {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_USAGE.and(Reads::VOLUMES)
    }

    fn filter_node(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        let found = state.read::<Restrictions>();
        if restricted_disks(&pod.spec).next().is_some() {
            let nobody = TrialPods::default();
            let trial = found.map_or(&nobody, |found| &found.trial);
            let mut used = trial.classes(cluster, node);
            if used.any(|owner| disks_conflict(&pod.spec, owner.spec)) {
                return Status::unschedulable(*DISK_CONFLICT);
            }
        }
        match found {
            None => Self::no_state(),
            Some(found) if found.in_use > 0 => Status::unschedulable(*CLAIM_IN_USE),
            Some(_) => Status::SUCCESS,
        }
    }
}

#[cfg(test)]
mod tests;
