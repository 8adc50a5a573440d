//! Calls to one extender: POST with JSON, one deadline for all of it, an answer of bounded length.
//!
//! Redirects are not followed: an answer other than 200 is a failure.
//!
//! Threads: any task. Certificates and keys in files are looked at again every ten seconds, by whichever call comes
//! first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use supercargo_config::extender::Extender as ExtenderConfig;
use tokio::sync::Semaphore;

use super::error::{CallError, ExtenderError};
use super::{tls, wire};
use crate::client::files::{CHECK_INTERVAL, WatchedFiles};
use crate::clock::{Clock, Nanos};
use crate::sync::Mutex;
use crate::telemetry::{ExtenderVerb, Metrics, error_text};

/// An answer is no longer than this, twice the question, and [`BYTES_A_NODE`] for every node asked about. For a full
/// answer about 5,000 nodes of 20 KB that is 221 MB, for names about three nodes 1 MiB.
const BASE_BYTES: usize = 1 << 20;
/// Room for what is said about one node: a name of 253 bytes and a message.
const BYTES_A_NODE: usize = 4 << 10;
/// Memory for all questions of one extender that are open at a time, with their answers: 256 MiB. A question that needs
/// more goes alone.
const MEMORY_PAGES: u32 = 64 << 10;
const PAGE_BYTES: usize = 4 << 10;
/// From this length on an answer is read on a thread where nobody else waits.
const LONG_ANSWER_BYTES: usize = 256 << 10;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

const VERBS: [ExtenderVerb; 4] = [
    ExtenderVerb::Filter,
    ExtenderVerb::Prioritize,
    ExtenderVerb::Preempt,
    ExtenderVerb::Bind,
];

type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// How large a question is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Nodes or victims that it is about.
    pub(super) nodes: usize,
    /// Bytes of whole objects in it.
    pub(super) bytes: usize,
}

impl Extent {
    /// The question, and an answer of its length twice: as text and as it is read.
    fn pages(self) -> u32 {
        let pages = self.bytes.saturating_mul(3) / PAGE_BYTES + 1;
        u32::try_from(pages).unwrap_or(u32::MAX).min(MEMORY_PAGES)
    }
}

/// The connections to one extender.
pub(super) struct Connection {
    config: ExtenderConfig,
    http: ArcSwap<Http>,
    files: Mutex<WatchedFiles>,
    /// When the files are looked at again, in [`Nanos`].
    next_check: AtomicU64,
    /// Memory for questions and answers, in [`PAGE_BYTES`].
    memory: Semaphore,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("url", &self.config.url_prefix)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Prepares connections; opens none.
    ///
    /// # Errors
    /// The address or the TLS settings are of no use.
    pub(super) fn new(config: &ExtenderConfig, metrics: &Arc<Metrics>) -> Result<Self, ExtenderError> {
        for verb in VERBS {
            let url = url_of(config, path_of(config, verb));
            url.parse::<Uri>()
                .map_err(|source| ExtenderError::Address { url, source })?;
        }
        let mut files = WatchedFiles::new(tls::files_of(config));
        // Taken before the contents are read, so that a change in between is seen at the next look.
        if let Some(fingerprint) = files.changed() {
            files.take(fingerprint);
        }
        let clock = Clock::Real;
        Ok(Self {
            http: ArcSwap::from_pointee(http(config)?),
            config: config.clone(),
            files: Mutex::new(files),
            next_check: AtomicU64::new(clock.now().after(CHECK_INTERVAL).0),
            memory: Semaphore::new(MEMORY_PAGES as usize),
            metrics: Arc::clone(metrics),
            clock,
        })
    }

