use serde_json::{Value, json};

use super::*;
use crate::cluster::VolumeObject;
use crate::framework::QueueingHint::{Queue, QueueSkip};
use crate::plugins::check::{self, deleted, hint, plugin, told};
use crate::plugins::volume_check::{claim_of, pod_claiming, pod_with, volume_event, with_mode, world};
use crate::testing::{PodBuilder, World, node, pod};

const IN_USE: &str = "U node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                      in-use by another pod";
const NO_DISK: &str = "U node(s) had no available disk";

fn restrictions() -> Arc<dyn Plugin> {
    plugin("VolumeRestrictions")
}

fn answers(pod: &PodBuilder, world: &World) -> String {
    check::filter(&*restrictions(), pod, world).join("; ")
}

fn single() -> VolumeObject {
    with_mode("single", "ReadWriteOncePod")
}

/// Two nodes, and a pod on the first.
fn next_to(used: &PodBuilder, objects: &[VolumeObject]) -> World {
    world(&[node("n1"), node("n2")], &[used.clone().on("n1")], objects)
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod_anywhere() {
    let objects = [single(), with_mode("shared", "ReadWriteMany")];
    let elsewhere = pod_claiming("u", &["single"]).namespace("other");
    let ephemeral = pod_with("u", &[json!({"ephemeral": {"volumeClaimTemplate": {}}})]);
    let table = [
        (pod_claiming("u", &["single"]), "single", format!("{IN_USE}; {IN_USE}")),
        (pod_claiming("u", &["shared"]), "single", "skip".to_owned()),
        (pod_claiming("u", &["shared"]), "shared", "skip".to_owned()),
        (pod_claiming("u", &["single"]), "shared", "skip".to_owned()),
        (elsewhere, "single", "skip".to_owned()),
        (ephemeral, "single", "skip".to_owned()),
        (
            pod_claiming("u", &["single"]),
            "gone",
            r#"UU persistentvolumeclaim "gone" not found"#.to_owned(),
        ),
    ];
    for (used, wanted, expected) in table {
        let world = next_to(&used, &objects);
        assert_eq!(
            answers(&pod_claiming("p", &[wanted]), &world),
            expected,
            "{}",
            used.json()
        );
    }
}

#[test]
fn a_claim_is_free_again_when_its_pod_has_left() {
    let used = pod_claiming("u", &["single"]).on("n1").build();
    let mut world = world(&[node("n1")], &[], &[single()]);
    let wanted = pod_claiming("p", &["single"]);
    for _ in 0..2 {
        assert_eq!(answers(&wanted, &world), "skip");
        assert!(world.assume(&used, Symbol::new("n1")));
        assert_eq!(answers(&wanted, &world), IN_USE);
        assert!(world.remove(&used, Symbol::new("n1")));
    }
}

#[test]
fn disks_in_pods_conflict_by_kind() {
    let gce = |name: &str, read_only: bool| json!({"gcePersistentDisk": {"pdName": name, "readOnly": read_only}});
    let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
    let iscsi = |iqn: &str, read_only: bool| json!({"iscsi": {"iqn": iqn, "readOnly": read_only}});
    let rbd = |hosts: &[&str], pool: &str, image: &str, read_only: bool| json!({"rbd": {"monitors": hosts, "pool": pool, "image": image, "readOnly": read_only}});
    let conflict: fn(&str) -> String = |reason| format!("{reason}; fits");
    let free = || "fits; fits".to_owned();
    let table: [(Value, Value, String); 15] = [
        (gce("a", false), gce("a", false), conflict(NO_DISK)),
        (gce("a", true), gce("a", false), conflict(NO_DISK)),
        (gce("a", true), gce("a", true), free()),
        (gce("a", false), gce("b", false), free()),
        (ebs("a"), ebs("a"), conflict(NO_DISK)),
        (ebs("a"), ebs("b"), free()),
        (ebs("a"), gce("a", false), free()),
        (iscsi("a", false), iscsi("a", true), conflict(NO_DISK)),
        (iscsi("a", true), iscsi("a", true), free()),
        (iscsi("a", false), iscsi("b", false), free()),
        (
            rbd(&["x", "y"], "p", "i", false),
            rbd(&["y", "z"], "p", "i", true),
            conflict(NO_DISK),
        ),
        (rbd(&["x"], "p", "i", true), rbd(&["x"], "p", "i", true), free()),
        (rbd(&["x"], "p", "i", false), rbd(&["y"], "p", "i", false), free()),
        (rbd(&["x"], "p", "i", false), rbd(&["x"], "q", "i", false), free()),
        (rbd(&["x"], "p", "i", false), rbd(&["x"], "p", "j", false), free()),
    ];
    for (used, wanted, expected) in table {
        let world = next_to(&pod_with("u", std::slice::from_ref(&used)), &[]);
        let pod = pod_with("p", std::slice::from_ref(&wanted));
        assert_eq!(answers(&pod, &world), expected, "{used} {wanted}");
    }
}

#[test]
fn other_volumes_are_left_to_others() {
    let sources = [
        json!({"configMap": {"name": "c"}}),
        json!({"cinder": {"volumeID": "v"}}),
    ];
    let world = next_to(&pod_with("u", &sources), &[]);
    for pod in [pod("p"), pod_with("p", &sources)] {
        assert_eq!(answers(&pod, &world), "skip");
    }
}

/// What the filter says of every node after pods were taken off the first, or put there.
fn trial(pod: &PodBuilder, world: &World, gone: &[&PodBuilder], came: &[&PodBuilder]) -> String {
    let (plugin, pod, view) = (restrictions(), pod.build(), world.view());
    let pre_filter = plugin.pre_filter().unwrap();
    let mut state = CycleState::default();
    assert!(pre_filter.pre_filter_pod(&view, &mut state, &pod).status.is_success());
    let mut nodes: Vec<NodeInfo> = view.nodes.iter().cloned().collect();
    let extensions = pre_filter.extensions().unwrap();
    for other in gone {
        let other = other.build();
        nodes[0].used.remove(&other.charge);
        assert!(extensions.remove_pod(&mut state, &pod, &other, &nodes[0]).is_success());
    }
    for other in came {
        let other = other.build();
        nodes[0].used.add(&other.charge);
        assert!(extensions.add_pod(&mut state, &pod, &other, &nodes[0]).is_success());
    }
    let filter = plugin.filter().unwrap();
    let answers = nodes
        .iter()
        .map(|node| told(&filter.filter_node(&view, &state, &pod, node)));
    answers.collect::<Vec<_>>().join("; ")
}

#[test]
fn trials_count_who_comes_and_goes() {
    let holder = pod_claiming("u", &["single"]).on("n1");
    let world = next_to(&holder, &[single()]);
    let wanted = pod_claiming("p", &["single"]);
    assert_eq!(trial(&wanted, &world, &[&holder], &[]), "fits; fits");
    assert_eq!(
        trial(&wanted, &world, &[&holder], &[&holder]),
        format!("{IN_USE}; {IN_USE}")
    );
    // As upstream, a claim of the same name in another namespace counts in trials.
    let stranger = pod_claiming("u", &["single"]).namespace("other").on("n1");
    assert_eq!(trial(&wanted, &world, &[&stranger], &[]), "fits; fits");
}

#[test]
fn trials_see_disks_of_pods_that_are_on_no_node_yet() {
    let disk = || json!({"gcePersistentDisk": {"pdName": "only-nominated"}});
    let (wanted, other) = (
        pod_with("p", &[disk()]),
        pod_with("q", &[disk()]).label("class", "another"),
    );
    let world = next_to(&pod("u"), &[]);
    assert_eq!(trial(&wanted, &world, &[], &[&other]), format!("{NO_DISK}; fits"));
}

#[test]
fn freed_claims_and_disks_are_worth_another_try() {
    let plugin = restrictions();
    let disk = || json!({"awsElasticBlockStore": {"volumeID": "a"}});
    let waiting = pod_claiming("p", &["single"]);
    let with_disk = pod_with("p", &[disk()]);
    let after = |waiting: &PodBuilder, gone: &PodBuilder| {
        let event = deleted(&gone.clone().on("n1"));
        hint(
            &*plugin,
            waiting,
            EventResource::AssignedPod,
            ActionType::DELETE,
            &event,
        )
    };
    assert_eq!(after(&waiting, &pod_claiming("u", &["single"])), Some(Queue));
    assert_eq!(after(&waiting, &pod_claiming("u", &["other"])), Some(QueueSkip));
    assert_eq!(
        after(&waiting, &pod_claiming("u", &["single"]).namespace("other")),
        Some(QueueSkip)
    );
    assert_eq!(after(&with_disk, &pod_with("u", &[disk()])), Some(Queue));
    assert_eq!(
        after(&with_disk, &pod_with("u", &[disk()]).namespace("other")),
        Some(QueueSkip)
    );
    assert_eq!(after(&with_disk, &pod("u")), Some(QueueSkip));
}

#[test]
fn a_claim_that_appears_is_worth_another_try() {
    let plugin = restrictions();
    let waiting = pod_claiming("p", &["single"]);
    let after = |claim: &VolumeObject| {
        let event = volume_event(None, claim);
        hint(
            &*plugin,
            &waiting,
            EventResource::PersistentVolumeClaim,
            ActionType::ADD,
            &event,
        )
    };
    assert_eq!(after(&single()), Some(Queue));
    assert_eq!(after(&with_mode("other", "ReadWriteOncePod")), Some(QueueSkip));
    let elsewhere = claim_of("single", json!({"namespace": "other"}), json!({}));
    assert_eq!(after(&elsewhere), Some(QueueSkip));
    let event = volume_event(Some(&single()), &single());
    let updated = hint(
        &*plugin,
        &waiting,
        EventResource::PersistentVolumeClaim,
        ActionType::UPDATE,
        &event,
    );
    assert_eq!(updated, None);
}

#[test]
fn only_pods_with_claims_or_such_disks_are_its_business() {
    let applies = |pod: &PodBuilder| restrictions().applies_to(&pod.build());
    assert!(applies(&pod_claiming("p", &["c"])));
    assert!(applies(&pod_with("p", &[json!({"iscsi": {"iqn": "a"}})])));
    assert!(!applies(&pod_with(
        "p",
        &[json!({"ephemeral": {"volumeClaimTemplate": {}}})]
    )));
    assert!(!applies(&pod("p")));
}

#[test]
fn a_free_claim_for_one_pod_is_given_away_where_nobody_else_commits() {
    let spans = |pod: &PodBuilder, used: &PodBuilder| {
        let world = next_to(used, &[single(), with_mode("shared", "ReadWriteMany")]);
        let (plugin, mut state) = (restrictions(), CycleState::default());
        let pre_filter = plugin.pre_filter().unwrap();
        let outcome = pre_filter.pre_filter_pod(&world.view(), &mut state, &pod.build());
        (told(&outcome.status), plugin.spans_nodes(&state))
    };
    let told = |what: &str, spans| (what.to_owned(), spans);
    assert_eq!(spans(&pod_claiming("p", &["single"]), &pod("u")), told("skip", true));
    assert_eq!(
        spans(&pod_claiming("p", &["single"]), &pod_claiming("u", &["single"])),
        told("fits", true)
    );
    assert_eq!(
        spans(&pod_claiming("p", &["shared"]), &pod_claiming("u", &["shared"])),
        told("skip", false)
    );
}
