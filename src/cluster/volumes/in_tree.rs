//! Volume plugins that once were part of Kubernetes and that CSI drivers took over.
//!
//! Source: `staging/src/k8s.io/csi-translation-lib/plugins`, Kubernetes 1.36.

/// A volume plugin that a CSI driver took over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InTree {
    /// `awsElasticBlockStore`.
    AwsEbs,
    /// `gcePersistentDisk`.
    GcePd,
    /// `azureDisk`.
    AzureDisk,
    /// `azureFile`.
    AzureFile,
    /// `cinder`.
    Cinder,
    /// `vsphereVolume`.
    Vsphere,
    /// `portworxVolume`.
    Portworx,
}

impl InTree {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AwsEbs,
        Self::GcePd,
        Self::AzureDisk,
        Self::AzureFile,
        Self::Cinder,
        Self::Vsphere,
        Self::Portworx,
    ];

    /// The plugin's name, which is also that of its provisioner.
    #[must_use]
    pub const fn plugin_name(self) -> &'static str {
        match self {
            Self::AwsEbs => "kubernetes.io/aws-ebs",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
            Self::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The CSI driver that took over.
    #[must_use]
    pub const fn driver(self) -> &'static str {
        match self {
            Self::AwsEbs => "ebs.csi.aws.com",
            Self::GcePd => "pd.csi.storage.gke.io",
            Self::AzureDisk => "disk.csi.azure.com",
            Self::AzureFile => "file.csi.azure.com",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::Vsphere => "csi.vsphere.vmware.com",
            Self::Portworx => "pxd.portworx.com",
        }
    }

    /// The plugin whose provisioner has this name.
    #[must_use]
    pub fn of_provisioner(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.plugin_name() == name)
    }

    /// Whether the scheduler takes its volumes for those of the driver. For the other two it leaves them as they are.
    #[must_use]
    pub const fn is_migrated(self) -> bool {
        matches!(
            self,
            Self::AwsEbs | Self::GcePd | Self::AzureDisk | Self::Cinder | Self::Portworx
        )
    }

    /// The driver's key for the zone, if its volumes are tied to one.
    #[must_use]
    pub const fn zone_key(self) -> Option<&'static str> {
        match self {
            Self::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
            Self::GcePd => Some("topology.gke.io/zone"),
            Self::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            Self::AzureDisk | Self::AzureFile | Self::Vsphere | Self::Portworx => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provisioner_is_found_by_its_plugin_name() {
        for plugin in InTree::ALL {
            assert_eq!(InTree::of_provisioner(plugin.plugin_name()), Some(plugin));
        }
        assert_eq!(InTree::of_provisioner("ebs.csi.aws.com"), None);
    }
}
