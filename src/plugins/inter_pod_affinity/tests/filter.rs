use super::*;
use crate::framework::CycleState;
use crate::plugins::check::{self, told, world};
use crate::testing::{NodeBuilder, node, pod};

fn filter(pod: &PodBuilder, world: &World) -> String {
    check::filter(&*affinity(), pod, world).join("; ")
}

/// Nodes `a`, `b` in zones of region `r1`, node `c` in one of region `r2`.
fn regions() -> [NodeBuilder; 3] {
    [
        node("a").label("region", "r1").label("zone", "z1"),
        node("b").label("region", "r1").label("zone", "z2"),
        node("c").label("region", "r2").label("zone", "z3"),
    ]
}

#[test]
fn required_affinity_holds_in_the_domains_of_pods_that_all_terms_mean() {
    let security = pod("e").label("service", "securityscan");
    let foo = pod("e").label("foo", "bar");
    let both = pod("p").label("foo", "bar").label("service", "securityscan");
    let two = [like("foo", "bar", "zone"), like("service", "securityscan", "zone")];
    let out = |count: usize| vec![NO_AFFINITY; count].join("; ");
    let table = [
        // The domain of the pod that is meant, by region and by zone.
        (
            near(pod("p"), &[like("foo", "bar", "region")]),
            vec![foo.clone().on("a")],
            format!("fits; fits; {NO_AFFINITY}"),
        ),
        (
            near(pod("p"), &[like("foo", "bar", "zone")]),
            vec![foo.clone().on("a")],
            format!("fits; {NO_AFFINITY}; {NO_AFFINITY}"),
        ),
        // Nobody is meant, and the pod does not mean itself.
        (
            near(pod("p"), &[like("foo", "bar", "zone")]),
            vec![security.clone().on("a")],
            out(3),
        ),
        // The first of its group: the pod that is there is not meant by all terms.
        (
            near(both.clone(), &two),
            vec![foo.clone().on("a")],
            "fits; fits; fits".to_owned(),
        ),
        // It means itself, but somebody else is meant elsewhere.
        (
            near(both, &[like("foo", "bar", "region")]),
            vec![foo.clone().on("c")],
            format!("{NO_AFFINITY}; {NO_AFFINITY}; fits"),
        ),
        // Two pods, each meant by one term.
        (
            near(pod("p"), &two),
            vec![foo.clone().on("a"), security.uid("s").on("a")],
            out(3),
        ),
        // Another namespace than the term's.
        (
            near(
                pod("p"),
                &[with(like("foo", "bar", "region"), "namespaces", json!(["other"]))],
            ),
            vec![foo.clone().on("a")],
            out(3),
        ),
        // No selector means nobody; an empty one everybody.
        (
            near(pod("p"), &[json!({"topologyKey": "region"})]),
            vec![foo.clone().on("a")],
            out(3),
        ),
        (
            near(pod("p"), &[json!({"labelSelector": {}, "topologyKey": "region"})]),
            vec![foo.on("c")],
            format!("{NO_AFFINITY}; {NO_AFFINITY}; fits"),
        ),
    ];
    for (pod, placed, expected) in table {
        assert_eq!(filter(&pod, &world(&regions(), &placed)), expected, "{}", pod.json());
    }
}

#[test]
fn the_first_of_a_group_needs_the_key_of_every_term() {
    let p = near(
        pod("p").label("app", "x").label("tier", "y"),
        &[like("app", "x", "zone"), like("tier", "y", "host")],
    );
    let nodes = [
        node("n1").label("zone", "z1").label("host", "n1"),
        node("n2").label("host", "n2"),
    ];
    let placed = [pod("e").label("app", "x").on("n1")];
    assert_eq!(filter(&p, &world(&nodes, &placed)), format!("fits; {NO_AFFINITY}"));
    let without = [node("n1"), node("n2")];
    assert_eq!(
        filter(&p, &world(&without, &placed)),
        format!("{NO_AFFINITY}; {NO_AFFINITY}")
    );
}

#[test]
fn anti_affinity_bars_domains_and_needs_no_key() {
    let abc = pod("e").label("foo", "abc").on("a");
    let table = [
        (vec![one_of("foo", &["abc"], "region")], format!("{ANTI}; {ANTI}; fits")),
        // Any term suffices.
        (
            vec![one_of("foo", &["abc"], "region"), one_of("foo", &["abc"], "zone")],
            format!("{ANTI}; {ANTI}; fits"),
        ),
        (
            vec![one_of("foo", &["abc"], "zone"), one_of("foo", &["x"], "region")],
            format!("{ANTI}; fits; fits"),
        ),
        (vec![one_of("foo", &["abc"], "zon")], "fits; fits; fits".to_owned()),
    ];
    for (terms, expected) in table {
        let p = apart(pod("p"), &terms);
        assert_eq!(
            filter(&p, &world(&regions(), std::slice::from_ref(&abc))),
            expected,
            "{terms:?}"
        );
    }
}

