//! What happened in the cluster, and which of it may make a rejected pod schedulable.
//!
//! Source: `staging/src/k8s.io/kube-scheduler/framework/types.go` (`ClusterEvent`, `ActionType`) and
//! `pkg/scheduler/framework/events.go`, Kubernetes 1.36.

use std::fmt;
use std::sync::Arc;

use crate::cluster::{Labels, NodeSpec, PodInfo, VolumeObject};
use crate::ids::Symbol;

/// Kinds of change, as bits from low to high.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActionType(pub u32);

impl ActionType {
    /// Came into being.
    pub const ADD: Self = Self(1);
    /// Ceased to be.
    pub const DELETE: Self = Self(1 << 1);
    /// A node's allocatable changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    /// A node's labels changed.
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// A node's taints changed or it became schedulable.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    /// The status of one of a node's conditions changed.
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    /// A node's annotations changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    /// A node's declared features changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    /// A pod's labels changed.
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// A pod requests less of something.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    /// A pod's tolerations changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 10);
    /// A pod's last scheduling gate went.
    pub const UPDATE_POD_GATES_ELIMINATED: Self = Self(1 << 11);
    /// The claims generated for a pod changed.
    pub const UPDATE_POD_GENERATED_CLAIM: Self = Self(1 << 12);
    /// Any update.
    pub const UPDATE: Self = Self((1 << 13) - 4);
    /// Anything.
    pub const ALL: Self = Self((1 << 13) - 1);

    /// Either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
            Self::UPDATE_NODE_LABEL => "UpdateNodeLabel",
            Self::UPDATE_NODE_TAINT => "UpdateNodeTaint",
            Self::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
            Self::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
            Self::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
            Self::UPDATE_POD_LABEL => "UpdatePodLabel",
            Self::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
            Self::UPDATE_POD_TOLERATION => "UpdatePodToleration",
            Self::UPDATE_POD_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_CLAIM => "UpdatePodGeneratedResourceClaim",
            Self::UPDATE => "Update",
            _ => "All",
        }
    }
}

/// What it happened to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventResource {
    /// Any pod: also matches the two below.
    Pod,
    /// A pod that is on a node.
    AssignedPod,
    /// A pod that waits.
    UnschedulablePod,
    /// A node.
    Node,
    /// A PersistentVolume.
    PersistentVolume,
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// A CSINode.
    CsiNode,
    /// A CSIDriver.
    CsiDriver,
    /// A VolumeAttachment.
    VolumeAttachment,
    /// A CSIStorageCapacity.
    CsiStorageCapacity,
    /// A StorageClass.
    StorageClass,
    /// A ResourceClaim.
    ResourceClaim,
    /// A ResourceSlice.
    ResourceSlice,
    /// A DeviceClass.
    DeviceClass,
    /// A Namespace.
    Namespace,
    /// The network's tree, latencies in it, or an AppGroup.
    Network,
    /// Anything.
    Any,
}

impl EventResource {
    const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::ResourceClaim => "ResourceClaim",
            Self::ResourceSlice => "ResourceSlice",
            Self::DeviceClass => "DeviceClass",
            Self::Namespace => "Namespace",
            Self::Network => "supercargo.io/Network",
            Self::Any => "*",
        }
    }

    fn covers(self, other: Self) -> bool {
        self == other
            || self == Self::Any
            || (self == Self::Pod && matches!(other, Self::AssignedPod | Self::UnschedulablePod))
    }
}

/// A change of something in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterEvent {
    /// Of what.
    pub resource: EventResource,
    /// Which change.
    pub action: ActionType,
    /// A label that replaces the composed one, for events that are no change of an object.
    special: Option<&'static str>,
}

impl ClusterEvent {
    /// A pod was rejected or failed.
    pub const SCHEDULE_ATTEMPT_FAILURE: Self = Self::special("ScheduleAttemptFailure");
    /// A pod's backoff is over.
    pub const BACKOFF_COMPLETE: Self = Self::special("BackoffComplete");
    /// A pod was taken before its backoff was over because nothing else was there.
    pub const POP_FROM_BACKOFF: Self = Self::special("PopFromBackoffQ");
    /// A plugin asked for a pod to be tried.
    pub const FORCE_ACTIVATE: Self = Self::special("ForceActivate");
    /// A pod waited for an event for too long.
    pub const UNSCHEDULABLE_TIMEOUT: Self = Self::special("UnschedulableTimeout");

    /// A change of an object.
    #[must_use]
    pub const fn new(resource: EventResource, action: ActionType) -> Self {
        Self {
            resource,
            action,
            special: None,
        }
    }

    const fn special(label: &'static str) -> Self {
        Self {
            resource: EventResource::Any,
            action: ActionType::ALL,
            special: Some(label),
        }
    }

    /// Whether it stands for anything at all.
    #[must_use]
    pub fn is_wildcard(self) -> bool {
        self.resource == EventResource::Any && self.action == ActionType::ALL
    }

    /// Whether a plugin that registered `self` is interested in `incoming`.
    #[must_use]
    pub fn matches(self, incoming: Self) -> bool {
        self.is_wildcard()
            || (self.resource.covers(incoming.resource)
                && self.action.0 & incoming.action.0 != 0
                && incoming.action <= self.action)
    }

