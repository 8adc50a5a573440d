//! Volume objects as they stand on the wire: only what scheduling reads.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::cluster::watch::text::{Pairs, RawAmounts, Text};
use crate::cluster::watch::wire::{
    self, CsiSource, DiskSource, Expression, LabelSelector, List, NodeSelector, Requirements,
};

/// Metadata with all annotations.
pub(super) type Meta<'a> = wire::Meta<'a, Option<Pairs<'a, Text<'a>>>>;

/// A kind of object on the wire.
pub(super) trait Object<'a> {
    fn metadata(&self) -> Option<&Meta<'a>>;
}

macro_rules! object {
    ($type:ident) => {
        impl<'a> Object<'a> for $type<'a> {
            fn metadata(&self) -> Option<&Meta<'a>> {
                self.metadata.as_ref()
            }
        }
    };
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Phase<'a> {
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Volume<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<VolumeSpec<'a>>,
    pub(super) status: Option<Phase<'a>>,
}
object!(Volume);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeSpec<'a> {
    #[serde(borrow)]
    pub(super) storage_class_name: Option<Text<'a>>,
    pub(super) capacity: Option<RawAmounts<'a>>,
    pub(super) access_modes: List<Text<'a>>,
    pub(super) volume_mode: Option<Text<'a>>,
    pub(super) volume_attributes_class_name: Option<Text<'a>>,
    pub(super) claim_ref: Option<ClaimRef<'a>>,
    pub(super) node_affinity: Option<VolumeNodeAffinity<'a>>,
    pub(super) csi: Option<CsiSource<'a>>,
    pub(super) gce_persistent_disk: Option<DiskSource<'a>>,
    pub(super) aws_elastic_block_store: Option<DiskSource<'a>>,
    pub(super) azure_disk: Option<DiskSource<'a>>,
    pub(super) azure_file: Option<IgnoredAny>,
    pub(super) cinder: Option<DiskSource<'a>>,
    pub(super) vsphere_volume: Option<IgnoredAny>,
    pub(super) portworx_volume: Option<DiskSource<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ClaimRef<'a> {
    #[serde(borrow)]
    pub(super) namespace: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) uid: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct VolumeNodeAffinity<'a> {
    #[serde(borrow)]
    pub(super) required: Option<NodeSelector<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Claim<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<ClaimSpec<'a>>,
    pub(super) status: Option<Phase<'a>>,
}
object!(Claim);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClaimSpec<'a> {
    #[serde(borrow)]
    pub(super) storage_class_name: Option<Text<'a>>,
    pub(super) resources: Option<Requirements<'a>>,
    pub(super) access_modes: List<Text<'a>>,
    pub(super) volume_mode: Option<Text<'a>>,
    pub(super) volume_attributes_class_name: Option<Text<'a>>,
    pub(super) selector: Option<LabelSelector<'a>>,
    pub(super) volume_name: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Class<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) provisioner: Option<Text<'a>>,
    pub(super) volume_binding_mode: Option<Text<'a>>,
    pub(super) allowed_topologies: List<TopologyTerm<'a>>,
}
object!(Class);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TopologyTerm<'a> {
    #[serde(borrow)]
    pub(super) match_label_expressions: List<Expression<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CsiNode<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<CsiNodeSpec<'a>>,
}
object!(CsiNode);

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CsiNodeSpec<'a> {
    #[serde(borrow)]
    pub(super) drivers: List<NodeDriver<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NodeDriver<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) allocatable: Option<NodeDriverLimit>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NodeDriverLimit {
    pub(super) count: Option<i32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CsiDriver<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<CsiDriverSpec>,
}
object!(CsiDriver);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CsiDriverSpec {
    pub(super) storage_capacity: Option<bool>,
    pub(super) prevent_pod_scheduling_if_missing: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Capacity<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) storage_class_name: Option<Text<'a>>,
    pub(super) node_topology: Option<LabelSelector<'a>>,
    pub(super) capacity: Option<&'a RawValue>,
    pub(super) maximum_volume_size: Option<&'a RawValue>,
}
object!(Capacity);

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Attachment<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<Meta<'a>>,
    pub(super) spec: Option<AttachmentSpec<'a>>,
}
object!(Attachment);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachmentSpec<'a> {
    #[serde(borrow)]
    pub(super) attacher: Option<Text<'a>>,
    pub(super) node_name: Option<Text<'a>>,
    pub(super) source: Option<AttachmentSource<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachmentSource<'a> {
    #[serde(borrow)]
    pub(super) persistent_volume_name: Option<Text<'a>>,
}