    /// Asks: sends `question` to a verb and reads the answer. Waits first until there is memory for both.
    ///
    /// # Errors
    /// No answer, or none that can be used.
    ///
    /// # Cancel safety
    /// A dropped call closes its connection; the extender may have acted.
    pub(super) async fn ask<T>(
        &self,
        verb: ExtenderVerb,
        question: &(impl Serialize + Sync),
        extent: Extent,
    ) -> Result<T, CallError>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        self.refresh();
        // Never closed: an error cannot occur, and would only leave the memory unbounded.
        let _memory = self.memory.acquire_many(extent.pages()).await.ok();
        let begun = self.clock.now();
        let answer = self
            .ask_timed(path_of(&self.config, verb), question, extent.nodes)
            .await;
        self.metrics
            .extender_call(verb, answer.is_ok(), self.clock.now().since(begun));
        answer
    }

    async fn ask_timed<T>(&self, verb: &str, question: &(impl Serialize + Sync), nodes: usize) -> Result<T, CallError>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        let url = url_of(&self.config, verb);
        let body = serde_json::to_vec(question).map_err(|error| CallError::Question {
            url: url.clone(),
            text: error.to_string(),
        })?;
        let after = self.config.http_timeout;
        let exchange = self.exchange(verb, &url, body, nodes);
        let answer = tokio::time::timeout(after, exchange).await;
        let answer = answer.map_err(|_elapsed| CallError::Deadline {
            url: url.clone(),
            after,
        })??;
        let read = if answer.len() < LONG_ANSWER_BYTES {
            wire::read(&answer).map_err(|error| error.to_string())
        } else {
            let reading = tokio::task::spawn_blocking(move || wire::read(&answer));
            let read = reading.await.map_err(|error| error.to_string());
            read.and_then(|read| read.map_err(|error| error.to_string()))
        };
        read.map_err(|text| CallError::Unreadable { url, text })
    }

    async fn exchange(&self, verb: &str, url: &str, body: Vec<u8>, nodes: usize) -> Result<Bytes, CallError> {
        let transport = |text: String| CallError::Transport {
            url: url.to_owned(),
            text,
        };
        let limit = BASE_BYTES
            .saturating_add(body.len().saturating_mul(2))
            .saturating_add(nodes.saturating_mul(BYTES_A_NODE));
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| transport(error.to_string()))?;
        let http = self.http.load_full();
        let response = http
            .request(request)
            .await
            .map_err(|error| transport(error_text(&error)))?;
        let code = response.status();
        if code != StatusCode::OK {
            return Err(CallError::Status {
                verb: verb.to_owned(),
                url: url.to_owned(),
                code: code.as_u16(),
            });
        }
        let body = Limited::new(response.into_body(), limit).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| {
            if error.is::<LengthLimitError>() {
                CallError::TooLong {
                    url: url.to_owned(),
                    limit,
                }
            } else {
                transport(error_text(&*error))
            }
        })
    }

    /// Takes in files that changed, when it is time to look. What is half written is tried again.
    fn refresh(&self) {
        let now = self.clock.now();
        let due = self.next_check.load(Ordering::Relaxed);
        let next = now.after(CHECK_INTERVAL).0;
        let is_ours = now >= Nanos(due)
            && self
                .next_check
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            return;
        }
        let mut files = self.files.lock();
        let Some(fingerprint) = files.changed() else { return };
        match http(&self.config) {
            Ok(http) => {
                self.http.store(Arc::new(http));
                files.take(fingerprint);
                tracing::info!(extender = self.config.url_prefix, "new certificates are in use");
            }
            Err(error) => tracing::warn!(%error, "new certificates are not usable, the old ones stay in use"),
        }
    }
}

/// The path of a verb; empty when it is not used.
fn path_of(config: &ExtenderConfig, verb: ExtenderVerb) -> &str {
    match verb {
        ExtenderVerb::Filter => &config.filter_verb,
        ExtenderVerb::Prioritize => &config.prioritize_verb,
        ExtenderVerb::Preempt => &config.preempt_verb,
        ExtenderVerb::Bind => &config.bind_verb,
    }
}

fn url_of(config: &ExtenderConfig, verb: &str) -> String {
    format!("{}/{verb}", config.url_prefix.trim_end_matches('/'))
}

fn http(config: &ExtenderConfig) -> Result<Http, ExtenderError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector.set_connect_timeout(Some(config.http_timeout));
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls::client_config(config)?)
        .https_or_http();
    if let Some(name) = tls::server_name(config)? {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector))
}
