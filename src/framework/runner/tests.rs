//! Extension points with several plugins: who is asked, whose answer counts, and what is said.

mod kit;

use std::time::Duration;

use kit::{Actor, Kit, rejected, unresolvable};

use crate::cycle::full::{Evaluation, Outcome};
use crate::framework::{
    ActionType, ClusterEvent, Code, CycleState, EventResource, NominatedNode, PermitRun, PostFilterResult,
    PreFilterRun, Status,
};
use crate::ids::Symbol;
use crate::testing::pod;

fn actor(name: &'static str) -> Actor {
    Actor::new(name)
}

/// What PreFilter of plugins `A`, `B` and so on comes to, and who was asked.
fn pre_filtered(plugins: Vec<Actor>) -> (String, Vec<String>) {
    let kit = Kit::new(plugins);
    let mut state = CycleState::default();
    let run = kit
        .profile
        .run_pre_filter(&kit.world.view(), &mut state, &pod("p").build());
    let told = match run {
        PreFilterRun::Proceed(None) => "all".to_owned(),
        PreFilterRun::Proceed(Some(narrowed)) => {
            let names = |symbols: &[Symbol]| symbols.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(" ");
            format!("{} by {}", names(&narrowed.nodes), names(&narrowed.plugins))
        }
        PreFilterRun::Rejected { status, plugins } => {
            let names: Vec<_> = plugins.iter().map(|plugin| plugin.as_str()).collect();
            format!("{status} by {}", names.join(" "))
        }
        PreFilterRun::Failed(status) => status.to_string(),
    };
    (told, kit.calls())
}

#[test]
fn rejections_by_a_plugin_that_declares_no_events_end_with_any_change_even_of_a_namespace() {
    let kit = Kit::new(vec![
        actor("A").refuses("n1", rejected("no")),
        actor("B").scores([1, 2, 3]),
    ]);
    let wakes = |plugin: &str, resource| {
        let (plugin, event) = (Symbol::new(plugin), ClusterEvent::new(resource, ActionType::UPDATE));
        let mut of_plugin = kit.profile.events().iter().filter(|own| own.plugin == plugin);
        of_plugin.any(|own| own.hint.event.matches(event))
    };
    for resource in [
        EventResource::AssignedPod,
        EventResource::Node,
        EventResource::PersistentVolumeClaim,
        EventResource::StorageClass,
        EventResource::Namespace,
    ] {
        assert!(wakes("A", resource), "{resource:?}");
        assert!(!wakes("B", resource), "a plugin that rejects nobody waits for nothing");
    }
}

#[test]
fn pre_filters_reject_narrow_and_skip() {
    let nodes = |name, nodes: &[&str]| actor(name).narrows(nodes);
    let says = |name, status| actor(name).pre_filter(status);
    let table: Vec<(Vec<Actor>, &str, &[&str])> = vec![
        (
            vec![says("A", rejected("no")), says("B", Status::SUCCESS)],
            "Unschedulable: no by A",
            &["A", "B"],
        ),
        (
            vec![says("A", rejected("no")), says("B", rejected("nor I"))],
            "Unschedulable: nor I by B",
            &["A", "B"],
        ),
        (
            vec![
                says("A", rejected("no")),
                says("B", unresolvable("never")),
                says("C", Status::SUCCESS),
            ],
            "UnschedulableAndUnresolvable: never by B",
            &["A", "B"],
        ),
        (
            vec![says("A", Status::error("broken")), says("B", Status::SUCCESS)],
            "Error: running PreFilter plugin \"A\": broken",
            &["A"],
        ),
        (
            vec![says("A", Status::new(Code::Wait, "odd".to_owned()))],
            "Error: running PreFilter plugin \"A\": odd",
            &["A"],
        ),
        (
            vec![says("A", Status::SKIP), says("B", Status::SUCCESS)],
            "all",
            &["A", "B"],
        ),
        (
            vec![
                nodes("B", &["n1", "n2"]),
                says("A", Status::SUCCESS),
                nodes("C", &["n3", "n2"]),
            ],
            "n2 by B C",
            &["B", "A", "C"],
        ),
        (
            vec![nodes("C", &["n2"]), nodes("B", &["n1"]), nodes("A", &["n1"])],
            "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin(s) [B C] simultaneously by B C",
            &["C", "B"],
        ),
        (
            vec![nodes("A", &[]), nodes("B", &["n1"])],
            "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin A by A",
            &["A"],
        ),
    ];
    for (plugins, expected, asked) in table {
        let calls: Vec<_> = asked.iter().map(|name| format!("{name}.pre_filter")).collect();
        assert_eq!(pre_filtered(plugins), (expected.to_owned(), calls));
    }
}

