use serde_json::{Value, json};

use super::*;
use crate::cluster::VolumeObject;
use crate::framework::EventObject;
use crate::framework::QueueingHint::{Queue, QueueSkip};
use crate::plugins::check::{self, hint, plugin};
use crate::plugins::volume_check::{
    bound, claim, claim_of, class, pod_claiming, pod_with, unbound, volume, volume_event, world,
};
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

const NO_ZONE: &str = "UU node(s) had no available volume zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

type Pairs<'t> = &'t [(&'t str, &'t str)];

fn labelled(labels: Pairs<'_>) -> NodeBuilder {
    labels
        .iter()
        .fold(node("n"), |node, (key, value)| node.label(key, value))
}

fn answer(pod: &PodBuilder, node: NodeBuilder, objects: &[VolumeObject]) -> String {
    check::filter(&*plugin("VolumeZone"), pod, &world(&[node], &[], objects)).join("; ")
}

#[test]
fn labels_of_a_volume_must_suit_those_of_the_node() {
    let table: [(Value, Pairs<'_>, &str); 16] = [
        (json!({ZONE: "a"}), &[], "fits"),
        (json!({ZONE: "a"}), &[("disk", "ssd")], "fits"),
        (json!({ZONE: "a"}), &[(ZONE, "a")], "fits"),
        (json!({ZONE: "a"}), &[(ZONE, "b")], NO_ZONE),
        (json!({ZONE: "a"}), &[(REGION, "r")], NO_ZONE),
        (json!({ZONE: "a", REGION: "r"}), &[(ZONE, "a")], NO_ZONE),
        (json!({ZONE: "a", REGION: "r"}), &[(ZONE, "a"), (REGION, "r")], "fits"),
        (json!({ZONE: "a"}), &[(BETA_ZONE, "a")], NO_ZONE),
        (json!({BETA_ZONE: "a"}), &[(ZONE, "a")], "fits"),
        (json!({BETA_ZONE: "a"}), &[(ZONE, "b")], NO_ZONE),
        (json!({BETA_ZONE: "a"}), &[(BETA_ZONE, "b"), (ZONE, "a")], NO_ZONE),
        (json!({BETA_REGION: "r"}), &[(REGION, "r")], "fits"),
        (json!({ZONE: "us-west1-a__us-west1-b"}), &[(ZONE, "us-west1-b")], "fits"),
        (
            json!({ZONE: "us-west1-a __ us-west1-b"}),
            &[(ZONE, "us-west1-b")],
            "fits",
        ),
        (
            json!({ZONE: "us-west1-a__us-west1-b"}),
            &[(ZONE, "us-west1-c")],
            NO_ZONE,
        ),
        (json!({ZONE: "a__"}), &[(ZONE, "b")], "skip"),
    ];
    for (labels, node, expected) in table {
        let objects = [bound("c", "v"), volume("v", labels.clone(), json!({}))];
        let found = answer(&pod_claiming("p", &["c"]), labelled(node), &objects);
        assert_eq!(found, expected, "{labels} {node:?}");
    }
}

#[test]
fn every_volume_of_the_pod_must_suit() {
    let at = |name: &str, zone: &str| volume(name, json!({ZONE: zone}), json!({}));
    let objects = [bound("c1", "v1"), bound("c2", "v2"), at("v1", "a"), at("v2", "b")];
    let told = |claims: &[&str]| answer(&pod_claiming("p", claims), labelled(&[(ZONE, "a")]), &objects);
    assert_eq!(told(&["c1"]), "fits");
    assert_eq!(told(&["c1", "c2"]), NO_ZONE);
}

#[test]
fn claims_without_a_volume_are_told_why() {
    let objects = [
        unbound("late", "late"),
        unbound("soon", "soon"),
        unbound("modeless", "modeless"),
        unbound("classless", "gone"),
        claim("bare", json!({})),
        bound("lost", "gone"),
        class("late", "d", "WaitForFirstConsumer"),
        class("soon", "d", "Immediate"),
        class("modeless", "d", ""),
    ];
    let table = [
        ("late", "skip"),
        ("soon", "UU PersistentVolume had no name"),
        (
            "modeless",
            r#"UU VolumeBindingMode not set for StorageClass "modeless""#,
        ),
        ("classless", r#"UU storageclass.storage.k8s.io "gone" not found"#),
        ("bare", "UU PersistentVolumeClaim had no pv name and storageClass name"),
        ("lost", r#"UU persistentvolume "gone" not found"#),
        ("absent", r#"UU persistentvolumeclaim "absent" not found"#),
        ("", "UU PersistentVolumeClaim had no name"),
    ];
    for (name, expected) in table {
        assert_eq!(
            answer(&pod_claiming("p", &[name]), node("n"), &objects),
            expected,
            "{name}"
        );
    }
}

#[test]
fn pods_without_claims_are_passed() {
    let ephemeral = pod_with("p", &[json!({"ephemeral": {"volumeClaimTemplate": {}}})]);
    for pod in [pod("p"), ephemeral] {
        assert_eq!(answer(&pod, node("n"), &[]), "skip");
        assert!(!plugin("VolumeZone").applies_to(&pod.build()));
    }
}

#[test]
fn the_filter_works_without_its_pre_filter() {
    let objects = [bound("c", "v"), volume("v", json!({ZONE: "a"}), json!({}))];
    let world = world(&[labelled(&[(ZONE, "b")])], &[], &objects);
    let (plugin, pod, view) = (plugin("VolumeZone"), pod_claiming("p", &["c"]).build(), world.view());
    let filter = plugin.filter().unwrap();
    let status = filter.filter_node(&view, &CycleState::default(), &pod, view.nodes.iter().next().unwrap());
    assert_eq!(check::told(&status), NO_ZONE);
}

fn after(resource: EventResource, action: ActionType, event: &EventObject) -> Option<crate::framework::QueueingHint> {
    hint(
        &*plugin("VolumeZone"),
        &pod_claiming("p", &["c"]),
        resource,
        action,
        event,
    )
}

#[test]
fn classes_and_claims_that_help_are_worth_another_try() {
    let class_added = |mode: &str| {
        let event = volume_event(None, &class("s", "d", mode));
        after(EventResource::StorageClass, ActionType::ADD, &event)
    };
    assert_eq!(class_added("WaitForFirstConsumer"), Some(Queue));
    assert_eq!(class_added("Immediate"), Some(QueueSkip));
    assert_eq!(class_added(""), Some(QueueSkip));
    let claim_changed = |claim: &VolumeObject| {
        let event = volume_event(Some(claim), claim);
        after(EventResource::PersistentVolumeClaim, ActionType::UPDATE, &event)
    };
    assert_eq!(claim_changed(&bound("c", "v")), Some(Queue));
    assert_eq!(claim_changed(&bound("d", "v")), Some(QueueSkip));
    let elsewhere = claim_of("c", json!({"namespace": "other"}), json!({}));
    assert_eq!(claim_changed(&elsewhere), Some(QueueSkip));
}

#[test]
fn volumes_whose_labels_changed_are_worth_another_try() {
    let at = |labels: Value| volume("v", labels, json!({}));
    let changed = |old: Option<Value>, new: Value| {
        let event = volume_event(old.map(at).as_ref(), &at(new));
        let action = ActionType::UPDATE;
        after(EventResource::PersistentVolume, action, &event)
    };
    let table = [
        (None, json!({}), Queue),
        (Some(json!({ZONE: "a"})), json!({ZONE: "b"}), Queue),
        (Some(json!({ZONE: "a"})), json!({}), Queue),
        (Some(json!({ZONE: "a"})), json!({ZONE: "a", "tier": "x"}), QueueSkip),
        (Some(json!({ZONE: "a__b"})), json!({ZONE: "b__a"}), QueueSkip),
        (Some(json!({})), json!({ZONE: "a__"}), QueueSkip),
    ];
    for (old, new, expected) in table {
        assert_eq!(changed(old.clone(), new.clone()), Some(expected), "{old:?} {new}");
    }
}
