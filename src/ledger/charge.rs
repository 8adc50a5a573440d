//! The values that the ledger is asked with and answers in: what a pod uses, what must be checked for it, what a node
//! offers and has in use.
//!
//! Does not: compute them from objects; [`crate::cluster`] compiles charges and plugins compile checks.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ids::{ClassId, Incarnation, PodUid};
use crate::resources::{HostPorts, Resource, Resources};

/// CPU and memory as scoring counts them: a container that requests none counts as a small default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NonZero {
    /// Milli-CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// All that one pod uses on its node, checked or not. Amounts are not negative.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Charge {
    /// Whose.
    pub uid: PodUid,
    /// The pod's class.
    pub class: ClassId,
    /// The pod's priority; decides whose nominations hold room against it.
    pub priority: i32,
    /// Requests.
    pub request: Resources,
    /// Requests with scoring's defaults.
    pub non_zero: NonZero,
    /// Host ports, each listed as often as the pod has it.
    pub ports: HostPorts,
}

impl Charge {
    /// Whether both use the same amounts and ports.
    #[must_use]
    pub fn same_use(&self, other: &Self) -> bool {
        self.request == other.request && self.non_zero == other.non_zero && self.ports == other.ports
    }
}

/// Exactly what the enabled plugins of the pod's profile would check on the node. Quantities that are zero, ignored or
/// not checked by any enabled plugin are absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Amounts that must be free.
    pub resources: SmallVec<[(Resource, i64); 4]>,
    /// Whether a pod slot must be free.
    pub pod_slot: bool,
    /// Ports that nobody may hold.
    pub ports: HostPorts,
}

/// What a node offers: its allocatable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Amounts.
    pub resources: Resources,
    /// Pod slots.
    pub pods: i64,
}

/// A copy of a node's entry, as of one version: what is in use, assumed pods included, nominated ones not.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct NodeUse {
    /// The sum of the charges' requests.
    pub requested: Resources,
    /// The sum of the charges' requests with scoring's defaults.
    pub non_zero: NonZero,
    /// Pods counted: reserved by us or seen bound.
    pub pods: i64,
    /// Host ports held, each as often as it is held, in no order.
    pub ports: HostPorts,
    /// How many pods of which class are counted, sorted by class.
    pub classes: SmallVec<[(ClassId, u32); 4]>,
    /// Pods nominated to the node.
    pub nominated: u32,
    /// Rises with every change of the node, also from one incarnation to the next.
    pub version: u64,
    /// The newest incarnation seen; 0 for a node not seen yet.
    pub incarnation: Incarnation,
    /// Whether that incarnation exists. Nothing can be reserved on a node that is not live.
    pub live: bool,
}

impl NodeUse {
    /// Counts one more pod; what is not use stays as it is.
    pub fn add(&mut self, charge: &Charge) {
        self.pods += 1;
        self.requested.add(&charge.request);
        if !charge.request.scalars.is_empty() {
            // So that the sums do not depend on who asked for nothing of a resource, and when.
            self.requested.scalars.retain(|(_, amount)| *amount != 0);
        }
        self.non_zero.milli_cpu = self.non_zero.milli_cpu.saturating_add(charge.non_zero.milli_cpu);
        self.non_zero.memory = self.non_zero.memory.saturating_add(charge.non_zero.memory);
        self.ports.extend_from_slice(&charge.ports);
        match self.classes.binary_search_by_key(&charge.class, |(class, _)| *class) {
            Ok(at) => self.classes[at].1 += 1,
            Err(at) => self.classes.insert(at, (charge.class, 1)),
        }
    }

    /// Undoes [`Self::add`] of the same charge, short of saturation.
    pub fn remove(&mut self, charge: &Charge) {
        self.pods -= 1;
        self.requested.subtract(&charge.request);
        self.non_zero.milli_cpu = self.non_zero.milli_cpu.saturating_sub(charge.non_zero.milli_cpu);
        self.non_zero.memory = self.non_zero.memory.saturating_sub(charge.non_zero.memory);
        for port in &charge.ports {
            if let Some(at) = self.ports.iter().position(|held| held == port) {
                self.ports.swap_remove(at);
            }
        }
        if let Ok(at) = self.classes.binary_search_by_key(&charge.class, |(class, _)| *class) {
            self.classes[at].1 -= 1;
            if self.classes[at].1 == 0 {
                self.classes.remove(at);
            }
        }
    }
}

impl Clone for NodeUse {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Allocates only when there are more ports, scalar resources or classes than ever before in `self`.
    fn clone_from(&mut self, from: &Self) {
        self.requested.milli_cpu = from.requested.milli_cpu;
        self.requested.memory = from.requested.memory;
        self.requested.ephemeral_storage = from.requested.ephemeral_storage;
        self.requested.scalars.clone_from(&from.requested.scalars);
        self.non_zero = from.non_zero;
        self.pods = from.pods;
        self.ports.clone_from(&from.ports);
        self.classes.clone_from(&from.classes);
        self.nominated = from.nominated;
        self.version = from.version;
        self.incarnation = from.incarnation;
        self.live = from.live;
    }
}

/// A pod for which room is kept on a node after a preemption.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nomination {
    /// What the pod will use.
    pub charge: Arc<Charge>,
    /// The pods that are being evicted for it: while one of them is counted on the node, the pod awaits its room.
    pub victims: SmallVec<[PodUid; 4]>,
}
