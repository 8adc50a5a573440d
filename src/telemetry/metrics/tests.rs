//! The page: names, labels, buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::exposition::{AllowedValues, Exposition};
use super::super::labels::{
    AttemptResult, CacheKind, EngineMode, EvaluationPoint, ExtensionPoint, HealthEndpoint, HealthOutcome, HintOutcome,
    HttpVerb, QueueKind, StatusLabel,
};
use super::{FeatureState, Metrics, MetricsOptions, split_index, table_index};

fn metrics() -> Arc<Metrics> {
    let metrics = Metrics::new(&MetricsOptions {
        profiles: vec!["default-scheduler".to_owned(), "batch".to_owned()],
        plugins: vec!["NodeName".to_owned(), "NodeResourcesFit".to_owned()],
        features: vec![FeatureState {
            name: "GangScheduling".to_owned(),
            stage: "ALPHA".to_owned(),
            enabled: false,
        }],
        exposition: Exposition::default(),
    });
    metrics.set_api_server("127.0.0.1:6443");
    Arc::new(metrics)
}

fn lines<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.starts_with(start)).collect()
}

#[test]
fn attempts_are_counted_and_timed_with_kube_schedulers_names_and_buckets() {
    let metrics = metrics();
    metrics.schedule_attempt(0, AttemptResult::Scheduled, Duration::from_millis(3));
    metrics.schedule_attempt(1, AttemptResult::Unschedulable, Duration::from_millis(1));
    metrics.schedule_attempt(usize::MAX, AttemptResult::Error, Duration::from_millis(1));
    let page = metrics.exposition();
    assert_eq!(
        lines(&page, "scheduler_schedule_attempts_total"),
        [
            r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1"#,
            r#"scheduler_schedule_attempts_total{profile="batch",result="unschedulable"} 1"#,
        ]
    );
    assert!(page.contains("# TYPE scheduler_schedule_attempts_total counter\n"));
    let buckets = lines(
        &page,
        r#"scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled""#,
    );
    assert_eq!(buckets.len(), 16);
    assert_eq!(
        buckets.get(1..3).unwrap(),
        [
            r#"scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="0.002"} 0"#,
            r#"scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="0.004"} 1"#,
        ]
    );
}

#[test]
fn every_recorder_writes_its_family() {
    let metrics = metrics();
    let event = metrics.event("NodeAdd");
    let millis = Duration::from_millis(1);
    metrics.scheduling_algorithm(millis);
    metrics.pod_scheduled(20, millis);
    metrics.pod_scheduled_after_flush();
    metrics.permit_wait(StatusLabel::Unschedulable, millis);
    metrics.preemption_attempt();
    metrics.preemption_victims(3);
    metrics.extension_point(1, ExtensionPoint::Filter, StatusLabel::Success, millis);
    metrics.plugin_execution(1, ExtensionPoint::Score, StatusLabel::Skip, millis);
    for members in [
        vec![(1, EvaluationPoint::PreScore)],
        vec![(0, EvaluationPoint::Filter), (1, EvaluationPoint::PreScore)],
    ] {
        let set = metrics.evaluation_set(0, members.clone());
        assert_eq!(metrics.evaluation_set(0, members), set);
        metrics.plugins_evaluated(set);
    }
    metrics.pending_pods_add(QueueKind::Gated, 4);
    metrics.queue_incoming(QueueKind::Backoff, event, 2);
    metrics.inflight_events_add(event, 7);
    metrics.unschedulable_pods_add(1, 0, 5);
    metrics.queueing_hint(0, event, HintOutcome::QueueSkip, millis);
    metrics.event_handled(event, millis);
    metrics.cache_size(CacheKind::AssumedPods, 9);
    metrics.api_request(HttpVerb::Post, Some(201), millis);
    metrics.api_request(HttpVerb::Get, None, millis);
    metrics.leader("kube-scheduler", true);
    let slow = Arc::new(AtomicU64::new(1));
    metrics.leader_slow_path("kube-scheduler", &slow);
    slow.store(2, Ordering::Relaxed);
    metrics.health_check("ping", HealthEndpoint::Livez, HealthOutcome::Success);
    metrics.engine_evaluation(EngineMode::Incremental, millis);
    metrics.object_malformed("Pod");
    metrics.bind_retry("timeout");
    let operation = metrics.operation("binding");
    let _running = metrics.start_operation(operation);
    let page = metrics.exposition();
    for expected in [
        r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"} 1"#,
        "scheduler_pod_scheduling_attempts_bucket{le=\"16\"} 0",
        "scheduler_pod_scheduled_after_flush_total 1",
        r#"scheduler_permit_wait_duration_seconds_count{result="Unschedulable"} 1"#,
        "scheduler_preemption_attempts_total 1",
        "scheduler_preemption_victims_bucket{le=\"4\"} 1",
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="batch",status="Success"} 1"#,
        r#"scheduler_plugin_execution_duration_seconds_count{extension_point="Score",plugin="NodeResourcesFit",status="Skip"} 1"#,
        r#"scheduler_plugin_evaluation_total{extension_point="PreScore",plugin="NodeResourcesFit",profile="default-scheduler"} 2"#,
        r#"scheduler_plugin_evaluation_total{extension_point="Filter",plugin="NodeName",profile="default-scheduler"} 1"#,
        r#"scheduler_pending_pods{queue="gated"} 4"#,
        r#"scheduler_queue_incoming_pods_total{event="NodeAdd",queue="backoff"} 2"#,
        r#"scheduler_inflight_events{event="NodeAdd"} 7"#,
        r#"scheduler_unschedulable_pods{plugin="NodeName",profile="batch"} 5"#,
        r#"scheduler_queueing_hint_execution_duration_seconds_count{event="NodeAdd",hint="QueueSkip",plugin="NodeName"} 1"#,
        r#"scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 1"#,
        r#"scheduler_cache_size{type="assumed_pods"} 9"#,
        r#"scheduler_goroutines{operation="binding"} 1"#,
        r#"rest_client_requests_total{code="201",host="127.0.0.1:6443",method="POST"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="127.0.0.1:6443",method="GET"} 1"#,
        r#"leader_election_master_status{name="kube-scheduler"} 1"#,
        r#"leader_election_slowpath_total{name="kube-scheduler"} 2"#,
        r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
        r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1"#,
        r#"kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 0"#,
        r#"supercargo_engine_evaluations_total{mode="incremental"} 1"#,
        r#"supercargo_objects_malformed_total{kind="Pod"} 1"#,
        r#"supercargo_bind_retries_total{reason="timeout"} 1"#,
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(
            page.lines().any(|line| line == expected),
            "{expected} is not on the page:\n{page}"
        );
    }
    assert!(!metrics.slis_exposition().contains("scheduler_"));
    assert!(metrics.slis_exposition().contains("kubernetes_healthcheck{"));
}

