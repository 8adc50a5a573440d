//! Disruption budgets protect pods as far as others can go.

use super::*;

#[test]
fn budgets_protect_pods_beyond_what_they_allow() {
    let victims = ["v1", "v2"].map(|name| placed(name, LOW, MEDIUM, "node1").label("app", "a"));
    let mut attempt = Attempt::new(&nodes(1), &victims, &wanting(HIGH, 400));
    attempt.budgets = vec![budget(1, &[])];
    assert_eq!(attempt.all_candidates(), ["node1: v2 v1 (1 protected)"]);
    attempt.budgets = vec![budget(1, &["v2"])];
    assert_eq!(attempt.all_candidates(), ["node1: v1 v2"]);
    attempt.budgets = vec![budget(0, &[]), budget(5, &[])];
    assert_eq!(attempt.all_candidates(), ["node1: v1 v2 (2 protected)"]);
}

#[test]
fn protected_pods_are_spared_before_others() {
    let pods = [
        placed("plain", LOW, MEDIUM, "node1").started("2026-01-01T00:00:01Z"),
        placed("guarded", LOW, MEDIUM, "node1")
            .label("app", "a")
            .started("2026-01-01T00:00:02Z"),
    ];
    let mut attempt = Attempt::new(&nodes(1), &pods, &wanting(HIGH, LARGE));
    assert_eq!(attempt.all_candidates(), ["node1: guarded"]);
    attempt.budgets = vec![budget(0, &[])];
    assert_eq!(attempt.all_candidates(), ["node1: plain"]);
}

#[test]
fn when_both_nodes_break_a_budget_the_highest_victim_decides() {
    let guarded = |name: &str, priority, cpu, node: &str| placed(name, priority, cpu, node).label("app", "a");
    let pods = [
        placed("high", HIGH, 250, "node1"),
        guarded("low", LOW, 250, "node1"),
        guarded("mid", MID, 500, "node2"),
    ];
    let mut attempt = Attempt::new(&nodes(2), &pods, &wanting(10_000, 500));
    attempt.budgets = vec![budget(0, &[])];
    assert_eq!(
        attempt.all_candidates(),
        ["node1: high low (1 protected)", "node2: mid (1 protected)"]
    );
    assert_eq!(chosen(&attempt), ["node2"]);
}

#[test]
fn budgets_are_preferred_and_not_absolute() {
    let pods = [
        placed("a", LOW, 500, "node1").label("app", "a"),
        placed("b", 5, 500, "node2"),
    ];
    let mut attempt = Attempt::new(&nodes(2), &pods, &wanting(10, 500));
    attempt.budgets = vec![budget(0, &[])];
    assert_eq!(
        chosen(&attempt),
        ["node2"],
        "no break, though its victim is more important"
    );
    let mut second = Attempt::new(&nodes(1), &pods[..1], &wanting(10, 500));
    second.budgets = vec![budget(0, &[])];
    assert_eq!(chosen(&second), ["node1"], "nothing else helps");
}

#[test]
fn budgets_that_match_nothing_cost_nothing() {
    let pods = [placed("v", LOW, 500, "node1").label("app", "a")];
    let mut attempt = Attempt::new(&nodes(1), &pods, &wanting(HIGH, 400));
    let everything = Budget {
        selector: LabelSelector::compile(&[], &[]).unwrap(),
        ..Budget::clone(&budget(0, &[]))
    };
    let elsewhere = Budget {
        namespace: Symbol::new("elsewhere"),
        ..Budget::clone(&budget(0, &[]))
    };
    attempt.budgets = vec![Arc::new(everything), Arc::new(elsewhere)];
    assert_eq!(attempt.all_candidates(), ["node1: v"]);
    let mut bare = Attempt::new(&nodes(1), &[placed("v", LOW, 500, "node1")], &wanting(HIGH, 400));
    bare.budgets = vec![budget(0, &[])];
    assert_eq!(bare.all_candidates(), ["node1: v"], "a pod without labels");
}
