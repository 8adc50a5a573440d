//! A small HTTP/1.1 client for API servers: many sockets, no typed objects, no retries of its own.
//!
//! The load generator must not be what is measured: requests are bytes, answers are bytes, and a watch is a stream of
//! lines. The server's limits, not the client's, decide the rate (64 sockets and HTTP/2 were measured alike).
//!
//! Does not: refresh credentials, follow redirects, or decode objects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::de::DeserializeOwned;

/// The longest answer that is read: a page of 500 objects of 100 KB each is under it.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// The longest line of a watch: etcd refuses objects above 1.5 MiB, an event holds one.
const MAX_LINE_BYTES: usize = 8 << 20;
/// The longest that one request may take; kube-apiserver's own limit is 60 s.
const REQUEST_LIMIT: Duration = Duration::from_secs(70);

/// Where an API server is and how to speak to it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `http://host:port` or `https://host:port`.
    pub url: String,
    /// Bearer token, if any.
    pub token: Option<String>,
    /// The authority that signed the server's certificate, PEM; `None` for plain HTTP.
    pub ca_pem: Option<Vec<u8>>,
}

/// A pool of HTTP/1.1 connections to one API server. Clones share the pool.
#[derive(Debug, Clone)]
pub struct ApiClient {
    inner: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: Arc<str>,
    authorization: Option<HeaderValue>,
}

impl ApiClient {
    /// A client with a connection pool of its own.
    ///
    /// # Errors
    /// When the authority's certificate or the token cannot be used.
    pub fn new(endpoint: &Endpoint) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        if let Some(pem) = &endpoint.ca_pem {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| anyhow!("certificate authority: {error:?}"))?;
                roots.add(certificate).context("certificate authority cannot be used")?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no TLS versions")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let authorization = match &endpoint.token {
            Some(token) => {
                Some(HeaderValue::from_str(&format!("Bearer {token}")).context("token has strange characters")?)
            }
            None => None,
        };
        let inner = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Self {
            inner,
            base: endpoint.url.trim_end_matches('/').into(),
            authorization,
        })
    }

    /// Sends one request and gives the whole answer, whatever its status.
    ///
    /// # Errors
    /// When no answer came, or one that is too long.
    ///
    /// # Cancel safety
    /// The request may or may not have been carried out.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let answer = async {
            let answer = self
                .inner
                .request(self.build(method, path, content_type, body)?)
                .await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
            Ok::<_, anyhow::Error>((status, body.map_err(|error| anyhow!(error))?.to_bytes()))
        };
        tokio::time::timeout(REQUEST_LIMIT, answer)
            .await
            .with_context(|| format!("no answer in {REQUEST_LIMIT:?}: {path}"))?
    }

    /// POSTs JSON.
    ///
    /// # Errors
    /// As [`ApiClient::send`].
    pub async fn post(&self, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        self.send(Method::POST, path, "application/json", body).await
    }

    /// GETs and decodes.
    ///
    /// # Errors
    /// When there is no answer, its status is not 2xx, or it does not decode.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (status, body) = self.send(Method::GET, path, "application/json", Bytes::new()).await?;
        if !status.is_success() {
            bail!("GET {path}: {status}: {}", excerpt(&body));
        }
        serde_json::from_slice(&body).with_context(|| format!("GET {path}: the answer does not decode"))
    }

    /// Opens a watch (`path` holds the query).
    ///
    /// # Errors
    /// When there is no answer or its status is not 2xx.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let request = self.build(Method::GET, path, "application/json", Bytes::new())?;
        let answer = self
            .inner
            .request(request)
            .await
            .with_context(|| format!("watch {path}"))?;
        if !answer.status().is_success() {
            bail!("watch {path}: {}", answer.status());
        }
        Ok(Lines {
            body: answer.into_body(),
            buffer: BytesMut::new(),
            scanned: 0,
        })
    }

    fn build(&self, method: Method, path: &str, content_type: &str, body: Bytes) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request
            .body(Full::new(body))
            .with_context(|| format!("cannot build a request for {path}"))
    }
}

/// The lines of a streamed answer.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: BytesMut,
    scanned: usize,
}

impl Lines {
    /// The next line without its end; `None` when the server closed the stream.
    ///
    /// # Errors
    /// When the connection broke or a line is too long.
    ///
    /// # Cancel safety
    /// Safe: what was received stays in the buffer.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                bail!("a watch line is longer than {MAX_LINE_BYTES} bytes");
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame.context("the watch broke")?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
        let Some(offset) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.scanned + offset).freeze();
        self.buffer.advance(1);
        self.scanned = 0;
        Some(line)
    }
}

/// The beginning of an answer, for error messages.
#[must_use]
pub fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..300).unwrap_or(body)).into_owned()
}
