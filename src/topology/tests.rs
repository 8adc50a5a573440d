use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn path(names: &[&str]) -> Vec<Step> {
    let levels = ["region", "zone", "rack"];
    let steps = names.iter().zip(levels);
    steps
        .map(|(name, level)| Step {
            level: Symbol::new(level),
            name: Symbol::new(name),
        })
        .collect()
}

fn place(topology: &Topology, names: &[&str]) -> DomainIdx {
    topology.place(&path(names)).0
}

fn row(from: &str, to: &str, millis: f64) -> LatencyRow {
    LatencyRow {
        from: Symbol::new(from),
        to: Symbol::new(to),
        millis,
    }
}

fn source(name: &str, rank: u8, tables: &[(&str, &[LatencyRow])]) -> Source {
    Source {
        name: Symbol::new(name),
        rank,
        tables: tables
            .iter()
            .map(|(level, rows)| (Symbol::new(level), Arc::new(LatencyTable::new(rows, false).unwrap())))
            .collect(),
    }
}

#[test]
fn one_path_is_one_place_and_names_count_within_their_place() {
    let topology = Topology::default();
    let a = place(&topology, &["r1", "z1", "k"]);
    assert_eq!(topology.place(&path(&["r1", "z1", "k"])), (a, false));
    assert!(topology.place(&path(&["r1", "z2", "k"])).1);
    assert_ne!(place(&topology, &["r1", "z2", "k"]), a);
    assert_eq!(place(&topology, &[]), DomainIdx::ROOT);
    let tree = topology.tree();
    assert_eq!(tree.len(), 6);
    assert_eq!(tree.name_at(a, Symbol::new("zone")), Some(Symbol::new("z1")));
    assert_eq!(tree.name_at(place(&topology, &["r1"]), Symbol::new("zone")), None);
}

#[test]
fn the_way_between_two_places_goes_over_the_links_of_both_up_to_what_they_share() {
    let topology = Topology::default();
    let [a, b, c] = [["r1", "z1"], ["r1", "z2"], ["r2", "z3"]].map(|names| place(&topology, &names));
    let [r1, r2] = ["r1", "r2"].map(|name| place(&topology, &[name]));
    let tree = topology.tree();
    let path = |from, to| {
        let (out, into) = tree.path(from, to);
        (out.collect::<Vec<_>>(), into.collect::<Vec<_>>())
    };
    assert_eq!(path(a, b), (vec![a], vec![b]));
    assert_eq!(path(a, c), (vec![a, r1], vec![c, r2]));
    assert_eq!(path(a, a), (vec![], vec![]));
    assert_eq!(path(a, r1), (vec![a], vec![]));
    assert_eq!(tree.common(a, c), DomainIdx::ROOT);
}

#[test]
fn costs_of_links_add_up_and_one_that_is_not_known_leaves_the_sum_unknown() {
    let topology = Topology::default();
    let [a, b] = [["r1", "z1"], ["r1", "z2"]].map(|names| place(&topology, &names));
    let costs = |cost_micros| Link {
        cost_micros,
        ..Link::default()
    };
    assert!(topology.set_link(a, costs(Some(300))));
    assert!(!topology.set_link(a, costs(Some(300))) && !topology.set_link(DomainIdx::ROOT, costs(Some(1))));
    assert_eq!(topology.tree().cost_micros(a, b), None);
    assert!(topology.set_link(b, costs(Some(200))));
    assert_eq!(topology.tree().cost_micros(a, b), Some(500));
    assert_eq!(topology.tree().cost_micros(a, a), Some(0));
}

#[test]
fn figures_that_are_no_latencies_are_refused_all_at_once() {
    let rows = [
        row("a", "b", -1.0),
        row("a", "c", f64::NAN),
        row("b", "a", f64::INFINITY),
        row("b", "c", 2.0),
        row("b", "c", 3.0),
        row("c", "b", 4e6),
    ];
    let errors = LatencyTable::new(&rows, false).unwrap_err();
    assert_eq!(errors.len(), 5);
    let text = |at: usize| errors[at].to_string();
    assert!(text(0).starts_with("from \"a\" to \"b\": -1 is not a latency"));
    assert!(text(3).starts_with("from \"b\" to \"c\": there are two figures, 2 ms and 3 ms"));
}