fn told(evaluation: &Evaluation) -> String {
    match &evaluation.outcome {
        Outcome::Best(nodes) => format!("{:?}", nodes.iter().map(|node| node.0).collect::<Vec<_>>()),
        Outcome::NoFit(diagnosis) => {
            let names: Vec<_> = diagnosis.unschedulable_plugins.iter().map(|p| p.as_str()).collect();
            format!("nowhere, by {}", names.join(" "))
        }
        Outcome::NoNodes => "no nodes".to_owned(),
        Outcome::Open => "open".to_owned(),
        Outcome::Failed(status) => status.to_string(),
    }
}

#[test]
fn a_node_left_by_pre_filter_that_fails_blames_both_plugins() {
    let kit = Kit::new(vec![
        actor("Narrow").narrows(&["n2", "gone"]),
        actor("Strict").refuses("n2", rejected("no")),
    ]);
    let evaluation = kit.evaluate(&pod("p"));
    assert_eq!(told(&evaluation), "nowhere, by Strict Narrow");
    let status = |name: &str| evaluation.statuses.get(kit.world.idx(name).unwrap()).to_string();
    assert_eq!(status("n2"), "Unschedulable: no");
    let left_out = "UnschedulableAndUnresolvable: node(s) didn't satisfy plugin(s) [Narrow]";
    assert_eq!((status("n1").as_str(), status("n3").as_str()), (left_out, left_out));
    assert_eq!(kit.count("Strict.filter"), 1, "only what is left over is looked at");
}

#[test]
fn filters_of_plugins_that_skipped_are_not_asked_and_failures_end_the_cycle() {
    let broken = |name| actor(name).refuses("n1", Status::error("broken"));
    let kit = Kit::new(vec![broken("A").pre_filter(Status::SKIP)]);
    assert_eq!(
        (told(&kit.evaluate(&pod("p"))), kit.count("A.filter")),
        ("[0, 1, 2]".to_owned(), 0)
    );
    let kit = Kit::new(vec![broken("A"), actor("B").refuses("n1", rejected("no"))]);
    assert_eq!(
        told(&kit.evaluate(&pod("p"))),
        "Error: running \"A\" filter plugin: broken"
    );
    let kit = Kit::new(vec![actor("B").refuses("n1", rejected("no")), broken("A")]);
    assert_eq!(
        told(&kit.evaluate(&pod("p"))),
        "[1, 2]",
        "the first rejection of a node ends its filters"
    );
    let world = crate::testing::World::default();
    let nothing = crate::cycle::full::evaluate(&kit.profile, &world.view(), &pod("p").build());
    assert_eq!(told(&nothing), "no nodes");
}

#[test]
fn the_highest_totals_win_and_scores_out_of_range_fail_the_cycle() {
    let scores = |scores: [i64; 3]| actor("A").scores(scores);
    let invalid = |score: i64| {
        format!(
            "Error: applying score defaultWeights on Score plugins: plugin \"A\" returns an invalid score {score}, it \
             should in the range of [0, 100] after normalizing"
        )
    };
    let table = [
        (vec![scores([2, 2, 2])], "[0, 1, 2]".to_owned()),
        (vec![scores([1, 5, 5])], "[1, 2]".to_owned()),
        (vec![scores([100, 0, 99])], "[0]".to_owned()),
        (vec![scores([1, 0, 0]), actor("B").scores([0, 0, 3])], "[2]".to_owned()),
        (vec![scores([1, 5, 5]).pre_score(Status::SKIP)], "[0, 1, 2]".to_owned()),
        (vec![scores([0, 101, 0])], invalid(101)),
        (vec![scores([0, 0, -1])], invalid(-1)),
        (vec![scores([0, 0, i64::MAX])], invalid(i64::MAX)),
        (
            vec![scores([1, 2, 3]).pre_score(Status::error("broken"))],
            "Error: running PreScore plugin \"A\": broken".to_owned(),
        ),
    ];
    for (plugins, expected) in table {
        assert_eq!(told(&Kit::new(plugins).evaluate(&pod("p"))), expected);
    }
}

