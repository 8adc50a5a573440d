//! Which nodes a pod's claims can be served on.

use super::*;
use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::{ShapePoint, VolumeBindingArgs};

use crate::framework::CycleState;
use crate::plugins::check::plugin_with;

const NO_MATCH: &str = "UU node(s) didn't match PersistentVolume's node affinity";
const NONE_TO_BIND: &str = "UU node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "UU node(s) did not have enough free storage";

#[test]
fn bound_claims_tie_a_pod_to_where_their_volumes_are() {
    let pod = claiming("p", &["c", "d"]);
    let mut taken = local_parts("n1", 1);
    taken["spec"]["claimRef"] = json!({"namespace": "default", "name": "c"});
    let taken = object(VolumeKind::Volume, "pv", &taken);
    let here = [bound("c", "pv"), taken, local(), unbound("d", "local", 1)];
    assert_eq!(
        filtered(&pod, &here),
        format!("{NONE_TO_BIND}; {NO_MATCH}, node(s) didn't find available persistent volumes to bind")
    );
    let missing = "UU node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(
        filtered(&claiming("p", &["c"]), &[bound("c", "gone")]),
        format!("{missing}; {missing}")
    );
}

#[test]
fn a_volume_of_a_former_plugin_is_looked_at_as_the_node_says() {
    let parts = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}});
    let ebs = object(VolumeKind::Volume, "pv", &parts);
    let node = json!({"metadata": {"annotations":
        {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}}});
    let objects = [bound("c", "pv"), ebs, object(VolumeKind::CsiNode, "n1", &node)];
    // On n1 the driver has taken over, and n1 lacks the driver's label.
    assert_eq!(filtered(&claiming("p", &["c"]), &objects), format!("{NO_MATCH}; fits"));
}

#[test]
fn the_smallest_volume_that_suits_is_taken() {
    let claims = [unbound("big", "local", 5), unbound("small", "local", 1)];
    let volumes = [
        on_node("pv1", "n1", 1),
        on_node("pv5", "n1", 5),
        on_node("pv9", "n2", 9),
    ];
    let objects: Vec<_> = [local()].into_iter().chain(claims).chain(volumes).collect();
    let pod = claiming("p", &["big", "small"]);
    // Smallest claim first: otherwise the big one could take what only it needs.
    assert_eq!(filtered(&pod, &objects), format!("fits; {NONE_TO_BIND}"));
}

#[test]
fn volumes_that_do_not_suit_are_left() {
    let base = local_parts("n1", 2);
    let changed = |path: &[&str], value: Value| {
        let mut parts = base.clone();
        let mut at = &mut parts;
        for name in path {
            at = &mut at[*name];
        }
        *at = value;
        object(VolumeKind::Volume, "pv", &parts)
    };
    let to = |uid: &str| json!({"namespace": "default", "name": "c", "uid": uid});
    let table = [
        (object(VolumeKind::Volume, "pv", &base), true),
        (changed(&["spec", "capacity", "storage"], "1Gi".into()), false),
        (changed(&["spec", "volumeMode"], "Block".into()), false),
        (changed(&["spec", "storageClassName"], "other".into()), false),
        (changed(&["spec", "accessModes"], json!(["ReadOnlyMany"])), false),
        (changed(&["spec", "volumeAttributesClassName"], "gold".into()), false),
        (changed(&["status", "phase"], "Released".into()), false),
        (
            changed(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into()),
            false,
        ),
        (changed(&["spec", "claimRef"], to("uid-c")), true),
        (changed(&["spec", "claimRef"], to("")), true),
        (changed(&["spec", "claimRef"], to("another")), false),
    ];
    for (volume, fits) in table {
        let said = filtered(
            &claiming("p", &["c"]),
            &[local(), unbound("c", "local", 2), volume.clone()],
        );
        let here = if fits { "fits" } else { NONE_TO_BIND };
        assert_eq!(said, format!("{here}; {NONE_TO_BIND}"), "{volume:?}");
    }
}

#[test]
fn a_volume_reserved_for_the_claim_is_taken_or_none() {
    let mut reserved = local_parts("n2", 9);
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "c"});
    let objects = [
        local(),
        unbound("c", "local", 1),
        on_node("free", "n1", 1),
        object(VolumeKind::Volume, "reserved", &reserved),
    ];
    assert_eq!(
        filtered(&claiming("p", &["c"]), &objects),
        format!("{NONE_TO_BIND}; fits")
    );
}

