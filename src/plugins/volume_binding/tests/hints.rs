//! Which changes are worth another try.

use super::*;
use crate::framework::QueueingHint::{self, Queue, QueueSkip};
use crate::framework::{ActionType, EventObject, EventResource};

fn hint(
    pod: &PodBuilder,
    resource: EventResource,
    old: Option<&VolumeObject>,
    new: &VolumeObject,
) -> Option<QueueingHint> {
    let action = if old.is_some() {
        ActionType::UPDATE
    } else {
        ActionType::ADD
    };
    let event = EventObject::Volume {
        old: old.cloned(),
        new: Some(new.clone()),
    };
    check::hint(&*binding(), pod, resource, action, &event)
}

#[test]
fn claims_help_the_pods_that_name_them() {
    let say = |pod: &PodBuilder, claim: &str| {
        let claim = unbound(claim, "local", 1);
        hint(pod, EventResource::PersistentVolumeClaim, None, &claim)
    };
    let pod = claiming("p", &["c"]);
    assert_eq!((say(&pod, "c"), say(&pod, "d")), (Some(Queue), Some(QueueSkip)));
    let pod = ephemeral("p", "data");
    assert_eq!((say(&pod, "p-data"), say(&pod, "data")), (Some(Queue), Some(QueueSkip)));
    let elsewhere = claiming("p", &["c"]).namespace("other");
    assert_eq!(say(&elsewhere, "c"), Some(QueueSkip));
}

#[test]
fn classes_and_csi_nodes_help_when_what_is_read_of_them_changes() {
    let pod = claiming("p", &["c"]);
    let class = |topologies: Value| {
        object(
            VolumeKind::Class,
            "std",
            &json!({"provisioner": "p", "allowedTopologies": topologies}),
        )
    };
    let zone = |zone: &str| json!([{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]);
    let (a, b) = (class(zone("a")), class(zone("b")));
    let of_class = |old, new| hint(&pod, EventResource::StorageClass, old, new);
    assert_eq!(
        (of_class(None, &a), of_class(Some(&a), &b), of_class(Some(&a), &a)),
        (Some(Queue), Some(Queue), Some(QueueSkip))
    );
    let node = |plugins: &str| {
        let key = "storage.alpha.kubernetes.io/migrated-plugins";
        object(
            VolumeKind::CsiNode,
            "n1",
            &json!({"metadata": {"annotations": {key: plugins}}}),
        )
    };
    let (none, some) = (node(""), node("kubernetes.io/cinder"));
    let of_node = |old, new| hint(&pod, EventResource::CsiNode, old, new);
    assert_eq!(
        (
            of_node(None, &none),
            of_node(Some(&none), &some),
            of_node(Some(&some), &some)
        ),
        (Some(Queue), Some(Queue), Some(QueueSkip))
    );
}

#[test]
fn capacity_helps_when_it_grows() {
    let pod = claiming("p", &["c"]);
    let capacity = |amount: Option<&str>| {
        let mut parts = json!({"storageClassName": "std"});
        if let Some(amount) = amount {
            parts["capacity"] = amount.into();
        }
        object(VolumeKind::Capacity, "x", &parts)
    };
    let table = [
        (None, Some("1Gi"), Queue),
        (Some(Some("1Gi")), Some("2Gi"), Queue),
        (Some(None), Some("1Gi"), Queue),
        (Some(Some("1Gi")), Some("1Gi"), QueueSkip),
        (Some(Some("2Gi")), Some("1Gi"), QueueSkip),
        (Some(Some("2Gi")), None, QueueSkip),
    ];
    for (old, new, expected) in table {
        let old = old.map(capacity);
        let said = hint(&pod, EventResource::CsiStorageCapacity, old.as_ref(), &capacity(new));
        assert_eq!(said, Some(expected), "{old:?} {new:?}");
    }
}

#[test]
fn a_driver_helps_when_it_no_longer_tells_its_capacity() {
    let driver = |tells: bool| {
        object(
            VolumeKind::CsiDriver,
            "csi",
            &json!({"spec": {"storageCapacity": tells}}),
        )
    };
    let inline = pod("p").field(&["spec", "volumes"], json!([{"name": "v", "csi": {"driver": "csi"}}]));
    let say = |pod, old, new| hint(pod, EventResource::CsiDriver, Some(&driver(old)), &driver(new));
    assert_eq!(say(&inline, true, false), Some(Queue));
    assert_eq!(say(&inline, false, true), Some(QueueSkip));
    assert_eq!(say(&claiming("p", &["c"]), true, false), Some(QueueSkip));
}

#[test]
fn volumes_and_nodes_always_help() {
    let pod = claiming("p", &["c"]);
    let volume = on_node("pv", "n1", 1);
    assert_eq!(
        hint(&pod, EventResource::PersistentVolume, Some(&volume), &volume),
        Some(Queue)
    );
    let said = check::hint(
        &*binding(),
        &pod,
        EventResource::Node,
        ActionType::ADD,
        &check::node_event(None, &node("n1")),
    );
    assert_eq!(said, Some(Queue));
}

#[test]
fn a_pod_that_gives_its_node_back_may_free_volumes() {
    let say = |gone: &PodBuilder| {
        let event = check::deleted(gone);
        check::hint(
            &*binding(),
            &claiming("p", &["c"]),
            EventResource::AssignedPod,
            ActionType::DELETE,
            &event,
        )
    };
    assert_eq!(say(&claiming("q", &["d"]).on("n1")), Some(Queue));
    assert_eq!(say(&pod("q").on("n1")), Some(QueueSkip));
}
