//! What deliveries do to the books, among them what broke other schedulers.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Cluster, NodeChange, PodChange, Publisher};
use crate::cluster::{Budget, LabelSelector, LabelVisibility, NodeSpec, PodInfo, PodLister};
use crate::ids::{PodUid, Symbol};
use crate::ledger::ChangeKind;
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

fn cluster() -> Cluster {
    Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All)
}

fn add_node(cluster: &Cluster, node: &NodeBuilder) -> Vec<NodeChange> {
    cluster.apply_node(NodeSpec::clone(&node.build()))
}

fn apply(cluster: &Cluster, pod: &PodBuilder) -> Vec<PodChange> {
    cluster
        .apply_pod(PodInfo::clone(&pod.build_in(&cluster.classes)))
        .into_vec()
}

fn used(cluster: &Cluster, name: &str) -> i64 {
    let idx = cluster.find_node(Symbol::new(name));
    idx.and_then(|idx| cluster.ledger.read(idx))
        .map_or(-1, |used| used.requested.milli_cpu)
}

fn kinds(changes: &[PodChange]) -> Vec<&'static str> {
    changes
        .iter()
        .map(|change| match change {
            PodChange::Pending {
                assumed: false,
                old: None,
                ..
            } => "added",
            PodChange::Pending { assumed: false, .. } => "updated",
            PodChange::Pending { .. } => "assumed",
            PodChange::Assigned { old: None, .. } => "assigned",
            PodChange::Assigned { .. } => "assigned-updated",
            PodChange::Removed { freed: true, .. } => "freed",
            PodChange::Removed { .. } => "removed",
        })
        .collect()
}

#[test]
fn a_changed_uid_under_one_name_is_a_removal_and_an_addition() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(8000));
    add_node(&cluster, &node("n2").cpu(8000));
    apply(&cluster, &pod("db-0").uid("a").cpu(6000).on("n1"));
    let changes = apply(&cluster, &pod("db-0").uid("b").cpu(6000).on("n2"));
    assert_eq!(kinds(&changes), ["freed", "assigned"]);
    assert_eq!((used(&cluster, "n1"), used(&cluster, "n2")), (0, 6000));
    // The late end of the former tenant of the name changes nothing.
    assert!(cluster.remove_pod(PodUid::parse("a")).is_none());
    assert_eq!(used(&cluster, "n2"), 6000);
}

#[test]
fn a_snapshot_keeps_up_with_changes_that_are_about_no_node() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    let mut publisher = Publisher::default();
    assert_eq!(cluster.publish(&mut publisher), 1);
    for _ in 0..=cluster.log.capacity() {
        cluster.log.append_global(ChangeKind::Volumes);
    }
    for _ in 0..2 {
        cluster.publish(&mut publisher);
        assert_eq!(cluster.snapshot().next_change, cluster.log.head());
        cluster.log.append_global(ChangeKind::Volumes);
    }
    assert_eq!(cluster.snapshot().node_count, 1);
}

#[test]
fn the_end_of_a_pod_tells_of_a_nomination_that_its_status_did_not() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    let idx = cluster.find_node(Symbol::new("n1")).unwrap();
    let told = |name: &str, pod: &PodBuilder| {
        apply(&cluster, &pod.clone().uid(name));
        let charge = cluster.pod(PodUid::parse(name)).unwrap();
        cluster.ledger.nominate(&charge.charge, idx, &[], None).unwrap();
        match cluster.remove_pod(PodUid::parse(name)) {
            Some(PodChange::Removed {
                pod,
                freed: false,
                claimed,
            }) => (claimed, pod.nominated_node),
            other => panic!("{other:?}"),
        }
    };
    let n1 = Some(Symbol::new("n1"));
    assert_eq!(told("a", &pod("a")), (true, n1));
    assert_eq!(told("b", &pod("b").nominated("n1")), (false, n1));
    assert_eq!(cluster.ledger.counts().nominated, 0);
}

