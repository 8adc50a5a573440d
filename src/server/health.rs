//! Health checks and the text in which they answer.
//!
//! The format is the API server library's (`apiserver/pkg/server/healthz`): `ok`, or with `?verbose` and on failure one
//! line a check. Two things are added: `/readyz` says why a check fails (the reasons are ours and hold no secrets), and
//! notes such as who leads follow as `info:` lines.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::StatusCode;

use crate::telemetry::{HealthEndpoint, HealthOutcome, Metrics};

/// Outcome of one check: a note for the verbose text (often empty), or why it failed.
pub type CheckResult = Result<String, String>;

/// Which endpoints a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// `/healthz`
    pub healthz: bool,
    /// `/livez`
    pub livez: bool,
    /// `/readyz`
    pub readyz: bool,
}

/// A named check.
#[derive(Clone)]
pub struct HealthCheck {
    name: &'static str,
    endpoints: Endpoints,
    check: Arc<dyn Fn() -> CheckResult + Send + Sync>,
}

impl std::fmt::Debug for HealthCheck {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HealthCheck")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl HealthCheck {
    /// A check of your own. It runs at each request and must not block.
    pub fn new(
        name: &'static str,
        endpoints: Endpoints,
        check: impl Fn() -> CheckResult + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            endpoints,
            check: Arc::new(check),
        }
    }

    /// `leaderElection`: passes on a standby; fails when this leader has not renewed for too long. The note says who
    /// leads.
    pub fn leader_election(check: impl Fn() -> CheckResult + Send + Sync + 'static) -> Self {
        Self::new(
            "leaderElection",
            Endpoints {
                healthz: true,
                livez: false,
                readyz: true,
            },
            check,
        )
    }

    /// `shutdown`: fails from the moment when the process began to end.
    pub fn shutdown(check: impl Fn() -> CheckResult + Send + Sync + 'static) -> Self {
        Self::new(
            "shutdown",
            Endpoints {
                healthz: false,
                livez: false,
                readyz: true,
            },
            check,
        )
    }

    /// `sched-handler-sync`: passes once everything listed at start was taken in.
    pub fn handler_sync(check: impl Fn() -> CheckResult + Send + Sync + 'static) -> Self {
        Self::new(
            "sched-handler-sync",
            Endpoints {
                healthz: false,
                livez: false,
                readyz: true,
            },
            check,
        )
    }
}

/// All checks of the process. An endpoint without any has `ping`.
#[derive(Debug, Clone, Default)]
pub struct HealthChecks {
    checks: Vec<HealthCheck>,
}

impl HealthChecks {
    /// These checks, in this order.
    #[must_use]
    pub fn new(checks: Vec<HealthCheck>) -> Self {
        Self { checks }
    }

    /// The checks of an endpoint, `ping` when it has no other.
    pub(super) fn of(&self, endpoint: HealthEndpoint) -> Vec<HealthCheck> {
        let belongs = |check: &&HealthCheck| match endpoint {
            HealthEndpoint::Healthz => check.endpoints.healthz,
            HealthEndpoint::Livez => check.endpoints.livez,
            HealthEndpoint::Readyz => check.endpoints.readyz,
        };
        let mut checks: Vec<HealthCheck> = self.checks.iter().filter(belongs).cloned().collect();
        if checks.is_empty() {
            let everywhere = Endpoints {
                healthz: true,
                livez: true,
                readyz: true,
            };
            checks.push(HealthCheck::new("ping", everywhere, || Ok(String::new())));
        }
        checks
    }
}

/// What was asked about an endpoint's checks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    verbose: bool,
    excluded: Vec<String>,
}

impl Question {
    /// Reads the query: `verbose`, and `exclude=NAME` any number of times. Other parameters are ignored, as upstream.
    pub(super) fn parse(query: Option<&str>) -> Self {
        let mut question = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", _) => question.verbose = true,
                ("exclude", name) if !name.is_empty() => question.excluded.push(name.to_owned()),
                _ => {}
            }
        }
        question
    }
}

