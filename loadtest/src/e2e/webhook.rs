//! An HTTP server that plays an extender.
//!
//! Does not: know the protocol; a scenario says what is answered.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What is answered to a verb and its question; `None`: nothing, ever.
type Script = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;
/// Verbs and questions.
type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A server on the loopback; gone when dropped.
#[derive(Debug)]
pub struct Webhook {
    address: SocketAddr,
    calls: Calls,
    task: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhook {
    /// Starts one. A verb is the path without its slash.
    ///
    /// # Errors
    /// No port is to be had.
    pub async fn start(script: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
        let address = listener.local_addr().context("listening")?;
        let (calls, script): (Calls, Arc<Script>) = (Calls::default(), Arc::new(script));
        let noted = Arc::clone(&calls);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, noted) = (Arc::clone(&script), Arc::clone(&noted));
                let service = service_fn(move |request| answer(request, Arc::clone(&script), Arc::clone(&noted)));
                tokio::spawn(async move {
                    let served = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                    if let Err(error) = served {
                        tracing::debug!(error, "a connection to the webhook ended");
                    }
                });
            }
        });
        Ok(Self { address, calls, task })
    }

    /// Its address, as `urlPrefix`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Verbs and questions so far.
    #[must_use]
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().clone()
    }
}

async fn answer(request: Request<Incoming>, script: Arc<Script>, calls: Calls) -> Result<Response<Full<Bytes>>> {
    let verb = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let question: Value = serde_json::from_slice(&body)?;
    let answer = script(&verb, &question);
    calls.lock().push((verb, question));
    match answer {
        Some(answer) => Ok(Response::new(Full::new(Bytes::from(answer.to_string())))),
        None => std::future::pending().await,
    }
}
