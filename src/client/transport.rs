//! The pools under a `kube::Client`.
//!
//! Threads: any task may call; the pools in use sit behind an `ArcSwap`, and whichever call comes first after the check
//! interval looks at the credential files (one at a time, guarded by an atomic).
//!
//! Does not: time out (callers set deadlines), retry, or follow redirects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use kube::Client;
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Service, ServiceBuilder};

use super::ClientError;
use super::connections::{Connections, HttpVersions};
use super::files::{self, WatchedFiles};
use super::limiter::Limiter;
use super::source::{CredentialFiles, Target};
use crate::clock::{Clock, Nanos};
use crate::sync::Mutex;
use crate::telemetry::{HttpVerb, Metrics};

/// How a client is put together.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    /// HTTP/2 connections that calls take turns on.
    pub(super) connections: usize,
    /// Which versions of HTTP may be spoken.
    pub(super) http: HttpVersions,
    /// Limits the rate.
    pub(super) limiter: Option<Arc<Limiter>>,
    /// Counts requests.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// How often credential files are looked at.
    pub(super) file_check: Duration,
}

/// Makes a client on pools of its own.
pub(super) fn client(target: &Target, wiring: &Wiring) -> Result<Client, ClientError> {
    let transport = Transport(Arc::new(Shared::new(target, wiring)?));
    let config = &target.config;
    let credentials = |source| ClientError::Credentials(Box::new(source));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(credentials)?)
        .layer(config.extra_headers_layer().map_err(credentials)?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// What one set of credentials leads to.
struct Pools {
    connections: Arc<Connections>,
    authorization: Option<HeaderValue>,
}

struct Shared {
    target: Target,
    wiring: Wiring,
    pools: ArcSwap<Pools>,
    clock: Clock,
    /// When the files are looked at again, in [`Nanos`].
    next_check: AtomicU64,
    /// Fingerprints; locked by the one call that looks.
    files: Mutex<Watched>,
}

struct Watched {
    tls: WatchedFiles,
    token: WatchedFiles,
}

impl Shared {
    fn new(target: &Target, wiring: &Wiring) -> Result<Self, ClientError> {
        let CredentialFiles { ca, identity, token } = &target.files;
        let tls_paths = ca
            .iter()
            .chain(identity.iter().flat_map(|(certificate, key)| [certificate, key]));
        let mut files = Watched {
            tls: WatchedFiles::new(tls_paths.cloned().collect()),
            token: WatchedFiles::new(token.iter().cloned().collect()),
        };
        // Fingerprints are taken before the contents are read, so a change in between is seen at the next look.
        for watched in [&mut files.tls, &mut files.token] {
            if let Some(fingerprint) = watched.changed() {
                watched.take(fingerprint);
            }
        }
        let clock = Clock::Real;
        let pools = Pools {
            connections: Arc::new(Connections::new(target, wiring)?),
            authorization: authorization(&target.files)?,
        };
        Ok(Self {
            target: target.clone(),
            wiring: wiring.clone(),
            pools: ArcSwap::from_pointee(pools),
            next_check: AtomicU64::new(clock.now().after(wiring.file_check).0),
            clock,
            files: Mutex::new(files),
        })
    }

    /// Looks at the files when it is time, and takes in what changed. A file that is half written is tried again.
    fn refresh(&self) {
        let now = self.clock.now();
        let due = self.next_check.load(Ordering::Relaxed);
        if now < Nanos(due) {
            return;
        }
        let next = now.after(self.wiring.file_check).0;
        if self
            .next_check
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let mut files = self.files.lock();
        if let Some(fingerprint) = files.tls.changed() {
            match Connections::new(&self.target, &self.wiring) {
                Ok(connections) => {
                    let authorization = self.pools.load().authorization.clone();
                    self.pools.store(Arc::new(Pools {
                        connections: Arc::new(connections),
                        authorization,
                    }));
                    files.tls.take(fingerprint);
                    tracing::info!("new certificates for the API server are in use");
                }
                Err(error) => tracing::warn!(%error, "new certificates are not usable, the old ones stay in use"),
            }
        }
        if let Some(fingerprint) = files.token.changed() {
            match authorization(&self.target.files) {
                Ok(authorization) => {
                    let connections = Arc::clone(&self.pools.load().connections);
                    self.pools.store(Arc::new(Pools {
                        connections,
                        authorization,
                    }));
                    files.token.take(fingerprint);
                    tracing::debug!("a new token for the API server is in use");
                }
                Err(error) => tracing::warn!(%error, "the new token is not usable, the old one stays in use"),
            }
        }
    }
}

/// The service at the bottom of a client.
#[derive(Clone)]
struct Transport(Arc<Shared>);

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = hyper_util::client::legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        shared.refresh();
        Box::pin(async move {
            if let Some(limiter) = &shared.wiring.limiter {
                limiter.acquire().await;
            }
            let verb = verb(request.method());
            let start = shared.clock.now();
            let pools = shared.pools.load_full();
            if let Some(authorization) = &pools.authorization {
                request.headers_mut().insert(AUTHORIZATION, authorization.clone());
            }
            let answer = pools.connections.send(request).await;
            if let Some(metrics) = &shared.wiring.metrics {
                let code = answer.as_ref().ok().map(|response| response.status().as_u16());
                metrics.api_request(verb, code, shared.clock.now().since(start));
            }
            answer
        })
    }
}

fn verb(method: &Method) -> HttpVerb {
    match *method {
        Method::GET => HttpVerb::Get,
        Method::POST => HttpVerb::Post,
        Method::PUT => HttpVerb::Put,
        Method::PATCH => HttpVerb::Patch,
        Method::DELETE => HttpVerb::Delete,
        _ => HttpVerb::Other,
    }
}

/// The `Authorization` header from a token file; surrounding white space does not belong to the token.
fn authorization(files: &CredentialFiles) -> Result<Option<HeaderValue>, ClientError> {
    let Some(path) = &files.token else { return Ok(None) };
    let token = files::read(path).map_err(|source| ClientError::File {
        path: path.clone(),
        source,
    })?;
    let mut header = b"Bearer ".to_vec();
    header.extend_from_slice(token.trim_ascii());
    let mut header = HeaderValue::from_bytes(&header).map_err(|_invalid| ClientError::Header {
        what: format!("token file {}", path.display()),
    })?;
    header.set_sensitive(true);
    Ok(Some(header))
}
