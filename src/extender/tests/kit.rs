//! A webhook that answers as a test says, and pods and nodes with their texts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::{Value, json};
use supercargo_config::extender::{Extender as ExtenderConfig, ManagedResource};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::cluster::{ClassTable, LabelVisibility, ObjectText, PodInfo};
use crate::extender::ask::AskedNode;
use crate::extender::{Answer, Extenders, Question};
use crate::ids::{Incarnation, NodeIdx, Symbol};
use crate::sync::Mutex;
use crate::telemetry::{Metrics, MetricsOptions};
use crate::testing::{NodeBuilder, PodBuilder, node};

/// What a webhook does with a call.
pub(crate) enum Reply {
    /// 200 and this.
    Json(Value),
    /// A status and a text.
    Text(u16, String),
    /// A redirect to this address.
    Redirect(String),
    /// 200 and so many bytes of a text that never ends.
    Long(usize),
    /// No answer at all.
    Hang,
    /// 500, once the test says so.
    FailAfter(Arc<Notify>),
}

type Script = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// An HTTP server on the loopback; gone when dropped.
pub(crate) struct Webhook {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    task: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhook {
    /// One that answers by path (the verb) and question.
    pub(crate) async fn start(script: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(None, script).await
    }

    /// The same over TLS if there is an acceptor.
    pub(crate) async fn serve(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let noted = Arc::clone(&calls);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (script, noted, tls) = (Arc::clone(&script), Arc::clone(&noted), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => connection(stream, script, noted).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                connection(stream, script, noted).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            url: format!("{scheme}://localhost:{port}/ext"),
            calls,
            task,
        }
    }

    /// Verbs and questions so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().clone()
    }

    /// Verbs so far.
    pub(crate) fn verbs(&self) -> Vec<String> {
        self.calls.lock().iter().map(|(verb, _)| verb.clone()).collect()
    }
}

async fn connection<S>(stream: S, script: Arc<Script>, noted: Arc<Mutex<Vec<(String, Value)>>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (script, noted) = (Arc::clone(&script), Arc::clone(&noted));
        async move {
            let path = request.uri().path().trim_start_matches("/ext/").to_owned();
            assert_eq!(request.headers()["content-type"], "application/json");
            let body = request.into_body().collect().await?.to_bytes();
            let question: Value = serde_json::from_slice(&body).unwrap_or_default();
            noted.lock().push((path.clone(), question.clone()));
            Ok::<_, hyper::Error>(response(script(&path, &question)).await)
        }
    });
    let _ended = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn response(reply: Reply) -> Response<BoxBody<Bytes, hyper::Error>> {
    let full = |code: u16, bytes: Vec<u8>| {
        let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed();
        Response::builder().status(code).body(body).unwrap()
    };
    match reply {
        Reply::Json(value) => full(200, value.to_string().into_bytes()),
        Reply::Text(code, text) => full(code, text.into_bytes()),
        Reply::Redirect(to) => {
            let mut response = full(307, Vec::new());
            response.headers_mut().insert("location", to.parse().unwrap());
            response
        }
        Reply::Long(bytes) => full(200, [b"{\"Error\":\"".to_vec(), vec![b'x'; bytes]].concat()),
        Reply::Hang => std::future::pending().await,
        Reply::FailAfter(told) => {
            told.notified().await;
            full(500, Vec::new())
        }
    }
}

/// An extender at this address that does nothing yet.
pub(crate) fn extender(url: &str) -> ExtenderConfig {
    ExtenderConfig {
        url_prefix: url.to_owned(),
        filter_verb: String::new(),
        preempt_verb: String::new(),
        prioritize_verb: String::new(),
        weight: 1,
        bind_verb: String::new(),
        enable_https: false,
        tls: None,
        http_timeout: Duration::from_secs(30),
        node_cache_capable: true,
        managed_resources: Vec::new(),
        ignorable: false,
    }
}

/// One that filters by names.
pub(crate) fn filtering(url: &str) -> ExtenderConfig {
    ExtenderConfig {
        filter_verb: "filter".to_owned(),
        ..extender(url)
    }
}

/// One that scores by names.
pub(crate) fn prioritizing(url: &str, weight: i64) -> ExtenderConfig {
    ExtenderConfig {
        prioritize_verb: "prioritize".to_owned(),
        weight,
        ..extender(url)
    }
}

/// The same for pods that name one of these resources alone.
pub(crate) fn managing(config: ExtenderConfig, resources: &[&str]) -> ExtenderConfig {
    let managed = resources.iter().map(|name| ManagedResource {
        name: (*name).to_owned(),
        ignored_by_scheduler: false,
    });
    ExtenderConfig {
        managed_resources: managed.collect(),
        ..config
    }
}

/// An address where nobody listens.
pub(crate) async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port())
}

pub(crate) fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new(&MetricsOptions::default()))
}

pub(crate) fn extenders(configs: &[ExtenderConfig]) -> Extenders {
    Extenders::new(configs, &metrics()).unwrap()
}

/// A pod with its text.
pub(crate) fn with_text(pod: &PodBuilder) -> Arc<PodInfo> {
    let classes = ClassTable::new(LabelVisibility::All);
    let mut info = PodInfo::clone(&pod.build_in(&classes));
    info.text = ObjectText::from_json(&pod.json().to_string()).map(Arc::new);
    Arc::new(info)
}

/// A node that is asked about, with its text.
pub(super) fn asked(at: u32, builder: &NodeBuilder) -> AskedNode {
    let name = builder.json()["metadata"]["name"].as_str().unwrap();
    AskedNode {
        idx: NodeIdx(at),
        incarnation: Incarnation(1),
        name: Symbol::new(name),
        text: ObjectText::from_json(&builder.json().to_string()).map(Arc::new),
    }
}

/// What would be asked about a pod and nodes of these names.
pub(super) fn question(extenders: &Extenders, pod: &Arc<PodInfo>, names: &[&str]) -> Question {
    Question {
        pod: Arc::clone(pod),
        interest: extenders.interest(pod).unwrap_or_default(),
        nodes: (0..).zip(names).map(|(at, name)| asked(at, &node(name))).collect(),
    }
}

/// Names and scores of the nodes that passed, in order.
pub(super) fn passed(question: &Question, answer: &Answer) -> Vec<(&'static str, i64)> {
    let said = question.nodes.iter().map(|node| (node, &answer.nodes[&node.idx]));
    said.filter(|(_, said)| said.passed)
        .map(|(node, said)| (node.name.as_str(), said.score))
        .collect()
}

/// `{"NodeNames": names}`.
pub(crate) fn names(names: &[&str]) -> Reply {
    Reply::Json(json!({"NodeNames": names}))
}

/// Scores of hosts.
pub(crate) fn scores(scores: &[(&str, i64)]) -> Reply {
    let score = |(host, score): &(&str, i64)| json!({"Host": host, "Score": score});
    Reply::Json(scores.iter().map(score).collect())
}
