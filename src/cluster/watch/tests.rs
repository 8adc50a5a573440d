//! Decoding against the rules for requests, ports, images, features and bad input.

mod owners;
mod requests;

use super::*;
use crate::cluster::{Effect, LabelVisibility, NodeSpec, Taint, TolerationOp, Unsupported};
use crate::ids::Symbol;
use crate::resources::{Protocol, Resource};
use crate::testing::{PodBuilder, node, pod};
use serde_json::{Value, json};

/// A pod on a node with one container: desired, allocated and actual CPU.
fn resized(spec: &str, allocated: Option<&str>, actual: Option<&str>, infeasible: bool) -> PodBuilder {
    let mut status = json!({"name": "main"});
    if let Some(allocated) = allocated {
        status["allocatedResources"] = json!({"cpu": allocated});
    }
    if let Some(actual) = actual {
        status["resources"] = json!({"requests": {"cpu": actual}});
    }
    let builder = pod("a").on("n").request("cpu", spec);
    let builder = builder.field(&["status", "containerStatuses"], json!([status]));
    if infeasible {
        builder.condition("PodResizePending", "True", "Infeasible", "")
    } else {
        builder.condition("PodResizePending", "True", "Deferred", "")
    }
}

#[test]
fn objects_of_the_wrong_shape_name_object_and_field() {
    let mut errors = Vec::new();
    let wrong: [(&[&str], Value); 5] = [
        (&["spec", "containers"], json!("x")),
        (&["spec", "priority"], json!(3_000_000_000_u64)),
        (&["spec", "tolerations"], json!([{"key": "a"}, {"key": 1}])),
        (&["metadata", "labels"], json!({"a": 1})),
        (&["status", "startTime"], json!("yesterday")),
    ];
    for (path, value) in wrong {
        let error = pod("p").field(path, value).decode().unwrap_err();
        assert_eq!((&*error.namespace, &*error.name), ("default", "p"));
        errors.push(error.path);
    }
    let paths: Vec<&str> = errors.iter().map(|path| &**path).collect();
    assert_eq!(
        paths,
        [
            "spec.containers",
            "spec.priority",
            "spec.tolerations[1].key",
            "metadata.labels.a",
            "status.startTime"
        ]
    );
    let error = DecodedPod::from_json("{").unwrap_err();
    assert!(error.to_string().starts_with("pod (name unknown): "), "{error}");
    let error = pod("p").field(&["metadata", "uid"], Value::Null).decode().unwrap_err();
    assert_eq!(&*error.path, "metadata.uid");
}

#[test]
fn host_ports_are_normalised_and_ordinary_init_containers_have_none() {
    let port = |n: u32| json!([{"containerPort": n, "hostPort": n}]);
    let init = json!([
        {"name": "i", "ports": port(1)},
        {"name": "s", "restartPolicy": "Always", "ports": port(2)},
    ]);
    let built = pod("a")
        .field(&["spec", "initContainers"], init)
        .host_port_on("127.0.0.1", "UDP", 3)
        .build();
    let ports: Vec<_> = built
        .spec
        .ports
        .iter()
        .map(|p| (p.ip.as_str(), p.protocol, p.port))
        .collect();
    assert_eq!(ports, [("0.0.0.0", Protocol::Tcp, 2), ("127.0.0.1", Protocol::Udp, 3)]);
    let error = pod("a")
        .field(&["spec", "containers"], json!([{"ports": port(65536)}]))
        .decode()
        .unwrap_err();
    assert_eq!(&*error.path, "spec.containers[0].ports[0].hostPort");
}

#[test]
fn images_get_the_tag_that_nodes_report() {
    let volumes = json!([{"name": "v", "image": {"reference": "host:5000/x"}}, {"name": "w", "emptyDir": {}}]);
    let init = json!([{"image": "a/b@sha256:0"}]);
    let built = pod("a")
        .image("nginx")
        .field(&["spec", "initContainers"], init)
        .field(&["spec", "volumes"], volumes)
        .build();
    let images: Vec<_> = built.spec.images.iter().map(|image| image.as_str()).collect();
    assert_eq!(images, ["a/b@sha256:0", "nginx:latest", "host:5000/x:latest"]);
    assert_eq!(built.spec.container_count, 2);
}