#[test]
fn a_nomination_that_moves_to_an_unknown_node_holds_no_room_where_it_was() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    let nominated = |node: &str| pod("a").uid("a").nominated(node);
    apply(&cluster, &nominated("n1"));
    assert_eq!(cluster.ledger.counts().nominated, 1);
    apply(&cluster, &nominated("unknown"));
    assert_eq!(cluster.ledger.counts().nominated, 0);
    apply(&cluster, &nominated("n1"));
    assert_eq!(cluster.ledger.counts().nominated, 1);
}

#[test]
fn a_node_goes_before_its_pods_and_nothing_stays() {
    let cluster = cluster();
    add_node(&cluster, &node("gone").cpu(4000));
    apply(&cluster, &pod("a").uid("a").cpu(1000).on("gone"));
    let idx = cluster.find_node(Symbol::new("gone")).unwrap();
    assert!(cluster.remove_node(Symbol::new("gone")).is_some());
    assert!(cluster.find_node(Symbol::new("gone")).is_none());
    let mut publisher = Publisher::default();
    cluster.publish(&mut publisher);
    assert_eq!(cluster.snapshot().node_count, 0);
    assert_eq!(kinds(&[cluster.remove_pod(PodUid::parse("a")).unwrap()]), ["freed"]);
    assert!(cluster.ledger.read(idx).is_none());
    // Its slot is free for the next node.
    add_node(&cluster, &node("next").cpu(4000));
    assert_eq!(cluster.find_node(Symbol::new("next")), Some(idx));
}

#[test]
fn pods_listed_before_their_node_count_once_it_comes() {
    let cluster = cluster();
    assert_eq!(
        kinds(&apply(&cluster, &pod("a").uid("a").cpu(3000).on("late"))),
        ["assigned"]
    );
    assert_eq!(used(&cluster, "late"), -1);
    add_node(&cluster, &node("late").cpu(4000));
    assert_eq!(used(&cluster, "late"), 3000);
}

#[test]
fn terminal_pods_do_not_count_and_terminating_ones_do() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    apply(&cluster, &pod("a").uid("a").cpu(2000).on("n1").terminating());
    apply(&cluster, &pod("b").uid("b").cpu(2000).on("n1"));
    assert_eq!(used(&cluster, "n1"), 4000);
    let ended = pod("b").uid("b").cpu(2000).on("n1").phase("Succeeded");
    assert_eq!(kinds(&apply(&cluster, &ended)), ["freed"]);
    assert_eq!(used(&cluster, "n1"), 2000);
    assert!(apply(&cluster, &ended).is_empty());
    assert!(cluster.remove_pod(PodUid::parse("b")).is_none());
}

#[test]
fn a_relist_removes_what_it_does_not_contain() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    apply(&cluster, &pod("a").uid("a").cpu(1000).on("n1"));
    apply(&cluster, &pod("b").uid("b").cpu(1000).on("n1"));
    let listed: FxHashSet<PodUid> = [PodUid::parse("b")].into_iter().collect();
    assert_eq!(kinds(&cluster.retain_pods(&listed)), ["freed"]);
    assert_eq!(used(&cluster, "n1"), 1000);
    assert_eq!(cluster.retain_nodes(&FxHashSet::default()).len(), 1);
    assert_eq!(cluster.node_count(), 0);
}

#[test]
fn pods_of_other_schedulers_are_counted_and_not_queued() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    let theirs = pod("theirs").uid("t").cpu(1000).scheduler_name("another");
    assert!(apply(&cluster, &theirs).is_empty());
    assert_eq!(kinds(&apply(&cluster, &theirs.on("n1"))), ["assigned"]);
    assert_eq!(used(&cluster, "n1"), 1000);
}

#[test]
fn a_node_of_another_uid_is_another_incarnation() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").uid("first").cpu(4000));
    let idx = cluster.find_node(Symbol::new("n1")).unwrap();
    let first = cluster.node(idx).unwrap().incarnation;
    let changes = add_node(&cluster, &node("n1").uid("second").cpu(4000));
    assert!(
        matches!(changes.as_slice(), [NodeChange::Removed(_), NodeChange::Added(_)]),
        "{changes:?}"
    );
    let idx = cluster.find_node(Symbol::new("n1")).unwrap();
    assert!(cluster.node(idx).unwrap().incarnation > first);
}

