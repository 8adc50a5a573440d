//! What we know of the API server's objects, compiled to interned form.
//!
//! A pod is compiled once, when it is first seen or changes, to a [`PodInfo`]; a node to a [`NodeSpec`]. A pod's
//! [`PodSpec`] holds all of it that scheduling reads; pods that scheduling cannot tell apart share a class
//! ([`ClassTable`]).
//!
//! Does not: decide anything, or write to the API server.
//!
//! Children in reading order: `labels`, `selector`, `label_selector`, `taints` (small compiled pieces); `pod_info`,
//! `class`, `node_info`, `budget`, `object_text` (what is known of one object); `volumes` (claims, volumes, CSI objects); `network` (the tree, latencies, AppGroups); `snapshot` (all nodes at one moment); `watch` (decoding).

mod budget;
mod change_log;
mod class;
mod label_selector;
mod labels;
mod namespaces;
mod network;
mod node_info;
mod node_table;
mod object_text;
mod owners;
mod placed;
mod pod_info;
mod rules;
mod selector;
mod snapshot;
mod store;
mod taints;
mod terms;
mod volumes;
pub mod watch;

pub use budget::Budget;
pub use change_log::{ChangeLog, Cursor, DEFAULT_CAPACITY, Replay, Seq};
pub use class::{ClassTable, Classified, LabelVisibility, PodClass};
pub use label_selector::LabelSelector;
pub use labels::Labels;
pub use namespaces::{NamespaceLabels, Namespaces};
pub use network::{
    AddressRequest, AppGroup, AppMember, Bandwidth, Dependency, Network, NetworkFaults, NetworkLevels, NetworkView,
    NodeNetwork, Peer, PeerTarget, PodNetwork,
};
pub use node_info::{Image, NodeInfo, NodeSpec};
pub use node_table::{ClusterView, ImageState, Images, NoPods, NodeTable, PodLister};
pub use object_text::ObjectText;
pub use owners::{OwnerSelector, Owners, ServiceSelector};
pub use placed::{Placed, PlacedClass};
pub use pod_info::{PodInfo, PodSpec, ScheduledCondition, Unsupported};
pub use rules::Rules;
pub use selector::{NodeSelectorTerm, PreferredTerm, RawRequirement, Requirement, RequirementOp, SelectorError};
pub use snapshot::Snapshot;
pub use store::{BudgetKey, Cluster, NodeChange, NodeRecord, PodChange, PodChanges, Publisher};
pub use taints::{Effect, Taint, Toleration, TolerationOp, first_untolerated};
pub use terms::{OwnerKind, OwnerRef, PodAffinity, PodAffinityTerm, SpreadConstraint, WeightedTerm};
pub use volumes::{
    AssumeError, BindingMode, ClaimRef, CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, CsiVolume, Disk, InTree,
    InTreeVolume, InlineDisk, PersistentVolume, PersistentVolumeClaim, PodVolume, StorageClass, TopologyTerm,
    Translation, VolumeAttachment, VolumeCast, VolumeCatalogue, VolumeKey, VolumeKind, VolumeObject, reaches,
};
