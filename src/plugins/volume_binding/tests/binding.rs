//! From Reserve to PreBind, and back.

use super::*;
use crate::cluster::PodInfo;
use crate::framework::{CycleState, PreBindAction, PreBindFailure, PreBindWork, Status, VolumeRequest};
use crate::ids::Symbol;
use crate::plugins::check::told;

/// A pod on its way to a node.
struct Way<'w> {
    plugin: Arc<dyn Plugin>,
    world: &'w World,
    pod: Arc<PodInfo>,
    state: CycleState,
    node: &'static str,
}

impl<'w> Way<'w> {
    /// After PreFilter.
    fn to(world: &'w World, pod: &PodBuilder, node: &'static str) -> Self {
        let (plugin, pod) = (binding(), pod.build());
        let mut state = CycleState::default();
        let outcome = plugin
            .pre_filter()
            .unwrap()
            .pre_filter_pod(&world.view(), &mut state, &pod);
        assert!(outcome.status.is_success(), "{}", outcome.status);
        Self {
            plugin,
            world,
            pod,
            state,
            node,
        }
    }

    fn reserve(&mut self) -> Status {
        let view = self.world.view();
        let node = view.nodes.get(self.world.idx(self.node).unwrap()).unwrap();
        let reserve = self.plugin.reserve().unwrap();
        reserve.reserve_pod(&view, &mut self.state, &self.pod, node)
    }

    fn unreserve(&mut self) {
        let reserve = self.plugin.reserve().unwrap();
        reserve.unreserve_pod(&mut self.state, &self.pod, Symbol::new(self.node));
    }

    fn pre_flight(&self) -> Status {
        let pre_bind = self.plugin.pre_bind().unwrap();
        pre_bind.pre_bind_pre_flight(&self.state, &self.pod, Symbol::new(self.node))
    }

    fn work(&self) -> Arc<dyn PreBindWork> {
        let pre_bind = self.plugin.pre_bind().unwrap();
        match pre_bind.pre_bind_pod(&self.state, &self.pod, Symbol::new(self.node)) {
            PreBindAction::Work(work) => work,
            PreBindAction::Future(_) => panic!("there is work to do"),
        }
    }

    fn is_done(&self) -> Result<bool, String> {
        let view = self.world.view();
        let node = view.nodes.get(self.world.idx(self.node).unwrap()).unwrap();
        self.work().is_done(&node.spec)
    }
}

/// The claim that a volume is promised or bound to.
fn holder(world: &World, volume: &str) -> Option<Box<str>> {
    world
        .volumes()
        .volume(volume)?
        .claim_ref
        .as_ref()
        .map(|to| to.name.clone())
}

fn local_world() -> World {
    let volumes = [
        on_node("pv1", "n1", 1),
        on_node("pv2", "n1", 1),
        on_node("pv3", "n2", 1),
    ];
    let claims = ["c1", "c2", "d"].map(|name| unbound(name, "local", 1));
    let objects: Vec<_> = [local()].into_iter().chain(volumes).chain(claims).collect();
    world(&two(), &objects)
}

/// The volume as the API server has it once it is bound to a claim.
fn bound_volume(name: &str, node: &str, claim: &str, version: &str) -> VolumeObject {
    let mut parts = local_parts(node, 1);
    parts["metadata"] = json!({"resourceVersion": version});
    parts["spec"]["claimRef"] = json!({"namespace": "default", "name": claim, "uid": format!("uid-{claim}")});
    parts["status"]["phase"] = "Bound".into();
    object(VolumeKind::Volume, name, &parts)
}

fn bound_claim(name: &str, volume: &str) -> VolumeObject {
    let parts = json!({
        "metadata": {"uid": format!("uid-{name}"), "resourceVersion": "9",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"storageClassName": "local", "volumeName": volume},
    });
    object(VolumeKind::Claim, name, &parts)
}

#[test]
fn volumes_are_promised_written_and_awaited() {
    let world = local_world();
    let mut way = Way::to(&world, &claiming("p", &["c1"]), "n2");
    assert!(way.reserve().is_success() && way.pre_flight().is_success());
    assert_eq!(holder(&world, "pv3").as_deref(), Some("c1"));
    let work = way.work();
    let requests = work.requests();
    let [
        VolumeRequest::BindVolume {
            volume,
            resource_version,
            claim_uid,
            by_controller,
            ..
        },
    ] = &requests[..]
    else {
        panic!("{requests:?}");
    };
    assert_eq!((&**volume, &**resource_version, &**claim_uid), ("pv3", "1", "uid-c1"));
    assert!(by_controller);
    work.applied(0, "5");
    // The watch is behind what was written.
    assert_eq!(way.is_done(), Ok(false));
    world.add_volume_object(bound_volume("pv3", "n2", "c1", "5"));
    assert_eq!(way.is_done(), Ok(false));
    world.add_volume_object(bound_claim("c1", "pv3"));
    assert_eq!(way.is_done(), Ok(true));
}