    /// The label in metrics and logs.
    #[must_use]
    pub fn label(self) -> String {
        match self.special {
            Some(label) => label.to_owned(),
            None => format!("{}{}", self.resource.name(), self.action.name()),
        }
    }
}

impl fmt::Debug for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

/// The object that an event is about, before and after.
#[derive(Clone, Debug)]
pub enum EventObject {
    /// A pod; neither side: not known.
    Pod {
        /// Before; absent for an addition.
        old: Option<Arc<PodInfo>>,
        /// After; absent for a deletion.
        new: Option<Arc<PodInfo>>,
    },
    /// A node.
    Node {
        /// Before.
        old: Option<Arc<NodeSpec>>,
        /// After.
        new: Option<Arc<NodeSpec>>,
    },
    /// A volume, a claim, a StorageClass or a CSI object: both sides are of one kind.
    Volume {
        /// Before; absent for an addition.
        old: Option<VolumeObject>,
        /// After; absent for a deletion.
        new: Option<VolumeObject>,
    },
    /// Labels of a namespace.
    Namespace {
        /// Its name.
        name: Symbol,
        /// Before; absent for one that came.
        old: Option<Arc<Labels>>,
        /// After; absent for one that went.
        new: Option<Arc<Labels>>,
    },
    /// Nothing that a hint looks at.
    None,
}

/// What a hint says about a rejected pod and an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueingHint {
    /// The event may have made the pod schedulable.
    Queue,
    /// It has not, as far as this plugin goes.
    QueueSkip,
}

/// A hint: looks at a pod that the plugin rejected and at what happened. An error counts as `Queue`.
pub type HintFn = Arc<dyn Fn(&PodInfo, &EventObject) -> Result<QueueingHint, String> + Send + Sync>;

/// An event that a plugin wants its rejected pods retried on.
#[derive(Clone)]
pub struct EventHint {
    /// The event.
    pub event: ClusterEvent,
    /// Narrows it down; absent: always queue.
    pub hint: Option<HintFn>,
    /// Whether the hint's answer is the same for all pods of one class. Then it is asked once for all of them, and not
    /// about each.
    pub by_class: bool,
}

impl EventHint {
    /// Always queue on `resource` and `action`.
    #[must_use]
    pub fn always(resource: EventResource, action: ActionType) -> Self {
        Self {
            event: ClusterEvent::new(resource, action),
            hint: None,
            by_class: true,
        }
    }

    /// Queue if `hint` says so.
    #[must_use]
    pub fn when(
        resource: EventResource,
        action: ActionType,
        hint: impl Fn(&PodInfo, &EventObject) -> Result<QueueingHint, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            event: ClusterEvent::new(resource, action),
            hint: Some(Arc::new(hint)),
            by_class: false,
        }
    }

    /// The same, with a hint that looks at nothing of a pod but what its class carries (spec, namespace and the labels
    /// that the plugin declares to read), so that pods of one class get one answer.
    #[must_use]
    pub fn by_class(mut self) -> Self {
        self.by_class = true;
        self
    }
}

impl fmt::Debug for EventHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHint")
            .field("event", &self.event)
            .field("hint", &self.hint.is_some())
            .finish()
    }
}

/// An event as a profile knows it: who registered it.
#[derive(Clone, Debug)]
pub struct RegisteredEvent {
    /// The plugin.
    pub plugin: Symbol,
    /// The event and the hint.
    pub hint: EventHint,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn event(resource: EventResource, action: ActionType) -> ClusterEvent {
        ClusterEvent::new(resource, action)
    }

    #[test]
    fn a_registration_covers_what_is_narrower() {
        use ActionType as A;
        use EventResource as R;
        let table = [
            (event(R::Node, A::UPDATE), event(R::Node, A::UPDATE_NODE_LABEL), true),
            (event(R::Node, A::ADD), event(R::Node, A::UPDATE_NODE_LABEL), false),
            (event(R::Pod, A::DELETE), event(R::AssignedPod, A::DELETE), true),
            (event(R::AssignedPod, A::DELETE), event(R::Pod, A::DELETE), false),
            (event(R::Any, A::ALL), event(R::CsiNode, A::ADD), true),
            (event(R::Node, A::UPDATE_NODE_LABEL), event(R::Node, A::UPDATE), false),
        ];
        for (registered, incoming, expected) in table {
            assert_eq!(registered.matches(incoming), expected, "{registered:?} {incoming:?}");
        }
    }

    #[test]
    fn labels_are_spelt_as_upstream_does() {
        assert_eq!(
            event(EventResource::AssignedPod, ActionType::ADD).label(),
            "AssignedPodAdd"
        );
        assert_eq!(
            event(EventResource::CsiNode, ActionType::ADD).label(),
            "storage.k8s.io/CSINodeAdd"
        );
        assert_eq!(
            event(EventResource::Node, ActionType::UPDATE_NODE_TAINT).label(),
            "NodeUpdateNodeTaint"
        );
        assert_eq!(ClusterEvent::FORCE_ACTIVATE.label(), "ForceActivate");
    }
}
