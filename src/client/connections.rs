//! Connections to one server with one set of credentials.
//!
//! Over TLS the first request goes alone and learns whether the server speaks HTTP/2. If it does, calls take turns on a
//! fixed number of pools that hold one HTTP/2 connection each; without that knowledge a burst of calls would open a
//! connection for each of them before the first has agreed on a version. An error forgets what was learnt.
//!
//! Does not: find dead HTTP/1.1 connections (a caller's deadline does); dead HTTP/2 connections are found by pings: 30 s
//! without a frame, then 15 s for the answer, client-go's figures.

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HttpClient, Error as HttpError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};

use super::ClientError;
use super::files;
use super::source::Target;
use super::transport::Wiring;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for another call to learn the version: as long as a connection may take.
const LEARN_TIMEOUT: Duration = CONNECT_TIMEOUT;
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

/// What is known of the server.
const UNKNOWN: u8 = 0;
const SPEAKS_HTTP1: u8 = 1;
const SPEAKS_HTTP2: u8 = 2;

/// Pools to one server.
pub(super) struct Connections {
    /// One pool for HTTP/1.1 connections, and for the first request.
    any: Https,
    /// Pools that hold one HTTP/2 connection each; empty where HTTP/2 is not wanted.
    http2: Box<[Https]>,
    next: AtomicUsize,
    known: AtomicU8,
    /// Held by the request that learns.
    first: tokio::sync::Mutex<()>,
}

impl Connections {
    /// Prepares the pools; opens nothing.
    pub(super) fn new(target: &Target, wiring: &Wiring) -> Result<Self, ClientError> {
        let connector = connector(target, wiring.http)?;
        let wants_http2 = wiring.http == HttpVersions::All && target.config.cluster_url.scheme_str() != Some("http");
        let http2: Box<[Https]> = if wants_http2 {
            (0..wiring.connections.max(1))
                .map(|_| builder().http2_only(true).build(connector.clone()))
                .collect()
        } else {
            Box::default()
        };
        let known = if wants_http2 { UNKNOWN } else { SPEAKS_HTTP1 };
        Ok(Self {
            any: builder().build(connector),
            http2,
            next: AtomicUsize::new(0),
            known: AtomicU8::new(known),
            first: tokio::sync::Mutex::new(()),
        })
    }

    /// Sends a request on the connection whose turn it is.
    ///
    /// # Cancel safety
    /// A dropped call resets its HTTP/2 stream or closes its HTTP/1.1 connection; the server may have acted.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, HttpError> {
        match self.known.load(Ordering::Relaxed) {
            SPEAKS_HTTP1 => self.any.request(request).await,
            SPEAKS_HTTP2 => self.send_http2(request).await,
            _ => {
                // A first request that hangs must not hold up the others for ever.
                let Ok(learning) = tokio::time::timeout(LEARN_TIMEOUT, self.first.lock()).await else {
                    return self.any.request(request).await;
                };
                match self.known.load(Ordering::Relaxed) {
                    // Another request has learnt it while this one waited.
                    SPEAKS_HTTP1 | SPEAKS_HTTP2 => {
                        drop(learning);
                        Box::pin(self.send(request)).await
                    }
                    _ => self.send_first(request).await,
                }
            }
        }
    }

    async fn send_first(&self, request: Request<Body>) -> Result<Response<Incoming>, HttpError> {
        let answer = self.any.request(request).await?;
        let learnt = if answer.version() == Version::HTTP_2 {
            SPEAKS_HTTP2
        } else {
            SPEAKS_HTTP1
        };
        self.known.store(learnt, Ordering::Relaxed);
        Ok(answer)
    }

    async fn send_http2(&self, request: Request<Body>) -> Result<Response<Incoming>, HttpError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.http2.len().max(1);
        let client = self.http2.get(turn).unwrap_or(&self.any);
        let answer = client.request(request).await;
        if answer.is_err() {
            self.known.store(UNKNOWN, Ordering::Relaxed);
        }
        answer
    }
}

fn connector(target: &Target, versions: HttpVersions) -> Result<HttpsConnector<HttpConnector>, ClientError> {
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
    Ok(match versions {
        HttpVersions::All => builder.enable_all_versions().wrap_connector(http),
        HttpVersions::Http1 => builder.enable_http1().wrap_connector(http),
    })
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<Vec<u8>>, ClientError> {
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

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = HttpClient::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true);
    builder
}
