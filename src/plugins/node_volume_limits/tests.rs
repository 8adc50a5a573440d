use serde_json::{Value, json};

use super::*;
use crate::cluster::VolumeObject;
use crate::framework::QueueingHint::{self, Queue, QueueSkip};
use crate::plugins::check::{self, deleted, hint, plugin, told};
use crate::plugins::volume_check::{
    attachment, bound, claim, claim_of, class, csi_node, csi_volume, pod_claiming, pod_with, unbound, volume,
    volume_event, volume_gone, world,
};
use crate::testing::{PodBuilder, World, node, pod};

const EXCEEDED: &str = "U node(s) exceed max volume count";
const DRIVER: &str = "csi.example.com";
const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";

fn limits() -> Arc<dyn Plugin> {
    plugin("NodeVolumeLimits")
}

/// A node `n` whose CSINode limits two drivers alike.
fn limited_to(limit: i32, used: &[PodBuilder], objects: &[VolumeObject]) -> World {
    let drivers = [DRIVER, EBS, GCE].map(|driver| (driver, Some(limit)));
    let used: Vec<_> = used.iter().map(|pod| pod.clone().on("n")).collect();
    let world = world(&[node("n")], &used, objects);
    world.add_volume_object(csi_node("n", &drivers));
    world
}

fn answer(pod: &PodBuilder, world: &World) -> String {
    check::filter(&*limits(), pod, world).join("; ")
}

/// Claims `c0` to `c9`, bound to volumes `v0` to `v9`.
fn ten_volumes() -> Vec<VolumeObject> {
    let both = |at| {
        [
            bound(&format!("c{at}"), &format!("v{at}")),
            csi_volume(&format!("v{at}"), DRIVER),
        ]
    };
    (0..10).flat_map(both).collect()
}

/// A limit, the claims of each pod on the node, those of the pod, and the answer.
type Counted<'t> = (i32, &'t [&'t [&'t str]], &'t [&'t str], &'t str);

#[test]
fn distinct_volumes_of_pods_count() {
    let users = |lists: &[&[&str]]| -> Vec<PodBuilder> {
        let pods = lists.iter().enumerate();
        pods.map(|(at, claims)| pod_claiming(&format!("u{at}"), claims))
            .collect()
    };
    let table: [Counted<'_>; 10] = [
        (4, &[&["c0", "c1", "c2"]], &["c3"], "fits"),
        (3, &[&["c0", "c1", "c2"]], &["c3"], EXCEEDED),
        (3, &[&["c0", "c1", "c2"]], &["c2"], "fits"),
        (2, &[&["c0"], &["c0", "c1"]], &["c1"], "fits"),
        (3, &[&["c0"], &["c0", "c1"]], &["c2"], "fits"),
        (2, &[&["c0"], &["c0", "c1"]], &["c2"], EXCEEDED),
        (2, &[], &["c0", "c1"], "fits"),
        (2, &[], &["c0", "c1", "c2"], EXCEEDED),
        (2, &[], &["c0", "c1", "c0"], "fits"),
        (0, &[], &["c0"], EXCEEDED),
    ];
    for (limit, used, wanted, expected) in table {
        let world = limited_to(limit, &users(used), &ten_volumes());
        assert_eq!(
            answer(&pod_claiming("p", wanted), &world),
            expected,
            "{limit} {used:?} {wanted:?}"
        );
    }
}

#[test]
fn attachments_count_where_no_pod_uses_the_volume() {
    let attached = |volumes: &[&str]| {
        let all = volumes
            .iter()
            .map(|volume| attachment(&format!("a-{volume}"), "n", DRIVER, volume));
        all.chain(ten_volumes()).collect::<Vec<_>>()
    };
    let told = |volumes: &[&str], used: &[PodBuilder], wanted: &str| {
        answer(&pod_claiming("p", &[wanted]), &limited_to(2, used, &attached(volumes)))
    };
    assert_eq!(told(&["v8", "v9"], &[], "c0"), EXCEEDED);
    assert_eq!(told(&["v9"], &[], "c0"), "fits");
    assert_eq!(told(&["v1"], &[pod_claiming("u", &["c1"])], "c0"), "fits");
    // As upstream, an attachment of the pod's own volume counts beside it.
    assert_eq!(told(&["v0", "v9"], &[], "c0"), EXCEEDED);
}

