//! The API server over real HTTP: HTTP/1.1 and HTTP/2, plain or with TLS, on loopback.
//!
//! A request: parse the path (`path`) → authenticate → ask `faults` → discovery, reviews, admin, or `dispatch` to reads and
//! writes of the store → answer in the asked form (`view`, `table`).
//!
//! Threads: connections are tasks on the caller's runtime, or on threads of the server's own ([`ServerConfig::threads`]).
//!
//! Does not: limit requests in flight, compress, or answer in protobuf (it reads some kinds in that form, see `protobuf`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::ApiError;
use crate::faults::Faults;
use crate::store::{HistoryLimits, Store};

mod admin;
mod auth;
mod body;
mod discovery;
mod dispatch;
mod openapi;
mod path;
mod protobuf;
mod reads;
mod stats;
mod table;
mod tls;
mod view;
mod watching;

pub use self::auth::StaticToken;
pub use self::stats::{Stats, StatsSnapshot};

/// As upstream's limit on streams of one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;
/// Largest request body, as etcd's request limit upstream.
const MAX_BODY_BYTES: usize = 3 << 20;
/// How long `stop` waits for connections to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen; port 0 picks a free one.
    pub address: SocketAddr,
    /// Serve TLS with a certificate made at start.
    pub tls: bool,
    /// 0: run on the caller's runtime; otherwise on a runtime of its own with so many threads.
    pub threads: usize,
    /// Bounds of each resource's history.
    pub history: HistoryLimits,
    /// Bearer tokens; empty: everybody is the administrator.
    pub tokens: Vec<StaticToken>,
    /// Time between bookmarks on a watch that allows them.
    pub bookmark_interval: Duration,
    /// Least time between two writes to one watch: events in between go out together.
    pub watch_flush_interval: Duration,
    /// Seed of random faults.
    pub fault_seed: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: false,
            threads: 0,
            history: HistoryLimits::default(),
            tokens: Vec::new(),
            bookmark_interval: Duration::from_secs(10),
            watch_flush_interval: Duration::from_millis(1),
            fault_seed: 1,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    /// The server's own threads cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The store refused one of its own objects.
    #[error("cannot fill the store")]
    Store(#[source] ApiError),
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) stats: Stats,
    pub(crate) config: ServerConfig,
    pub(crate) stopping: CancellationToken,
    address: SocketAddr,
}

/// The server; see [`Server::start`].
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server and returns once it listens.
    ///
    /// # Errors
    /// When the address is taken or the certificate or threads cannot be made.
    pub async fn start(config: ServerConfig) -> Result<ServerHandle, StartError> {
        let listen = |source| StartError::Listen {
            address: config.address,
            source,
        };
        let listener = std::net::TcpListener::bind(config.address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let tls = if config.tls {
            Some(tls::Identity::new(address.ip())?)
        } else {
            None
        };
        let store = Store::new(config.history).map_err(StartError::Store)?;
        let shared = Arc::new(Shared {
            faults: Faults::new(store.clone(), config.fault_seed),
            store,
            stats: Stats::default(),
            stopping: CancellationToken::new(),
            address,
            config,
        });
        let acceptor = tls.as_ref().map(tls::Identity::acceptor);
        let tasks = TaskTracker::new();
        let threads = shared.config.threads;
        let accept = accept(listener, acceptor, Arc::clone(&shared), tasks.clone());
        if threads == 0 {
            tasks.spawn(accept);
        } else {
            start_runtime(threads, accept, tasks.clone())?;
        }
        tracing::info!(%address, tls = tls.is_some(), "api server is listening");
        Ok(ServerHandle {
            shared,
            tasks,
            certificate: tls.map(|identity| identity.authority_pem),
        })
    }
}

fn start_runtime(
    threads: usize,
    accept: impl Future<Output = ()> + Send + 'static,
    tasks: TaskTracker,
) -> Result<(), StartError> {
    let mut builder = if threads == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(StartError::Thread)?;
    let token = tasks.token();
    let body = move || {
        runtime.block_on(async move {
            accept.await;
            drop(token);
            tasks.close();
            // Connections end by the same token as the accept loop; a stuck one does not hold the thread.
            drop(tokio::time::timeout(STOP_TIMEOUT, tasks.wait()).await);
        });
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name("apiserver".to_owned())
        .spawn(body)
        .map_err(StartError::Thread)?;
    Ok(())
}

async fn accept(
    listener: std::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    tasks: TaskTracker,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the listener cannot be used");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            () = shared.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(connection(stream, acceptor.clone(), Arc::clone(&shared)));
            }
            Err(error) => {
                // Out of file descriptors: others will close; do not spin meanwhile.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stopping = shared.stopping.clone();
    let serve = async move {
        match acceptor {
            None => serve(stream, shared).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => serve(stream, shared).await,
                Err(error) => tracing::debug!(%error, "the TLS handshake failed"),
            },
        }
    };
    tokio::select! {
        () = stopping.cancelled() => {}
        () = serve => {}
    }
}

async fn serve<Io: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: Io, shared: Arc<Shared>) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS);
    let service = hyper::service::service_fn(move |request| dispatch::handle(Arc::clone(&shared), request));
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error = %error, "a connection ended");
    }
}

/// A running server. Dropping the handle leaves it running; [`ServerHandle::stop`] ends it.
#[derive(Debug)]
pub struct ServerHandle {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    certificate: Option<String>,
}

impl ServerHandle {
    /// `http://127.0.0.1:PORT`, or `https://…` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.shared.address)
    }

    /// The certificate authority's certificate as PEM, with TLS.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// A kubeconfig for this server, with the first static token if there are tokens.
    ///
    /// Without tokens it carries one of the administrator's, which reviews know: `kubectl` asks for a user name where it
    /// finds none.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let token = self
            .shared
            .config
            .tokens
            .first()
            .map_or(auth::ADMIN_TOKEN, |token| token.token.as_str());
        self.kubeconfig_for(Some(token))
    }

    /// A kubeconfig for this server with a bearer token.
    #[must_use]
    pub fn kubeconfig_for(&self, token: Option<&str>) -> String {
        tls::kubeconfig(&self.url(), self.certificate.as_deref(), token)
    }

    /// The objects.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// What was served so far.
    #[must_use]
    pub fn stats(&self) -> StatsSnapshot {
        self.shared.stats.snapshot(&self.shared.store)
    }

    /// Ends all connections and the server.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections are still open after the stop timeout");
        }
    }
}
