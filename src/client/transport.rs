//! The pools under a `kube::Client`.
//!
//! Threads: any task may call; the pools in use sit behind an `ArcSwap`, and whichever call comes first after the check
//! interval looks at the credential files (one at a time, guarded by an atomic).
//!
//! Does not: time out (callers set deadlines), retry, or follow redirects. A dead HTTP/2 connection is found by pings:
//! 30 s without a frame, then 15 s for the answer, client-go's figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Client;
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Service, ServiceBuilder};

use super::ClientError;
use super::files::{self, WatchedFiles};
use super::limiter::Limiter;
use super::source::{CredentialFiles, Target};
use crate::clock::{Clock, Nanos};
use crate::sync::Mutex;
use crate::telemetry::{HttpVerb, Metrics};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Idle HTTP/1.1 connections kept for one pool: as many as binds in flight by default, so that a steady stream of binds
/// opens none.
const MAX_IDLE: usize = 512;

/// HTTP/2 receive window of a stream: a page of 500 pods is near 2 MB and should not wait for window updates.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// HTTP/2 receive window of a connection with all its streams.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

type Https = HttpClient<HttpsConnector<HttpConnector>, Body>;

/// Which versions of HTTP a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpVersions {
    /// HTTP/2 where the server speaks it.
    All,
    /// HTTP/1.1 alone: a call that is given up takes its connection with it, so the next one starts on a fresh one.
    Http1,
}

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
    clients: Box<[Https]>,
    authorization: Option<HeaderValue>,
}

struct Shared {
    target: Target,
    wiring: Wiring,
    pools: ArcSwap<Pools>,
    next_client: AtomicUsize,
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
            clients: clients(target, wiring)?,
            authorization: authorization(&target.files)?,
        };
        Ok(Self {
            target: target.clone(),
            wiring: wiring.clone(),
            pools: ArcSwap::from_pointee(pools),
            next_client: AtomicUsize::new(0),
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
            match clients(&self.target, &self.wiring) {
                Ok(clients) => {
                    let authorization = self.pools.load().authorization.clone();
                    self.pools.store(Arc::new(Pools { clients, authorization }));
                    files.tls.take(fingerprint);
                    tracing::info!("new certificates for the API server are in use");
                }
                Err(error) => tracing::warn!(%error, "new certificates are not usable, the old ones stay in use"),
            }
        }
        if let Some(fingerprint) = files.token.changed() {
            match authorization(&self.target.files) {
                Ok(authorization) => {
                    let clients = self.pools.load().clients.clone();
                    self.pools.store(Arc::new(Pools { clients, authorization }));
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
            let answer = {
                let pools = shared.pools.load();
                if let Some(authorization) = &pools.authorization {
                    request.headers_mut().insert(AUTHORIZATION, authorization.clone());
                }
                let turn = shared.next_client.fetch_add(1, Ordering::Relaxed) % pools.clients.len().max(1);
                pools.clients.get(turn).map(|client| client.request(request))
            };
            // There is always a client: `clients` makes at least one.
            let Some(answer) = answer else {
                return std::future::pending().await;
            };
            let answer = answer.await;
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

/// Clients with one pool each: one for every HTTP/2 connection, or one whose pool holds HTTP/1.1 connections.
fn clients(target: &Target, wiring: &Wiring) -> Result<Box<[Https]>, ClientError> {
    let mut config = target.config.clone();
    if let Some(path) = &target.files.ca {
        let pem = files::read(path).map_err(|source| ClientError::File {
            path: path.clone(),
            source,
        })?;
        config.root_cert = Some(certificates(&pem, path)?);
    }
    let tls = config
        .rustls_client_config()
        .map_err(|source| ClientError::Credentials(Box::new(source)))?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(TCP_KEEPALIVE));
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_invalid| ClientError::Header {
            what: format!("tls-server-name {name:?}"),
        })?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = match wiring.http {
        HttpVersions::All => builder.enable_all_versions().wrap_connector(http),
        HttpVersions::Http1 => builder.enable_http1().wrap_connector(http),
    };
    let shares_connections = config.cluster_url.scheme_str() != Some("http") && wiring.http == HttpVersions::All;
    let pools = if shares_connections {
        wiring.connections.max(1)
    } else {
        1
    };
    Ok((0..pools).map(|_| http_client(connector.clone())).collect())
}

fn certificates(pem: &[u8], path: &std::path::Path) -> Result<Vec<Vec<u8>>, ClientError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem)
        .map(|parsed| parsed.map(|der| der.to_vec()))
        .collect();
    let invalid = |message: String| ClientError::File {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, message),
    };
    match certificates {
        Ok(list) if list.is_empty() => Err(invalid("no certificate in it".to_owned())),
        Ok(list) => Ok(list),
        Err(error) => Err(invalid(error.to_string())),
    }
}

fn http_client(connector: HttpsConnector<HttpConnector>) -> Https {
    HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}