#[test]
fn attachments_of_what_is_no_csi_volume_do_not_count() {
    let mut objects = ten_volumes();
    objects.push(volume("local", json!({}), json!({"local": {"path": "/x"}})));
    objects.push(attachment("a", "n", DRIVER, "local"));
    objects.push(attachment("b", "n", DRIVER, "gone"));
    objects.push(attachment("c", "elsewhere", DRIVER, "v9"));
    assert_eq!(
        answer(&pod_claiming("p", &["c0"]), &limited_to(1, &[], &objects)),
        "fits"
    );
}

#[test]
fn volumes_that_are_yet_to_be_made_count_once_a_claim() {
    let objects = [
        unbound("late", "known"),
        unbound("later", "known"),
        unbound("classless", "gone"),
        claim("bare", json!({})),
        claim("lost", json!({"storageClassName": "known", "volumeName": "gone"})),
        class("known", DRIVER, "WaitForFirstConsumer"),
    ];
    let two = |claim: &str| [pod_claiming("u", &[claim]), pod_claiming("w", &[claim])];
    let told = |used: &str, wanted: &str| answer(&pod_claiming("p", &[wanted]), &limited_to(1, &two(used), &objects));
    assert_eq!(told("late", "late"), "fits");
    assert_eq!(told("late", "later"), EXCEEDED);
    assert_eq!(told("lost", "late"), EXCEEDED);
    for uncounted in ["classless", "bare", "absent"] {
        assert_eq!(told(uncounted, "late"), "fits", "{uncounted}");
    }
}

#[test]
fn nodes_and_drivers_without_a_limit_take_all() {
    let pods = [pod_claiming("u", &["c0", "c1"])];
    let on = |objects: Vec<VolumeObject>| {
        let pods = pods.clone().map(|pod| pod.on("n"));
        answer(&pod_claiming("p", &["c2"]), &world(&[node("n")], &pods, &objects))
    };
    let with = |drivers: &[(&str, Option<i32>)]| {
        let mut objects = ten_volumes();
        objects.push(csi_node("n", drivers));
        objects
    };
    assert_eq!(on(ten_volumes()), "fits");
    assert_eq!(on(with(&[(DRIVER, None)])), "fits");
    assert_eq!(on(with(&[(DRIVER, None), (EBS, Some(0))])), "fits");
    assert_eq!(on(with(&[(DRIVER, Some(1))])), EXCEEDED);
}

#[test]
fn disks_of_a_plugin_that_a_driver_took_over_count_for_the_driver() {
    let ebs = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let csi = |name: &str| {
        let source = json!({"csi": {"driver": EBS, "volumeHandle": "vol-1"}});
        [bound(name, "pv"), volume("pv", json!({}), source)]
    };
    let in_tree = |name: &str| {
        [
            bound(name, "pv"),
            volume("pv", json!({}), ebs("aws://us-east-1a/vol-1")),
        ]
    };
    for objects in [csi("c"), in_tree("c")] {
        let world = limited_to(1, &[pod_claiming("u", &["c"])], &objects);
        assert_eq!(answer(&pod_with("p", &[ebs("aws://us-east-1b/vol-1")]), &world), "fits");
        assert_eq!(answer(&pod_with("p", &[ebs("vol-2")]), &world), EXCEEDED);
    }
    let objects = [
        unbound("c", "s"),
        class("s", "kubernetes.io/gce-pd", "WaitForFirstConsumer"),
    ];
    let disk = json!({"gcePersistentDisk": {"pdName": "a"}});
    let world = limited_to(1, &[pod_with("u", &[disk])], &objects);
    assert_eq!(answer(&pod_claiming("p", &["c"]), &world), EXCEEDED);
    // The scheduler leaves vSphere's volumes as they are.
    let objects = [
        unbound("c", "s"),
        class("s", "kubernetes.io/vsphere-volume", "WaitForFirstConsumer"),
    ];
    let world = limited_to(0, &[], &objects);
    world.add_volume_object(csi_node("n", &[("csi.vsphere.vmware.com", Some(0))]));
    assert_eq!(answer(&pod_claiming("p", &["c"]), &world), "fits");
}