#[test]
fn a_single_feasible_node_is_not_scored() {
    let strict = actor("A").refuses("n1", rejected("no")).refuses("n3", rejected("no"));
    let kit = Kit::new(vec![strict.scores([0, 500, 0]).pre_score(Status::error("broken"))]);
    assert_eq!(told(&kit.evaluate(&pod("p"))), "[1]");
    assert_eq!((kit.count("A.pre_score"), kit.count("A.score")), (0, 0));
}

#[test]
fn a_nominated_node_is_tried_first_and_alone() {
    let kit = Kit::new(vec![actor("A").refuses("n3", rejected("no")).scores([1, 2, 3])]);
    assert_eq!(told(&kit.evaluate(&pod("p").nominated("n1"))), "[0]");
    assert_eq!((kit.count("A.filter"), kit.count("A.score")), (1, 0));
    let kit = Kit::new(vec![actor("A").refuses("n3", rejected("no")).scores([1, 2, 3])]);
    assert_eq!(told(&kit.evaluate(&pod("p").nominated("n3"))), "[1]");
    assert_eq!(kit.count("A.filter"), 1 + 3);
    let kit = Kit::new(vec![actor("A").refuses("other", rejected("no")).scores([1, 2, 3])]);
    assert_eq!(told(&kit.evaluate(&pod("p").nominated("gone"))), "[2]");
    assert_eq!(kit.count("A.filter"), 3);
}

#[test]
fn nominated_pods_of_equal_and_higher_priority_count() {
    // The actor refuses nodes where somebody was added.
    for (priority, expected) in [
        (9, "[0, 1, 2]"),
        (10, "[1, 2]"),
        (11, "[1, 2]"),
        (i32::MIN, "[0, 1, 2]"),
        (i32::MAX, "[1, 2]"),
    ] {
        let mut kit = Kit::new(vec![actor("A").pre_filter(Status::SUCCESS).counts_added()]);
        kit.nominate(&pod("other").priority(priority), "n1");
        assert_eq!(told(&kit.evaluate(&pod("p").priority(10))), expected, "{priority}");
    }
    let mut kit = Kit::new(vec![actor("A").pre_filter(Status::SUCCESS).counts_added()]);
    kit.nominate(&pod("p").priority(10), "n1");
    assert_eq!(
        told(&kit.evaluate(&pod("p").priority(10))),
        "[0, 1, 2]",
        "not the pod itself"
    );
}

#[test]
fn a_plugin_that_cannot_count_a_nominated_pod_fails_the_cycle_unless_it_skipped() {
    let failing = |status| {
        let plugin = actor("A")
            .pre_filter(status)
            .counts_added()
            .add_pod(Status::error("cannot"));
        let mut kit = Kit::new(vec![plugin]);
        kit.nominate(&pod("other").priority(10), "n2");
        (told(&kit.evaluate(&pod("p"))), kit.count("A.add_pod"))
    };
    let text = "Error: running AddPod on PreFilter plugin \"A\": cannot";
    assert_eq!(failing(Status::SUCCESS), (text.to_owned(), 1));
    assert_eq!(failing(Status::SKIP), ("[0, 1, 2]".to_owned(), 0));
}

#[test]
fn post_filters_are_asked_until_one_knows() {
    let says = |name, status| actor(name).post_filter(PostFilterResult::new(status, NominatedNode::Keep));
    let table: Vec<(Vec<Actor>, &str, &[&str])> = vec![
        (
            vec![says("A", rejected("a")), says("B", Status::SUCCESS)],
            "Success: ",
            &["A", "B"],
        ),
        (
            vec![says("A", Status::SUCCESS), says("B", rejected("b"))],
            "Success: ",
            &["A"],
        ),
        (
            vec![
                says("A", rejected("a")),
                says("B", unresolvable("b")),
                says("C", Status::SUCCESS),
            ],
            "UnschedulableAndUnresolvable: b",
            &["A", "B"],
        ),
        (
            vec![says("A", Status::error("a")), says("B", Status::SUCCESS)],
            "Error: a",
            &["A"],
        ),
        (
            vec![says("A", rejected("a")), says("B", rejected("b"))],
            "Unschedulable: a, b",
            &["A", "B"],
        ),
    ];
    for (plugins, expected, asked) in table {
        let kit = Kit::new(plugins);
        let (view, state) = (kit.world.view(), CycleState::default());
        let result = kit
            .profile
            .run_post_filter(&view, &state, &pod("p").build(), &Default::default());
        let calls: Vec<_> = asked.iter().map(|name| format!("{name}.post_filter")).collect();
        assert_eq!((result.status.to_string().as_str(), kit.calls()), (expected, calls));
    }
}

