//! What a pod's claims say for all nodes.

use super::*;

#[test]
fn claims_that_keep_a_pod_from_every_node() {
    let pod = claiming("p", &["c"]);
    let lost = json!({"spec": {"volumeName": "pv-a"}, "status": {"phase": "Lost"}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}});
    let half = json!({"spec": {"storageClassName": "local", "volumeName": "pv"}});
    let immediate = json!({"provisioner": "p", "volumeBindingMode": "Immediate"});
    let unset = json!({"provisioner": "p"});
    let not_bound = "UU pod has unbound immediate PersistentVolumeClaims";
    let table: [(&[VolumeObject], &str); 9] = [
        (&[], "UU persistentvolumeclaim \"c\" not found"),
        (
            &[object(VolumeKind::Claim, "c", &lost)],
            "UU persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"pv-a\"",
        ),
        (
            &[object(VolumeKind::Claim, "c", &going)],
            "UU persistentvolumeclaim \"c\" is being deleted",
        ),
        (&[local(), object(VolumeKind::Claim, "c", &half)], not_bound),
        (
            &[object(VolumeKind::Class, "now", &immediate), unbound("c", "now", 1)],
            not_bound,
        ),
        (&[unbound("c", "gone", 1)], not_bound),
        (&[unbound("c", "", 1)], not_bound),
        (
            &[object(VolumeKind::Class, "odd", &unset), unbound("c", "odd", 1)],
            "E VolumeBindingMode not set for StorageClass \"odd\"",
        ),
        (
            &[
                local(),
                object(
                    VolumeKind::Claim,
                    "c",
                    &json!({"spec": {"storageClassName": "local",
                "selector": {"matchLabels": {"a b": "c"}}}}),
                ),
            ],
            "E error creating internal label selector for claim: default/c: key: Invalid value: \"a b\": is no label key",
        ),
    ];
    for (objects, expected) in table {
        assert_eq!(filtered(&pod, objects), expected);
    }
}

#[test]
fn an_ephemeral_claim_must_be_there_and_belong_to_the_pod() {
    let pod = ephemeral("p", "data");
    assert_eq!(
        filtered(&pod, &[]),
        "UU waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\""
    );
    let owned_by = |uid: &str| {
        let parts = json!({"metadata": {"ownerReferences": [{"uid": uid, "controller": true}]},
            "spec": {"storageClassName": "local"}});
        object(VolumeKind::Claim, "p-data", &parts)
    };
    assert_eq!(
        filtered(&pod, &[local(), owned_by("somebody")]),
        "UU PVC default/p-data was not created for pod default/p (pod is not owner)"
    );
    let uid = pod.build().uid_text.to_string();
    assert_eq!(
        filtered(&pod, &[local(), owned_by(&uid), on_node("pv", "n1", 1)]),
        "fits; UU node(s) didn't find available persistent volumes to bind"
    );
}

#[test]
fn a_pod_without_claims_is_none_of_its_business() {
    let plugin = binding();
    let plain = pod("p").field(&["spec", "volumes"], json!([{"name": "v", "emptyDir": {}}]));
    assert!(!plugin.applies_to(&plain.build()) && plugin.applies_to(&claiming("p", &["c"]).build()));
    assert_eq!(filtered(&plain, &[]), "skip");
}
