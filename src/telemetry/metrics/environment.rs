//! What surrounds the scheduler: requests to the API server, the lease, health checks, build and feature gates.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use super::super::cells::{Buckets, Counter, Gauge, Histogram, Table};
use super::super::encode::Page;
use super::super::labels::{HealthEndpoint, HealthOutcome, HttpVerb};
use super::super::names::Names;
use super::{Metrics, MetricsOptions, split_index, table_index};

/// Most health checks told apart; the server has four.
const MAX_CHECKS: usize = 32;

/// HTTP codes 100 to 599, then one cell for requests that got no answer.
const CODES: usize = 501;
const FIRST_CODE: usize = 100;
const NO_ANSWER: usize = 500;

const VERBS: usize = HttpVerb::ALL.len();
const ENDPOINTS: usize = HealthEndpoint::ALL.len();
const OUTCOMES: usize = HealthOutcome::ALL.len();

static REQUEST_SECONDS: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::seconds(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]));

/// A feature gate as `kubernetes_feature_enabled` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureState {
    /// The gate's name.
    pub name: String,
    /// `ALPHA`, `BETA`, `DEPRECATED` or empty for general availability.
    pub stage: String,
    /// Whether it is on.
    pub enabled: bool,
}

#[derive(Debug)]
pub(super) struct Cells {
    api_server: OnceLock<String>,
    features: Vec<FeatureState>,
    /// `[verb][code]`
    requests: Table<Counter>,
    /// `[verb]`
    request_duration: Table<Histogram>,
    leases: Names,
    /// `[lease]`
    leading: Table<Gauge>,
    /// `[lease]`: kept by the election
    slow_renewals: Table<Arc<AtomicU64>>,
    checks: Names,
    /// `[check][endpoint]`
    health: Table<Gauge>,
    /// `[check][endpoint][outcome]`
    health_total: Table<Counter>,
}

impl Cells {
    pub(super) fn new(options: &MetricsOptions) -> Self {
        Self {
            api_server: OnceLock::new(),
            features: options.features.clone(),
            requests: Table::new(VERBS * CODES),
            request_duration: Table::new(VERBS),
            leases: Names::new(4),
            leading: Table::new(4),
            slow_renewals: Table::new(4),
            checks: Names::new(MAX_CHECKS),
            health: Table::new(MAX_CHECKS * ENDPOINTS),
            health_total: Table::new(MAX_CHECKS * ENDPOINTS * OUTCOMES),
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let codes: Vec<String> = (FIRST_CODE..FIRST_CODE + NO_ANSWER)
            .map(|code| code.to_string())
            .collect();
        let host = self.api_server.get().map_or("", String::as_str);
        let verb = |index: usize| HttpVerb::ALL.get(index).map_or("", |verb| verb.as_str());
        page.counters(
            "rest_client_requests",
            "[ALPHA] Requests to the API server, by code, method and host",
            self.requests.used().map(|(index, cell)| {
                let (verb_idx, [code]) = split_index(index, [CODES]);
                let labels = vec![
                    ("code", codes.get(code).map_or("<error>", String::as_str)),
                    ("host", host),
                    ("method", verb(verb_idx)),
                ];
                (labels, cell.value())
            }),
        )?;
        page.histograms(
            "rest_client_request_duration_seconds",
            "[ALPHA] Time until the API server answered, by host and verb",
            self.request_duration
                .used()
                .map(|(index, cell)| (vec![("host", host), ("verb", verb(index))], cell.view())),
        )?;
        page.gauges(
            "leader_election_master_status",
            "[ALPHA] 1 while this process holds the lease, else 0",
            self.leading
                .used()
                .map(|(index, cell)| (vec![("name", self.leases.get(index).unwrap_or_default())], cell.value())),
        )?;
        page.counters(
            "leader_election_slowpath",
            "[ALPHA] Renewals that had to read the lease before they could write it",
            self.slow_renewals.used().map(|(index, count)| {
                let name = self.leases.get(index).unwrap_or_default();
                (vec![("name", name)], count.load(Ordering::Relaxed))
            }),
        )?;
        self.write_health(page)?;
        self.write_build(page)
    }

    pub(super) fn write_health(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let check = |index: usize| self.checks.get(index).unwrap_or_default();
        let endpoint = |index: usize| HealthEndpoint::ALL.get(index).map_or("", |endpoint| endpoint.as_str());
        page.gauges(
            "kubernetes_healthcheck",
            "[STABLE] 1 while a health check passes, else 0",
            self.health.used().map(|(index, cell)| {
                let (name, [endpoint_idx]) = split_index(index, [ENDPOINTS]);
                (
                    vec![("name", check(name)), ("type", endpoint(endpoint_idx))],
                    cell.value(),
                )
            }),
        )?;
        page.counters(
            "kubernetes_healthchecks",
            "[STABLE] Results of health checks",
            self.health_total.used().map(|(index, cell)| {
                let (name, [endpoint_idx, outcome]) = split_index(index, [ENDPOINTS, OUTCOMES]);
                let labels = vec![
                    ("name", check(name)),
                    (
                        "status",
                        HealthOutcome::ALL.get(outcome).map_or("", |outcome| outcome.as_str()),
                    ),
                    ("type", endpoint(endpoint_idx)),
                ];
                (labels, cell.value())
            }),
        )
    }

    fn write_build(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        page.gauges(
            "kubernetes_build_info",
            "[ALPHA] Always 1; the labels say what was built",
            [(
                vec![
                    ("build_date", ""),
                    ("compiler", "rustc"),
                    ("git_commit", option_env!("SUPERCARGO_GIT_COMMIT").unwrap_or_default()),
                    ("git_tree_state", ""),
                    ("git_version", concat!("v", env!("CARGO_PKG_VERSION"))),
                    ("go_version", ""),
                    ("major", major),
                    ("minor", minor),
                    ("platform", platform.as_str()),
                ],
                1,
            )],
        )?;
        page.gauges(
            "kubernetes_feature_enabled",
            "[BETA] 1 for each feature gate that is on, 0 for each that is off",
            self.features.iter().map(|feature| {
                let labels = vec![("name", feature.name.as_str()), ("stage", feature.stage.as_str())];
                (labels, i64::from(feature.enabled))
            }),
        )
    }
}

impl Metrics {
    /// Names the API server (`host:port`), the `host` label of `rest_client_*`; the first name stays.
    pub fn set_api_server(&self, host: &str) {
        self.environment.api_server.get_or_init(|| host.to_owned());
    }