#[test]
fn a_disk_that_its_driver_cannot_name_fails() {
    let disk = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let wrong = pod_with("p", &[disk("aws://zone/disk")]);
    let failed = "E converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID \
                  Invalid format for AWS volume (aws://zone/disk)";
    assert_eq!(answer(&wrong, &limited_to(5, &[], &[])), failed);
    assert_eq!(
        answer(
            &pod_with("q", &[disk("vol-1")]),
            &limited_to(5, std::slice::from_ref(&wrong), &[])
        ),
        failed
    );
    // Without a CSINode no driver took over.
    assert_eq!(answer(&wrong, &world(&[node("n")], &[], &[])), "fits");
}

fn ephemeral(name: &str) -> PodBuilder {
    pod_with(name, &[json!({"ephemeral": {"volumeClaimTemplate": {}}})])
}

/// The claim that is made for a pod's ephemeral volume.
fn made_for(owner: &PodBuilder) -> VolumeObject {
    let owner = owner.build();
    let controller = json!({"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid_text,
        "controller": true});
    let metadata = json!({"namespace": "default", "ownerReferences": [controller]});
    claim_of(
        &format!("{}-v0", owner.name),
        metadata,
        json!({"storageClassName": "s"}),
    )
}

fn ephemeral_world(limit: i32, used: &[PodBuilder], owners: &[PodBuilder]) -> World {
    let mut objects: Vec<_> = owners.iter().map(made_for).collect();
    objects.push(class("s", DRIVER, "WaitForFirstConsumer"));
    limited_to(limit, used, &objects)
}

#[test]
fn ephemeral_volumes_count_through_their_claims() {
    let [p, u, w] = ["p", "u", "w"].map(ephemeral);
    let all = [p.clone(), u.clone(), w.clone()];
    assert_eq!(answer(&p, &ephemeral_world(3, &[u.clone(), w.clone()], &all)), "fits");
    assert_eq!(answer(&p, &ephemeral_world(2, &[u.clone(), w.clone()], &all)), EXCEEDED);
    // Whose claim is missing does not count.
    assert_eq!(answer(&p, &ephemeral_world(2, &[u.clone(), w], &all[..2])), "fits");
    let missing = r#"UU looking up PVC default/p-v0: persistentvolumeclaim "p-v0" not found"#;
    assert_eq!(answer(&p, &ephemeral_world(2, &[u], &[])), missing);
}

fn world_of(objects: &[VolumeObject]) -> World {
    world(&[node("n")], &[], objects)
}

#[test]
fn a_claim_that_was_not_made_for_the_pod_fails() {
    let [p, u] = ["p", "u"].map(ephemeral);
    let strange = |pod: &str| claim(&format!("{pod}-v0"), json!({"storageClassName": "s"}));
    let world = ephemeral_world(2, std::slice::from_ref(&u), std::slice::from_ref(&p));
    world.add_volume_object(strange("u"));
    let failed = "E PVC default/u-v0 was not created for pod default/u (pod is not owner)";
    assert_eq!(answer(&p, &world), failed);
    assert_eq!(answer(&u, &world_of(&[strange("u")])), failed);
}

#[test]
fn pods_without_such_volumes_are_passed() {
    let sources = [
        json!({"configMap": {"name": "c"}}),
        json!({"iscsi": {"iqn": "a"}}),
        json!({"csi": {"driver": DRIVER}}),
    ];
    for pod in [pod("p"), pod_with("p", &sources)] {
        assert_eq!(answer(&pod, &limited_to(0, &[], &[])), "skip");
        assert!(!limits().applies_to(&pod.build()));
    }
}

#[test]
fn missing_and_nameless_claims_of_the_pod_are_told() {
    let world = limited_to(5, &[pod_claiming("u", &["absent"])], &ten_volumes());
    let missing = r#"UU looking up PVC default/absent: persistentvolumeclaim "absent" not found"#;
    assert_eq!(answer(&pod_claiming("p", &["absent"]), &world), missing);
    assert_eq!(
        answer(&pod_claiming("p", &[""]), &world),
        "E PersistentVolumeClaim had no name"
    );
    assert_eq!(answer(&pod_claiming("p", &["c0"]), &world), "fits");
}

