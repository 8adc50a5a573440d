//! Connections to the API server: one pool for each kind of call, so that none waits behind another.
//!
//! * **bind**: a few HTTP/2 connections (kube-apiserver admits about 100 streams on each), or a pool of HTTP/1.1 ones
//!   where the server speaks no TLS;
//! * **watch**: lists and watches, on a connection of their own;
//! * **lease**: renewals, which neither a rate limit nor a burst of other calls may hold up;
//! * **status**: events, conditions, evictions and everything else.
//!
//! Credentials that live in files (client certificate and key, CA bundle, token) are read again when they change; new
//! credentials mean new connections.
//!
//! Does not: retry (each caller owns its policy) or limit its rate unless `qps` was configured on purpose.
//!
//! Threads: everything here is `Send + Sync`; a `kube::Client` is cloned per task.
//!
//! Children: `source` (kubeconfig, in-cluster, `--master`), `files` (what changes on disk), `transport` (what stands under
//! a client), `connections` (the pools), `limiter` (the optional token bucket).

mod connections;
pub(crate) mod files;
mod limiter;
mod source;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;

use crate::telemetry::Metrics;

pub use limiter::RateLimit;
pub use source::Source;

/// Binds in flight at once per HTTP/2 connection that the server admits (kube-apiserver's default is 100; a little less
/// leaves room for its own limit on opening streams).
pub const STREAMS_PER_CONNECTION: usize = 96;

/// Most connections for binds; with [`STREAMS_PER_CONNECTION`] that is 1536 binds in flight.
const MAX_BIND_CONNECTIONS: usize = 16;

/// What is wrong with a kubeconfig, without its path, which stands beside it.
fn told(error: &kube::config::KubeconfigError) -> String {
    match error {
        kube::config::KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        other => other.to_string(),
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig file cannot be read or does not make sense.
    #[error("kubeconfig {path}: {}", told(source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// No kubeconfig was given and the process does not run in a pod.
    #[error(
        "this is not a pod of a cluster and no kubeconfig was given (--kubeconfig or --master or, with --config, \
         clientConnection.kubeconfig in that file): {0}"
    )]
    NotInCluster(#[source] Box<kube::config::InClusterError>),
    /// The address of the API server is not a URL.
    #[error("API server address {address:?} is not a URL: {source}")]
    Address {
        /// The address as given.
        address: String,
        /// Why it is none.
        source: http::uri::InvalidUri,
    },
    /// A proxy is configured, which this client does not speak.
    #[error("proxy {0:?} of the kubeconfig is not supported: connections to the API server are direct")]
    Proxy(String),
    /// Credentials or certificates are not usable.
    #[error("credentials for the API server: {0}")]
    Credentials(#[source] Box<kube::Error>),
    /// A file with credentials cannot be read.
    #[error("file {path} with credentials for the API server cannot be read: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A token or name that cannot stand in a header.
    #[error("{what} holds characters that cannot be sent in a header")]
    Header {
        /// Where it came from.
        what: String,
    },
}

/// How to reach the API server.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Where address and credentials come from.
    pub source: Source,
    /// A limit on calls (not on lease renewals), when one was configured explicitly.
    pub rate: Option<RateLimit>,
    /// Binds in flight at once; decides how many connections binds get.
    pub binds_in_flight: usize,
}

/// The clients of one process, by kind of call.
#[derive(Clone)]
pub struct ClientSet {
    /// For binds.
    pub bind: Client,
    /// For lists and watches.
    pub watch: Client,
    /// For lease renewals: never limited.
    pub lease: Client,
    /// For events, status, evictions and everything else.
    pub status: Client,
    server: Arc<str>,
}

impl std::fmt::Debug for ClientSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ClientSet")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl ClientSet {
    /// Makes all clients; opens no connection yet, so an unreachable server is not an error here. Must be called inside
    /// a tokio runtime.
    ///
    /// # Errors
    /// When the configuration or its credentials cannot be read.
    pub fn new(options: &ClientOptions, metrics: Option<&Arc<Metrics>>) -> Result<Self, ClientError> {
        let target = options.source.load()?;
        if let Some(metrics) = metrics {
            metrics.set_api_server(target.authority());
        }
        let limiter = options.rate.and_then(limiter::Limiter::new).map(Arc::new);
        let bind_connections = options
            .binds_in_flight
            .div_ceil(STREAMS_PER_CONNECTION)
            .clamp(1, MAX_BIND_CONNECTIONS);
        let wiring = |connections: usize| transport::Wiring {
            connections,
            http: connections::HttpVersions::All,
            limiter: limiter.clone(),
            metrics: metrics.map(Arc::clone),
            file_check: files::CHECK_INTERVAL,
        };
        let lease_wiring = transport::Wiring {
            http: connections::HttpVersions::Http1,
            limiter: None,
            ..wiring(1)
        };
        Ok(Self {
            bind: transport::client(&target, &wiring(bind_connections))?,
            watch: transport::client(&target, &wiring(1))?,
            lease: transport::client(&target, &lease_wiring)?,
            status: transport::client(&target, &wiring(1))?,
            server: target.authority().into(),
        })
    }

    /// One client for another purpose, such as delegated authentication with its own kubeconfig.
    ///
    /// # Errors
    /// When the configuration or its credentials cannot be read.
    pub fn single(source: &Source, metrics: Option<&Arc<Metrics>>) -> Result<Client, ClientError> {
        let target = source.load()?;
        transport::client(
            &target,
            &transport::Wiring {
                connections: 1,
                http: connections::HttpVersions::All,
                limiter: None,
                metrics: metrics.map(Arc::clone),
                file_check: files::CHECK_INTERVAL,
            },
        )
    }

    /// A client that looks at its credential files at each call.
    #[cfg(test)]
    pub(crate) fn eager(source: &Source, connections: usize) -> Result<Client, ClientError> {
        let wiring = transport::Wiring {
            connections,
            http: connections::HttpVersions::All,
            limiter: None,
            metrics: None,
            file_check: std::time::Duration::ZERO,
        };
        transport::client(&source.load()?, &wiring)
    }

    /// `host:port` of the API server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }
}

/// What we call ourselves: `supercargo/<version> (<system>/<architecture>)`.
#[must_use]
pub fn user_agent() -> String {
    format!(
        "supercargo/{} ({}/{})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

#[cfg(test)]
mod tests;