#[test]
fn a_promise_that_is_written_stays_and_the_others_are_taken_back() {
    let world = local_world();
    let mut way = Way::to(&world, &claiming("p", &["c1", "c2"]), "n1");
    assert!(way.reserve().is_success());
    let first = holder(&world, "pv1").unwrap();
    way.work().applied(0, "5");
    let refused = way
        .work()
        .failed(PreBindFailure::Refused("the object has been modified".to_owned()));
    assert_eq!(told(&refused), "E the object has been modified");
    // While the failure is on its way, the second volume is nobody else's.
    let mut other = Way::to(&world, &claiming("q", &["d"]), "n1");
    assert!(told(&other.reserve()).contains("didn't find available persistent volumes to bind"));
    way.unreserve();
    assert_eq!(holder(&world, "pv1"), Some(first));
    assert_eq!(holder(&world, "pv2"), None);
    assert!(other.reserve().is_success());
    assert_eq!(holder(&world, "pv2").as_deref(), Some("d"));
    // Once more changes nothing.
    way.unreserve();
    drop(way);
    assert_eq!(holder(&world, "pv2").as_deref(), Some("d"));
}

#[test]
fn of_two_decided_at_once_the_second_takes_another_volume_or_fails() {
    let world = local_world();
    let mut ways = ["c1", "c2", "d"].map(|claim| Way::to(&world, &claiming(claim, &[claim]), "n1"));
    assert!(ways[0].reserve().is_success() && ways[1].reserve().is_success());
    assert_ne!(holder(&world, "pv1"), holder(&world, "pv2"));
    let said = told(&ways[2].reserve());
    assert_eq!(said, "E node(s) didn't find available persistent volumes to bind");
    drop(ways);
    assert_eq!((holder(&world, "pv1"), holder(&world, "pv2")), (None, None));
}

#[test]
fn a_node_is_selected_for_a_volume_that_is_made() {
    let world = world(&two(), &[waiting_class("std", "csi"), unbound("c", "std", 1)]);
    let mut way = Way::to(&world, &claiming("p", &["c"]), "n1");
    assert!(way.reserve().is_success());
    let namespace = Symbol::new("default");
    let selected = || world.volumes().claim(namespace, "c").unwrap().selected_node;
    assert_eq!(selected(), Some(Symbol::new("n1")));
    let work = way.work();
    assert!(matches!(&work.requests()[..], [VolumeRequest::SelectNode { node, .. }] if node.as_str() == "n1"));
    work.applied(0, "2");
    let claim = |version: &str, node: &str, volume: &str| {
        let mut parts = json!({"metadata": {"uid": "uid-c", "resourceVersion": version, "annotations": {}},
            "spec": {"storageClassName": "std", "volumeName": volume}});
        if !node.is_empty() {
            parts["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
        }
        if !volume.is_empty() {
            parts["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
        }
        object(VolumeKind::Claim, "c", &parts)
    };
    world.add_volume_object(claim("2", "n1", ""));
    assert_eq!(way.is_done(), Ok(false));
    world.add_volume_object(claim("3", "", ""));
    let gave_up = way.is_done().unwrap_err();
    assert_eq!(gave_up, "provisioning failed for PVC \"c\"");
    assert_eq!(
        told(&work.failed(PreBindFailure::Hopeless(gave_up))),
        "E binding volumes: provisioning failed for PVC \"c\""
    );
    // Bound, but the volume is not seen yet; then it is, on another node; then on this one.
    world.add_volume_object(claim("4", "n1", "pv"));
    assert_eq!(way.is_done(), Ok(false));
    world.add_volume_object(bound_volume("pv", "n2", "c", "5"));
    assert!(way.is_done().unwrap_err().contains("node affinity doesn't match node"));
    world.add_volume_object(bound_volume("pv", "n1", "c", "6"));
    assert_eq!(way.is_done(), Ok(true));
    assert_eq!(
        told(&work.failed(PreBindFailure::TimedOut)),
        "E binding volumes: context deadline exceeded"
    );
}

#[test]
fn a_claim_reference_that_is_reset_ends_the_wait() {
    let world = local_world();
    let mut way = Way::to(&world, &claiming("p", &["c1"]), "n2");
    assert!(way.reserve().is_success());
    way.work().applied(0, "5");
    let mut parts = local_parts("n2", 1);
    parts["metadata"] = json!({"resourceVersion": "6"});
    world.add_volume_object(object(VolumeKind::Volume, "pv3", &parts));
    assert_eq!(way.is_done(), Err("ClaimRef got reset for pv \"pv3\"".to_owned()));
}

#[test]
fn bound_claims_leave_nothing_to_do() {
    let world = world(&two(), &[bound("c", "pv"), on_node("pv", "n1", 1)]);
    let mut way = Way::to(&world, &claiming("p", &["c"]), "n1");
    assert_eq!(told(&way.pre_flight()), "E no pod volume found for node \"n1\"");
    assert!(way.reserve().is_success());
    assert!(way.pre_flight().is_skip());
    way.unreserve();
}

#[test]
fn a_claim_that_a_pod_names_twice_gets_one_volume() {
    let world = local_world();
    let mut way = Way::to(&world, &claiming("p", &["c1", "c1"]), "n1");
    assert!(way.reserve().is_success());
    assert_eq!(way.work().requests().len(), 1);
    assert!(holder(&world, "pv1").is_none() || holder(&world, "pv2").is_none());
}
