use expect_test::{Expect, expect};

use super::*;

fn pairs<'a>(pairs: &'a [(&'a str, &'a str)]) -> String {
    serde_json::to_string(&pairs.iter().copied().collect::<std::collections::BTreeMap<_, _>>()).unwrap()
}

fn compiled(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Option<Box<PodNetwork>> {
    let (labels, annotations) = (pairs(labels), pairs(annotations));
    let labels = serde_json::from_str(&labels).unwrap();
    pod(
        Symbol::new("ns"),
        Some(&labels),
        serde_json::from_str(&annotations).unwrap(),
    )
}

fn fault(annotations: &[(&str, &str)], expected: &Expect) {
    let network = compiled(&[], annotations).unwrap();
    let faults = network.faults;
    let told: Vec<&str> = [&faults.bandwidth, &faults.peers, &faults.addresses]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    expected.assert_eq(&told.join("; "));
}

#[test]
fn a_pod_that_says_nothing_has_nothing() {
    assert_eq!(compiled(&[("app", "x")], &[("other", "1M")]), None);
    assert_eq!(pod(Symbol::new("ns"), None, None), None);
}

#[test]
fn bandwidth_is_a_quantity_within_the_limits_of_the_kubelet() {
    let network = compiled(&[], &[(POD_BANDWIDTH[0], "10M"), (POD_BANDWIDTH[1], "1Gi")]).unwrap();
    assert_eq!(
        network.bandwidth,
        Bandwidth {
            ingress: 10_000_000,
            egress: 1 << 30
        }
    );
    fault(
        &[(POD_BANDWIDTH[0], "-1M"), (POD_BANDWIDTH[1], "100E")],
        &expect![[
            r#"annotation kubernetes.io/ingress-bandwidth: "-1M" must be from 1000 to 1000000000000000 bits per second; annotation kubernetes.io/egress-bandwidth: "100E" must be from 1000 to 1000000000000000 bits per second"#
        ]],
    );
    fault(
        &[(POD_BANDWIDTH[0], "10 Mbit")],
        &expect![[
            r#"annotation kubernetes.io/ingress-bandwidth: "10 Mbit" is not a quantity of bits per second, such as 10M ("10 Mbit" is no quantity: a number with an optional suffix such as m, k, Ki, Mi, G or e3 is)"#
        ]],
    );
}

#[test]
fn peers_are_pods_or_places() {
    let text = r#"[{"selector":{"app":"db"},"weight":3,"bandwidth":"5M","maxLatencyMs":20.5},{"zone":"z1"}]"#;
    let network = compiled(&[], &[(PEERS, text)]).unwrap();
    let [db, zone] = &*network.peers else {
        panic!("{network:?}")
    };
    assert_eq!(
        (db.weight, db.bandwidth.egress, db.max_latency_micros),
        (3, 5_000_000, Some(20_500))
    );
    assert!(matches!(&db.target, PeerTarget::Pods { namespace, .. } if *namespace == Symbol::new("ns")));
    assert_eq!(zone.target, place(ZONE, "z1"));
    assert_eq!((zone.weight, zone.max_latency_micros), (1, None));
}

#[test]
fn what_is_wrong_with_peers_is_told() {
    for (text, expected) in [
        (
            "{}",
            expect![[
                r#"annotation network.supercargo.io/peers: invalid type: map, expected a sequence at line 1 column 0; it must be a list such as [{"selector":{"app":"db"},"weight":2}]"#
            ]],
        ),
        (
            r#"[{"zone":"a","region":"b"}]"#,
            expect!["annotation network.supercargo.io/peers: [0]: name exactly one of selector, region and zone"],
        ),
        (
            r#"[{"selector":{}}]"#,
            expect!["annotation network.supercargo.io/peers: [0]: selector is empty: name a label"],
        ),
        (
            r#"[{"zone":"a"},{"zone":"a","weight":0}]"#,
            expect!["annotation network.supercargo.io/peers: [1]: weight must be at least 1"],
        ),
        (
            r#"[{"zone":"a","namespace":"x"}]"#,
            expect!["annotation network.supercargo.io/peers: [0]: namespace goes with selector alone"],
        ),
        (
            r#"[{"zone":"a","maxLatencyMs":-1}]"#,
            expect![
                "annotation network.supercargo.io/peers: [0]: maxLatencyMs: -1 is not a number of milliseconds from 0"
            ],
        ),
    ] {
        fault(&[(PEERS, text)], &expected);
    }
}

#[test]
fn an_app_group_is_named_by_labels() {
    let network = compiled(&[(APP[0], "shop"), (APP[1], "front")], &[]).unwrap();
    let member = network.app.unwrap();
    assert_eq!((member.group.as_str(), member.workload.as_str()), ("shop", "front"));
}

#[test]
fn addresses_are_asked_for_in_our_spelling_or_calicos() {
    let asked = |key, text| compiled(&[], &[(key, text)]).unwrap().addresses.unwrap().addresses;
    let both = ["10.0.0.5", "fd00::5"].map(|text| text.parse::<IpAddr>().unwrap());
    assert_eq!(asked(ADDRESSES[0], "fd00::5, 10.0.0.5").as_slice(), both);
    assert_eq!(asked(ADDRESSES[1], r#"["10.0.0.5","fd00::5"]"#).as_slice(), both);
    let pool = compiled(&[], &[(POOL, "blue")]).unwrap().addresses.unwrap().pool;
    assert_eq!(pool, Some(Symbol::new("blue")));
    fault(
        &[(ADDRESSES[0], "10.0.0.5,10.0.0.6"), (ADDRESSES[1], r#"["x"]"#)],
        &expect![[
            r#"annotation network.supercargo.io/addresses: there is more than one address of a family; annotation cni.projectcalico.org/ipAddrs: "x" is not an IP address"#
        ]],
    );
}

#[test]
fn a_node_says_what_its_interface_carries_and_which_addresses_it_has() {
    let annotations = pairs(&[
        (NODE_BANDWIDTH[0], "10G"),
        (NODE_BANDWIDTH[1], "wide"),
        (MEASURED, r#"{"z2":1.5}"#),
    ]);
    let cidrs = ["10.1.0.0/24", "fd00::/64", "10.1.0/8"];
    let network = node(serde_json::from_str(&annotations).unwrap(), cidrs.into_iter());
    assert_eq!((network.ingress, network.egress), (Some(10_000_000_000), None));
    assert_eq!((network.pod_ranges_v4.len(), network.pod_ranges_v6.len()), (1, 1));
    assert_eq!(&*network.measured, [(Symbol::new("z2"), 1.5)]);
    expect![[r#"annotation network.supercargo.io/egress-bandwidth: "wide" is not a quantity of bits per second, such as 10M ("wide" is no quantity: a number with an optional suffix such as m, k, Ki, Mi, G or e3 is); spec.podCIDRs: "10.1.0/8" is not a CIDR such as 10.0.0.0/24 or fd00::/64"#]]
        .assert_eq(network.fault.as_deref().unwrap_or_default());
}
