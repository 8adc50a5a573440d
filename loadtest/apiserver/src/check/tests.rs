use serde_json::json;

use super::*;

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "3", "x.y/z": "1"}}})
}

fn pod(name: &str, node: &str, requests: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}")},
        "spec": {"nodeName": node, "schedulerName": "s", "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Pending"}})
}

fn resources(state: &EndState) -> Vec<&str> {
    state.overcommitted.iter().map(|over| over.resource.as_str()).collect()
}

#[test]
fn every_pod_is_counted_once() {
    let mut refused = pod("u", "", &json!({}));
    refused["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let mut gated = pod("g", "", &json!({}));
    gated["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    let pods = [
        pod("a", "n1", &json!({})),
        refused,
        gated,
        pod("l", "", &json!({})),
        pod("m", "gone", &json!({})),
    ];
    let state = check(&[node("n1")], &pods, &CheckOptions::default());
    assert_eq!(
        (state.pods, state.bound, state.unschedulable, state.gated, state.lost),
        (5, 2, 1, 1, 1)
    );
    assert_eq!(state.lost_names, ["n/l"]);
    assert_eq!(state.on_missing_nodes, 1);
    assert!(!state.is_sound());
    let doubled = [pod("a", "n1", &json!({})), pod("a", "n1", &json!({}))];
    assert_eq!(check(&[node("n1")], &doubled, &CheckOptions::default()).duplicates, 1);
}

#[test]
fn exactly_full_is_sound_and_one_more_is_not() {
    let full = vec![
        pod("a", "n", &json!({"cpu": "600m"})),
        pod("b", "n", &json!({"cpu": "0.4", "x.y/z": 1})),
    ];
    assert!(check(&[node("n")], &full, &CheckOptions::default()).is_sound());
    let mut over = full;
    over.push(pod("c", "n", &json!({"cpu": "1m"})));
    let state = check(&[node("n")], &over, &CheckOptions::default());
    assert_eq!((resources(&state), state.overcommitted_nodes()), (vec!["cpu"], 1));
    over[2]["status"]["phase"] = "Succeeded".into();
    assert!(check(&[node("n")], &over, &CheckOptions::default()).is_sound());
}

#[test]
fn pod_count_ports_and_unknown_resources_are_checked() {
    let many: Vec<Value> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| pod(name, "n", &json!({})))
        .collect();
    assert_eq!(
        resources(&check(&[node("n")], &many, &CheckOptions::default())),
        ["pods"]
    );
    let with_port = |name: &str, address: &str| {
        let mut pod = pod(name, "n", &json!({"other.io/thing": "1"}));
        pod["spec"]["containers"][0]["ports"] = json!([{"hostPort": 80, "hostIP": address}]);
        pod
    };
    let clash = [with_port("a", "10.0.0.1"), with_port("b", "")];
    let state = check(&[node("n")], &clash, &CheckOptions::default());
    assert_eq!(resources(&state), ["hostPort TCP/10.0.0.1:80", "other.io/thing"]);
    let apart = [with_port("a", "10.0.0.1"), with_port("b", "10.0.0.2")];
    assert_eq!(
        resources(&check(&[node("n")], &apart, &CheckOptions::default())),
        ["other.io/thing"]
    );
}

#[test]
fn init_containers_sidecars_and_overhead_count() {
    let mut pod = pod("a", "n", &json!({"cpu": "300m"}));
    pod["spec"]["initContainers"] = json!([
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"resources": {"requests": {"cpu": "700m"}}},
    ]);
    pod["spec"]["overhead"] = json!({"cpu": "50m"});
    let (requests, bad) = requests::of(&pod);
    assert_eq!((requests["cpu"], bad), (950_000_000, 0));
    pod["spec"]["resources"] = json!({"requests": {"cpu": "400m"}});
    assert_eq!(requests::of(&pod).0["cpu"], 450_000_000);
}

#[test]
fn pods_of_others_do_not_make_us_guilty() {
    let mut other = pod("o", "n", &json!({"cpu": "5"}));
    other["spec"]["schedulerName"] = "other".into();
    let ours = pod("a", "n", &json!({"memory": "1Mi"}));
    let options = CheckOptions {
        scheduler: Some("s".to_owned()),
        ..CheckOptions::default()
    };
    let state = check(&[node("n")], &[other.clone(), ours], &options);
    assert_eq!((state.pods, state.is_sound()), (1, true));
    let guilty = pod("a", "n", &json!({"cpu": "1m"}));
    assert_eq!(resources(&check(&[node("n")], &[other, guilty], &options)), ["cpu"]);
}

#[test]
fn pods_on_their_way_out_keep_their_room_and_are_counted_apart() {
    let mut leaving = pod("a", "n", &json!({"cpu": "600m"}));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut never_placed = pod("b", "", &json!({}));
    never_placed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let pods = [leaving, never_placed, pod("c", "n", &json!({"cpu": "600m"}))];
    let state = check(&[node("n")], &pods, &CheckOptions::default());
    assert_eq!((state.pods, state.bound, state.terminating, state.lost), (3, 2, 2, 0));
    assert_eq!(resources(&state), ["cpu"]);
}
