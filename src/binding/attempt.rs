//! The bind call: its deadline, its classes of error, and reading back what became of it.
//!
//! Source of the request: `pkg/scheduler/framework/plugins/defaultbinder`, Kubernetes 1.36.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::{Deserialize, Serialize};

use super::pool::{BindingPool, bind_failure, shutting_down};
use super::write::retry_after;
use crate::binding::{BindTask, Failure};
use crate::framework::Code;
use crate::ids::{PodUid, Symbol};
use crate::ledger::PromiseState;

/// Most answers that tell us to come back later; then the pod goes back to the queue.
pub(super) const MAX_DEFERRALS: u32 = 10;
/// Most calls that may end without an answer; then the pod goes back to the queue. A call that was lost may still be
/// under way: only the answer to another one makes sure of what it came to.
pub(super) const MAX_LOSSES: u32 = 3;
/// The wait when an answer says "later" and not when.
pub(super) const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// The longest wait that an answer may ask for.
pub(super) const MAX_RETRY: Duration = Duration::from_secs(60);
/// Pauses between reads of an unknown outcome: from the first to the longest, doubling.
const FIRST_READ_PAUSE: Duration = Duration::from_millis(100);
const MAX_READ_PAUSE: Duration = Duration::from_secs(5);
/// An answer to a bind or a pod is a few kilobytes; an API object is at most 1.5 MiB.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The one end of a task.
#[derive(Debug)]
pub(super) enum Ending {
    /// Bound to the chosen node.
    Bound,
    /// The pod, or this tenant of its name, is no more.
    Gone,
    /// Bound to another node, by somebody else.
    Elsewhere(String),
    /// Not bound, for sure.
    Failed(Failure),
    /// Not bound, because this process may not act any more.
    Fenced,
}

impl Ending {
    /// As the status of the point.
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Bound => Code::Success,
            Self::Failed(Failure::Refused(_)) => Code::Unschedulable,
            Self::Gone | Self::Fenced | Self::Elsewhere(_) | Self::Failed(_) => Code::Error,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Gone => "gone",
            Self::Elsewhere(_) => "elsewhere",
            Self::Failed(_) => "failed",
            Self::Fenced => "fenced",
        }
    }
}

/// What one call came to.
enum Answer {
    Done,
    /// Not applied; may be asked again after this time.
    Later(Duration, String),
    /// Not applied and not to be repeated.
    Refused(String),
    /// The pod is not there.
    NotFound,
    /// Applied or not: it has to be read back.
    Unknown(String),
    /// No answer came: applied, not applied, or still under way.
    Lost(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
struct BindingMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'static str,
    name: &'a str,
}

#[derive(Deserialize)]
struct PodAnswer {
    metadata: PodMeta,
    #[serde(default)]
    spec: PodNode,
}

#[derive(Deserialize)]
struct PodMeta {
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodNode {
    node_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct StatusAnswer {
    pub(super) message: String,
}

impl BindingPool {
    /// Creates the pod's Binding; returns when the outcome is known.
    pub(super) async fn bind_by_api(&self, task: &BindTask, plugin: Symbol) -> Ending {
        let fail = |text: &str| Ending::Failed(bind_failure(plugin, text));
        let (mut deferrals, mut losses) = (0, 0);
        loop {
            if let Some(ending) = self.forbidden(task, plugin).await {
                return ending;
            }
            match self.call(task).await {
                Answer::Done => return Ending::Bound,
                Answer::NotFound => return Ending::Gone,
                Answer::Refused(text) => return fail(&text),
                Answer::Unknown(text) => return self.read_back(task).await.unwrap_or_else(|| fail(&text)),
                Answer::Lost(text) => {
                    if let Some(ending) = self.read_back(task).await {
                        return ending;
                    }
                    losses += 1;
                    if losses >= MAX_LOSSES {
                        return fail(&text);
                    }
                    self.metrics.bind_retry("lost");
                }
                Answer::Later(pause, text) => {
                    deferrals += 1;
                    if deferrals >= MAX_DEFERRALS {
                        return fail(&text);
                    }
                    self.metrics.bind_retry("later");
                    tracing::debug!(
                        pod = task.queued.pod.full_name(),
                        ?pause,
                        text,
                        "the API server is busy"
                    );
                    self.pause(pause).await;
                }
            }
        }
    }

    /// Why no bind may be sent now, if so. Also waits for a write of the pod's condition that is under way, so that the
    /// bound pod is not said to be unschedulable afterwards.
    pub(super) async fn forbidden(&self, task: &BindTask, plugin: Symbol) -> Option<Ending> {
        self.failures.status.settle(task.queued.pod.uid).await;
        if self.stopping.is_cancelled() {
            return Some(Ending::Failed(shutting_down()));
        }
        if !(self.may_act)() {
            return Some(Ending::Fenced);
        }
        let node = self.cluster.node(task.node_idx);
        let is_there = node.is_some_and(|node| node.incarnation == task.incarnation);
        (!is_there).then(|| Ending::Failed(bind_failure(plugin, &format!("node {:?} is gone", task.node))))
    }

    pub(super) async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.stopping.cancelled() => {}
        }
    }

