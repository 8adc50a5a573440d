//! Who asks, and whether they may see it: delegated authentication and authorisation.
//!
//! Source: the API server library's `DelegatingAuthenticatorConfig` and `DelegatingAuthorizerConfig` as kube-scheduler
//! sets them up (1.36). Order: front proxy's headers, client certificate, bearer token; a credential that is shown and
//! refused is answered with 401, and only who shows none is `system:anonymous`. Then paths that are always allowed,
//! `system:masters`, and a SubjectAccessReview for the rest.
//!
//! Does not: keep a password or token longer than its cache entry lives.
//!
//! Children: `cache` (answers for a while), `trust` (CA bundles), `settings` (the cluster's ConfigMap),
//! `authentication`, `authorization`.

mod authentication;
mod authorization;
mod cache;
mod settings;
mod trust;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

pub(super) use authentication::Authentication;
use authorization::{Authorization, Decision};

use super::listen::PeerCertificates;

/// Everybody who was authenticated is in this group.
const AUTHENTICATED: &str = "system:authenticated";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    /// Name.
    pub name: String,
    /// Unique id, where the API server knows one.
    pub uid: String,
    /// Groups, `system:authenticated` or `system:unauthenticated` among them.
    pub groups: Vec<String>,
    /// Further facts by name.
    pub extra: Vec<(String, Vec<String>)>,
}

/// How front proxies are recognised (`--requestheader-*`). Without a CA none is.
#[derive(Debug, Clone, Default)]
pub struct RequestHeaderOptions {
    /// `--requestheader-client-ca-file`; when empty, the cluster's settings count.
    pub ca_file: Option<PathBuf>,
    /// `--requestheader-allowed-names`: common names of proxies; empty: any that the CA signed.
    pub allowed_names: Vec<String>,
    /// `--requestheader-username-headers`
    pub username_headers: Vec<String>,
    /// `--requestheader-uid-headers`
    pub uid_headers: Vec<String>,
    /// `--requestheader-group-headers`
    pub group_headers: Vec<String>,
    /// `--requestheader-extra-headers-prefix`
    pub extra_prefixes: Vec<String>,
}

/// How callers are recognised.
#[derive(Clone)]
pub struct AuthenticationOptions {
    /// Client for TokenReviews and the cluster's settings; `None`: tokens are not looked at and everybody without a
    /// known certificate is anonymous.
    pub client: Option<kube::Client>,
    /// `--client-ca-file`; when empty, the cluster's settings count.
    pub client_ca_file: Option<PathBuf>,
    /// Front proxies.
    pub request_header: RequestHeaderOptions,
    /// `--authentication-skip-lookup`: the cluster's settings are not read.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: the server starts also when they cannot be read.
    pub tolerate_lookup_failure: bool,
    /// `--authentication-token-webhook-cache-ttl`
    pub token_cache_ttl: Duration,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            client: None,
            client_ca_file: None,
            request_header: RequestHeaderOptions::default(),
            skip_lookup: false,
            tolerate_lookup_failure: true,
            token_cache_ttl: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for AuthenticationOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AuthenticationOptions")
            .field("client", &self.client.is_some())
            .field("client_ca_file", &self.client_ca_file)
            .field("request_header", &self.request_header)
            .finish_non_exhaustive()
    }
}

/// What callers may see.
#[derive(Clone)]
pub struct AuthorizationOptions {
    /// Client for SubjectAccessReviews; `None`: only paths that are always allowed, and `system:masters`.
    pub client: Option<kube::Client>,
    /// `--authorization-always-allow-paths`: whole paths, or with `*` at the end all that begin so.
    pub always_allow_paths: Vec<String>,
    /// `--authorization-webhook-cache-authorized-ttl`
    pub authorized_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`
    pub unauthorized_ttl: Duration,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            client: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for AuthorizationOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AuthorizationOptions")
            .field("client", &self.client.is_some())
            .field("always_allow_paths", &self.always_allow_paths)
            .finish_non_exhaustive()
    }
}

/// Stands before every path.
#[derive(Debug)]
pub(super) struct Guard {
    authentication: Arc<Authentication>,
    authorization: Authorization,
}

impl Guard {
    pub(super) fn new(authentication: Arc<Authentication>, options: &AuthorizationOptions) -> Self {
        Self {
            authentication,
            authorization: Authorization::new(options),
        }
    }

    /// Lets a request pass or answers it.
    pub(super) async fn check(State(guard): State<Arc<Self>>, request: Request, next: Next) -> Response {
        let peer = request
            .extensions()
            .get::<PeerCertificates>()
            .cloned()
            .unwrap_or_default();
        let user = match guard.authentication.authenticate(request.headers(), &peer).await {
            Ok(user) => user,
            Err(reason) => {
                tracing::debug!(%reason, "a request is not authenticated");
                return status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
            }
        };
        let verb = request.method().as_str().to_ascii_lowercase();
        let path = request.uri().path().to_owned();
        match guard.authorization.decide(&user, &verb, &path).await {
            Ok(Decision::Allow) => next.run(request).await,
            Ok(Decision::Deny) => {
                let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
                status(StatusCode::FORBIDDEN, "Forbidden", &message)
            }
            Err(error) => {
                tracing::warn!(%error, user = %user.name, %path, "authorisation failed");
                let message = format!("Internal Server Error: {path:?}: authorization could not be decided");
                status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
            }
        }
    }
}

/// An answer in the shape of `meta/v1` Status.
fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let body = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    (code, Json(body)).into_response()
}
