//! What the scheduler shows over HTTPS: health, metrics, its configuration.
//!
//! Paths, formats and access rules are kube-scheduler's (1.36): `/healthz`, `/livez`, `/readyz` with their single checks,
//! `/metrics`, `/metrics/resources`, `/metrics/slis`, `/configz`, `/flagz`, `/statusz`, `/version`, `/debug/flags/v`.
//! Who asks is found out by client certificate, request header or TokenReview, and what they may see by
//! SubjectAccessReview, as an API server's extension does.
//!
//! Does not: serve Go profiles (`/debug/pprof` answers 404: there is no Go runtime here to show), or take part in
//! scheduling. Everything that it shows is handed in as plain values, closures and traits.
//!
//! Bounds: 256 connections, 64 KiB of request body, 10 s for a handshake or a header, 30 s for an answer.
//!
//! Children: `health` (checks and their text), `routes` (who answers what), `pages`, `resources`, `auth` (who may see),
//! `listen` (connections), `tls` and `certificates` (what they speak), `x509` (a certificate's subject).

mod auth;
mod certificates;
mod health;
mod listen;
mod pages;
mod resources;
mod routes;
mod tls;
mod x509;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, TelemetryGuard};

pub use auth::{AuthenticationOptions, AuthorizationOptions, RequestHeaderOptions, UserInfo};
pub use certificates::{CertificateSource, SniCertificate};
pub use health::{CheckResult, Endpoints, HealthCheck, HealthChecks};
pub use resources::{PodResource, ResourceMetricsSource};
pub use tls::TlsOptions;

/// Where and how the server listens.
#[derive(Debug, Clone)]
pub struct ServingOptions {
    /// Address to listen on.
    pub bind_address: IpAddr,
    /// Port; 0 lets the system choose one (the flag `--secure-port 0`, which turns serving off, is its caller's).
    pub port: u16,
    /// The server's certificate.
    pub certificate: CertificateSource,
    /// Further certificates by name.
    pub sni: Vec<SniCertificate>,
    /// Versions and cipher suites.
    pub tls: TlsOptions,
    /// HTTP/2, or why not.
    pub http2: Http2,
    /// `--permit-port-sharing`: `SO_REUSEPORT`. (`SO_REUSEADDR`, which `--permit-address-sharing` asks for, is always
    /// set, as by Go's listeners.)
    pub share_port: bool,
}

/// Whether HTTP/2 is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http2 {
    /// `--disable-http2-serving`.
    Disabled,
    /// With at most this many streams a connection; 0 means the default of 250.
    Enabled {
        /// `--http2-max-streams-per-connection`.
        max_streams: u32,
    },
}

impl ServingOptions {
    /// kube-scheduler's defaults on `port`: all addresses, a certificate of our own.
    #[must_use]
    pub fn on_port(port: u16) -> Self {
        Self {
            bind_address: IpAddr::from([0, 0, 0, 0]),
            port,
            certificate: CertificateSource::SelfSigned { hosts: Vec::new() },
            sni: Vec::new(),
            tls: TlsOptions::default(),
            http2: Http2::Enabled { max_streams: 0 },
            share_port: false,
        }
    }
}

/// What the server shows.
#[derive(Clone)]
pub struct Content {
    /// Health checks.
    pub health: HealthChecks,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Rows of `/metrics/resources`; `None`: the page is empty.
    pub resources: Option<Arc<dyn ResourceMetricsSource>>,
    /// What `/configz` shows under `componentconfig`, asked at each request so that a reload shows.
    pub config: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// Flags with their values, in order, for `/flagz`.
    pub flags: Vec<(String, String)>,
    /// Log verbosity for `/debug/flags/v`; `None`: the path is not served.
    pub logging: Option<Arc<TelemetryGuard>>,
    /// The name on `/flagz` and `/statusz`.
    pub component: String,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Content")
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate or key file does not hold what it should.
    #[error("{path}: {message}")]
    Certificate {
        /// The file, or a word for where the certificate came from.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A TLS setting that is not known or not supported.
    #[error("{0}")]
    Tls(String),
    /// The cluster's authentication settings could not be read and must be.
    #[error(
        "cannot read the cluster's authentication settings (configmap kube-system/extension-apiserver-authentication): {0}"
    )]
    Lookup(#[source] Box<kube::Error>),
}

/// A server that listens already and answers once it runs.
#[derive(Debug)]
pub struct Server {
    listener: listen::Listener,
    certificates: Arc<certificates::Certificates>,
    authentication: Arc<auth::Authentication>,
    app: axum::Router,
}

impl Server {
    /// Reads certificates, opens the port and prepares the answers. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the port cannot be opened, a certificate cannot be read, a TLS setting is not known, or the cluster's
    /// authentication settings are needed and cannot be read.
    pub async fn bind(
        options: &ServingOptions,
        authentication: &AuthenticationOptions,
        authorization: &AuthorizationOptions,
        content: Content,
    ) -> Result<Self, ServerError> {
        let certificates = Arc::new(certificates::Certificates::load(&options.certificate, &options.sni)?);
        let config = tls::server_config(&options.tls, options.http2, Arc::clone(&certificates))?;
        let listener = listen::Listener::bind(options, config)?;
        let authentication = Arc::new(auth::Authentication::new(authentication).await?);
        let guard = auth::Guard::new(Arc::clone(&authentication), authorization);
        Ok(Self {
            listener,
            certificates,
            authentication,
            app: routes::router(content, guard),
        })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Serves until `cancel` fires, then lets answers that are under way finish for at most five seconds.
    pub async fn run(self, cancel: CancellationToken) {
        let refresh = async {
            tokio::join!(self.certificates.follow(), self.authentication.follow());
        };
        tokio::select! {
            () = refresh => {}
            () = self.listener.run(self.app, cancel) => {}
        }
    }
}

#[cfg(test)]
mod tests;