#[test]
fn trials_count_who_comes_and_goes() {
    let [p, u, w] = ["p", "u", "w"].map(ephemeral);
    let world = ephemeral_world(2, &[u.clone(), w.clone()], &[p.clone(), u.clone(), w]);
    let (plugin, pod, view) = (limits(), p.build(), world.view());
    let (pre_filter, filter) = (plugin.pre_filter().unwrap(), plugin.filter().unwrap());
    let extensions = pre_filter.extensions().unwrap();
    let mut state = CycleState::default();
    assert!(pre_filter.pre_filter_pod(&view, &mut state, &pod).status.is_success());
    let mut node = view.nodes.iter().next().unwrap().clone();
    let told = |state: &CycleState, node: &NodeInfo| told(&filter.filter_node(&view, state, &pod, node));
    let other = u.build();
    for _ in 0..2 {
        assert_eq!(told(&state, &node), EXCEEDED);
        node.used.remove(&other.charge);
        assert!(extensions.remove_pod(&mut state, &pod, &other, &node).is_success());
        assert_eq!(told(&state, &node), "fits");
        node.used.add(&other.charge);
        assert!(extensions.add_pod(&mut state, &pod, &other, &node).is_success());
    }
}

fn after(pod: &PodBuilder, resource: EventResource, action: ActionType, event: &EventObject) -> Option<QueueingHint> {
    hint(&*limits(), pod, resource, action, event)
}

/// Drivers and their limits.
type Drivers<'t> = &'t [(&'t str, Option<i32>)];

#[test]
fn a_limit_that_rises_is_worth_another_try() {
    let raised = |old: Drivers<'_>, new: Drivers<'_>| {
        let event = volume_event(Some(&csi_node("n", old)), &csi_node("n", new));
        after(
            &pod_claiming("p", &["c"]),
            EventResource::CsiNode,
            ActionType::UPDATE,
            &event,
        )
    };
    let table: [(Drivers<'_>, Drivers<'_>, QueueingHint); 6] = [
        (&[(DRIVER, Some(1))], &[(DRIVER, Some(2))], Queue),
        (&[(DRIVER, Some(2))], &[(DRIVER, Some(1))], QueueSkip),
        (&[(DRIVER, Some(2))], &[(DRIVER, Some(2))], QueueSkip),
        (&[], &[(DRIVER, Some(1))], Queue),
        (&[(DRIVER, Some(2))], &[(DRIVER, None)], QueueSkip),
        (&[(DRIVER, Some(2))], &[(DRIVER, Some(1)), (EBS, Some(1))], Queue),
    ];
    for (old, new, expected) in table {
        assert_eq!(raised(old, new), Some(expected), "{old:?} {new:?}");
    }
}

#[test]
fn pods_with_volumes_that_go_are_worth_another_try() {
    let gone = |gone: &PodBuilder| {
        let waiting = pod_claiming("p", &["c"]);
        after(&waiting, EventResource::AssignedPod, ActionType::DELETE, &deleted(gone))
    };
    let disk = |source: Value| pod_with("u", &[source]).on("n");
    assert_eq!(gone(&pod_claiming("u", &["x"]).on("n")), Some(Queue));
    assert_eq!(gone(&pod_claiming("u", &["x"]).nominated("n")), Some(Queue));
    assert_eq!(gone(&pod_claiming("u", &["x"])), Some(QueueSkip));
    assert_eq!(gone(&ephemeral("u").on("n")), Some(Queue));
    assert_eq!(
        gone(&disk(json!({"azureFile": {"shareName": "s", "secretName": "x"}}))),
        Some(Queue)
    );
    assert_eq!(gone(&disk(json!({"iscsi": {"iqn": "a"}}))), Some(QueueSkip));
    assert_eq!(gone(&pod("u").on("n")), Some(QueueSkip));
}

#[test]
fn the_pods_claims_that_appear_are_worth_another_try() {
    let added = |pod: &PodBuilder, claim: &VolumeObject| {
        let event = volume_event(None, claim);
        after(pod, EventResource::PersistentVolumeClaim, ActionType::ADD, &event)
    };
    let elsewhere = claim_of("c", json!({"namespace": "other"}), json!({}));
    assert_eq!(added(&pod_claiming("p", &["c"]), &bound("c", "v")), Some(Queue));
    assert_eq!(added(&pod_claiming("p", &["c"]), &bound("d", "v")), Some(QueueSkip));
    assert_eq!(added(&pod_claiming("p", &["c"]), &elsewhere), Some(QueueSkip));
    assert_eq!(added(&ephemeral("p"), &made_for(&ephemeral("p"))), Some(Queue));
    assert_eq!(added(&ephemeral("p"), &made_for(&ephemeral("q"))), Some(QueueSkip));
}

#[test]
fn attachments_that_go_are_worth_another_try() {
    let gone = |pod: &PodBuilder, attacher: &str| {
        let event = volume_gone(&attachment("a", "n", attacher, "v"));
        after(pod, EventResource::VolumeAttachment, ActionType::DELETE, &event)
    };
    let disk = |source: Value| pod_with("p", &[source]);
    let ebs = disk(json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}));
    let file = disk(json!({"azureFile": {"shareName": "s", "secretName": "x"}}));
    let table = [
        (pod_claiming("p", &["c"]), DRIVER, Queue),
        (ebs.clone(), EBS, Queue),
        (ebs, DRIVER, QueueSkip),
        (file, "file.csi.azure.com", Queue),
        (ephemeral("p"), DRIVER, QueueSkip),
        (disk(json!({"iscsi": {"iqn": "a"}})), DRIVER, QueueSkip),
    ];
    for (pod, attacher, expected) in table {
        assert_eq!(gone(&pod, attacher), Some(expected), "{attacher} {}", pod.json());
    }
}

