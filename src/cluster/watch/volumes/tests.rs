//! Volume objects from JSON.

use serde_json::{Value, json};

use super::*;
use crate::cluster::{BindingMode, CsiNode, InTree, Labels, reaches};

fn volume(json: &Value) -> PersistentVolume {
    PersistentVolume::decode(&json.to_string()).unwrap().0
}

fn claim(json: &Value) -> PersistentVolumeClaim {
    PersistentVolumeClaim::decode(&json.to_string()).unwrap().0
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

#[test]
fn a_volume_is_read_whole() {
    let volume = volume(&json!({
        "metadata": {"name": "pv", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"storageClassName": "local", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block", "claimRef": {"namespace": "ns", "name": "c", "uid": "1"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "host", "operator": "In", "values": ["n1"]}]}]}}},
        "status": {"phase": "Available"},
    }));
    assert_eq!((&*volume.name, &*volume.resource_version), ("pv", "7"));
    assert_eq!(volume.class, Some(Symbol::new("local")));
    assert_eq!(volume.capacity.value(), 10 << 30);
    assert!(volume.block && volume.available && volume.bound_by_controller && !volume.terminating);
    assert_eq!(volume.csi.as_ref().map(|csi| &*csi.handle), Some("h"));
    let affinity = volume.node_affinity.as_deref();
    assert!(reaches(affinity, &labels(&[("host", "n1")])) && !reaches(affinity, &labels(&[("host", "n2")])));
}

#[test]
fn a_claim_names_its_class_by_annotation_first() {
    let claim = claim(&json!({
        "metadata": {"name": "c", "namespace": "ns", "annotations": {
            "volume.beta.kubernetes.io/storage-class": "old", "volume.kubernetes.io/selected-node": "n1",
            "pv.kubernetes.io/bind-completed": "yes"},
            "ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": true}]},
        "spec": {"storageClassName": "new", "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv",
            "accessModes": ["ReadWriteOncePod"]},
        "status": {"phase": "Lost"},
    }));
    assert_eq!(claim.class, Some(Symbol::new("old")));
    assert_eq!(claim.request.map(Quantity::value), Some(1 << 30));
    assert_eq!(claim.selected_node, Some(Symbol::new("n1")));
    assert!(claim.is_fully_bound() && claim.lost && claim.is_for_one_pod());
    assert_eq!(claim.controller, Some(crate::ids::PodUid::parse("b")));
}

#[test]
fn a_wrong_amount_is_told_by_its_path() {
    let error = PersistentVolume::decode(
        &json!({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "10Gigs"}}}).to_string(),
    )
    .unwrap_err();
    assert_eq!((&*error.name, &*error.path), ("pv", "spec.capacity[storage]"));
    let error = CsiStorageCapacity::decode(
        &json!({"metadata": {"name": "x", "namespace": "ns"}, "capacity": "lots"}).to_string(),
    )
    .unwrap_err();
    assert_eq!(&*error.path, "capacity");
    assert!(StorageClass::decode("{}").is_err());
}

#[test]
fn the_other_kinds_are_read_whole() {
    let class = StorageClass::decode(
        &json!({"metadata": {"name": "std"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]},
                {"matchLabelExpressions": []}]})
        .to_string(),
    )
    .unwrap()
    .0;
    assert_eq!(class.binding_mode, Some(BindingMode::WaitForFirstConsumer));
    assert!(class.allows(&labels(&[("zone", "a")])) && !class.allows(&labels(&[("zone", "b")])));
    let node = CsiNode::decode(
        &json!({"metadata": {"name": "n1", "annotations":
                {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/cinder,kubernetes.io/gce-pd"}},
            "spec": {"drivers": [{"name": "d", "nodeID": "x", "allocatable": {"count": 3}}, {"name": "e"}]}})
        .to_string(),
    )
    .unwrap()
    .0;
    assert!(node.has_migrated(InTree::GcePd) && !node.has_migrated(InTree::AwsEbs));
    let limit = |name| node.driver(Symbol::new(name)).and_then(|driver| driver.limit);
    assert_eq!((limit("d"), limit("e")), (Some(3), None));
    let capacity = CsiStorageCapacity::decode(
        &json!({"metadata": {"name": "x", "namespace": "ns"}, "storageClassName": "std", "capacity": "5Gi",
            "maximumVolumeSize": "1Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}})
        .to_string(),
    )
    .unwrap()
    .0;
    assert_eq!(capacity.limit().map(Quantity::value), Some(1 << 30));
    assert!(capacity.nodes.matches(&labels(&[("zone", "a")])));
    let attachment = VolumeAttachment::decode(
        &json!({"metadata": {"name": "x"}, "spec": {"attacher": "d", "nodeName": "n1",
            "source": {"persistentVolumeName": "pv"}}})
        .to_string(),
    )
    .unwrap()
    .0;
    assert_eq!(attachment.volume_name.as_deref(), Some("pv"));
}

#[test]
fn volumes_of_former_plugins_are_translated() {
    let zoned = volume(&json!({
        "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "a__b"}},
        "spec": {"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}},
    }));
    let in_tree = zoned.in_tree.as_ref().unwrap();
    let translation = in_tree.translation.as_ref().unwrap();
    assert_eq!((in_tree.plugin, &*translation.handle), (InTree::AwsEbs, "vol-1"));
    let key = "topology.ebs.csi.aws.com/zone";
    let affinity = translation.node_affinity.as_deref();
    assert!(reaches(affinity, &labels(&[(key, "b")])) && !reaches(affinity, &labels(&[(key, "c")])));
    assert_eq!(zoned.node_affinity, None);
    let regional = volume(&json!({
        "metadata": {"name": "pv", "labels": {"failure-domain.beta.kubernetes.io/zone": "us-east1-b__us-east1-c"}},
        "spec": {"gcePersistentDisk": {"pdName": "d"}},
    }));
    let translation = regional.in_tree.unwrap().translation.unwrap();
    assert_eq!(&*translation.handle, "projects/UNSPECIFIED/regions/us-east1/disks/d");
    let by_affinity = volume(&json!({
        "metadata": {"name": "pv"},
        "spec": {"cinder": {"volumeID": "v"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}}},
    }));
    let translation = by_affinity.in_tree.unwrap().translation.unwrap();
    let affinity = translation.node_affinity.as_deref();
    assert!(reaches(
        affinity,
        &labels(&[("topology.cinder.csi.openstack.org/zone", "a")])
    ));
    assert!(!reaches(affinity, &labels(&[("topology.kubernetes.io/zone", "a")])));
    let unmanaged = volume(&json!({"metadata": {"name": "pv"},
        "spec": {"azureDisk": {"diskURI": "u", "kind": "Shared"}}}));
    assert!(unmanaged.in_tree.unwrap().translation.is_err());
}
