//! Rules that span nodes, decided by many workers at once: the outcome is that of some serial order of the same pods.
//!
//! Each test runs a whole scheduler on an embedded API server. A Reserve plugin notes who was given which node, in the
//! order of the commits, and a judge, which knows nothing of the plugins, looks at each decision with those before it.

mod judge;
mod kit;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use judge::{HOST, Want, ZONE, want};
use kit::{PANICKY, Scene};

/// Every second pod is there before the workers start, the others come while they decide.
async fn scheduled(zones: usize, nodes: usize, wants: &[Want]) -> Vec<(Want, Option<usize>)> {
    let scene = Scene::new(zones, nodes).await;
    let (early, late): (Vec<_>, Vec<_>) = wants.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    for (_, want) in early {
        scene.create(want);
    }
    let there = wants.len().div_ceil(2);
    scene
        .until("half of the pods are queued", |scene| scene.counts().active == there)
        .await;
    scene.start();
    for (_, want) in late {
        scene.create(want);
    }
    scene.settle(wants).await
}

/// Groups of `size` pods each, one pod of every group after the other: pod 2 of group 1 is `g1-2` and has the label
/// `app: g1`, to which `rule` adds.
fn groups(count: usize, size: usize, rule: impl Fn(Want, &str) -> Want) -> Vec<Want> {
    let mut pods = Vec::new();
    for number in 0..size {
        for group in 0..count {
            let app = format!("g{group}");
            pods.push(rule(want(&format!("{app}-{number}")).label("app", &app), &app));
        }
    }
    pods
}

fn placed(of: &[(Want, Option<usize>)], prefix: &str) -> Vec<usize> {
    let matching = of.iter().filter(|(want, _)| want.name.starts_with(prefix));
    matching.filter_map(|(_, node)| *node).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains_fill_evenly_at_every_moment() {
    let pods: Vec<_> = (0..30)
        .map(|number| {
            want(&format!("even{number}"))
                .label("app", "x")
                .spread(1, ZONE, "app", "x")
        })
        .collect();
    let outcome = scheduled(3, 12, &pods).await;
    let mut by_zone = [0; 3];
    for node in placed(&outcome, "even") {
        by_zone[node % 3] += 1;
    }
    assert_eq!(by_zone, [10, 10, 10]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_pods_of_a_group_start_it_in_one_domain() {
    let pods = groups(15, 6, |pod, app| pod.near(ZONE, "app", app));
    let outcome = scheduled(3, 6, &pods).await;
    for group in 0..15 {
        let mut zones: Vec<_> = placed(&outcome, &format!("g{group}-"))
            .iter()
            .map(|node| node % 3)
            .collect();
        assert_eq!(zones.len(), 6, "all of group {group} are placed");
        zones.dedup();
        assert_eq!(zones.len(), 1, "group {group} is in one zone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_shun_their_like_have_a_domain_each() {
    let pods = groups(12, 5, |pod, app| pod.apart(ZONE, "app", app));
    let outcome = scheduled(3, 6, &pods).await;
    for group in 0..12 {
        assert_eq!(
            placed(&outcome, &format!("g{group}-")).len(),
            3,
            "one of group {group} a zone"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_pods_do_not_slip_past_those_that_shun_them() {
    let pods: Vec<_> = (0..6)
        .flat_map(|number| (0..12).map(move |group| (group, number)))
        .map(|(group, number)| {
            let (app, name) = (format!("g{group}"), format!("g{group}-{number}"));
            // Those with the rule come first for half of the groups, and last for the others.
            if (number < 3) == (group % 2 == 0) {
                want(&name).label("role", "shy").apart(HOST, "app", &app)
            } else {
                want(&name).label("app", &app)
            }
        })
        .collect();
    scheduled(2, 4, &pods).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_mix_of_rules_comes_out_as_in_some_serial_order() {
    let seed = RandomState::new().build_hasher().finish();
    for round in 0..4 {
        let seed = seed.wrapping_add(round);
        eprintln!("seed {seed}");
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let pods: Vec<_> = (0..48).map(|number| any(&mut random, number)).collect();
        scheduled(3, 7, &pods).await;
    }
}

fn any(random: &mut Pcg64Mcg, number: usize) -> Want {
    let app = |random: &mut Pcg64Mcg| ["a", "b", "c"][random.random_range(0..3)];
    let key = |random: &mut Pcg64Mcg| [ZONE, HOST][random.random_range(0..2)];
    let mut pod = want(&format!("p{number}"));
    let own = app(random);
    pod = pod.label("app", own);
    match random.random_range(0..8) {
        0 => pod.apart(key(random), "app", app(random)),
        1 => pod.near(key(random), "app", own),
        2 => pod.near(ZONE, "app", app(random)),
        3 => pod.spread(random.random_range(1..3), key(random), "app", own),
        4 => pod.spread(1, ZONE, "app", own).apart(HOST, "app", own),
        _ => pod,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_gets_the_last_slot_and_the_others_say_why() {
    let scene = Scene::new(2, 2).await;
    for number in 0..109 {
        scene.create_json(kit::resident(number, "n0").json());
    }
    let pods: Vec<_> = (0..58)
        .map(|number| want(&format!("p{number}")).only_on("n0"))
        .collect();
    for pod in &pods {
        scene.create(pod);
    }
    let refusal = "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector.";
    one_is_bound(&scene, &pods, refusal).await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_gets_a_host_port() {
    let scene = Scene::new(1, 1).await;
    let pods: Vec<_> = (0..12).map(|number| want(&format!("p{number}"))).collect();
    for pod in &pods {
        scene.create_json(pod.build().host_port(80).json());
    }
    let refusal = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    one_is_bound(&scene, &pods, refusal).await;
    scene.stop().await;
}

/// Starts the workers once all of the pods are queued: one is bound, and all others are told `refusal`.
async fn one_is_bound(scene: &Scene, pods: &[Want], refusal: &str) {
    scene
        .until("all are queued", |scene| scene.counts().active == pods.len())
        .await;
    scene.start();
    let told = |scene: &Scene| {
        let messages = pods.iter().filter_map(|pod| scene.refusal(&pod.name));
        messages.filter(|message| message.starts_with(refusal)).count() == pods.len() - 1
    };
    scene.until("one is bound and the others are refused", told).await;
    assert_eq!(scene.commits().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_that_panics_after_reserve_is_undone_and_its_pod_is_tried_again() {
    let scene = Scene::new(1, 1).await;
    scene.create(&want(PANICKY));
    scene.start();
    let bound = |scene: &Scene| scene.is_bound(PANICKY);
    scene.until("it is bound", bound).await;
    assert_eq!(scene.commits().len(), 1, "the first reserve was taken back");
    scene.stop().await;
}
