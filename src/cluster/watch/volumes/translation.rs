//! What a CSI driver that took over from an in-tree plugin makes of its PersistentVolumes.
//!
//! The driver ties its volumes to zones by a label key of its own. A volume that says its zone in its node affinity gets
//! the driver's key there; one that says it in its labels only gets a requirement more in every term.
//!
//! Source: `staging/src/k8s.io/csi-translation-lib/plugins` (`TranslateInTreePVToCSI`), Kubernetes 1.36.

use std::collections::BTreeSet;

use crate::cluster::volumes::{UNSPECIFIED_PLACE, gce_handle};
use crate::cluster::watch::affinity::requirements;
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::volumes::{value_of, wire};
use crate::cluster::watch::wire::{SelectorTerm, items};
use crate::cluster::{Disk, InTree, InTreeVolume, NodeSelectorTerm, RawRequirement, Translation};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Stands between the zones of one label.
const ZONE_SEPARATOR: &str = "__";

/// The volume's source and its translation, if it is one that a CSI driver took over.
pub(super) fn in_tree(
    meta: &wire::Meta<'_>,
    spec: &wire::VolumeSpec<'_>,
    terms: Option<&[SelectorTerm<'_>]>,
) -> Option<InTreeVolume> {
    let (plugin, handle) = handle(meta, spec)?;
    let translation = handle.map(|handle| Translation {
        handle: handle.into(),
        node_affinity: affinity(plugin, meta, terms),
    });
    Some(InTreeVolume {
        plugin,
        translation: translation.map_err(|error| format!("could not translate pv: {error}").into()),
    })
}

fn handle(meta: &wire::Meta<'_>, spec: &wire::VolumeSpec<'_>) -> Option<(InTree, Result<String, String>)> {
    if let Some(gce) = &spec.gce_persistent_disk {
        return Some((InTree::GcePd, gce_disk(meta, text_of(&gce.pd_name))));
    }
    let disk = if let Some(ebs) = &spec.aws_elastic_block_store {
        Disk::AwsElasticBlockStore {
            id: text_of(&ebs.volume_id).into(),
        }
    } else if let Some(azure) = &spec.azure_disk {
        Disk::AzureDisk {
            uri: text_of(&azure.disk_uri).into(),
            kind: azure.kind.as_ref().map(|kind| kind.as_str().into()),
        }
    } else if let Some(cinder) = &spec.cinder {
        Disk::Cinder {
            id: text_of(&cinder.volume_id).into(),
        }
    } else if let Some(portworx) = &spec.portworx_volume {
        Disk::Portworx {
            id: text_of(&portworx.volume_id).into(),
        }
    } else if spec.azure_file.is_some() {
        Disk::AzureFile
    } else if spec.vsphere_volume.is_some() {
        Disk::Vsphere { path: "".into() }
    } else {
        return None;
    };
    let handle = disk.handle().unwrap_or_else(|| Ok("".into()));
    Some((disk.in_tree()?, handle.map(std::borrow::Cow::into_owned)))
}

fn gce_disk(meta: &wire::Meta<'_>, disk: &str) -> Result<String, String> {
    let label = |key| value_of(meta.labels.as_ref(), key).filter(|value| !value.is_empty());
    let zones: Vec<&str> = match label(BETA_ZONE).or_else(|| label(ZONE)) {
        Some(zones) => zones.split(ZONE_SEPARATOR).collect(),
        None => Vec::new(),
    };
    match zones.as_slice() {
        [] => Ok(gce_handle("zones", UNSPECIFIED_PLACE, disk)),
        [zone] => Ok(gce_handle("zones", zone, disk)),
        several => Ok(gce_handle("regions", &gce_region(several)?, disk)),
    }
}

/// The one region of some zones, such as `europe-west1` of `europe-west1-b`.
fn gce_region(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [continent, region, _] = parts.as_slice() else {
            return Err(format!(
                "failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            ));
        };
        regions.insert(format!("{continent}-{region}"));
    }
    match (regions.pop_first(), regions.is_empty()) {
        (Some(region), true) => Ok(region),
        (first, _) => Err(format!(
            "failed to get region from zones: multiple or no regions gotten from zones, got: {first:?}, {regions:?}"
        )),
    }
}

fn affinity(
    plugin: InTree,
    meta: &wire::Meta<'_>,
    terms: Option<&[SelectorTerm<'_>]>,
) -> Option<Box<[NodeSelectorTerm]>> {
    let mut raw: Vec<(Vec<RawRequirement<'_>>, Vec<RawRequirement<'_>>)> = terms
        .unwrap_or_default()
        .iter()
        .map(|term| {
            (
                requirements(items(&term.match_expressions)),
                requirements(items(&term.match_fields)),
            )
        })
        .collect();
    let has_terms = terms.is_some();
    let Some(driver_key) = plugin.zone_key() else {
        return has_terms.then(|| compile(&raw));
    };
    let (zone, region) = place_keys(meta, &raw);
    let zones_in_labels = zones_of_labels(meta, zone);
    let added = if has_values(&raw, zone) {
        rename(&mut raw, zone, driver_key);
        false
    } else {
        add(&mut raw, driver_key, &zones_in_labels)
    };
    if region == BETA_REGION && has_values(&raw, BETA_REGION) {
        rename(&mut raw, BETA_REGION, REGION);
    }
    (has_terms || added).then(|| compile(&raw))
}

type RawTerms<'t> = [(Vec<RawRequirement<'t>>, Vec<RawRequirement<'t>>)];

fn compile(raw: &RawTerms<'_>) -> Box<[NodeSelectorTerm]> {
    raw.iter()
        .map(|(expressions, fields)| NodeSelectorTerm::compile(expressions, fields))
        .collect()
}

/// The keys by which the volume says its zone and its region: today's or the former ones.
fn place_keys(meta: &wire::Meta<'_>, raw: &RawTerms<'_>) -> (&'static str, &'static str) {
    let in_affinity = |key: &str| {
        raw.iter()
            .any(|(expressions, _)| expressions.iter().any(|(have, ..)| *have == key))
    };
    let in_labels = |key| value_of(meta.labels.as_ref(), key).is_some();
    let is_former = !in_affinity(ZONE) && (in_affinity(BETA_ZONE) || (!in_labels(ZONE) && in_labels(BETA_ZONE)));
    if is_former {
        (BETA_ZONE, BETA_REGION)
    } else {
        (ZONE, REGION)
    }
}

fn zones_of_labels<'m>(meta: &'m wire::Meta<'_>, key: &str) -> Vec<&'m str> {
    let label = value_of(meta.labels.as_ref(), key).unwrap_or_default();
    let zones: BTreeSet<&str> = label
        .split(ZONE_SEPARATOR)
        .map(str::trim)
        .filter(|zone| !zone.is_empty())
        .collect();
    zones.into_iter().collect()
}

fn has_values(raw: &RawTerms<'_>, key: &str) -> bool {
    let mut expressions = raw.iter().flat_map(|(expressions, _)| expressions);
    expressions.any(|(have, _, values)| *have == key && !values.is_empty())
}

fn rename<'t>(raw: &mut RawTerms<'t>, from: &str, to: &'t str) {
    for (key, ..) in raw.iter_mut().flat_map(|(expressions, _)| expressions) {
        if *key == from {
            *key = to;
        }
    }
}

/// One requirement more in every term, or a term of it; false: there are no zones to require.
fn add<'t>(raw: &mut Vec<(Vec<RawRequirement<'t>>, Vec<RawRequirement<'t>>)>, key: &'t str, zones: &[&'t str]) -> bool {
    if zones.is_empty() {
        return false;
    }
    if raw.is_empty() {
        raw.push((Vec::new(), Vec::new()));
    }
    for (expressions, _) in raw {
        expressions.push((key, "In", zones.to_vec()));
    }
    true
}