#[test]
fn the_way_back_may_differ_or_stand_for_a_missing_one() {
    let rows = [row("a", "b", 10.0), row("b", "a", 12.5), row("a", "c", 7.0)];
    let table = |mirrored| LatencyTable::new(&rows, mirrored).unwrap();
    let figure = |mirrored, from: &str, to: &str| table(mirrored).figure(Symbol::new(from), Symbol::new(to));
    assert_eq!(figure(false, "a", "b"), Figure::Known(10_000));
    assert_eq!(figure(false, "b", "a"), Figure::Known(12_500));
    assert_eq!(figure(false, "c", "a"), Figure::Missing);
    assert_eq!(figure(true, "c", "a"), Figure::Known(7000));
    assert_eq!(figure(false, "c", "c"), Figure::Known(0));
    assert_eq!(figure(true, "b", "c"), Figure::Missing);
    assert_eq!(figure(true, "x", "c"), Figure::Foreign);
}

#[test]
fn the_innermost_figure_of_the_first_source_wins() {
    let topology = Topology::default();
    let [a, b, c] = [["r1", "z1"], ["r1", "z2"], ["r2", "z3"]].map(|names| place(&topology, &names));
    let regions: &[LatencyRow] = &[row("r1", "r2", 40.0), row("r1", "r1", 2.0)];
    let zones: &[LatencyRow] = &[row("z1", "z2", 1.0)];
    assert!(topology.set_source(source("first", 0, &[("region", regions), ("zone", zones)])));
    assert!(topology.set_source(source(
        "second",
        1,
        &[("zone", &[row("z1", "z3", 55.0), row("z1", "z2", 9.0)])]
    )));
    let between = |from, to| topology.latencies().between(&topology.tree(), from, to);
    assert_eq!(between(a, b), Latency::Micros(1000));
    assert_eq!(between(b, a), Latency::Micros(2000));
    assert_eq!(between(a, c), Latency::Micros(40_000));
    assert_eq!(between(c, a), Latency::Missing);
    assert!(topology.remove_source(Symbol::new("first")) && !topology.remove_source(Symbol::new("first")));
    assert_eq!(between(b, a), Latency::Missing);
    assert_eq!(between(a, c), Latency::Micros(55_000));
}

proptest! {
    /// The common place and the path against lists of ancestors.
    #[test]
    fn walks_agree_with_lists_of_ancestors(paths in proptest::collection::vec(proptest::collection::vec(0_u8..3, 0..4), 1..20)) {
        let topology = Topology::default();
        let places: Vec<DomainIdx> = paths
            .iter()
            .map(|path| {
                let names: Vec<String> = path.iter().map(|name| format!("n{name}")).collect();
                let steps = names.iter().enumerate().map(|(depth, name)| Step {
                    level: Symbol::new(&format!("level{depth}")),
                    name: Symbol::new(name),
                });
                topology.place(&steps.collect::<Vec<_>>()).0
            })
            .collect();
        let tree = topology.tree();
        for a in &places {
            for b in &places {
                let around = |place| tree.outwards(place).chain([DomainIdx::ROOT]).collect::<Vec<_>>();
                let common = around(*a).into_iter().find(|place| around(*b).contains(place)).unwrap();
                prop_assert_eq!(tree.common(*a, *b), common);
                let (out, into) = tree.path(*a, *b);
                let expected = |place| tree.outwards(place).take_while(|step| *step != common).collect::<Vec<_>>();
                prop_assert_eq!(out.collect::<Vec<_>>(), expected(*a));
                prop_assert_eq!(into.collect::<Vec<_>>(), expected(*b));
            }
        }
    }
}