    async fn call(&self, task: &BindTask) -> Answer {
        let request = match bind_request(task) {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error),
        };
        let _lane = self.lane(task).await;
        let answer = async {
            match self.client.send(request).await {
                Ok(response) => classify(response).await,
                Err(error) => Answer::Lost(error.to_string()),
            }
        };
        tokio::select! {
            biased;
            answer = tokio::time::timeout(self.deadline, answer) => {
                answer.unwrap_or_else(|_elapsed| Answer::Lost(format!("no answer within {:?}", self.deadline)))
            }
            () = self.stopping.cancelled() => Answer::Unknown("the scheduler is shutting down".to_owned()),
        }
    }

    /// Reads the pod until it is known what became of the bind. `None`: it is not bound, as far as the server knows.
    pub(super) async fn read_back(&self, task: &BindTask) -> Option<Ending> {
        let mut pause = FIRST_READ_PAUSE;
        loop {
            self.metrics.bind_retry("read_back");
            if let Some(ending) = self.known_by_watch(task) {
                return Some(ending);
            }
            // The next process reads all pods anyhow.
            if self.stopping.is_cancelled() {
                return None;
            }
            match self.read(task).await {
                Ok(Some(node)) if node == task.node.as_str() => return Some(Ending::Bound),
                Ok(Some(node)) if !node.is_empty() => return Some(Ending::Elsewhere(node)),
                Ok(Some(_)) => return None,
                Ok(None) => return Some(Ending::Gone),
                Err(text) => tracing::debug!(pod = task.queued.pod.full_name(), text, "the bind's outcome is unknown"),
            }
            self.pause(pause).await;
            pause = (pause * 2).min(MAX_READ_PAUSE);
        }
    }

    fn known_by_watch(&self, task: &BindTask) -> Option<Ending> {
        let promise = self.cluster.ledger.promise(task.queued.pod.uid);
        match promise {
            None => Some(Ending::Gone),
            Some(promise) if promise.state == PromiseState::Bound => Some(if promise.node == task.node_idx {
                Ending::Bound
            } else {
                Ending::Elsewhere(
                    self.cluster
                        .node(promise.node)
                        .map_or_else(String::new, |n| n.name.to_string()),
                )
            }),
            Some(_) => None,
        }
    }

    /// The pod's node, empty when it has none; `None`: it is gone, or another pod has its name.
    async fn read(&self, task: &BindTask) -> Result<Option<String>, String> {
        let pod = &task.queued.pod;
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let request = Request::get(path)
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        let _lane = self.lane(task).await;
        let answer = tokio::time::timeout(self.deadline, async {
            let response = self.client.send(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            Ok::<_, String>((status, read_body(response).await?))
        });
        let (status, body) = answer.await.map_err(|_elapsed| "no answer in time".to_owned())??;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                let read: PodAnswer = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                Ok((PodUid::parse(&read.metadata.uid) == pod.uid).then_some(read.spec.node_name))
            }
            status => Err(format!("the API server answered {status}")),
        }
    }
}

fn bind_request(task: &BindTask) -> Result<Request<Body>, String> {
    let pod = &task.queued.pod;
    let binding = Binding {
        api_version: "v1",
        kind: "Binding",
        metadata: BindingMeta {
            name: &pod.name,
            namespace: pod.namespace.as_str(),
            uid: &pod.uid_text,
        },
        target: BindingTarget {
            kind: "Node",
            name: task.node.as_str(),
        },
    };
    let body = serde_json::to_vec(&binding).map_err(|error| error.to_string())?;
    Request::builder()
        .method(Method::POST)
        .uri(format!(
            "/api/v1/namespaces/{}/pods/{}/binding",
            pod.namespace, pod.name
        ))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|error| error.to_string())
}

async fn classify(response: Response<Body>) -> Answer {
    let status = response.status();
    if status.is_success() {
        // Read to its end, so that the connection can be used again.
        drop(read_body(response).await);
        return Answer::Done;
    }
    let retry_after = retry_after(response.headers()).map(|asked| asked.min(MAX_RETRY));
    let text = match read_body(response).await {
        Ok(body) => {
            serde_json::from_slice::<StatusAnswer>(&body)
                .unwrap_or_default()
                .message
        }
        Err(error) => error,
    };
    let text = if text.is_empty() {
        format!("the API server answered {status}")
    } else {
        text
    };
    match status {
        StatusCode::NOT_FOUND => Answer::NotFound,
        StatusCode::TOO_MANY_REQUESTS => Answer::Later(retry_after.unwrap_or(DEFAULT_RETRY), text),
        StatusCode::SERVICE_UNAVAILABLE if retry_after.is_some() => {
            Answer::Later(retry_after.unwrap_or(DEFAULT_RETRY), text)
        }
        // Bound already, by an earlier try of ours or by somebody else, or the name has another pod.
        StatusCode::CONFLICT => Answer::Unknown(text),
        status if status.is_server_error() => Answer::Unknown(text),
        _ => Answer::Refused(text),
    }
}

pub(super) async fn read_body(response: Response<Body>) -> Result<bytes::Bytes, String> {
    let limited = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
    limited
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| error.to_string())
}
