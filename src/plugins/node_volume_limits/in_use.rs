//! The volumes that drivers have to attach to a node already.

use rustc_hash::{FxHashMap, FxHashSet};

use super::may_count;
use super::volumes::{AttachedVolume, Whose, volumes_of};
use crate::cluster::{ClusterView, NodeInfo, PodVolume};
use crate::framework::Status;
use crate::ids::Symbol;
use crate::plugins::volume_use::{TrialPods, has_ephemeral};

/// A node and who is thought to have come or gone.
#[derive(Clone, Copy)]
pub(super) struct InUse<'a> {
    pub(super) cluster: &'a ClusterView<'a>,
    pub(super) trial: &'a TrialPods,
    pub(super) node: &'a NodeInfo,
}

/// Distinct volumes of a node.
pub(super) struct Attached {
    by_pods: FxHashSet<AttachedVolume>,
    counts: FxHashMap<Symbol, usize>,
}

impl Attached {
    /// Whether a pod on the node uses the volume.
    pub(super) fn has(&self, volume: &AttachedVolume) -> bool {
        self.by_pods.contains(volume)
    }

    /// How many volumes a driver has to attach.
    pub(super) fn count(&self, driver: Symbol) -> usize {
        self.counts.get(&driver).copied().unwrap_or(0)
    }
}

impl InUse<'_> {
    /// No fewer than what [`Self::attached`] counts for a driver, without a look at any claim. A claim of one name is
    /// counted once a class, an ephemeral volume once a pod.
    pub(super) fn at_most(&self, driver: Symbol) -> usize {
        let mut count = 0_usize;
        for owner in self.trial.classes(self.cluster, self.node) {
            count += owner.spec.volumes.iter().filter(|volume| may_count(volume)).count();
        }
        let attachments = self.cluster.volumes.attachments(self.node.name);
        let of_driver = attachments
            .iter()
            .filter(|attachment| attachment.attacher == Some(driver));
        count + of_driver.count()
    }

    /// Whether [`Self::attached`] may fail, or [`Self::at_most`] may count too little: both only where pods have
    /// volumes of their own.
    pub(super) fn can_fail(&self) -> bool {
        let own = |volume: &PodVolume| match volume {
            PodVolume::Claim(name) => name.is_empty(),
            PodVolume::Ephemeral(_) => true,
            PodVolume::Inline(inline) => matches!(inline.disk.handle(), Some(Err(_))),
            PodVolume::Csi(_) => false,
        };
        let mut classes = self.trial.classes(self.cluster, self.node);
        classes.any(|owner| owner.spec.volumes.iter().any(own))
    }

    /// Volumes of the pods on the node, and those attached to it all the same.
    pub(super) fn attached(&self) -> Result<Attached, Status> {
        let (mut found, mut pods) = (Vec::new(), Vec::new());
        for owner in self.trial.classes(self.cluster, self.node) {
            // Which pods of a class are here makes a difference only where their claims are called after them.
            if !has_ephemeral(owner.spec) {
                volumes_of(self.cluster, owner, Whose::PlacedPod, &mut found)?;
            } else if pods.is_empty() {
                pods = self.trial.pods_with_ephemeral(self.cluster, self.node);
            }
        }
        for pod in &pods {
            volumes_of(self.cluster, pod.owner(), Whose::PlacedPod, &mut found)?;
        }
        let by_pods: FxHashSet<AttachedVolume> = found.into_iter().collect();
        let mut counts = FxHashMap::default();
        for volume in self.left_over(&by_pods).iter().chain(&by_pods) {
            *counts.entry(volume.driver).or_insert(0) += 1;
        }
        Ok(Attached { by_pods, counts })
    }

    /// Volumes that are attached and that no pod on the node uses.
    fn left_over(&self, by_pods: &FxHashSet<AttachedVolume>) -> FxHashSet<AttachedVolume> {
        let volumes = self.cluster.volumes;
        let attachments = volumes.attachments(self.node.name).into_iter();
        let attached = attachments.filter_map(|attachment| {
            let volume = volumes.seen_volume(attachment.volume_name.as_ref()?)?;
            let handle = &volume.csi.as_ref()?.handle;
            Some(AttachedVolume::with_handle(attachment.attacher?, handle))
        });
        attached.filter(|volume| !by_pods.contains(volume)).collect()
    }
}
