//! Volume requests before a bind, and the wait for what comes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use supercargo_apiserver::faults::FaultAction;
use supercargo_config::Settings;

use super::kit::*;
use crate::framework::VolumeRequest;
use crate::ids::Symbol;
use crate::sync::Mutex;
use crate::testing::pod;

/// A volume on the server; its resource version.
fn add_volume(kit: &Kit, name: &str) -> String {
    let object = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}}});
    kit.server.store().insert_raw("", "persistentvolumes", object).unwrap();
    text(&volume(kit, name)["metadata"]["resourceVersion"])
}

fn volume(kit: &Kit, name: &str) -> Value {
    kit.server
        .store()
        .get("", "persistentvolumes", "", name)
        .unwrap()
        .value()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn bind(volume: &str, version: &str) -> VolumeRequest {
    VolumeRequest::BindVolume {
        volume: volume.into(),
        resource_version: version.into(),
        namespace: Symbol::new("default"),
        claim: "c".into(),
        claim_uid: "uid-c".into(),
        claim_version: "1".into(),
        by_controller: true,
    }
}

fn work(requests: Vec<VolumeRequest>, timeout: Duration) -> Arc<Work> {
    Arc::new(Work {
        requests,
        timeout,
        done: AtomicBool::new(false),
        applied: Mutex::default(),
    })
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_are_written_and_the_wait_holds_no_slot() {
    let settings = Settings {
        max_assumed_pods: 1,
        ..settings()
    };
    let kit = Kit::with(settings).await;
    let version = add_volume(&kit, "pv");
    let work = work(vec![bind("pv", &version)], LONG);
    *kit.script.work.lock() = Some(Arc::clone(&work));
    kit.create(&pod("p"));
    kit.submit(&[]);
    // The only slot is free again although the pod waits.
    let pool = Arc::clone(&kit.pool);
    let slot = tokio::task::spawn_blocking(move || pool.acquire_slot()).await.unwrap();
    assert!(slot.is_some());
    assert_eq!(kit.node_of("p"), "");
    let written = volume(&kit, "pv");
    assert_eq!(written["spec"]["claimRef"]["uid"], "uid-c");
    assert_eq!(
        written["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"],
        "yes"
    );
    assert_eq!(
        *work.applied.lock(),
        [(0, text(&written["metadata"]["resourceVersion"]))]
    );
    work.done.store(true, Ordering::Relaxed);
    kit.pool.volumes_changed();
    drop(slot);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    kit.assert_quiet();
}

#[tokio::test]
async fn a_volume_that_changed_meanwhile_is_refused() {
    let kit = Kit::new().await;
    let version = add_volume(&kit, "pv1");
    add_volume(&kit, "pv2");
    let work = work(vec![bind("pv1", &version), bind("pv2", &version)], LONG);
    *kit.script.work.lock() = Some(Arc::clone(&work));
    let info = kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.promise(&info)), ("", None));
    assert_eq!(work.applied.lock().len(), 1);
    let [_, _, message] = kit.condition("p").unwrap();
    assert!(
        message.starts_with("running PreBind plugin \"Actor\": Refused("),
        "{message}"
    );
    assert!(volume(&kit, "pv2")["spec"]["claimRef"].is_null());
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_reading_the_object() {
    let kit = Kit::new().await;
    let version = add_volume(&kit, "pv");
    let work = work(vec![bind("pv", &version)], LONG);
    work.done.store(true, Ordering::Relaxed);
    *kit.script.work.lock() = Some(Arc::clone(&work));
    kit.fault("patch", "persistentvolumes", FaultAction::ResetAfter, 1);
    kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    let now = text(&volume(&kit, "pv")["metadata"]["resourceVersion"]);
    assert_eq!(*work.applied.lock(), [(0, now)]);
}

#[tokio::test]
async fn a_wait_ends_in_time_or_with_its_pod() {
    let kit = Kit::new().await;
    let brief = work(Vec::new(), Duration::ZERO);
    *kit.script.work.lock() = Some(brief);
    kit.create(&pod("p"));
    kit.submit(&[]);
    kit.settled().await;
    let kit = Kit::new().await;
    *kit.script.work.lock() = Some(work(Vec::new(), LONG));
    let info = kit.create(&pod("q"));
    kit.submit(&[]);
    kit.cluster.remove_pod(info.uid);
    kit.pool.pod_removed(&info);
    kit.settled().await;
    assert_eq!((kit.node_of("q").as_str(), kit.promise(&info)), ("", None));
    kit.assert_quiet();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_volumes_and_says_nothing_of_their_pods() {
    let kit = Kit::new().await;
    *kit.script.work.lock() = Some(work(Vec::new(), LONG));
    let info = kit.create(&pod("p"));
    kit.submit(&[]);
    let drained = tokio::time::timeout(LONG / 2, kit.pool.drain(LONG));
    assert!(drained.await.is_ok());
    assert_eq!((kit.node_of("p").as_str(), kit.promise(&info)), ("", None));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    assert!(kit.condition("p").is_none() && kit.events().is_empty());
    kit.assert_quiet();
}