#[test]
fn new_csi_nodes_are_worth_another_try() {
    let event = volume_event(None, &csi_node("n", &[]));
    let waiting = pod_claiming("p", &["c"]);
    assert_eq!(
        after(&waiting, EventResource::CsiNode, ActionType::ADD, &event),
        Some(Queue)
    );
}

/// What the filter must say, by counting names: a pod's claim `c1` stands for the volume `v1`.
fn counted(limit: usize, used: &[Vec<usize>], attached: &[usize], wanted: &[usize]) -> &'static str {
    let used: std::collections::BTreeSet<usize> = used.iter().flatten().copied().collect();
    let left_over = attached.iter().filter(|volume| !used.contains(volume)).count();
    let new: std::collections::BTreeSet<usize> =
        wanted.iter().copied().filter(|volume| !used.contains(volume)).collect();
    if new.is_empty() || used.len() + left_over + new.len() <= limit {
        "fits"
    } else {
        EXCEEDED
    }
}

#[test]
fn the_short_way_and_the_long_way_agree() {
    use rand::{RngExt, SeedableRng};
    for seed in 0..300 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut some = |most: usize| -> Vec<usize> {
            let count = random.random_range(0..=most);
            (0..count).map(|_| random.random_range(0..10)).collect()
        };
        let used: Vec<Vec<usize>> = (0..3).map(|_| some(3)).collect();
        let mut attached = some(3);
        attached.sort_unstable();
        attached.dedup();
        let wanted = [some(2), vec![0]].concat();
        let limit = some(8).len();
        let claims = |list: &[usize]| -> Vec<String> { list.iter().map(|at| format!("c{at}")).collect() };
        let user = |name: &str, list: &[usize]| {
            let claims = claims(list);
            pod_claiming(name, &claims.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let pods: Vec<PodBuilder> = used
            .iter()
            .zip(["a", "b", "c"])
            .map(|(list, name)| user(name, list))
            .collect();
        let attachments = attached
            .iter()
            .map(|at| attachment(&format!("a{at}"), "n", DRIVER, &format!("v{at}")));
        let objects: Vec<_> = ten_volumes().into_iter().chain(attachments).collect();
        let world = limited_to(i32::try_from(limit).unwrap(), &pods, &objects);
        let expected = counted(limit, &used, &attached, &wanted);
        let found = answer(&user("p", &wanted), &world);
        assert_eq!(found, expected, "seed {seed}: {used:?} {attached:?} {wanted:?} {limit}");
    }
}