#[test]
fn features_are_inferred_from_the_spec() {
    let rules = json!([{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]);
    let built = pod("a")
        .field(&["spec", "containers"], rules)
        .field(&["spec", "hostNetwork"], true)
        .field(&["spec", "hostUsers"], false)
        .build();
    let mut names: Vec<_> = built.spec.required_features.iter().map(|f| f.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "RestartAllContainersOnContainerExits",
            "UserNamespacesHostNetworkSupport"
        ]
    );
    assert!(
        pod("a")
            .field(&["spec", "hostUsers"], false)
            .build()
            .spec
            .required_features
            .is_empty()
    );
}

#[test]
fn parts_beyond_this_release_are_marked() {
    let marked = |path: &[&str], value: Value| pod("a").field(path, value).build().spec.unsupported.to_vec();
    assert_eq!(
        marked(&["spec", "resourceClaims"], json!([{"name": "c"}])),
        [Unsupported::ResourceClaims]
    );
    assert_eq!(
        marked(&["spec", "schedulingGroup"], json!({"podGroupName": "g"})),
        [Unsupported::SchedulingGroup]
    );
}

#[test]
fn a_pod_keeps_what_the_queue_and_preemption_ask_for() {
    let built = pod("a")
        .gate("one")
        .gate("two")
        .priority(7)
        .never_preempts()
        .nominated("n")
        .terminating()
        .resource_version(12)
        .started("2026-01-01T00:00:00.5Z")
        .condition("PodScheduled", "False", "Unschedulable", "0/1 nodes")
        .condition("DisruptionTarget", "True", "PreemptionByScheduler", "")
        .toleration("k", "", "v", "NoExecute")
        .toleration("", "Gt", "1", "")
        .build();
    assert_eq!(built.gates.iter().map(|g| &**g).collect::<Vec<_>>(), ["one", "two"]);
    assert!(built.spec.never_preempts && built.terminating && built.preempted && !built.terminal);
    assert_eq!((built.priority(), &*built.resource_version), (7, "12"));
    assert_eq!(built.start_time_micros, Some(1_767_225_600_500_000));
    assert_eq!(built.condition.as_ref().map(|c| &*c.message), Some("0/1 nodes"));
    let [first, second] = &*built.spec.tolerations else {
        panic!("two tolerations")
    };
    assert_eq!((first.op, first.effect), (TolerationOp::Equal, Some(Effect::NoExecute)));
    assert_eq!(
        (second.key, second.op, second.effect),
        (None, TolerationOp::Never, None)
    );
    assert_eq!(built.bound_to, None);
    assert_eq!(pod("b").on("n").build().bound_to, Some(Symbol::new("n")));
    let asking = pod("c").asking_for("n").build();
    assert_eq!((asking.bound_to, asking.spec.node_name), (None, Some(Symbol::new("n"))));
}

#[test]
fn absent_and_empty_selectors_differ() {
    assert_eq!(pod("a").build().spec.node_selector, None);
    let empty = pod("a").field(&["spec", "nodeSelector"], json!({})).build();
    assert!(empty.spec.node_selector.as_ref().is_some_and(|s| s.is_empty()));
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {"weight": 1, "preference": {}},
    ]}});
    let built = pod("a").field(&["spec", "affinity"], affinity).build();
    assert_eq!(built.spec.preferred_node_affinity.as_deref(), Some(&[][..]));
    assert_eq!(built.spec.required_node_affinity, None);
}

