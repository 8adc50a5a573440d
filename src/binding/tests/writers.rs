//! Conditions, nominations and events.

use std::time::Duration;

use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_config::Settings;

use super::kit::*;
use crate::binding::Failure;
use crate::binding::write::is_there;
use crate::client::{ClientOptions, ClientSet, Source};
use crate::clock::Nanos;
use crate::framework::NominatedNode;
use crate::ids::Symbol;
use crate::testing::pod;

impl Kit {
    /// Takes the next pod and fails it.
    fn fail(&self, text: &str, nomination: NominatedNode) {
        let queued = self.queue.try_pop().unwrap();
        self.failures
            .fail(queued, Nanos(0), Failure::Error(text.to_owned()), nomination);
    }

    /// Until the failed pod is ready again.
    fn wait_out_backoff(&self) {
        self.clock.advance(Duration::from_secs(20));
        self.queue.flush_backoff();
    }

    fn version(&self, name: &str) -> String {
        self.pod(name)["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

#[tokio::test]
async fn an_equal_condition_is_not_written_again() {
    let kit = Kit::new().await;
    kit.create(&pod("p").field(&["metadata", "generation"], 3));
    kit.fail("no", NominatedNode::Clear);
    kit.failures.status.idle().await;
    let first = kit.version("p");
    let condition = kit.pod("p")["status"]["conditions"][0].clone();
    assert_eq!(condition["observedGeneration"], 3);
    let since = condition["lastTransitionTime"].clone();
    assert!(since.is_string());

    kit.watch("p");
    kit.wait_out_backoff();
    kit.fail("no", NominatedNode::Clear);
    kit.failures.status.idle().await;
    assert_eq!(kit.version("p"), first);

    kit.wait_out_backoff();
    kit.fail("still no", NominatedNode::Clear);
    kit.failures.status.idle().await;
    let condition = kit.pod("p")["status"]["conditions"][0].clone();
    assert_eq!(condition["message"], "still no");
    assert_eq!(condition["lastTransitionTime"], since, "the status is the same");
}

#[tokio::test]
async fn a_nomination_comes_goes_and_stays_as_told() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    for (told, expected) in [
        (NominatedNode::Set(Symbol::new("n2")), Some("n2")),
        (NominatedNode::Keep, Some("n2")),
        (NominatedNode::Clear, None),
    ] {
        kit.fail("no", told);
        kit.failures.status.idle().await;
        assert_eq!(
            kit.pod("p")["status"]["nominatedNodeName"].as_str(),
            expected,
            "{told:?}"
        );
        kit.watch("p");
        kit.wait_out_backoff();
    }
}

#[tokio::test]
async fn a_condition_of_a_pod_re_created_under_the_name_is_not_touched() {
    let kit = Kit::new().await;
    let successor = pod("p").uid("00000000-0000-0000-0000-0000000000bb");
    kit.server
        .store()
        .insert_raw("", "pods", successor.json().clone())
        .unwrap();
    kit.see(&pod("p"));
    kit.fail("no", NominatedNode::Clear);
    kit.written().await;
    assert_eq!(kit.condition("p"), None);
    // The write is refused, and the pod that it was for is looked for before anybody is troubled.
    let options = ClientOptions {
        source: Source::Address(kit.server.url()),
        rate: None,
        binds_in_flight: 1,
    };
    let client = ClientSet::new(&options, None).unwrap().watch;
    let there = is_there(&client, &pod("p").build()).await;
    let successor = is_there(&client, &successor.build()).await;
    assert_eq!((there, successor), (Ok(false), Ok(true)));
}

#[tokio::test]
async fn no_condition_of_an_earlier_attempt_lands_on_a_bound_pod() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    let slow = FaultRule::on("patch", "pods/status").delayed(Duration::from_millis(50));
    kit.server.faults().add(slow).unwrap();
    kit.fail("no", NominatedNode::Clear);
    kit.wait_out_backoff();
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(kit.node_of("p"), "n1");
    let status = kit.condition("p").map(|[status, ..]| status);
    assert_ne!(status.as_deref(), Some("False"));
}

#[tokio::test]
async fn a_failure_that_repeats_is_one_event_with_a_series() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    for _ in 0..3 {
        kit.fail("no room", NominatedNode::Clear);
        kit.wait_out_backoff();
    }
    kit.written().await;
    assert_eq!(kit.events(), [("FailedScheduling".to_owned(), "no room".to_owned())]);
    let event = kit.server.store().values("events.k8s.io", "events").unwrap().remove(0);
    assert_eq!(
        event["series"]["count"], 2,
        "told at the first repeat, then once a minute"
    );
    assert_eq!(event["reportingComponent"], "default-scheduler");
    assert_eq!(
        (&event["type"], &event["action"]),
        (&"Warning".into(), &"Scheduling".into())
    );
}

#[tokio::test]
async fn events_that_are_too_many_are_dropped_and_counted_and_binds_go_on() {
    let kit = Kit::with(Settings {
        event_queue_length: 2,
        event_concurrency: 1,
        ..settings()
    })
    .await;
    let busy = FaultAction::Status {
        code: 429,
        retry_after_seconds: Some(1),
    };
    kit.fault("create", "events", busy, 2);
    for name in ["a", "b", "c", "d", "e", "f"] {
        kit.create(&pod(name));
        kit.submit(&[]);
    }
    kit.settled().await;
    assert_eq!(kit.queue.totals().bound, 6);
    kit.written().await;
    let page = kit.metrics.exposition();
    let dropped: f64 = page
        .lines()
        .find_map(|line| line.strip_prefix("supercargo_events_dropped_total "))
        .and_then(|value| value.parse().ok())
        .unwrap();
    assert!((1.0..=4.0).contains(&dropped), "{dropped}");
    let written = kit.events().len();
    #[expect(clippy::cast_precision_loss, reason = "at most 6")]
    let all = written as f64 + dropped;
    assert!((all - 6.0).abs() < f64::EPSILON, "{written} written, {dropped} dropped");
}

#[tokio::test]
async fn a_deleting_pod_is_skipped_with_its_own_note() {
    let kit = Kit::new().await;
    kit.create(&pod("p").terminating());
    let queued = kit.queue.try_pop().unwrap();
    kit.failures.skip_deleting(&queued);
    kit.written().await;
    assert_eq!(
        kit.events(),
        [(
            "FailedScheduling".to_owned(),
            "skip schedule deleting pod: default/p".to_owned()
        )]
    );
    assert_eq!(kit.counts(), [0, 0, 0]);
}