#[test]
fn an_operation_counts_until_its_guard_is_dropped() {
    let metrics = metrics();
    let operation = metrics.operation("binding");
    drop(metrics.start_operation(operation));
    assert!(
        metrics
            .exposition()
            .contains("scheduler_goroutines{operation=\"binding\"} 0\n")
    );
}

#[test]
fn a_tenth_of_the_cycles_time_their_plugins() {
    assert_eq!(
        (0..1000).filter(|random| Metrics::samples_plugins(*random)).count(),
        100
    );
}

#[test]
fn indices_split_as_they_were_joined() {
    assert_eq!(table_index(&[(2, 3), (1, 4), (3, 5)]), Some(48));
    assert_eq!(split_index(48, [4, 5]), (2, [1, 3]));
    assert_eq!(table_index(&[(3, 3), (0, 4)]), None);
}

#[test]
fn disabled_metrics_and_unexpected_values_are_not_shown() {
    let metrics = Arc::new(Metrics::new(&MetricsOptions {
        profiles: vec!["default-scheduler".to_owned(), "batch".to_owned()],
        exposition: Exposition {
            disabled: ["scheduler_pending_pods", "process_cpu_seconds_total"]
                .map(str::to_owned)
                .into(),
            allowed: [
                "scheduler_schedule_attempts_total",
                "scheduler_scheduling_attempt_duration_seconds",
            ]
            .map(|metric| AllowedValues {
                metric: metric.to_owned(),
                label: "profile".to_owned(),
                values: vec!["default-scheduler".to_owned()],
            })
            .into(),
        },
        ..MetricsOptions::default()
    }));
    for profile in [0, 1, 1] {
        metrics.schedule_attempt(profile, AttemptResult::Scheduled, Duration::from_millis(3));
    }
    let page = metrics.exposition();
    assert!(!page.contains("scheduler_pending_pods") && !page.contains("process_cpu_seconds_total"));
    assert!(page.contains("scheduler_preemption_attempts_total 0\n"));
    assert_eq!(
        lines(&page, "scheduler_schedule_attempts_total"),
        [
            r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1"#,
            r#"scheduler_schedule_attempts_total{profile="unexpected",result="scheduled"} 2"#,
        ]
    );
    assert_eq!(
        lines(&page, "scheduler_scheduling_attempt_duration_seconds_sum"),
        [
            r#"scheduler_scheduling_attempt_duration_seconds_sum{profile="default-scheduler",result="scheduled"} 0.003"#,
            r#"scheduler_scheduling_attempt_duration_seconds_sum{profile="unexpected",result="scheduled"} 0.006"#,
        ]
    );
}
