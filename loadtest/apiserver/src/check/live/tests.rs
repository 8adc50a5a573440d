use serde_json::json;

use super::*;

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"zone": "z"}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "3"}}})
}

fn pod(name: &str, node: &str, milli_cpu: u32) -> Value {
    let requests = json!({"requests": {"cpu": format!("{milli_cpu}m")}});
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"resources": requests}]}})
}

fn check() -> LiveCheck {
    let mut check = LiveCheck::default();
    ["a", "b"].iter().for_each(|name| check.node(&node(name)));
    check
}

fn told(outcome: Result<(), Breach>) -> String {
    outcome.err().map(|breach| breach.to_string()).unwrap_or_default()
}

#[test]
fn a_full_node_is_no_breach_and_one_more_pod_is() {
    let mut check = check();
    check.pod(&pod("one", "a", 600)).unwrap();
    check.pod(&pod("two", "", 400)).unwrap();
    check.pod(&pod("two", "a", 400)).unwrap();
    // Seen again, and of no weight on another node.
    check.pod(&pod("two", "a", 400)).unwrap();
    check.pod(&pod("else", "b", 1000)).unwrap();
    assert_eq!(
        told(check.pod(&pod("three", "a", 1))),
        "node a holds 1001000000 of 1000000000 (billionths) cpu with pod n/three"
    );
    check.gone("uid-three");
    check.gone("uid-one");
    check.pod(&pod("replacement", "a", 600)).unwrap();
    let counts = check.counts();
    assert_eq!((counts.bound, counts.gone, counts.waiting), (5, 2, 0));
}

#[test]
fn slots_and_ports_are_of_the_node() {
    let mut check = check();
    for name in ["one", "two", "three"] {
        check.pod(&pod(name, "a", 0)).unwrap();
    }
    assert!(told(check.pod(&pod("four", "a", 0))).contains("pods with pod n/four"));
    let with_port = |name: &str, node: &str| {
        let mut pod = pod(name, node, 0);
        pod["spec"]["containers"][0]["ports"] = json!([{"hostPort": 80}]);
        pod
    };
    check.gone("uid-four");
    check.gone("uid-three");
    check.gone("uid-two");
    check.pod(&with_port("p", "a")).unwrap();
    check.pod(&with_port("q", "b")).unwrap();
    assert_eq!(
        told(check.pod(&with_port("r", "b"))),
        "pods n/r and n/q on node b both have port TCP/0.0.0.0:80"
    );
}

#[test]
fn a_pod_that_ended_gives_its_room_back_and_one_on_its_way_out_does_not() {
    let mut check = check();
    check.pod(&pod("one", "a", 1000)).unwrap();
    let mut leaving = pod("one", "a", 1000);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    check.pod(&leaving).unwrap();
    assert!(!told(check.pod(&pod("early", "a", 1000))).is_empty());
    check.gone("uid-early");
    leaving["status"]["phase"] = "Failed".into();
    check.pod(&leaving).unwrap();
    check.pod(&pod("next", "a", 1000)).unwrap();
}

#[test]
fn a_second_binding_is_told() {
    let mut check = check();
    check.pod(&pod("one", "a", 1)).unwrap();
    let told = told(check.pod(&pod("one", "b", 1)));
    assert_eq!(told, "pod n/one was on node a and is on b");
}

#[test]
fn anti_affinity_holds_in_both_directions() {
    let shy = |name: &str, node: &str, operator: &str| {
        let mut pod = pod(name, node, 1);
        let selector = json!({"matchExpressions": [{"key": "app", "operator": operator, "values": ["loud"]}]});
        let terms = json!([{"topologyKey": "zone", "labelSelector": selector}]);
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
        pod
    };
    let mut first = check();
    first.pod(&shy("one", "a", "In")).unwrap();
    first.pod(&pod("quiet", "b", 1)).unwrap();
    let expected = "pods n/loud and n/one share zone=z against an anti-affinity";
    assert_eq!(told(first.pod(&pod("loud", "b", 1))), expected);
    let mut second = check();
    second.pod(&pod("loud", "b", 1)).unwrap();
    let mut elsewhere = shy("two", "a", "NotIn");
    elsewhere["metadata"]["namespace"] = "other".into();
    second.pod(&elsewhere).unwrap();
    assert_eq!(
        told(second.pod(&shy("one", "a", "In"))),
        "pods n/one and n/loud share zone=z against an anti-affinity"
    );
}
