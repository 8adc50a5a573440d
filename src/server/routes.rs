//! Who answers what.
//!
//! Does not: serve `/debug/pprof`: a Go profile cannot be made here, and nothing else is served in its name.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use axum::{Json, Router};

use super::auth::Guard;
use super::health::{self, HealthCheck, Question};
use super::{Content, pages, resources};
use crate::telemetry::{self, HealthEndpoint};

/// Largest request body; the only one that is read is a number.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Longest time to answer, delegated authentication and authorisation included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_SNIFF: (HeaderName, HeaderValue) = (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));

/// The whole site behind its guard.
pub(super) fn router(content: Content, guard: Guard) -> Router {
    let logging = content.logging.clone();
    let content = Arc::new(pages::Site::new(content));
    let mut router = Router::new();
    for endpoint in [HealthEndpoint::Healthz, HealthEndpoint::Livez, HealthEndpoint::Readyz] {
        router = health_routes(router, endpoint, &content);
    }
    router = router
        .route("/metrics", get(metrics))
        .route("/metrics/slis", get(slis))
        .route("/metrics/resources", get(resource_metrics))
        .route("/configz", get(configz))
        .route("/flagz", get(flagz))
        .route("/statusz", get(statusz))
        .route("/version", get(async || Json(pages::version())));
    if logging.is_some() {
        router = router.route("/debug/flags/v", any(verbosity));
    }
    router
        .fallback(async || text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(content)
        .layer(middleware::from_fn_with_state(Arc::new(guard), Guard::check))
        .layer(middleware::from_fn(within_time))
}

async fn within_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => text(StatusCode::GATEWAY_TIMEOUT, "no answer in time\n".to_owned()),
    }
}

type SharedSite = Arc<pages::Site>;

fn health_routes(router: Router<SharedSite>, endpoint: HealthEndpoint, site: &SharedSite) -> Router<SharedSite> {
    let checks: Arc<[HealthCheck]> = site.content().health.of(endpoint).into();
    let mut router = router;
    for check in checks.iter() {
        let check = check.clone();
        let path = format!("/{}/{}", endpoint.as_str(), check.name());
        let handler = async move |State(site): State<SharedSite>| {
            let (code, body) = health::answer_one(endpoint, &check, &site.content().metrics);
            text(code, body)
        };
        router = router.route(&path, get(handler));
    }
    let handler = async move |State(site): State<SharedSite>, RawQuery(query): RawQuery| {
        let question = Question::parse(query.as_deref());
        let (code, body) = health::answer(endpoint, &checks, question, &site.content().metrics);
        text(code, body)
    };
    router.route(&format!("/{}", endpoint.as_str()), get(handler))
}

fn text(code: StatusCode, body: String) -> Response {
    (code, [(CONTENT_TYPE, TEXT), NO_SNIFF], body).into_response()
}

fn exposition(body: String) -> Response {
    (
        [(CONTENT_TYPE, HeaderValue::from_static(telemetry::CONTENT_TYPE))],
        body,
    )
        .into_response()
}

async fn metrics(State(site): State<SharedSite>) -> Response {
    exposition(site.content().metrics.exposition())
}

async fn slis(State(site): State<SharedSite>) -> Response {
    exposition(site.content().metrics.slis_exposition())
}

async fn resource_metrics(State(site): State<SharedSite>) -> Response {
    let body = resources::body(site.content().resources.clone());
    (
        [(CONTENT_TYPE, HeaderValue::from_static(telemetry::CONTENT_TYPE))],
        body,
    )
        .into_response()
}

async fn configz(State(site): State<SharedSite>) -> Response {
    Json(serde_json::json!({ "componentconfig": (site.content().config)() })).into_response()
}

async fn flagz(State(site): State<SharedSite>) -> Response {
    text(StatusCode::OK, site.flagz())
}

async fn statusz(State(site): State<SharedSite>) -> Response {
    text(StatusCode::OK, site.statusz())
}

async fn verbosity(State(site): State<SharedSite>, method: Method, body: String) -> Response {
    if method != Method::PUT {
        return text(StatusCode::NOT_ACCEPTABLE, "unsupported http method\n".to_owned());
    }
    let Some(logging) = &site.content().logging else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    };
    match body.trim().parse::<u32>() {
        Ok(level) => {
            logging.set_verbosity(level);
            tracing::info!(level, "log verbosity changed");
            text(
                StatusCode::OK,
                format!("successfully set klog.logging.verbosity to {level}"),
            )
        }
        Err(error) => {
            let message = format!("failed to set klog.logging.verbosity {:?}: {error}\n", body.trim());
            text(StatusCode::BAD_REQUEST, message)
        }
    }
}
