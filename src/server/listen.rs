//! Connections: accepted, bounded, served, drained.
//!
//! Threads: one task accepts; each connection is a task of its own, tracked so that none outlives the server.
//!
//! Does not: know what is served.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::{Http2, ServerError, ServingOptions};

/// Connections open at once: a few scrapers, probes and people; the rest wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 256;

/// Connections that the kernel holds for us.
const BACKLOG: u32 = 128;

/// Longest handshake, and longest wait for a request's header (also between two requests of one connection).
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for answers that are under way when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after an error of `accept` (out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Largest header of HTTP/1 and HTTP/2, in bytes; a client certificate's worth of tokens fits several times.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// HTTP/2 streams a connection when none were configured: Go's default.
const DEFAULT_STREAMS: u32 = 250;

/// The certificate chain that the client of a connection proved to own; empty when it showed none.
#[derive(Debug, Clone, Default)]
pub(super) struct PeerCertificates(pub(super) Arc<[CertificateDer<'static>]>);

/// An open port.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    config: Arc<ServerConfig>,
    http2: Http2,
    /// Connections so far.
    accepted: Arc<AtomicUsize>,
}

impl Listener {
    /// Opens the port.
    pub(super) fn bind(options: &ServingOptions, config: ServerConfig) -> Result<Self, ServerError> {
        let address = SocketAddr::new(options.bind_address, options.port);
        let wrap = |source| ServerError::Bind { address, source };
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }
        .map_err(wrap)?;
        // A restarted process may take its old port at once, as with Go's listeners.
        socket.set_reuseaddr(true).map_err(wrap)?;
        if options.share_port {
            socket.set_reuseport(true).map_err(wrap)?;
        }
        socket.bind(address).map_err(wrap)?;
        let listener = socket.listen(BACKLOG).map_err(wrap)?;
        let address = listener.local_addr().map_err(wrap)?;
        Ok(Self {
            listener,
            address,
            config: Arc::new(config),
            http2: options.http2,
            accepted: Arc::default(),
        })
    }

    /// Counts connections, for tests.
    #[cfg(test)]
    pub(super) fn accepted(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.accepted)
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `cancel` fires, then drains.
    pub(super) async fn run(self, app: Router, cancel: CancellationToken) {
        let connection = Arc::new(ConnectionSettings {
            acceptor: TlsAcceptor::from(self.config),
            http1: builder(self.http2).http1_only(),
            http2: builder(self.http2).http2_only(),
            app,
        });
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let tasks = TaskTracker::new();
        loop {
            let next = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = cancel.cancelled() => break,
                next = next => next,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                    let connection = Arc::clone(&connection);
                    let watcher = graceful.watcher();
                    let cancel = cancel.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = cancel.cancelled() => {}
                            tls = connection.handshake(stream) => if let Some((tls, peer)) = tls {
                                connection.serve(tls, peer, watcher).await;
                            },
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        tasks.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, async { tokio::join!(graceful.shutdown(), tasks.wait()) })
            .await
            .is_err()
        {
            tracing::debug!("connections were open when the server ended");
        }
    }
}

type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

struct ConnectionSettings {
    acceptor: TlsAcceptor,
    http1: auto::Builder<TokioExecutor>,
    http2: auto::Builder<TokioExecutor>,
    app: Router,
}

impl ConnectionSettings {
    async fn handshake(&self, stream: TcpStream) -> Option<(TlsStream, PeerCertificates)> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        match tokio::time::timeout(HEADER_TIMEOUT, self.acceptor.accept(stream)).await {
            Ok(Ok(tls)) => {
                let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
                let peer = PeerCertificates(
                    chain
                        .iter()
                        .map(|certificate| certificate.clone().into_owned())
                        .collect(),
                );
                Some((tls, peer))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_elapsed) => None,
        }
    }

    /// Serves the version that the handshake agreed on. A connection without a request in time is closed.
    async fn serve(&self, tls: TlsStream, peer: PeerCertificates, watcher: Watcher) {
        let asked = AtomicBool::new(false);
        let speaks_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let builder = if speaks_http2 { &self.http2 } else { &self.http1 };
        let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            self.app.clone().oneshot(request)
        });
        let mut connection = pin!(watcher.watch(builder.serve_connection(TokioIo::new(tls), service)));
        let ended = match tokio::time::timeout(HEADER_TIMEOUT, &mut connection).await {
            Ok(ended) => ended,
            Err(_elapsed) if asked.load(Ordering::Relaxed) => connection.await,
            Err(_elapsed) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

fn builder(http2: Http2) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES);
    let streams = match http2 {
        Http2::Enabled { max_streams } if max_streams > 0 => max_streams,
        Http2::Enabled { .. } | Http2::Disabled => DEFAULT_STREAMS,
    };
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30));
    builder
}
