use serde_json::json;

use super::*;

mod history;

fn store() -> Store {
    Store::new(HistoryLimits::default()).unwrap()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn spliced_bind_equals_a_rewritten_one() {
    let store = store();
    let node = json!({"metadata": {"name": "n\"1", "labels": {"topology.kubernetes.io/zone": "z\"\\"}}, "status": {}});
    store.insert_raw("", "nodes", node).unwrap();
    // With an annotation the bind takes the slow path; both must give the same pod.
    let mut bound = Vec::new();
    for (name, annotations) in [("fast", None), ("slow", Some(serde_json::Map::new()))] {
        let mut body = pod(name);
        body["metadata"]["annotations"] = json!({"quote": "\"spec\":{\"status\":{}}", "é": "ü"});
        store.create_as("", "pods", "default", body).unwrap();
        let patch =
            json!({"status": {"nominatedNodeName": "x", "conditions": [{"type": "PodScheduled", "status": "False"}]}});
        let target = WriteTarget::status(&store.pods().unwrap(), "default", name);
        store.patch(&target, PatchKind::Merge, &patch).unwrap();
        let request = json!({"metadata": {"annotations": annotations}, "target": {"name": "n\"1"}});
        let request: BindRequest = serde_json::from_value(request).unwrap();
        let mut value = store.bind("default", name, &request).unwrap().value();
        for key in ["name", "uid", "resourceVersion", "creationTimestamp"] {
            value["metadata"][key] = Value::Null;
        }
        value["status"]["conditions"][0]["lastTransitionTime"] = Value::Null;
        bound.push(value);
    }
    assert_eq!(bound[0], bound[1]);
    assert_eq!(bound[0]["spec"]["nodeName"], "n\"1");
    assert_eq!(bound[0]["metadata"]["labels"]["topology.kubernetes.io/zone"], "z\"\\");
    store.create_as("", "pods", "default", pod("a")).unwrap();
    let bound = store.bind_to("default", "a", "n1").unwrap();
    let value = bound.value();
    assert_eq!(value["spec"]["nodeName"], "n1");
    assert_eq!(value["status"]["phase"], "Pending");
    assert_eq!(value["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(value["metadata"]["resourceVersion"], bound.rv.to_string());
    assert_eq!(&*bound.index.node_name, "n1");
    assert_eq!(store.bind_to("default", "a", "n2").unwrap_err().code, 409);
    assert_eq!(store.bind_to("default", "b", "n2").unwrap_err().code, 404);
}

#[test]
fn pages_show_one_version_whatever_is_written_between() {
    let store = store();
    let pods = store.pods().unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        store.create_as("", "pods", "default", pod(name)).unwrap();
    }
    let query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    let first = pods.list(&query).unwrap();
    store.delete_now("", "pods", "default", "c").unwrap();
    store.create_as("", "pods", "default", pod("bb")).unwrap();
    store.bind_to("default", "d", "n").unwrap();
    let mut names: Vec<String> = first.objects.iter().map(|object| object.name().to_owned()).collect();
    let mut resume = first.next.clone();
    while let Some(token) = resume {
        let page = pods
            .list(&ListQuery {
                resume: Some(token),
                ..query.clone()
            })
            .unwrap();
        assert_eq!(page.rv, first.rv);
        assert!(page.objects.iter().all(|object| object.index.node_name.is_empty()));
        names.extend(page.objects.iter().map(|object| object.name().to_owned()));
        resume = page.next;
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    pods.compact();
    store.create_as("", "pods", "default", pod("f")).unwrap();
    assert_eq!(
        pods.list(&ListQuery {
            resume: first.next,
            ..query
        })
        .unwrap_err()
        .code,
        410
    );
}

#[test]
fn watchers_see_objects_enter_and_leave_a_selection() {
    let store = store();
    let pods = store.pods().unwrap();
    let fields = FieldSelector::parse("spec.nodeName=", &pods.kind).unwrap();
    let selectors = Selectors {
        fields,
        ..Selectors::default()
    };
    let start = WatchStart::After(store.version());
    let mut watcher = Watcher::open(&pods, None, selectors, start).unwrap();
    store.create_as("", "pods", "default", pod("a")).unwrap();
    let bound = store.bind_to("default", "a", "n").unwrap();
    store.delete_now("", "pods", "default", "a").unwrap();
    let Poll::Ready(WatchBatch::Events(items)) = watcher.poll().unwrap() else {
        panic!("events expected")
    };
    let kinds: Vec<EventKind> = items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [EventKind::Added, EventKind::Deleted]);
    let line: Value = serde_json::from_slice(&items[1].line()).unwrap();
    assert_eq!(line["object"]["metadata"]["resourceVersion"], bound.rv.to_string());
    assert!(line["object"]["spec"].get("nodeName").is_none());
}

#[test]
fn a_watcher_that_the_history_left_behind_is_told_so() {
    let store = Store::new(HistoryLimits {
        events: 4,
        bytes: 1 << 20,
    })
    .unwrap();
    let start = store.version();
    for name in ["a", "b", "c", "d", "e", "f"] {
        store.create_as("", "pods", "default", pod(name)).unwrap();
    }
    assert_eq!(store.watch("", "pods", WatchStart::After(start)).unwrap_err().code, 410);
    let mut slow = store.watch("", "pods", WatchStart::Now).unwrap();
    for name in ["g", "h", "i", "j", "k"] {
        store.create_as("", "pods", "default", pod(name)).unwrap();
    }
    assert_eq!(slow.poll().unwrap_err().code, 410);
}

#[test]
fn deletion_waits_for_grace_and_finalizers() {
    let store = store();
    let pods = store.pods().unwrap();
    store.create_as("", "pods", "default", pod("a")).unwrap();
    store.bind_to("default", "a", "n").unwrap();
    let target = WriteTarget::object(&pods, "default", "a");
    let Deleted::Waiting(waiting) = store.delete(&target, &DeleteOptions::default()).unwrap() else {
        panic!("a bound pod waits")
    };
    assert!(waiting.index.deleting);
    assert_eq!(waiting.value()["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        store.delete(&target, &DeleteOptions::now("other")).unwrap_err().code,
        409
    );
    assert!(matches!(
        store.delete(&target, &DeleteOptions::now(waiting.uid())).unwrap(),
        Deleted::Gone(_)
    ));

    let mut held = pod("b");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    store.create_as("", "pods", "default", held).unwrap();
    let target = WriteTarget::object(&pods, "default", "b");
    assert!(matches!(
        store.delete(&target, &DeleteOptions::default()).unwrap(),
        Deleted::Waiting(_)
    ));
    store
        .patch(&target, PatchKind::Merge, &json!({"metadata": {"finalizers": null}}))
        .unwrap();
    assert!(pods.get("default/b").is_none());
}

#[test]
fn spec_of_a_pod_cannot_change_but_its_status_can() {
    let store = store();
    let pods = store.pods().unwrap();
    let created = store.create_as("", "pods", "default", pod("a")).unwrap();
    let mut changed = created.value();
    changed["spec"]["nodeName"] = "n".into();
    let target = WriteTarget::object(&pods, "default", "a");
    assert_eq!(store.update(&target, changed).unwrap_err().code, 422);
    let status = WriteTarget::status(&pods, "default", "a");
    let patch = json!({"spec": {"nodeName": "n"}, "status": {"nominatedNodeName": "n"}});
    let patched = store.patch(&status, PatchKind::Strategic, &patch).unwrap().value();
    assert_eq!(patched["status"]["nominatedNodeName"], "n");
    assert!(patched["spec"].get("nodeName").is_none());
    let unchanged = store.patch(&status, PatchKind::Strategic, &patch).unwrap();
    assert_eq!(
        unchanged.value()["metadata"]["resourceVersion"],
        patched["metadata"]["resourceVersion"]
    );
}

#[test]
fn custom_resources_come_and_go_with_their_definition() {
    let store = store();
    let definition = json!({"metadata": {"name": "links.net.example.com"}, "spec": {"group": "net.example.com", "scope": "Cluster",
        "names": {"plural": "links", "kind": "Link"}, "versions": [{"name": "v1alpha1", "served": true, "storage": true}]}});
    store
        .create_as("apiextensions.k8s.io", "customresourcedefinitions", "", definition)
        .unwrap();
    let link = store
        .create_as(
            "net.example.com",
            "links",
            "",
            json!({"metadata": {"name": "a"}, "spec": {"x": 1}}),
        )
        .unwrap();
    assert_eq!(link.value()["apiVersion"], "net.example.com/v1alpha1");
    let definitions = store
        .resource("apiextensions.k8s.io", "customresourcedefinitions")
        .unwrap();
    let target = WriteTarget::object(&definitions, "", "links.net.example.com");
    let versions = json!({"spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": false},
        {"name": "v1", "served": true, "storage": true}]}});
    store.patch(&target, PatchKind::Merge, &versions).unwrap();
    let link = store.get("net.example.com", "links", "", "a").unwrap().value();
    assert_eq!(
        (&link["apiVersion"], &link["spec"]["x"]),
        (&json!("net.example.com/v1"), &json!(1))
    );
    store
        .delete_now(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "",
            "links.net.example.com",
        )
        .unwrap();
    assert_eq!(store.resource("net.example.com", "links").unwrap_err().code, 404);
}
