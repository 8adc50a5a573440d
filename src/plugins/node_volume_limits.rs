//! `NodeVolumeLimits`: no CSI driver has to attach more volumes to a node than it can.
//!
//! Does not: know limits of anything but CSI drivers; in-tree disks count where a driver took over.
//!
//! Cost for a node: as many steps as its classes have volumes. Only where the drivers' limits could be reached are the
//! claims of the pods on it looked up.
//!
//! Source: `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`, Kubernetes 1.36.
//!
//! Children: `volumes` (which driver attaches what), `in_use` (what is on a node).

mod in_use;
mod volumes;

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

use crate::cluster::{
    ClusterView, CsiNode, CsiNodeDriver, NodeInfo, PersistentVolumeClaim, PodInfo, PodVolume, VolumeAttachment,
};
use crate::framework::{
    ActionType, CycleState, EventHint, EventObject, EventResource, Filter, LabelsRead, Plugin, PreFilter,
    PreFilterExtensions, PreFilterOutcome, Reads, Status,
};
use crate::ids::Symbol;
use crate::plugins::hints::{Hint, changed_volume_object, deleted_pod, deleted_volume_object, queue_if};
use crate::plugins::volume_use::{Owner, TrialPods};
use in_use::InUse;
use volumes::{AttachedVolume, Whose, inline_error, volumes_of};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeVolumeLimits"));
static EXCEEDED: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("node(s) exceed max volume count"));

/// The plugin.
pub(super) struct NodeVolumeLimits;

/// What PreFilter found out.
#[derive(Clone, Debug)]
struct Limits {
    wanted: Arc<Wanted>,
    trial: TrialPods,
}

/// The volumes of the pod.
#[derive(Debug)]
struct Wanted {
    /// On a node without a CSINode: nothing counts, but claims must be there.
    without_csi_node: Result<(), Status>,
    /// On any other.
    volumes: Result<Vec<AttachedVolume>, Status>,
}

impl Wanted {
    fn of(cluster: &ClusterView<'_>, pod: &PodInfo) -> Self {
        let volumes = |has_csi_node| {
            let mut found = Vec::new();
            let done = volumes_of(cluster, Owner::of(pod), Whose::NewPod { has_csi_node }, &mut found);
            done.map(|()| found)
        };
        Self {
            without_csi_node: volumes(false).map(drop),
            volumes: volumes(true).map(|mut found| {
                found.sort_unstable();
                found.dedup();
                found
            }),
        }
    }

    fn check(&self, cluster: &ClusterView<'_>, trial: &TrialPods, node: &NodeInfo) -> Status {
        let Some(csi_node) = cluster.volumes.csi_node(node.name) else {
            return self.without_csi_node.clone().err().unwrap_or(Status::SUCCESS);
        };
        let wanted = match &self.volumes {
            Ok(wanted) => wanted,
            Err(status) => return status.clone(),
        };
        if wanted.is_empty() || csi_node.drivers.iter().all(|driver| driver.limit.is_none()) {
            return Status::SUCCESS;
        }
        let in_use = InUse { cluster, trial, node };
        let limited = limited(wanted, &csi_node);
        if limited
            .iter()
            .all(|driver| in_use.at_most(driver.name).saturating_add(driver.new) <= driver.limit)
            && !in_use.can_fail()
        {
            return Status::SUCCESS;
        }
        let attached = match in_use.attached() {
            Ok(attached) => attached,
            Err(status) => return status,
        };
        let is_exceeded = limited.iter().any(|driver| {
            let news = wanted.iter().filter(|volume| volume.driver == driver.name);
            let new = news.filter(|volume| !attached.has(volume)).count();
            new > 0 && attached.count(driver.name).saturating_add(new) > driver.limit
        });
        if is_exceeded {
            Status::unschedulable(*EXCEEDED)
        } else {
            Status::SUCCESS
        }
    }
}

/// A driver of some of the pod's volumes that has a limit on the node.
struct Limited {
    name: Symbol,
    /// Volumes of the pod.
    new: usize,
    limit: usize,
}

fn limited(wanted: &[AttachedVolume], node: &CsiNode) -> SmallVec<[Limited; 4]> {
    let mut found: SmallVec<[Limited; 4]> = SmallVec::new();
    for volume in wanted {
        if let Some(known) = found.iter_mut().find(|driver| driver.name == volume.driver) {
            known.new += 1;
        } else if let Some(limit) = limit_of(node, volume.driver) {
            found.push(Limited {
                name: volume.driver,
                new: 1,
                limit: usize::try_from(limit).unwrap_or(0),
            });
        }
    }
    found
}