#[test]
fn a_missing_key_lets_anti_affinity_pass_and_affinity_not() {
    let nodes = [node("n1"), node("n2")];
    let placed = [pod("e").label("app", "x").on("n1")];
    let terms = [like("app", "x", "zon")];
    let x = |name: &str| pod(name).label("app", "x");
    assert_eq!(filter(&apart(x("p"), &terms), &world(&nodes, &placed)), "fits; fits");
    assert_eq!(
        filter(&near(x("q"), &terms), &world(&nodes, &placed)),
        format!("{NO_AFFINITY}; {NO_AFFINITY}")
    );
}

#[test]
fn anti_affinity_of_placed_pods_bars_domains() {
    let web = pod("p").label("foo", "bar").label("bar", "x");
    let foo = |key: &str| like("foo", "bar", key);
    let e = |terms: &[Value]| apart(pod("e"), terms);
    let other = apart(pod("e").namespace("other"), &[foo("zone")]);
    let reaching = with(foo("zone"), "namespaces", json!(["default"]));
    let table = [
        (e(&[foo("region")]).on("a"), format!("{EXISTING}; {EXISTING}; fits")),
        (e(&[foo("unknown")]).on("a"), "skip".to_owned()),
        (
            e(&[foo("unknown"), like("bar", "x", "zone")]).on("b"),
            format!("fits; {EXISTING}; fits"),
        ),
        (other.on("a"), "skip".to_owned()),
        (
            apart(pod("e").namespace("other"), &[reaching]).on("a"),
            format!("{EXISTING}; fits; fits"),
        ),
        // Those that are terminating count too.
        (
            e(&[foo("zone")]).terminating().on("a"),
            format!("{EXISTING}; fits; fits"),
        ),
    ];
    for (placed, expected) in table {
        let told = filter(&web, &world(&regions(), std::slice::from_ref(&placed)));
        assert_eq!(told, expected, "{}", placed.json());
    }
}

#[test]
fn a_node_without_the_key_bars_nobody() {
    let nodes = [
        node("n1").label("zone", "z1"),
        node("n2").label("zone", "z1"),
        node("n3").label("zone", "z2"),
        node("n4"),
    ];
    let rule = [like("app", "web", "zone")];
    let placed = [apart(pod("e1"), &rule).on("n1"), apart(pod("e2"), &rule).on("n4")];
    let told = filter(&pod("p").label("app", "web"), &world(&nodes, &placed));
    assert_eq!(told, format!("{EXISTING}; {EXISTING}; fits; fits"));
}

#[test]
fn reasons_go_in_upstreams_order() {
    let rule = [like("app", "x", "zone")];
    let x = |name: &str| pod(name).label("app", "x");
    let placed = [apart(x("e"), &rule).on("a")];
    assert_eq!(
        filter(&apart(x("p"), &rule), &world(&regions(), &placed)),
        format!("{ANTI}; fits; fits")
    );
    let lonely = near(apart(x("p"), &rule), &[like("app", "y", "zone")]);
    assert_eq!(
        filter(&lonely, &world(&regions(), &placed)),
        [NO_AFFINITY; 3].join("; ")
    );
}

#[test]
fn a_term_reaches_the_namespaces_it_names_and_those_it_selects() {
    let term = || like("app", "x", "kubernetes.io/hostname");
    let red = || json!({"matchLabels": {"team": "red"}});
    let not_red = json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red", "blue"]}]});
    let table = [
        (term(), "n2"),
        (with(term(), "namespaces", json!(["a"])), "n1"),
        (with(term(), "namespaceSelector", json!({})), "n1 n2"),
        (with(term(), "namespaceSelector", red()), "n1"),
        (
            with(with(term(), "namespaces", json!(["b"])), "namespaceSelector", red()),
            "n1 n2",
        ),
        (
            with(term(), "namespaceSelector", json!({"matchLabels": {"team": "green"}})),
            "",
        ),
        // Upstream's slip: nothing but negations mean every namespace.
        (with(term(), "namespaceSelector", not_red), "n1 n2"),
    ];
    for (term, expected) in table {
        let placed = [
            pod("pa").namespace("a").label("app", "x").on("n1"),
            pod("pb").namespace("b").label("app", "x").on("n2"),
        ];
        let world = world(&[node("n1"), node("n2"), node("n3")], &placed);
        put_namespace(&world, "a", &[("team", "red")]);
        put_namespace(&world, "b", &[("team", "blue")]);
        let p = apart(pod("p").namespace("b"), std::slice::from_ref(&term));
        let told = check::filter(&*affinity(), &p, &world);
        let names = ["n1", "n2", "n3"].into_iter().zip(&told);
        let barred: Vec<_> = names.filter(|(_, told)| *told == ANTI).map(|(name, _)| name).collect();
        assert_eq!(barred.join(" "), expected, "{term}");
    }
}

