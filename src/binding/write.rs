//! One write of an event or a status, with the retries that both share.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;

/// Waits between tries: half a second in all, then a longer one for a server that is away.
const PAUSES_MILLIS: [u64; 5] = [10, 50, 250, 1000, 4000];
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
    /// Refused, or not possible in any of the tries.
    No(String),
}

/// Sends `write`, again while the server is busy or away.
pub(super) async fn send(client: &Client, write: &Write) -> Written {
    let mut last = String::new();
    let mut lost = false;
    for pause in std::iter::once(0).chain(PAUSES_MILLIS) {
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        match tokio::time::timeout(DEADLINE, once(client, write)).await {
            Ok(Ok(status)) if status.is_success() => return Written::Yes,
            Ok(Ok(StatusCode::NOT_FOUND)) => return Written::NotFound,
            // An earlier try was applied though its answer was lost.
            Ok(Ok(StatusCode::CONFLICT)) if lost && write.method == Method::POST => return Written::Yes,
            Ok(Ok(status)) if is_worth_another_try(status) => last = format!("the API server answered {status}"),
            Ok(Ok(status)) => return Written::No(format!("the API server answered {status}")),
            Ok(Err(error)) => (last, lost) = (error, true),
            Err(_elapsed) => (last, lost) = ("no answer in time".to_owned(), true),
        }
    }
    Written::No(last)
}

fn is_worth_another_try(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

async fn once(client: &Client, write: &Write) -> Result<StatusCode, String> {
    let request = Request::builder()
        .method(write.method.clone())
        .uri(&write.path)
        .header(http::header::CONTENT_TYPE, write.content_type)
        .body(Body::from(write.body.clone()))
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    // Read to its end, so that the connection can be used again.
    drop(Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await);
    Ok(status)
}