fn limit_of(node: &CsiNode, driver: Symbol) -> Option<i32> {
    node.driver(driver)?.limit
}

/// Whether a volume is one that may count.
fn may_count(volume: &PodVolume) -> bool {
    match volume {
        PodVolume::Claim(_) | PodVolume::Ephemeral(_) => true,
        PodVolume::Inline(_) => volume.in_tree().is_some(),
        PodVolume::Csi(_) => false,
    }
}

fn uses_claim(pod: &PodInfo, event: &EventObject) -> Hint {
    let (_, claim): (_, &PersistentVolumeClaim) = changed_volume_object(event)?;
    let named = |volume: &PodVolume| volume.claim_name(&pod.name).is_some_and(|name| *name == *claim.name);
    queue_if(claim.namespace == pod.namespace && pod.spec.volumes.iter().any(named))
}

fn limit_rose(_: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_volume_object(event)?;
    let before = |driver| old.and_then(|old| limit_of(old, driver)).unwrap_or(0);
    let rose = |driver: &CsiNodeDriver| driver.limit.unwrap_or(0) > before(driver.name);
    queue_if(new.drivers.iter().any(rose))
}

fn attachment_went(pod: &PodInfo, event: &EventObject) -> Hint {
    let attachment: &VolumeAttachment = deleted_volume_object(event)?;
    for volume in &pod.spec.volumes {
        match volume {
            PodVolume::Claim(_) => return queue_if(true),
            PodVolume::Ephemeral(_) | PodVolume::Csi(_) => {}
            PodVolume::Inline(inline) => {
                let Some(plugin) = inline.disk.in_tree() else { continue };
                if let Some(Err(error)) = inline.disk.handle() {
                    return Err(inline_error(inline, &error));
                }
                if attachment
                    .attacher
                    .is_some_and(|attacher| attacher.as_str() == plugin.driver())
                {
                    return queue_if(true);
                }
            }
        }
    }
    queue_if(false)
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let pod_deleted = |_: &PodInfo, event: &EventObject| {
            let gone = deleted_pod(event)?;
            queue_if(gone.is_assigned_or_nominated() && gone.spec.volumes.iter().any(may_count))
        };
        Some(vec![
            EventHint::always(EventResource::CsiNode, ActionType::ADD),
            EventHint::when(EventResource::CsiNode, ActionType::UPDATE, limit_rose).by_class(),
            EventHint::when(EventResource::Pod, ActionType::DELETE, pod_deleted).by_class(),
            // Claims of ephemeral volumes are called after their pod, which no class knows.
            EventHint::when(EventResource::PersistentVolumeClaim, ActionType::ADD, uses_claim),
            EventHint::when(EventResource::VolumeAttachment, ActionType::DELETE, attachment_went).by_class(),
        ])
    }

    fn applies_to(&self, pod: &PodInfo) -> bool {
        pod.spec.volumes.iter().any(may_count)
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter_reads(&self) -> Reads {
        Reads::VOLUMES
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if !self.applies_to(pod) {
            return Status::SKIP.into();
        }
        state.write(Limits {
            wanted: Arc::new(Wanted::of(cluster, pod)),
            trial: TrialPods::default(),
        });
        Status::SUCCESS.into()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

/// Upstream counts the pods that a trial leaves on its copy of the node; so does this.
impl PreFilterExtensions for NodeVolumeLimits {
    fn add_pod(&self, state: &mut CycleState, _: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        if let Some(limits) = state.read_mut::<Limits>() {
            limits.trial.add(other, node);
        }
        Status::SUCCESS
    }

    fn remove_pod(&self, state: &mut CycleState, _: &PodInfo, other: &PodInfo, node: &NodeInfo) -> Status {
        if let Some(limits) = state.read_mut::<Limits>() {
            limits.trial.remove(other, node);
        }
        Status::SUCCESS
    }
}

impl Filter for NodeVolumeLimits {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_USAGE.and(Reads::NODE_SPEC).and(Reads::VOLUMES)
    }

    fn filter_node(&self, cluster: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        match state.read::<Limits>() {
            Some(limits) => limits.wanted.check(cluster, &limits.trial, node),
            // A profile may leave this plugin's PreFilter out.
            None => Wanted::of(cluster, pod).check(cluster, &TrialPods::default(), node),
        }
    }
}

#[cfg(test)]
mod tests;