/// Answers for all checks of an endpoint.
pub(super) fn answer(
    endpoint: HealthEndpoint,
    checks: &[HealthCheck],
    question: Question,
    metrics: &Metrics,
) -> (StatusCode, String) {
    let mut text = String::new();
    let mut notes = String::new();
    let mut failed = false;
    let mut unmatched = question.excluded;
    // Writing to a string cannot fail.
    for check in checks {
        if unmatched.iter().any(|name| name == check.name) {
            unmatched.retain(|name| name != check.name);
            line(&mut text, format_args!("[+]{} excluded: ok", check.name));
            continue;
        }
        match run(endpoint, check, metrics) {
            Ok(note) => {
                line(&mut text, format_args!("[+]{} ok", check.name));
                if !note.is_empty() {
                    line(&mut notes, format_args!("info: {note}"));
                }
            }
            Err(reason) => {
                failed = true;
                let shown = if endpoint == HealthEndpoint::Readyz {
                    reason.as_str()
                } else {
                    "reason withheld"
                };
                line(&mut text, format_args!("[-]{} failed: {shown}", check.name));
            }
        }
    }
    if !unmatched.is_empty() {
        unmatched.sort_unstable();
        unmatched.dedup();
        let names: Vec<String> = unmatched.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(", ");
        line(
            &mut text,
            format_args!("warn: some health checks cannot be excluded: no matches for {names}"),
        );
    }
    text.push_str(&notes);
    let name = endpoint.as_str();
    if failed {
        line(&mut text, format_args!("{name} check failed"));
        return (StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if !question.verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    line(&mut text, format_args!("{name} check passed"));
    (StatusCode::OK, text)
}

/// Answers for one check.
pub(super) fn answer_one(endpoint: HealthEndpoint, check: &HealthCheck, metrics: &Metrics) -> (StatusCode, String) {
    match run(endpoint, check, metrics) {
        Ok(_) => (StatusCode::OK, "ok".to_owned()),
        Err(reason) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
    }
}

impl HealthCheck {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

fn run(endpoint: HealthEndpoint, check: &HealthCheck, metrics: &Metrics) -> CheckResult {
    let result = (check.check)();
    let outcome = if result.is_ok() {
        HealthOutcome::Success
    } else {
        HealthOutcome::Error
    };
    metrics.health_check(check.name, endpoint, outcome);
    if let Err(reason) = &result {
        tracing::debug!(endpoint = endpoint.as_str(), check = check.name, %reason, "a health check failed");
    }
    result
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if writeln!(text, "{arguments}").is_err() {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::telemetry::MetricsOptions;

    fn checks(synced: bool) -> HealthChecks {
        HealthChecks::new(vec![
            HealthCheck::leader_election(|| Ok("standby, \"a_1\" leads".to_owned())),
            HealthCheck::shutdown(|| Ok(String::new())),
            HealthCheck::handler_sync(move || {
                if synced {
                    Ok(String::new())
                } else {
                    Err("pods are not listed yet: connection refused".to_owned())
                }
            }),
        ])
    }

    fn check(endpoint: HealthEndpoint, synced: bool, query: &str, expected: &Expect) {
        let metrics = Metrics::new(&MetricsOptions::default());
        let checks = checks(synced).of(endpoint);
        let (code, text) = answer(endpoint, &checks, Question::parse(Some(query)), &metrics);
        expected.assert_eq(&format!("{}\n{text}", code.as_u16()));
    }

    #[test]
    fn a_passing_endpoint_says_ok() {
        check(
            HealthEndpoint::Healthz,
            true,
            "",
            &expect![[r#"
            200
            ok"#]],
        );
        check(
            HealthEndpoint::Livez,
            true,
            "verbose",
            &expect![[r#"
            200
            [+]ping ok
            livez check passed
        "#]],
        );
        check(
            HealthEndpoint::Readyz,
            true,
            "verbose=1",
            &expect![[r#"
            200
            [+]leaderElection ok
            [+]shutdown ok
            [+]sched-handler-sync ok
            info: standby, "a_1" leads
            readyz check passed
        "#]],
        );
    }

    #[test]
    fn a_failing_endpoint_is_always_verbose() {
        check(
            HealthEndpoint::Readyz,
            false,
            "",
            &expect![[r#"
            500
            [+]leaderElection ok
            [+]shutdown ok
            [-]sched-handler-sync failed: pods are not listed yet: connection refused
            info: standby, "a_1" leads
            readyz check failed
        "#]],
        );
    }

    #[test]
    fn checks_can_be_excluded_and_unknown_names_are_told() {
        check(
            HealthEndpoint::Readyz,
            false,
            "verbose&exclude=sched-handler-sync&exclude=etcd&exclude=a",
            &expect![[r#"
            200
            [+]leaderElection ok
            [+]shutdown ok
            [+]sched-handler-sync excluded: ok
            warn: some health checks cannot be excluded: no matches for "a", "etcd"
            info: standby, "a_1" leads
            readyz check passed
        "#]],
        );
    }

    #[test]
    fn reasons_are_withheld_outside_readyz() {
        let metrics = Metrics::new(&MetricsOptions::default());
        let failing = HealthChecks::new(vec![HealthCheck::leader_election(|| Err("secret".to_owned()))]);
        let (code, text) = answer(
            HealthEndpoint::Healthz,
            &failing.of(HealthEndpoint::Healthz),
            Question::default(),
            &metrics,
        );
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            text,
            "[-]leaderElection failed: reason withheld\nhealthz check failed\n"
        );
    }

    #[test]
    fn one_check_answers_alone() {
        let metrics = Metrics::new(&MetricsOptions::default());
        let checks = checks(false).of(HealthEndpoint::Readyz);
        let answers: Vec<_> = checks
            .iter()
            .map(|check| (check.name(), answer_one(HealthEndpoint::Readyz, check, &metrics)))
            .map(|(name, (code, text))| (name, code.as_u16(), text))
            .collect();
        assert_eq!(
            answers,
            [
                ("leaderElection", 200, "ok".to_owned()),
                ("shutdown", 200, "ok".to_owned()),
                (
                    "sched-handler-sync",
                    500,
                    "internal server error: pods are not listed yet: connection refused\n".to_owned()
                ),
            ]
        );
    }
}
