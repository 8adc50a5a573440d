//! Figures that the ledger keeps: what a pod takes, what a reserve checks, what a node has and has in use.
//!
//! Does not: know pods or nodes as objects.

use smallvec::SmallVec;

use crate::ids::{ClassId, Incarnation, PodUid};
use crate::resources::{HostPorts, Resource, Resources};

/// CPU and memory with the defaults that scoring gives to containers that request none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NonZero {
    /// Milli-CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// All that one pod takes from a node. Immutable; shared by everything that counts the pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Charge {
    /// Whose use it is.
    pub uid: PodUid,
    /// The pod's class, for the change log.
    pub class: ClassId,
    /// The pod's priority.
    pub priority: i32,
    /// What the pod counts for once it is on a node.
    pub request: Resources,
    /// The same for scoring.
    pub non_zero: NonZero,
    /// Its host ports.
    pub ports: HostPorts,
}

/// Exactly what the enabled plugins of the pod's profile would check; what they ignore is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Amounts that must fit beside what is in use.
    pub resources: SmallVec<[(Resource, i64); 4]>,
    /// Whether the node's number of pods is limited.
    pub pod_slot: bool,
    /// Ports that must be free.
    pub ports: HostPorts,
}

/// What a node offers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Allocatable amounts.
    pub resources: Resources,
    /// Allocatable number of pods.
    pub pods: i64,
}

/// What a node has in use, assumed pods included, nominated ones not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeUse {
    /// Sum of the pods' requests.
    pub requested: Resources,
    /// Sum of the pods' requests for scoring.
    pub non_zero: NonZero,
    /// Number of pods.
    pub pods: i64,
    /// Host ports in use.
    pub ports: HostPorts,
    /// Number of pods nominated to the node.
    pub nominated: u32,
    /// Rises with every change of the node's entry.
    pub version: u64,
    /// The node object that the figures belong to.
    pub incarnation: Incarnation,
    /// False once the node is gone.
    pub live: bool,
}

impl NodeUse {
    /// Counts one more pod. `version` and the like stay.
    pub fn add(&mut self, charge: &Charge) {
        self.requested.add(&charge.request);
        self.non_zero.milli_cpu = self.non_zero.milli_cpu.saturating_add(charge.non_zero.milli_cpu);
        self.non_zero.memory = self.non_zero.memory.saturating_add(charge.non_zero.memory);
        self.pods += 1;
        self.ports.extend_from_slice(&charge.ports);
    }

    /// Undoes [`Self::add`] of the same charge.
    pub fn remove(&mut self, charge: &Charge) {
        self.requested.subtract(&charge.request);
        self.non_zero.milli_cpu -= charge.non_zero.milli_cpu;
        self.non_zero.memory -= charge.non_zero.memory;
        self.pods -= 1;
        for port in &charge.ports {
            if let Some(at) = self.ports.iter().position(|have| have == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}