#[test]
fn the_first_post_filter_with_a_word_on_the_nomination_decides_it() {
    let says = |name, nomination| actor(name).post_filter(PostFilterResult::new(rejected(name), nomination));
    let (n1, n2) = (
        NominatedNode::Set(Symbol::new("n1")),
        NominatedNode::Set(Symbol::new("n2")),
    );
    let table = [
        ([NominatedNode::Keep, NominatedNode::Keep], NominatedNode::Keep),
        ([NominatedNode::Keep, NominatedNode::Clear], NominatedNode::Clear),
        ([NominatedNode::Clear, n1], NominatedNode::Clear),
        ([n2, n1], n2),
    ];
    for ([a, b], expected) in table {
        let kit = Kit::new(vec![says("A", a), says("B", b)]);
        let (view, state) = (kit.world.view(), CycleState::default());
        let result = kit
            .profile
            .run_post_filter(&view, &state, &pod("p").build(), &Default::default());
        assert_eq!(result.nomination, expected);
    }
}

#[test]
fn reserve_ends_with_the_first_no_and_unreserve_undoes_all_in_reverse() {
    for (status, expected) in [
        (rejected("full"), "Unschedulable: full"),
        (Status::error("broken"), "Error: running Reserve plugin \"B\": broken"),
    ] {
        let says = |name, status| actor(name).reserve(status);
        let kit = Kit::new(vec![
            says("A", Status::SUCCESS),
            says("B", status),
            says("C", Status::SUCCESS),
        ]);
        let (view, mut state, pod) = (kit.world.view(), CycleState::default(), pod("p").build());
        let node = view.nodes.iter().next().unwrap();
        let reserved = kit.profile.run_reserve(&view, &mut state, &pod, node);
        assert_eq!(reserved.unwrap_err().to_string(), expected);
        kit.profile.run_unreserve(&mut state, &pod, node.name);
        let calls = ["A.reserve", "B.reserve", "C.unreserve", "B.unreserve", "A.unreserve"];
        assert_eq!(kit.calls(), calls);
    }
}

#[test]
fn permit_waits_have_a_limit_and_a_timer_each() {
    let hour = Duration::from_secs(3600);
    let wait = |timeout| (Status::new(Code::Wait, "wait".to_owned()), timeout);
    let kit = Kit::new(vec![
        actor("A").permit(wait(hour)),
        actor("B").permit((Status::SUCCESS, Duration::ZERO)),
        actor("C").permit(wait(Duration::from_secs(7))),
    ]);
    let permitted = kit
        .profile
        .run_permit(&CycleState::default(), &pod("p").build(), Symbol::new("n1"));
    let waits = vec![
        (Symbol::new("A"), Duration::from_secs(15 * 60)),
        (Symbol::new("C"), Duration::from_secs(7)),
    ];
    assert_eq!(permitted, PermitRun::Proceed(waits));
    for (status, expected) in [
        (rejected("no"), "Unschedulable: no"),
        (unresolvable("never"), "UnschedulableAndUnresolvable: never"),
        (Status::error("broken"), "Error: running Permit plugin \"B\": broken"),
        (Status::SKIP, "Error: running Permit plugin \"B\": "),
    ] {
        let plugins = vec![
            actor("A").permit(wait(hour)),
            actor("B").permit((status, hour)),
            actor("C").permit(wait(hour)),
        ];
        let kit = Kit::new(plugins);
        let permitted = kit
            .profile
            .run_permit(&CycleState::default(), &pod("p").build(), Symbol::new("n1"));
        let PermitRun::Ended(status) = permitted else {
            panic!("{permitted:?}")
        };
        assert_eq!(
            (status.to_string().as_str(), kit.calls()),
            (expected, vec!["A.permit".to_owned(), "B.permit".to_owned()])
        );
    }
}
