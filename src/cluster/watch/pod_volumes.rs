//! Compiles the volumes of a pod that scheduling reads.

use crate::cluster::watch::text::{Text, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::cluster::{Disk, InlineDisk, PodVolume};
use crate::ids::Symbol;

pub(super) fn compile(volumes: &[wire::Volume<'_>]) -> Box<[PodVolume]> {
    volumes.iter().filter_map(volume).collect()
}

fn volume(volume: &wire::Volume<'_>) -> Option<PodVolume> {
    let name = || text_of(&volume.name).into();
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(PodVolume::Claim(text_of(&claim.claim_name).into()));
    }
    if volume.ephemeral.is_some() {
        return Some(PodVolume::Ephemeral(name()));
    }
    if let Some(csi) = &volume.csi {
        return Some(PodVolume::Csi(Symbol::new(text_of(&csi.driver))));
    }
    let disk = disk(volume)?;
    Some(PodVolume::Inline(Box::new(InlineDisk { volume: name(), disk })))
}

fn disk(volume: &wire::Volume<'_>) -> Option<Disk> {
    let text = |text: &Option<Text<'_>>| -> Box<str> { text_of(text).into() };
    if let Some(gce) = &volume.gce_persistent_disk {
        return Some(Disk::GcePersistentDisk {
            name: text(&gce.pd_name),
            read_only: gce.read_only == Some(true),
        });
    }
    if let Some(ebs) = &volume.aws_elastic_block_store {
        return Some(Disk::AwsElasticBlockStore {
            id: text(&ebs.volume_id),
        });
    }
    if let Some(rbd) = &volume.rbd {
        return Some(Disk::Rbd {
            monitors: items(&rbd.monitors).iter().map(|it| it.as_str().into()).collect(),
            pool: text(&rbd.pool),
            image: text(&rbd.image),
            read_only: rbd.read_only == Some(true),
        });
    }
    if let Some(iscsi) = &volume.iscsi {
        return Some(Disk::Iscsi {
            iqn: text(&iscsi.iqn),
            read_only: iscsi.read_only == Some(true),
        });
    }
    if let Some(azure) = &volume.azure_disk {
        return Some(Disk::AzureDisk {
            uri: text(&azure.disk_uri),
            kind: azure.kind.as_ref().map(|kind| kind.as_str().into()),
        });
    }
    if volume.azure_file.is_some() {
        return Some(Disk::AzureFile);
    }
    if let Some(cinder) = &volume.cinder {
        return Some(Disk::Cinder {
            id: text(&cinder.volume_id),
        });
    }
    if let Some(vsphere) = &volume.vsphere_volume {
        return Some(Disk::Vsphere {
            path: text(&vsphere.volume_path),
        });
    }
    let portworx = volume.portworx_volume.as_ref()?;
    Some(Disk::Portworx {
        id: text(&portworx.volume_id),
    })
}
