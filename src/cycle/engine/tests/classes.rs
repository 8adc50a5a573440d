//! Which classes an engine knows, and by what it knows them.

use super::*;

fn plain_node(number: u8) -> Step {
    Step::Node {
        number,
        cpus: 8,
        tainted: false,
        zone: number % 3,
        image: false,
    }
}

/// A class knows only labels that somebody sees. Its first pod may have had others, which somebody sees by now: those
/// without them are of the class still.
#[test]
fn labels_that_become_visible_do_not_stick_to_a_class_that_lacks_them() {
    let mut world = World::with(LabelVisibility::Keys(rustc_hash::FxHashSet::default()));
    for number in 1..4 {
        world.step(&plain_node(number));
    }
    let labelled = |name: &str| pod(name).uid(name).cpu(100).label("tier", "x");
    let plain = |name: &str| pod(name).uid(name).cpu(100);
    for name in ["l1", "l2", "l3"] {
        let pod = labelled(name).build_in(&world.cluster.classes);
        world.decide(&pod, 0);
    }
    let guard = plain("guard").anti_affinity("zone", &[("tier", "x")]);
    let guard = guard.build_in(&world.cluster.classes);
    world.cluster.apply_pod(PodInfo {
        bound_to: Some(node_name(1)),
        ..PodInfo::clone(&guard)
    });
    for (name, random) in [("p1", 0), ("p2", 1), ("p3", 2)] {
        let pod = plain(name).build_in(&world.cluster.classes);
        assert!(
            world.engine.is_indexed(world.profile.index, pod.class),
            "the class of the first pods"
        );
        world.decide(&pod, random);
    }
    assert!(world.checked > 0);
}

/// Classes seen a moment ago are not forgotten before those that were used long ago.
#[test]
fn classes_used_long_ago_make_room_for_new_ones_that_take_turns() {
    let mut world = World::new();
    world.engine.budget_bytes = 0;
    world.step(&plain_node(1));
    let class = |world: &World, memory: i64, name: &str| {
        let pod = pod(name).uid(name).cpu(10).memory_gi(memory);
        pod.build_in(&world.cluster.classes)
    };
    for turn in 0..2 {
        for old in [1, 2] {
            let pod = class(&world, old, &format!("old{old}-{turn}"));
            world.decide(&pod, 0);
        }
    }
    for turn in 0..2 {
        for new in [3, 4] {
            let pod = class(&world, new, &format!("new{new}-{turn}"));
            world.decide(&pod, 0);
        }
    }
    for new in [3, 4] {
        let pod = class(&world, new, "look");
        assert!(world.engine.is_indexed(world.profile.index, pod.class), "{new}");
    }
}
