//! Defaults and checks of the top level, leader election and client connection.
//!
//! Source: `apis/config/v1/defaults.go`, `apis/config/validation/validation.go`, `component-base/config`.

use std::time::Duration;

use super::check::Cx;
use super::{extenders, profiles};
use crate::duration::GoDuration;
use crate::error::FieldError;
use crate::types::{ClientConnection, Configuration, LeaderElection};
use crate::wire::{WireClientConnection, WireConfiguration, WireLeaderElection};

/// kube-scheduler's default of `parallelism`.
const DEFAULT_PARALLELISM: i32 = 16;

/// The effective configuration. With errors noted in `cx` the result is not to be used.
pub(super) fn check(wire: WireConfiguration, cx: &mut Cx<'_>) -> Configuration {
    let parallelism = cx.ranged(
        "parallelism",
        wire.parallelism.unwrap_or(DEFAULT_PARALLELISM),
        (1, u32::MAX),
        "should be an integer value greater than zero",
    );
    let enable_profiling = wire.enable_profiling.unwrap_or(true);
    let percentage = wire.percentage_of_nodes_to_score.unwrap_or(0);
    let percentage_of_nodes_to_score = cx.ranged(
        "percentageOfNodesToScore",
        percentage,
        (0, 100),
        "not in valid range [0-100]",
    );
    if percentage_of_nodes_to_score != 0 {
        cx.warnings
            .push("percentageOfNodesToScore is accepted but every node is scored".to_owned());
    }
    let (pod_initial_backoff, pod_max_backoff) = backoffs(&wire, cx);
    Configuration {
        parallelism,
        leader_election: leader_election(wire.leader_election.unwrap_or_default(), cx),
        client_connection: client_connection(wire.client_connection.unwrap_or_default(), cx),
        enable_profiling,
        enable_contention_profiling: wire.enable_contention_profiling.unwrap_or(enable_profiling),
        percentage_of_nodes_to_score,
        pod_initial_backoff,
        pod_max_backoff,
        profiles: profiles::check(wire.profiles.unwrap_or_default(), cx),
        extenders: extenders::check(wire.extenders.unwrap_or_default(), cx),
        delay_cache_until_active: wire.delay_cache_until_active.unwrap_or(false),
    }
}

fn backoffs(wire: &WireConfiguration, cx: &mut Cx<'_>) -> (Duration, Duration) {
    let initial = wire.pod_initial_backoff_seconds.unwrap_or(1);
    let longest = wire.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        cx.invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if longest < initial {
        cx.invalid(
            "podMaxBackoffSeconds",
            longest,
            "must be greater than or equal to PodInitialBackoffSeconds",
        );
    }
    let seconds = |value: i64| Duration::from_secs(u64::try_from(value).unwrap_or(0));
    (seconds(initial), seconds(longest))
}

fn leader_election(wire: WireLeaderElection, cx: &mut Cx<'_>) -> LeaderElection {
    let defaults = LeaderElection::default();
    let leader_elect = wire.leader_elect.unwrap_or(defaults.leader_elect);
    // Zero means unset, as it does upstream.
    let given = |value: Option<GoDuration>, default: Duration| {
        value
            .filter(|duration| *duration != GoDuration(0))
            .unwrap_or_else(|| default.into())
    };
    let lease_duration = given(wire.lease_duration, defaults.lease_duration);
    let renew_deadline = given(wire.renew_deadline, defaults.renew_deadline);
    let retry_period = given(wire.retry_period, defaults.retry_period);
    if leader_elect {
        for (field, value) in [
            ("leaderElection.leaseDuration", lease_duration),
            ("leaderElection.renewDeadline", renew_deadline),
            ("leaderElection.retryPeriod", retry_period),
        ] {
            if value <= GoDuration(0) {
                cx.invalid(field, value, "must be greater than zero");
            }
        }
        if lease_duration <= renew_deadline {
            cx.invalid(
                "leaderElection.leaseDuration",
                lease_duration,
                "LeaseDuration must be greater than RenewDeadline",
            );
        }
        // Attempts are jittered by up to 20%, so that a shorter deadline could pass between two of them.
        if i128::from(renew_deadline.0) * 10 <= i128::from(retry_period.0) * 12 {
            let detail = format!("must be greater than retryPeriod*1.2 (retryPeriod is {retry_period})");
            cx.invalid("leaderElection.renewDeadline", renew_deadline, detail);
        }
    }
    let text = |value: Option<String>, default: String| value.filter(|text| !text.is_empty()).unwrap_or(default);
    let resource_lock = text(wire.resource_lock, defaults.resource_lock);
    if resource_lock != "leases" {
        cx.invalid(
            "leaderElection.resourceLock",
            &resource_lock,
            "resourceLock value must be \"leases\"",
        );
    }
    LeaderElection {
        leader_elect,
        lease_duration: lease_duration.to_std().unwrap_or_default(),
        renew_deadline: renew_deadline.to_std().unwrap_or_default(),
        retry_period: retry_period.to_std().unwrap_or_default(),
        resource_lock,
        resource_name: text(wire.resource_name, defaults.resource_name),
        resource_namespace: text(wire.resource_namespace, defaults.resource_namespace),
    }
}

fn client_connection(wire: WireClientConnection, cx: &mut Cx<'_>) -> ClientConnection {
    let defaults = ClientConnection::default();
    // Zero means unset, as it does upstream.
    let burst = wire.burst.filter(|burst| *burst != 0);
    if let Some(burst) = burst.filter(|burst| *burst < 0) {
        cx.push(FieldError::invalid(
            "clientConnection.burst",
            burst,
            "must be non-negative",
        ));
    }
    ClientConnection {
        kubeconfig: wire.kubeconfig.unwrap_or_default(),
        accept_content_types: wire.accept_content_types.unwrap_or_default(),
        content_type: wire
            .content_type
            .filter(|text| !text.is_empty())
            .unwrap_or(defaults.content_type),
        qps: wire.qps.filter(|qps| *qps != 0.0).and_then(|qps| narrow(qps, cx)),
        burst: burst.and_then(|burst| u32::try_from(burst).ok()),
    }
}

/// The nearest 32-bit float.
fn narrow(value: f64, cx: &mut Cx<'_>) -> Option<f32> {
    let narrow = value.to_string().parse::<f32>().ok().filter(|value| value.is_finite());
    if narrow.is_none() {
        cx.invalid("clientConnection.qps", value, "does not fit into a 32-bit float");
    }
    narrow
}