#[test]
fn a_node_that_did_not_change_is_no_change() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").uid("u").cpu(4000));
    let head = cluster.log.head();
    assert!(add_node(&cluster, &node("n1").uid("u").cpu(4000)).is_empty());
    assert_eq!(cluster.log.head(), head);
}

#[test]
fn snapshots_follow_the_books() {
    let cluster = cluster();
    let mut publisher = Publisher::default();
    for number in 0..100 {
        add_node(&cluster, &node(&format!("s{number}")).cpu(4000));
    }
    assert_eq!(cluster.publish(&mut publisher), 100);
    apply(&cluster, &pod("a").uid("a").cpu(500).on("s7"));
    let before = cluster.snapshot();
    assert_eq!(cluster.publish(&mut publisher), 1);
    let idx = cluster.find_node(Symbol::new("s7")).unwrap();
    let used = |snapshot: &Arc<super::Snapshot>| snapshot.get(idx).unwrap().used.requested.milli_cpu;
    assert_eq!((used(&before), used(&cluster.snapshot())), (0, 500));
    assert_eq!(cluster.publish(&mut publisher), 0);
}

#[test]
fn a_key_that_a_term_looks_at_splits_classes_of_pods_that_are_there() {
    let cluster = Cluster::new(
        [Symbol::new("default-scheduler")],
        LabelVisibility::Keys(FxHashSet::default()),
    );
    add_node(&cluster, &node("n1").cpu(8000));
    apply(&cluster, &pod("a").uid("a").cpu(100).label("app", "a").on("n1"));
    apply(&cluster, &pod("b").uid("b").cpu(100).label("app", "b").on("n1"));
    let idx = cluster.find_node(Symbol::new("n1")).unwrap();
    let classes = |cluster: &Cluster| {
        let mut counts: Vec<u32> = cluster
            .ledger
            .read(idx)
            .unwrap()
            .classes
            .iter()
            .map(|(_, count)| *count)
            .collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(classes(&cluster), [2]);
    let waiting = pod("w").uid("w").label("app", "a").build_in(&cluster.classes);
    let epoch = cluster.commit.epoch();
    apply(
        &cluster,
        &pod("c")
            .uid("c")
            .cpu(100)
            .anti_affinity("zone", &[("app", "a")])
            .on("n1"),
    );
    assert_eq!(classes(&cluster), [1, 1, 1]);
    assert!(cluster.commit.epoch() > epoch);
    // A pod that was classified before is classified again.
    let placed = cluster.pod(PodUid::parse("a")).unwrap();
    let current = cluster.current(&waiting);
    assert_ne!(current.class, waiting.class);
    assert_eq!(current.charge.class, current.class);
    assert_eq!(cluster.classes.get(current.class).unwrap().labels, placed.labels);
}

#[test]
fn the_rules_epoch_moves_with_the_first_and_the_last_pod_of_a_term() {
    let cluster = cluster();
    let apart = |name: &str| {
        pod(name)
            .uid(name)
            .label("app", "a")
            .anti_affinity("zone", &[("app", "a")])
    };
    let met = pod("met").label("app", "a").build_in(&cluster.classes);
    let epochs = |step: &dyn Fn()| {
        let before = cluster.commit.epoch();
        step();
        cluster.commit.epoch() - before
    };
    assert!(!cluster.rules.concern(&met, &cluster.namespaces));
    assert_eq!(epochs(&|| drop(apply(&cluster, &apart("x")))), 1);
    assert!(cluster.rules.concern(&met, &cluster.namespaces));
    assert_eq!(epochs(&|| drop(apply(&cluster, &apart("y")))), 0);
    assert_eq!(epochs(&|| drop(apply(&cluster, &apart("y").resource_version(2)))), 0);
    assert_eq!(epochs(&|| drop(cluster.remove_pod(PodUid::parse("x")))), 0);
    assert_eq!(epochs(&|| drop(cluster.remove_pod(PodUid::parse("y")))), 1);
    assert!(!cluster.rules.concern(&met, &cluster.namespaces));
}

#[test]
fn rules_of_pods_that_others_place_bind_once_they_are_on_a_node() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(8000));
    let theirs = pod("t")
        .uid("t")
        .scheduler_name("another")
        .anti_affinity("zone", &[("app", "a")]);
    let met = pod("met").label("app", "a").build_in(&cluster.classes);
    apply(&cluster, &theirs);
    assert!(!cluster.rules.concern(&met, &cluster.namespaces));
    apply(&cluster, &theirs.on("n1"));
    assert!(cluster.rules.concern(&met, &cluster.namespaces));
    cluster.remove_pod(PodUid::parse("t"));
    assert!(!cluster.rules.concern(&met, &cluster.namespaces));
}

