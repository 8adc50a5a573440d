//! The volumes of a pod that scheduling reads.

use std::borrow::Cow;

use crate::cluster::volumes::InTree;

/// A volume of a pod: only those that scheduling reads, in the order of the object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PodVolume {
    /// `persistentVolumeClaim`, with the claim's name, which may be empty.
    Claim(Box<str>),
    /// `ephemeral`, with the volume's name: its claim is called after the pod, see [`PodVolume::claim_name`]. Pods of
    /// one class have different claims.
    Ephemeral(Box<str>),
    /// A disk that stands in the pod itself.
    Inline(Box<InlineDisk>),
    /// `csi`, with the driver's name.
    Csi(crate::ids::Symbol),
}

/// A disk that stands in the pod itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InlineDisk {
    /// The volume's name.
    pub volume: Box<str>,
    /// Which disk.
    pub disk: Disk,
}

/// A disk by what identifies it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Disk {
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        name: Box<str>,
        /// Mounted for reading only.
        read_only: bool,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        id: Box<str>,
    },
    /// `rbd`.
    Rbd {
        /// Ceph monitors.
        monitors: Box<[Box<str>]>,
        /// The pool.
        pool: Box<str>,
        /// The image.
        image: Box<str>,
        /// Mounted for reading only.
        read_only: bool,
    },
    /// `iscsi`.
    Iscsi {
        /// The target's name.
        iqn: Box<str>,
        /// Mounted for reading only.
        read_only: bool,
    },
    /// `azureDisk`.
    AzureDisk {
        /// `diskURI`.
        uri: Box<str>,
        /// `kind`, if it is given.
        kind: Option<Box<str>>,
    },
    /// `azureFile`.
    AzureFile,
    /// `cinder`.
    Cinder {
        /// `volumeID`.
        id: Box<str>,
    },
    /// `vsphereVolume`.
    Vsphere {
        /// `volumePath`.
        path: Box<str>,
    },
    /// `portworxVolume`.
    Portworx {
        /// `volumeID`.
        id: Box<str>,
    },
}

impl PodVolume {
    /// The name of the claim behind it, in the pod's namespace; `None`: there is no claim behind it.
    #[must_use]
    pub fn claim_name(&self, pod: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Claim(name) => Some(Cow::Borrowed(name)),
            Self::Ephemeral(volume) => Some(Cow::Owned(format!("{pod}-{volume}"))),
            Self::Inline(_) | Self::Csi(_) => None,
        }
    }

    /// Whether the claim behind it is made for its pod.
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        matches!(self, Self::Ephemeral(_))
    }

    /// The volume plugin that a CSI driver took over, if it is a disk of one.
    #[must_use]
    pub fn in_tree(&self) -> Option<InTree> {
        match self {
            Self::Inline(inline) => inline.disk.in_tree(),
            Self::Claim(_) | Self::Ephemeral(_) | Self::Csi(_) => None,
        }
    }
}

impl Disk {
    /// The volume plugin that a CSI driver took over, if it is a disk of one.
    #[must_use]
    pub const fn in_tree(&self) -> Option<InTree> {
        match self {
            Self::GcePersistentDisk { .. } => Some(InTree::GcePd),
            Self::AwsElasticBlockStore { .. } => Some(InTree::AwsEbs),
            Self::AzureDisk { .. } => Some(InTree::AzureDisk),
            Self::AzureFile => Some(InTree::AzureFile),
            Self::Cinder { .. } => Some(InTree::Cinder),
            Self::Vsphere { .. } => Some(InTree::Vsphere),
            Self::Portworx { .. } => Some(InTree::Portworx),
            Self::Rbd { .. } | Self::Iscsi { .. } => None,
        }
    }

    /// What the CSI driver that took over calls it; `None`: none of those whose volumes count ([`InTree::is_migrated`])
    /// did.
    ///
    /// # Errors
    /// The driver has no name for it.
    #[must_use]
    pub fn handle(&self) -> Option<Result<Cow<'_, str>, String>> {
        match self {
            Self::GcePersistentDisk { name, .. } => Some(Ok(Cow::Owned(gce_handle("zones", UNSPECIFIED_PLACE, name)))),
            Self::AwsElasticBlockStore { id } => Some(ebs_handle(id).map(Cow::Borrowed)),
            Self::AzureDisk { uri, kind } => {
                Some(managed_azure_disk(kind.as_deref()).map(|()| Cow::Borrowed(uri.as_ref())))
            }
            Self::Cinder { id } | Self::Portworx { id } => Some(Ok(Cow::Borrowed(id))),
            Self::AzureFile | Self::Vsphere { .. } | Self::Rbd { .. } | Self::Iscsi { .. } => None,
        }
    }
}

/// What a GCE handle says for what is not known.
pub(in crate::cluster) const UNSPECIFIED_PLACE: &str = "UNSPECIFIED";

/// A GCE disk's handle; `level` is `zones` or `regions`.
pub(in crate::cluster) fn gce_handle(level: &str, place: &str, disk: &str) -> String {
    format!("projects/{UNSPECIFIED_PLACE}/{level}/{place}/disks/{disk}")
}

/// An EBS volume's handle: `aws://zone/vol-1` and `vol-1` are the same volume.
///
/// # Errors
/// The id is a URL and no EBS volume stands at its end.
pub(in crate::cluster) fn ebs_handle(id: &str) -> Result<&str, String> {
    let Some(rest) = id.strip_prefix("aws://") else {
        return Ok(id);
    };
    let path = rest.split_once('/').map_or("", |(_zone, path)| path.trim_matches('/'));
    if path.starts_with("vol-") && !path.contains('/') {
        Ok(path)
    } else {
        Err(format!(
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"
        ))
    }
}

/// The driver knows managed disks only.
///
/// # Errors
/// The disk is of another kind.
pub(in crate::cluster) fn managed_azure_disk(kind: Option<&str>) -> Result<(), String> {
    match kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ephemeral_claim_is_called_after_its_pod() {
        assert_eq!(
            PodVolume::Ephemeral("data".into()).claim_name("web-0").as_deref(),
            Some("web-0-data")
        );
        assert_eq!(PodVolume::Claim("c".into()).claim_name("web-0").as_deref(), Some("c"));
    }

    #[test]
    fn ebs_ids_lose_their_zone() {
        for (id, handle) in [
            ("vol-1", Some("vol-1")),
            ("aws://us-east-1a/vol-1", Some("vol-1")),
            ("aws:///vol-1", Some("vol-1")),
            ("aws://us-east-1a/disk", None),
            ("aws://vol-1", None),
        ] {
            assert_eq!(ebs_handle(id).ok(), handle, "{id}");
        }
    }

    #[test]
    fn azure_disks_must_be_managed() {
        assert!(managed_azure_disk(None).is_ok() && managed_azure_disk(Some("managed")).is_ok());
        assert!(managed_azure_disk(Some("Shared")).is_err());
    }
}
