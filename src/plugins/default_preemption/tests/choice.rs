//! Which nodes are tried and which of them is chosen.

use super::*;

const TWO_OF_FIVE: CandidateLimits = CandidateLimits {
    percentage: 40,
    absolute: 1,
};

#[test]
fn the_search_begins_at_the_offset_and_ends_with_enough_candidates() {
    let names = |attempt: &Attempt| attempt.candidates(TWO_OF_FIVE, 4);
    assert_eq!(names(&five(&[], &[])), ["node5: v5", "node1: v1"]);
    assert_eq!(names(&five(&[2, 5], &[])), ["node1: v1", "node3: v3"]);
    let mut protected = five(&[2], &[5, 1]);
    protected.budgets = vec![budget(0, &[])];
    assert_eq!(
        names(&protected),
        ["node3: v3", "node5: v5 (1 protected)", "node1: v1 (1 protected)"]
    );
}

#[test]
fn a_node_where_nobody_would_have_to_go_is_no_candidate() {
    let mut attempt = Attempt::new(&nodes(1), &[placed("full", LOW, 500, "node1")], &wanting(HIGH, SMALL));
    let full = attempt.world.view().pods.on_node(NodeIdx(0));
    attempt.world.remove(&full[0], Symbol::new("node1"));
    attempt
        .world
        .assume(&placed("v", LOW, SMALL, "node1").build(), Symbol::new("node1"));
    let result = attempt.post_filter();
    assert_eq!(result.status.code, Code::Error);
    assert_eq!(
        result.status.message(),
        "preemption: expected at least one victim pod on node \"node1\""
    );
}

#[test]
fn priorities_at_their_limits_do_not_overflow() {
    const SYSTEM: i32 = 2_000_001_000;
    let three = |priority| ["a1", "a2", "a3"].map(|name| placed(name, priority, 150, "node1"));
    for priority in [-10, i32::MIN] {
        let mut pods = three(priority).to_vec();
        pods.push(placed("b", priority, 450, "node2"));
        let attempt = Attempt::new(&nodes(2), &pods, &wanting(0, 450));
        assert_eq!(chosen(&attempt), ["node2"], "one victim and not three of {priority}");
    }
    let mut pods = three(i32::MAX - 1).to_vec();
    pods.push(placed("b", SYSTEM, 450, "node2"));
    let attempt = Attempt::new(&nodes(2), &pods, &wanting(i32::MAX, 450));
    assert_eq!(chosen(&attempt), ["node2"]);
    let lowest = Attempt::new(
        &nodes(1),
        &[placed("a", i32::MIN, 500, "node1")],
        &wanting(i32::MIN, 450),
    );
    assert_eq!(chosen(&lowest), [] as [&str; 0], "nobody is below");
}

#[test]
fn who_started_last_goes_first_and_an_equal_never() {
    let victim = |name: &str, second: u8, node: &str| {
        placed(name, LOW, 500, node).started(&format!("2026-01-01T00:00:{second:02}Z"))
    };
    let pods = [victim("v", 9, "node1"), victim("w", 3, "node2")];
    assert_eq!(chosen(&Attempt::new(&nodes(2), &pods, &wanting(HIGH, 400))), ["node1"]);
    let tie = [victim("v", 3, "node1"), victim("w", 3, "node2")];
    assert_eq!(
        chosen(&Attempt::new(&nodes(2), &tie, &wanting(HIGH, 400))),
        ["node1", "node2"]
    );
    assert_eq!(
        chosen(&Attempt::new(&nodes(2), &pods, &wanting(LOW, 400))),
        [] as [&str; 0]
    );
}

#[test]
fn room_that_is_promised_to_others_is_not_counted_on() {
    let mut attempt = Attempt::new(
        &nodes(2),
        &[placed("v", LOW, 400, "node1"), placed("w", MID, 400, "node2")],
        &wanting(HIGH, 300),
    );
    assert_eq!(chosen(&attempt), ["node1"]);
    let nominate = |attempt: &mut Attempt, priority| {
        let other = asking("other", 300, -1).priority(priority).build();
        attempt.world.nominate(&other, Symbol::new("node1"));
    };
    nominate(&mut attempt, MID);
    assert_eq!(chosen(&attempt), ["node1"], "a weaker pod's nomination does not count");
    nominate(&mut attempt, HIGH);
    assert_eq!(chosen(&attempt), ["node2"]);
}
