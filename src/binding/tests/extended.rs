//! Binds by extenders.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use supercargo_config::extender::Extender as ExtenderConfig;
use tokio::sync::Notify;

use super::kit::*;
use crate::extender::Extenders;
use crate::extender::tests::kit::{Reply, Webhook, extender, managing, metrics, nobody};
use crate::testing::pod;

fn binding(url: &str) -> ExtenderConfig {
    ExtenderConfig {
        bind_verb: "bind".to_owned(),
        ..extender(url)
    }
}

async fn kit(config: ExtenderConfig) -> Kit {
    let extenders = Extenders::new(&[config], &metrics()).unwrap();
    Kit::extended(settings(), Arc::new(extenders)).await
}

#[tokio::test]
async fn an_extender_binds_in_the_place_of_the_plugins() {
    let hook = Webhook::start(|_, _| Reply::Json(json!({}))).await;
    let kit = kit(binding(&hook.url)).await;
    kit.script.panic_in_bind.store(true, Ordering::Relaxed);
    let info = kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(
        hook.calls(),
        [(
            "bind".to_owned(),
            json!({"PodName": "p", "PodNamespace": "default", "PodUID": &*info.uid_text, "Node": "n1"})
        )]
    );
    assert_eq!(kit.events()[0].0, "Scheduled");
    assert_eq!(*kit.script.post_bound.lock(), [info.uid]);
    assert_eq!(kit.queue.totals().bound, 1);
    kit.assert_quiet();
}

#[tokio::test]
async fn a_pod_that_it_does_not_manage_is_bound_by_the_plugins() {
    let hook = Webhook::start(|_, _| Reply::Hang).await;
    let kit = kit(managing(binding(&hook.url), &["example.com/card"])).await;
    kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    assert!(hook.calls().is_empty());
    kit.assert_quiet();
}

#[tokio::test]
async fn a_refusal_is_an_error_and_gives_the_room_back() {
    let hook = Webhook::start(|_, _| Reply::Json(json!({"Error": "no card left"}))).await;
    let kit = kit(binding(&hook.url)).await;
    let info = kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!((kit.node_of("p").as_str(), kit.promise(&info)), ("", None));
    let expected = ["False", "SchedulerError", "no card left"].map(str::to_owned);
    assert_eq!(kit.condition("p"), Some(expected));
    assert_eq!(*kit.script.unreserved.lock(), [info.uid]);
    kit.assert_quiet();
}

#[tokio::test]
async fn an_ignorable_one_that_is_not_there_leaves_the_bind_to_the_plugins() {
    let mut config = binding(&nobody().await);
    config.ignorable = true;
    let kit = kit(config).await;
    kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    kit.assert_quiet();
}

/// The answer was lost: the pod is bound, as reading it shows, and is not bound again.
#[tokio::test]
async fn an_extender_that_binds_and_does_not_answer_has_bound() {
    for ignorable in [false, true] {
        let bound = Arc::new(Notify::new());
        let seen = Arc::clone(&bound);
        let hook = Webhook::start(move |_, _| Reply::FailAfter(Arc::clone(&seen))).await;
        let mut config = binding(&hook.url);
        config.ignorable = ignorable;
        let kit = kit(config).await;
        kit.create(&pod("p"));
        kit.submit(&[]);
        while hook.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        kit.server.store().bind_to("default", "p", "n1").unwrap();
        bound.notify_one();
        kit.written().await;
        assert_eq!(kit.node_of("p"), "n1");
        assert_eq!(kit.queue.totals().bound, 1);
        assert!(kit.script.unreserved.lock().is_empty());
        kit.assert_quiet();
    }
}

/// More pods hang at the extender than there are places; others are bound all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extender_that_hangs_holds_up_its_own_pods_only() {
    let hook = Webhook::start(|_, _| Reply::Hang).await;
    let mut config = managing(binding(&hook.url), &["example.com/card"]);
    config.http_timeout = Duration::from_secs(600);
    let extenders = Extenders::new(&[config], &metrics()).unwrap();
    let settings = supercargo_config::Settings {
        binding_concurrency: 1,
        max_assumed_pods: 1,
        extender_concurrency: 1,
        ..settings()
    };
    let kit = Kit::extended(settings, Arc::new(extenders)).await;
    for name in ["card-a", "card-b", "card-c"] {
        kit.create(&pod(name).request("example.com/card", "1"));
        kit.submit(&[]);
    }
    kit.create(&pod("plain"));
    kit.submit(&[]);
    while kit.node_of("plain").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(kit.node_of("card-a"), "");
    kit.pool.drain(Duration::ZERO).await;
    kit.assert_quiet();
}