#[test]
fn pods_of_a_node_that_is_gone_count_again_when_it_comes_back() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").uid("first").cpu(4000));
    apply(&cluster, &pod("a").uid("a").cpu(1000).on("n1"));
    cluster.remove_node(Symbol::new("n1"));
    assert_eq!(used(&cluster, "n1"), -1);
    add_node(&cluster, &node("n1").uid("second").cpu(4000));
    assert_eq!(used(&cluster, "n1"), 1000);
    assert_eq!(kinds(&[cluster.remove_pod(PodUid::parse("a")).unwrap()]), ["freed"]);
    assert_eq!(used(&cluster, "n1"), 0);
}

/// Reserves a node for a pod that is known.
fn assume(cluster: &Cluster, uid: &str, node: &str) {
    let idx = cluster.find_node(Symbol::new(node)).unwrap();
    let (charge, incarnation) = (
        Arc::clone(&cluster.pod(PodUid::parse(uid)).unwrap().charge),
        cluster.node(idx).unwrap().incarnation,
    );
    cluster
        .ledger
        .reserve(&charge, &crate::ledger::Checks::default(), idx, incarnation)
        .unwrap();
}

#[test]
fn an_assumed_pod_that_a_list_lacks_leaves_nothing_behind() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    // Bound by us, gone before the watch said so: what is known of it names no node.
    let p = pod("p").uid("p").cpu(1000).anti_affinity("zone", &[("app", "a")]);
    apply(&cluster, &p);
    assume(&cluster, "p", "n1");
    assert_eq!(used(&cluster, "n1"), 1000);
    assert_eq!(kinds(&cluster.retain_pods(&FxHashSet::default())), ["freed"]);
    assert_eq!(used(&cluster, "n1"), 0);
    let met = pod("met").label("app", "a").build_in(&cluster.classes);
    assert!(!cluster.rules.concern(&met, &cluster.namespaces));
    assert!(cluster.ledger.promise(PodUid::parse("p")).is_none());
}

#[test]
fn an_assumed_pod_that_is_seen_elsewhere_is_there_alone() {
    let cluster = cluster();
    add_node(&cluster, &node("n1").cpu(4000));
    add_node(&cluster, &node("n2").cpu(4000));
    apply(&cluster, &pod("p").uid("p").cpu(1000));
    assume(&cluster, "p", "n1");
    assert_eq!((used(&cluster, "n1"), used(&cluster, "n2")), (1000, 0));
    apply(&cluster, &pod("p").uid("p").cpu(1000).on("n2"));
    assert_eq!((used(&cluster, "n1"), used(&cluster, "n2")), (0, 1000));
}

#[test]
fn a_pod_on_a_node_that_never_comes_disturbs_nobody() {
    let cluster = cluster();
    let stray = pod("x").uid("x").namespace("deleted").cpu(1000).on("never");
    assert_eq!(kinds(&apply(&cluster, &stray)), ["assigned"]);
    add_node(&cluster, &node("n1").cpu(4000));
    apply(&cluster, &pod("p").uid("p").cpu(1000));
    assume(&cluster, "p", "n1");
    let mut publisher = Publisher::default();
    cluster.publish(&mut publisher);
    assert_eq!((cluster.snapshot().node_count, used(&cluster, "n1")), (1, 1000));
}