#[test]
fn volumes_are_made_where_the_class_allows() {
    let made = |parts: Value| {
        let mut class = json!({"provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer"});
        class["allowedTopologies"] = parts;
        filtered(
            &claiming("p", &["c"]),
            &[object(VolumeKind::Class, "std", &class), unbound("c", "std", 1)],
        )
    };
    let zone =
        |zone: &str| json!({"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]});
    assert_eq!(made(Value::Null), "fits; fits");
    assert_eq!(made(json!([zone("b")])), format!("{NONE_TO_BIND}; fits"));
    assert_eq!(made(json!([zone("a"), zone("b")])), "fits; fits");
    assert_eq!(made(json!([{}])), format!("{NONE_TO_BIND}; {NONE_TO_BIND}"));
}

#[test]
fn capacity_counts_where_the_driver_tells_it() {
    let driver = |tells: bool| {
        object(
            VolumeKind::CsiDriver,
            "csi",
            &json!({"spec": {"storageCapacity": tells}}),
        )
    };
    let capacity = |name: &str, rest: Value| {
        let mut parts = rest;
        parts["storageClassName"] = "std".into();
        object(VolumeKind::Capacity, name, &parts)
    };
    let here = |zone: &str, amount: &str| json!({"capacity": amount, "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}}});
    let with = |objects: &[VolumeObject]| {
        let mut all = vec![waiting_class("std", "csi"), unbound("c", "std", 5)];
        all.extend_from_slice(objects);
        filtered(&claiming("p", &["c"]), &all)
    };
    assert_eq!(with(&[driver(false)]), "fits; fits");
    assert_eq!(with(&[driver(true)]), format!("{NO_SPACE}; {NO_SPACE}"));
    let both = [
        driver(true),
        capacity("a", here("a", "5Gi")),
        capacity("b", here("b", "4Gi")),
    ];
    assert_eq!(with(&both), format!("fits; {NO_SPACE}"));
    let mut limited = here("a", "50Gi");
    limited["maximumVolumeSize"] = "1Gi".into();
    assert_eq!(
        with(&[driver(true), capacity("a", limited)]),
        format!("{NO_SPACE}; {NO_SPACE}")
    );
    let nowhere = json!({"capacity": "50Gi"});
    assert_eq!(
        with(&[driver(true), capacity("a", nowhere)]),
        format!("{NO_SPACE}; {NO_SPACE}")
    );
}

#[test]
fn a_node_selected_before_is_the_only_one() {
    let selected = |node: &str| {
        let parts = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}},
            "spec": {"storageClassName": "std", "resources": {"requests": {"storage": "1Gi"}}}});
        [waiting_class("std", "csi"), object(VolumeKind::Claim, "c", &parts)]
    };
    let pod = claiming("p", &["c"]);
    assert_eq!(filtered(&pod, &selected("n1")), format!("fits; {NONE_TO_BIND}"));
    assert_eq!(
        filtered(&pod, &selected("gone")),
        format!("{NONE_TO_BIND}; {NONE_TO_BIND}")
    );
}

#[test]
fn a_node_is_not_held_against_the_volumes_of_others() {
    let mut objects = vec![local(), unbound("c", "local", 1)];
    objects.extend((0..50).map(|at| on_node(&format!("far-{at}"), &format!("far-{at}"), 1)));
    objects.push(on_node("near", "n2", 7));
    assert_eq!(
        filtered(&claiming("p", &["c"]), &objects),
        format!("{NONE_TO_BIND}; fits")
    );
}

#[test]
fn nodes_are_scored_only_by_the_shape_of_the_args() {
    let objects = [
        local(),
        unbound("c", "local", 5),
        on_node("half", "n1", 10),
        on_node("full", "n2", 5),
    ];
    let world = world(&two(), &objects);
    let pod = claiming("p", &["c"]);
    let scores = |plugin: &dyn Plugin| {
        let (pod, view) = (pod.build(), world.view());
        let mut state = CycleState::default();
        let pre_filter = plugin.pre_filter().unwrap().pre_filter_pod(&view, &mut state, &pod);
        assert!(pre_filter.status.is_success());
        let prepared = plugin.pre_score().unwrap().pre_score_pod(&view, &mut state, &pod, &[]);
        let score = plugin.score().unwrap();
        let nodes = view.nodes.iter();
        let scores: Vec<i64> = nodes
            .map(|node| score.score_node(&view, &state, &pod, node).unwrap())
            .collect();
        (prepared.is_skip(), scores)
    };
    assert_eq!(scores(&*binding()), (true, vec![0, 0]));
    let corner = |utilization, score| ShapePoint { utilization, score };
    let args = VolumeBindingArgs {
        shape: Some(vec![corner(0, 10), corner(100, 0)]),
        ..VolumeBindingArgs::default()
    };
    let plugin = plugin_with("VolumeBinding", &PluginArgs::VolumeBinding(args));
    assert_eq!(scores(&*plugin), (false, vec![50, 0]));
}
