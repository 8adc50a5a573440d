//! One write of an event or a status, with the retries that both share.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use crate::cluster::PodInfo;
use crate::ids::PodUid;

/// Waits between tries of a status, in milliseconds: a bind of the pod may be waiting for it.
pub(super) const BRIEFLY: &[u64] = &[10, 50, 250, 1000, 4000];
/// Waits between tries of an event: through a restart of the server. Those behind it wait in their queue.
pub(super) const PATIENTLY: &[u64] = &[10, 50, 250, 1000, 4000, 15_000, 30_000, 60_000];
/// The longest wait that an answer may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// The longest that a call may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// An answer longer than this is not read to its end.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Yes,
    /// The object is not there or is another one by now.
    NotFound,
    /// Refused because the object is not as the write has it: another UID, or another version.
    Mismatch(String),
    /// This process may not act any more.
    Forbidden,
    /// Refused, or not possible in any of the tries.
    No(String),
}

impl Written {
    /// What stood in the way, for logs; empty where nothing did.
    pub(super) fn why(self) -> String {
        match self {
            Self::Yes => String::new(),
            Self::NotFound => "the object is not there".to_owned(),
            Self::Forbidden => "this process may not act any more".to_owned(),
            Self::Mismatch(error) | Self::No(error) => error,
        }
    }
}

/// Sends `write`, again after each of `pauses` (milliseconds), or what the answer asks for if that is longer, while the
/// server is busy or away.
pub(super) async fn send(client: &Client, write: &Write, pauses: &[u64]) -> Written {
    send_while(client, write, pauses, &|| true).await
}

/// The same while `may_act` says yes, which is asked before every try.
pub(super) async fn send_while(
    client: &Client,
    write: &Write,
    pauses: &[u64],
    may_act: &(dyn Fn() -> bool + Send + Sync),
) -> Written {
    let mut last = String::new();
    let mut lost = false;
    let mut asked = Duration::ZERO;
    for pause in std::iter::once(&0).chain(pauses) {
        let pause = Duration::from_millis(*pause).max(asked);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if !may_act() {
            return Written::Forbidden;
        }
        match tokio::time::timeout(DEADLINE, once(client, write)).await {
            Ok(Ok((status, _))) if status.is_success() => return Written::Yes,
            Ok(Ok((StatusCode::NOT_FOUND, _))) => return Written::NotFound,
            // An earlier try was applied though its answer was lost.
            Ok(Ok((StatusCode::CONFLICT, _))) if lost && write.method == Method::POST => return Written::Yes,
            Ok(Ok((status @ (StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY), _))) => {
                return Written::Mismatch(format!("the API server answered {status}"));
            }
            Ok(Ok((status, retry_after))) if is_worth_another_try(status) => {
                last = format!("the API server answered {status}");
                asked = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
            }
            Ok(Ok((status, _))) => return Written::No(format!("the API server answered {status}")),
            Ok(Err(error)) => (last, lost) = (error, true),
            Err(_elapsed) => (last, lost) = ("no answer in time".to_owned(), true),
        }
    }
    Written::No(last)
}

fn is_worth_another_try(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Reads an object.
///
/// # Errors
/// It cannot be read.
async fn read(client: &Client, path: &str) -> Result<Option<bytes::Bytes>, String> {
    let request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => body
                .map(|body| Some(body.to_bytes()))
                .map_err(|error| error.to_string()),
            status => Err(format!("the API server answered {status}")),
        }
    };
    let answer = tokio::time::timeout(DEADLINE, answer).await;
    answer.map_err(|_elapsed| "no answer in time".to_owned())?
}

#[derive(Deserialize)]
struct PodAnswer {
    metadata: PodMeta,
}

#[derive(Deserialize)]
struct PodMeta {
    uid: String,
}

/// Where a pod is found.
pub(super) fn path(pod: &PodInfo) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Whether the pod itself, and not another one of its name, is there.
///
/// # Errors
/// It cannot be read.
pub(super) async fn is_there(client: &Client, pod: &PodInfo) -> Result<bool, String> {
    let Some(answer) = read(client, &path(pod)).await? else {
        return Ok(false);
    };
    let answer: PodAnswer = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    Ok(PodUid::parse(&answer.metadata.uid) == pod.uid)
}

async fn once(client: &Client, write: &Write) -> Result<(StatusCode, Option<Duration>), String> {
    let request = Request::builder()
        .method(write.method.clone())
        .uri(&write.path)
        .header(http::header::CONTENT_TYPE, write.content_type)
        .body(Body::from(write.body.clone()))
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let (status, retry_after) = (response.status(), retry_after(response.headers()));
    // Read to its end, so that the connection can be used again.
    drop(Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await);
    Ok((status, retry_after))
}

/// What `Retry-After` says, in seconds; a date in it is not understood.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}