#[test]
fn a_node_is_compiled_whole() {
    let spec = node("n1")
        .cpu(1500)
        .memory_gi(2)
        .pods(10)
        .allocatable("example.com/gpu", "3")
        .allocatable("storage", "7")
        .taint("k", "", "NoSchedule")
        .unschedulable()
        .image("b:1", 5)
        .declared_feature("F")
        .condition("Ready", "True")
        .annotation("a", "b")
        .build();
    let gpu = Resource::parse("example.com/gpu").unwrap();
    assert_eq!(spec.allocatable.pods, 10);
    assert_eq!(spec.allocatable.resources.milli_cpu, 1500);
    assert_eq!(spec.allocatable.resources.memory, 2 << 30);
    assert_eq!(spec.allocatable.resources.get(gpu), 3);
    assert_eq!(
        &*spec.taints,
        &[Taint {
            key: Symbol::new("k"),
            value: Symbol::new(""),
            effect: Effect::NoSchedule
        }]
    );
    assert!(spec.unschedulable && spec.annotations_hash != 0);
    assert_eq!(&*spec.declared_features, &[Symbol::new("F")]);
    assert_eq!(spec.images.len(), 1);
    let bare = decode_node(r#"{"metadata":{"name":"x"},"spec":null,"status":{"images":null}}"#).unwrap();
    let expected = NodeSpec {
        name: Some(Symbol::new("x")),
        ..Default::default()
    };
    assert_eq!(bare, expected);
}

#[test]
fn budgets_cover_labelled_pods_of_their_namespace() {
    let budget = |spec: Value| {
        let object = json!({
            "metadata": {"name": "b", "namespace": "default"},
            "spec": spec,
            "status": {"disruptionsAllowed": 2, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}},
        });
        decode_budget(&object.to_string()).unwrap()
    };
    let a = pod("a").label("app", "a").build();
    let covering = budget(json!({"selector": {"matchLabels": {"app": "a"}}}));
    assert_eq!(covering.allowed, 2);
    assert!(covering.covers(&a));
    assert!(!covering.covers(&pod("gone").label("app", "a").build()));
    assert!(!covering.covers(&pod("a").namespace("x").label("app", "a").build()));
    assert!(!budget(json!({"selector": {}})).covers(&a));
    assert!(!budget(json!({})).covers(&a));
    let wrong = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}});
    assert!(!budget(wrong).covers(&a));
    assert!(
        !budget(json!({"selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}))
            .covers(&pod("a").build())
    );
}

#[test]
fn a_budget_with_both_fields_counts_by_its_status() {
    let object = json!({
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": "50%", "maxUnavailable": 7},
        "status": {"disruptionsAllowed": 3},
    });
    let budget = decode_budget(&object.to_string()).unwrap();
    assert_eq!(budget.allowed, 3);
    assert!(budget.covers(&pod("a").label("app", "a").build()));
}

#[test]
fn priorities_are_taken_up_to_the_limits_of_their_type() {
    for priority in [i32::MIN, -1, 0, 2_000_001_000, i32::MAX] {
        assert_eq!(pod("p").priority(priority).build().priority(), priority);
    }
    for priority in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
        let refused = pod("p").field(&["spec", "priority"], priority).decode().unwrap_err();
        assert!(refused.to_string().contains("spec.priority"), "{refused}");
    }
}

#[test]
fn terms_without_namespaces_mean_the_pods_own() {
    let required = [
        "spec",
        "affinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    let term = |namespaces: Value, selector: Value| {
        let term = json!({
            "topologyKey": "zone", "labelSelector": {}, "namespaces": namespaces, "namespaceSelector": selector,
        });
        let pod = pod("p").namespace("own").field(&required, json!([term])).build();
        pod.spec.affinity.as_deref().unwrap().required_anti_affinity[0].clone()
    };
    let red: crate::cluster::Labels = [("team", "red")].into_iter().collect();
    let blue: crate::cluster::Labels = [("team", "blue")].into_iter().collect();
    let team = json!({"matchLabels": {"team": "red"}});
    let named = json!(["a"]);
    // Whether the term reaches the own namespace (blue), `a` (blue) and `b` (red).
    let table = [
        (json!(null), json!(null), [true, false, false]),
        (json!([]), json!(null), [true, false, false]),
        (named.clone(), json!(null), [false, true, false]),
        (json!([]), json!({}), [true, true, true]),
        (json!(null), team.clone(), [false, false, true]),
        (named, team, [false, true, true]),
    ];
    for (namespaces, selector, reached) in table {
        let term = term(namespaces.clone(), selector.clone());
        let reaches = |namespace: &str, labels| {
            term.matches(Symbol::new(namespace), &crate::cluster::Labels::default(), Some(labels))
        };
        let seen = [reaches("own", &blue), reaches("a", &blue), reaches("b", &red)];
        assert_eq!(seen, reached, "{namespaces} {selector}");
    }
}

#[test]
fn wrong_selectors_between_pods_are_kept_as_an_error_and_select_nobody() {
    let wrong = [
        json!({"matchLabels": {"app": "two words"}}),
        json!({"matchLabels": {"a/b/c": "x"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}),
    ];
    for selector in wrong {
        for side in ["podAffinity", "podAntiAffinity"] {
            let required = [
                "spec",
                "affinity",
                side,
                "requiredDuringSchedulingIgnoredDuringExecution",
            ];
            let term = json!([{"topologyKey": "zone", "labelSelector": selector}]);
            let pod = pod("p").field(&required, term).build();
            let affinity = pod.spec.affinity.as_deref().unwrap();
            assert!(affinity.error.is_some(), "{side} {selector}");
            assert!(affinity.required_anti_affinity.is_empty(), "{side} {selector}");
        }
        let constraint = json!([{"maxSkew": 1, "topologyKey": "zone", "labelSelector": selector}]);
        let pod = pod("p")
            .field(&["spec", "topologySpreadConstraints"], constraint)
            .build();
        assert!(pod.spec.spread[0].error.is_some(), "{selector}");
    }
}

#[test]
fn pods_of_one_template_share_spec_and_class() {
    let classes = ClassTable::new(LabelVisibility::All);
    let (a, b) = (pod("a").cpu(1).build_in(&classes), pod("b").cpu(1).build_in(&classes));
    assert_eq!(a.class, b.class);
    assert!(std::sync::Arc::ptr_eq(&a.spec, &b.spec));
    let decoded = decode_pod(&pod("c").cpu(2).json().to_string(), &classes).unwrap();
    assert_ne!(decoded.class, a.class);
}

/// Replaces the `at`-th value of an object, counted in depth, with another.
fn replace_nth(value: &mut Value, at: &mut usize, with: &Value) -> bool {
    if *at == 0 {
        value.clone_from(with);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace_nth(item, at, with)),
        Value::Object(members) => members.iter_mut().any(|(_, member)| replace_nth(member, at, with)),
        _ => false,
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Whatever stands in one field of an object: it is decoded or refused with the field's path, nothing else.
    #[test]
    fn no_value_of_any_field_breaks_decoding(at in 0_usize..90, which in 0_usize..12) {
        let with = [
            json!(null), json!(true), json!(-1), json!(1e300), json!(u64::MAX), json!(""), json!("9e99999"),
            json!("\u{0}é"), json!([]), json!([null]), json!({}), json!({"cpu": "-5", "\"]": {}}),
        ][which].clone();
        let mut pod = resized("1", Some("2"), Some("2"), true)
            .host_port(80)
            .toleration("a", "Exists", "", "NoSchedule")
            .require_node("a", "Gt", &["1"])
            .prefer_node(3, "a", "In", &["b"])
            .overhead("memory", "1Gi")
            .pod_level("cpu", "3")
            .started("2026-01-01T00:00:00Z")
            .label("a", "b")
            .json()
            .clone();
        let mut left = at;
        replace_nth(&mut pod, &mut left, &with);
        if let Err(error) = DecodedPod::from_json(&pod.to_string()) {
            proptest::prop_assert!(!error.message.is_empty());
            proptest::prop_assert!(at == 0 || !error.path.is_empty(), "{}", error);
        }
        let mut node = node("n").cpu(1).taint("a", "b", "c").image("x", 1).annotation("k", "v").json().clone();
        let mut left = at;
        replace_nth(&mut node, &mut left, &with);
        if let Err(error) = decode_node(&node.to_string()) {
            proptest::prop_assert!(at == 0 || !error.path.is_empty(), "{}", error);
        }
    }
}