#[test]
fn a_placed_pods_selector_sees_the_labels_of_the_newcomers_namespace() {
    let team = |operator: &str| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": ["red"]}]});
    let table = [("In", EXISTING, "skip", "skip"), ("NotIn", "skip", EXISTING, EXISTING)];
    for (operator, red, blue, unknown) in table {
        let term = with(
            like("app", "x", "kubernetes.io/hostname"),
            "namespaceSelector",
            team(operator),
        );
        let world = world(&[node("n1")], &[apart(pod("e").namespace("other"), &[term]).on("n1")]);
        put_namespace(&world, "red", &[("team", "red")]);
        put_namespace(&world, "blue", &[("team", "blue")]);
        let told = |namespace: &str| filter(&pod("p").namespace(namespace).label("app", "x"), &world);
        assert_eq!(
            (&*told("red"), &*told("blue"), &*told("new")),
            (red, blue, unknown),
            "{operator}"
        );
    }
}

#[test]
fn a_wrong_selector_rejects_the_pod_and_drops_the_list_of_a_placed_one() {
    let wrong = one_of("service", &["{{.bad-value.}}"], "zone");
    let fine = like("app", "x", "zone");
    let rejection = "UU parsing pod: requiredAffinityTerms: values[0][service]: Invalid value: \"{{.bad-value.}}\"";
    let told = filter(&near(pod("p"), &[fine.clone(), wrong.clone()]), &world(&regions(), &[]));
    assert!(told.starts_with(rejection), "{told}");
    let both = apart(
        near(pod("p"), std::slice::from_ref(&wrong)),
        std::slice::from_ref(&wrong),
    );
    let told = filter(&both, &world(&regions(), &[]));
    assert!(
        told.starts_with("UU parsing pod: [requiredAffinityTerms: ") && told.contains(", requiredAntiAffinityTerms: ")
    );

    let x = pod("p").label("app", "x");
    let dropped = apart(pod("e"), &[fine.clone(), wrong.clone()]).on("a");
    assert_eq!(filter(&x, &world(&regions(), &[dropped])), "skip");
    let other_list = apart(near(pod("e"), &[wrong]), &[fine]).on("a");
    assert_eq!(
        filter(&x, &world(&regions(), &[other_list])),
        format!("{EXISTING}; fits; fits")
    );
}

#[test]
fn without_terms_anywhere_there_is_nothing_to_do() {
    assert_eq!(filter(&pod("p"), &world(&regions(), &[pod("e").on("a")])), "skip");
}

#[test]
fn trials_add_and_remove_pods() {
    let x = |name: &str| pod(name).label("app", "x");
    let rule = [like("app", "x", "zone")];
    let world = world(&regions(), &[x("e").on("a")]);
    let view = world.view();
    let plugin = affinity();
    let (pre_filter, filter) = (plugin.pre_filter().unwrap(), plugin.filter().unwrap());
    let extensions = pre_filter.extensions().unwrap();
    let (p, e) = (near(x("p"), &rule).build(), x("e").on("a").build());
    let mut state = CycleState::default();
    assert!(pre_filter.pre_filter_pod(&view, &mut state, &p).status.is_success());
    let says = |state: &CycleState| -> Vec<String> {
        let nodes = view.nodes.iter();
        nodes
            .map(|node| told(&filter.filter_node(&view, state, &p, node)))
            .collect()
    };
    let node = |name: &str| view.nodes.get(world.idx(name).unwrap()).unwrap();
    assert_eq!(says(&state), ["fits", NO_AFFINITY, NO_AFFINITY]);
    let mut trial = state.clone();
    // Without the only pod that is meant, the pod is the first of its group.
    assert!(extensions.remove_pod(&mut trial, &p, &e, node("a")).is_success());
    assert_eq!(says(&trial), ["fits", "fits", "fits"]);
    assert!(extensions.add_pod(&mut trial, &p, &e, node("b")).is_success());
    assert_eq!(says(&trial), [NO_AFFINITY, "fits", NO_AFFINITY]);
    let guard = apart(pod("g"), &[like("app", "x", "region")]).build();
    assert!(extensions.add_pod(&mut trial, &p, &guard, node("b")).is_success());
    assert_eq!(says(&trial), [NO_AFFINITY, EXISTING, NO_AFFINITY]);
    assert_eq!(says(&state), ["fits", NO_AFFINITY, NO_AFFINITY]);
}