    /// The API server answered a request with `code` after `duration`; `None` when there was no answer.
    pub fn api_request(&self, verb: HttpVerb, code: Option<u16>, duration: Duration) {
        let code = code
            .and_then(|code| usize::from(code).checked_sub(FIRST_CODE))
            .map_or(NO_ANSWER, |c| c.min(NO_ANSWER));
        let cell = table_index(&[(verb.index(), VERBS), (code, CODES)])
            .and_then(|index| self.environment.requests.cell(index, Counter::default));
        if let Some(cell) = cell {
            cell.add(1);
        }
        let cell = self
            .environment
            .request_duration
            .cell(verb.index(), || Histogram::new(&REQUEST_SECONDS));
        if let Some(cell) = cell {
            cell.observe(duration);
        }
    }

    /// Whether this process holds the lease `name`.
    pub fn leader(&self, name: &str, leading: bool) {
        let cell = self
            .environment
            .leases
            .index(name)
            .and_then(|index| self.environment.leading.cell(index, Gauge::default));
        if let Some(cell) = cell {
            cell.set(i64::from(leading));
        }
    }

    /// Shows `count` as the number of renewals of the lease `name` that had to read it first; the first count stays.
    pub fn leader_slow_path(&self, name: &str, count: &Arc<AtomicU64>) {
        let index = self.environment.leases.index(name);
        // Made here and read by scrapes: there is nothing to record.
        let _: Option<&Arc<AtomicU64>> =
            index.and_then(|index| self.environment.slow_renewals.cell(index, || Arc::clone(count)));
    }

    /// A health check was evaluated.
    pub fn health_check(&self, check: &str, endpoint: HealthEndpoint, outcome: HealthOutcome) {
        let Some(name) = self.environment.checks.index(check) else {
            return;
        };
        let gauge = table_index(&[(name, MAX_CHECKS), (endpoint.index(), ENDPOINTS)])
            .and_then(|index| self.environment.health.cell(index, Gauge::default));
        if let Some(gauge) = gauge {
            gauge.set(i64::from(outcome == HealthOutcome::Success));
        }
        let parts = [
            (name, MAX_CHECKS),
            (endpoint.index(), ENDPOINTS),
            (outcome.index(), OUTCOMES),
        ];
        let total = table_index(&parts).and_then(|index| self.environment.health_total.cell(index, Counter::default));
        if let Some(total) = total {
            total.add(1);
        }
    }

    /// Writes the health check families alone, for `/metrics/slis`.
    pub(in crate::telemetry) fn write_slis(&self, page: &mut Page<'_>) -> std::fmt::Result {
        self.environment.write_health(page)
    }
}