fn nominated_to(cluster: &Cluster, pod: &PodBuilder) -> Option<Symbol> {
    let idx = cluster.ledger.nominated_node(pod.build().uid)?;
    cluster.node(idx).map(|node| node.name)
}

#[test]
fn a_nomination_counts_whichever_is_seen_first_and_again_when_the_node_comes_back() {
    let cluster = cluster();
    let p = pod("p").cpu(100).nominated("n1");
    apply(&cluster, &p);
    assert_eq!(nominated_to(&cluster, &p), None);
    add_node(&cluster, &node("n1").cpu(1000));
    assert_eq!(nominated_to(&cluster, &p), Some(Symbol::new("n1")));
    cluster.remove_node(Symbol::new("n1"));
    assert_eq!(nominated_to(&cluster, &p), None);
    add_node(&cluster, &node("n1").uid("again").cpu(1000));
    assert_eq!(nominated_to(&cluster, &p), Some(Symbol::new("n1")));
    // Bound, it is nobody's nominee any more.
    apply(&cluster, &p.clone().on("n1"));
    cluster.remove_node(Symbol::new("n1"));
    add_node(&cluster, &node("n1").uid("third").cpu(1000));
    assert_eq!(nominated_to(&cluster, &p), None);
}

#[test]
fn our_own_word_read_back_does_not_end_what_a_preemptor_waits_for() {
    let cluster = cluster();
    for name in ["n1", "n2"] {
        add_node(&cluster, &node(name).cpu(1000));
        apply(&cluster, &pod(&format!("v-{name}")).cpu(100).on(name));
    }
    let [n1, n2] = ["n1", "n2"].map(|name| cluster.find_node(Symbol::new(name)).unwrap());
    let p = pod("p").cpu(100);
    apply(&cluster, &p);
    let charge = Arc::clone(&cluster.pod(p.build().uid).unwrap().charge);
    let victim = |name: &str| pod(&format!("v-{name}")).build().uid;
    cluster.ledger.nominate(&charge, n1, &[victim("n1")], None).unwrap();
    let version = cluster.ledger.read(n1).unwrap().version;
    apply(&cluster, &p.clone().resource_version(2).nominated("n1"));
    assert_eq!(cluster.ledger.awaited_node(charge.uid), Some(n1));
    assert_eq!(
        cluster.ledger.read(n1).unwrap().version,
        version,
        "nothing changed on the node"
    );
    // A newer nomination outlives the echo of the end of the older one, and of the older one itself.
    cluster.ledger.nominate(&charge, n2, &[victim("n2")], None).unwrap();
    apply(&cluster, &p.clone().resource_version(3));
    assert_eq!(cluster.ledger.awaited_node(charge.uid), Some(n2));
    apply(&cluster, &p.clone().resource_version(4).nominated("n1"));
    assert_eq!(cluster.ledger.awaited_node(charge.uid), Some(n2));
    // Somebody else's word counts when we wait for nothing.
    cluster.remove_pod(victim("n2"));
    apply(&cluster, &p.clone().resource_version(5));
    apply(&cluster, &p.clone().resource_version(6).nominated("n1"));
    assert_eq!(cluster.ledger.nominated_node(charge.uid), Some(n1));
    apply(&cluster, &p.resource_version(7));
    assert_eq!(cluster.ledger.nominated_node(charge.uid), None);
}

#[test]
fn budgets_are_seen_by_those_who_preempt_until_they_go() {
    let cluster = cluster();
    let allowed = |cluster: &Cluster| -> Vec<i32> {
        let seen: &dyn PodLister = cluster;
        seen.budgets().iter().map(|budget| budget.allowed).collect()
    };
    let budget = |allowed| Budget {
        namespace: Symbol::new("default"),
        name: "b".into(),
        selector: LabelSelector::Nothing,
        allowed,
        disrupted: Box::default(),
    };
    cluster.apply_budget(budget(1));
    assert_eq!(allowed(&cluster), [1]);
    cluster.apply_budget(budget(0));
    assert_eq!(allowed(&cluster), [0]);
    cluster.remove_budget(&(Symbol::new("default"), "b".into()));
    assert_eq!(allowed(&cluster), [] as [i32; 0]);
}
