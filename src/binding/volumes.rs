//! Changes of volume objects before a bind, and waiting for what the volume controller makes of them.
//!
//! A change is a patch that applies to one version of the object only, so that of two who decided about the same object
//! one is refused. An answer that was lost is settled by reading the object.
//!
//! Source: `pkg/scheduler/framework/plugins/volumebinding/binder.go` (`bindAPIUpdate`), Kubernetes 1.36, which sends
//! whole objects.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attempt::{DEFAULT_RETRY, MAX_DEFERRALS, MAX_LOSSES, MAX_RETRY, StatusAnswer, read_body};
use super::pool::BindingPool;
use super::write::retry_after;
use crate::binding::BindTask;
use crate::framework::{PreBindWork, VolumeRequest};

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Objects are looked at this often even if no volume object changes: nodes and pods may.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(20);
/// Between two tries of a call whose answer was lost.
const AFTER_LOSS: Duration = Duration::from_millis(200);

/// What one call came to.
enum Answer {
    /// Applied, or read: the object.
    Object(Seen),
    Later(Duration, String),
    Refused(StatusCode, String),
    Lost(String),
}

/// What is read of an object.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Seen {
    metadata: SeenMeta,
    spec: SeenSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SeenMeta {
    resource_version: String,
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SeenSpec {
    claim_ref: Option<SeenClaim>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SeenClaim {
    uid: String,
}

impl BindingPool {
    /// Applies a change and gives the object's new resource version; the error says why it is not applied.
    pub(super) async fn apply_request(&self, task: &BindTask, request: &VolumeRequest) -> Result<String, String> {
        let (path, body) = patch(request);
        let (mut deferrals, mut losses) = (0, 0);
        loop {
            if !(self.may_act)() {
                return Err("this scheduler may not act any more".to_owned());
            }
            match self.send_volume_call(task, &path, Some(&body)).await {
                Answer::Object(seen) => return Ok(seen.metadata.resource_version),
                Answer::Later(pause, text) => {
                    deferrals += 1;
                    if deferrals >= MAX_DEFERRALS {
                        return Err(text);
                    }
                    self.pause(pause).await;
                }
                // The version moved: by the try whose answer was lost, or by somebody else.
                Answer::Refused(StatusCode::CONFLICT, text) if losses > 0 => {
                    let seen = self.read_volume_object(task, &path).await?;
                    return if is_applied(request, &seen) {
                        Ok(seen.metadata.resource_version)
                    } else {
                        Err(text)
                    };
                }
                Answer::Refused(_, text) => return Err(text),
                Answer::Lost(text) => {
                    losses += 1;
                    if losses >= MAX_LOSSES {
                        let seen = self.read_volume_object(task, &path).await?;
                        return if is_applied(request, &seen) {
                            Ok(seen.metadata.resource_version)
                        } else {
                            Err(text)
                        };
                    }
                    self.pause(AFTER_LOSS).await;
                }
            }
        }
    }

    async fn read_volume_object(&self, task: &BindTask, path: &str) -> Result<Seen, String> {
        let mut last = String::new();
        for _ in 0..MAX_DEFERRALS {
            match self.send_volume_call(task, path, None).await {
                Answer::Object(seen) => return Ok(seen),
                Answer::Refused(_, text) => return Err(text),
                Answer::Later(pause, text) => {
                    last = text;
                    self.pause(pause).await;
                }
                Answer::Lost(text) => {
                    last = text;
                    self.pause(DEFAULT_RETRY).await;
                }
            }
        }
        Err(last)
    }

    /// Sends a patch, or reads the object.
    async fn send_volume_call(&self, task: &BindTask, path: &str, body: Option<&Value>) -> Answer {
        let request = match body {
            Some(body) => Request::builder()
                .method(Method::PATCH)
                .uri(path)
                .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
                .body(Body::from(body.to_string().into_bytes())),
            None => Request::get(path).body(Body::empty()),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => return Answer::Refused(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let _lane = self.lane(task).await;
        let call = async {
            let response = self.client.send(request).await.map_err(|error| error.to_string())?;
            let (status, asked) = (response.status(), retry_after(response.headers()));
            Ok::<_, String>((status, asked, read_body(response).await?))
        };
        match tokio::time::timeout(self.deadline, call).await {
            Ok(Ok((status, asked, body))) => classify(status, asked, &body),
            Ok(Err(error)) => Answer::Lost(error),
            Err(_elapsed) => Answer::Lost(format!("no answer within {:?}", self.deadline)),
        }
    }

    /// Waits until the work is done.
    ///
    /// # Errors
    /// It cannot be done any more.
    pub(super) async fn wait_for_volumes(&self, task: &BindTask, work: &dyn PreBindWork) -> Result<(), String> {
        loop {
            let changed = self.volumes.notified();
            tokio::pin!(changed);
            // From now on no change is missed.
            changed.as_mut().enable();
            if self.look(task, work)? {
                return Ok(());
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            tokio::time::sleep(TOGETHER).await;
        }
    }

    fn look(&self, task: &BindTask, work: &dyn PreBindWork) -> Result<bool, String> {
        let node = self.cluster.node(task.node_idx);
        let Some(node) = node.filter(|node| node.incarnation == task.incarnation) else {
            let name = task.node.as_str();
            return Err(format!("failed to get node {name:?}: node {name:?} not found"));
        };
        let pod = &task.queued.pod;
        if self.cluster.pod(pod.uid).is_none() {
            return Err(format!("pod does not exist any more: pod {:?} not found", pod.name));
        }
        work.is_done(&node.spec)
    }
}

fn patch(request: &VolumeRequest) -> (String, Value) {
    match request {
        VolumeRequest::BindVolume {
            volume,
            resource_version,
            namespace,
            claim,
            claim_uid,
            claim_version,
            by_controller,
        } => {
            let mut metadata = json!({"resourceVersion": resource_version});
            if *by_controller {
                metadata["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
            }
            let claim_ref = json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace.as_str(),
                "name": claim,
                "uid": claim_uid,
                "resourceVersion": claim_version,
            });
            (
                format!("/api/v1/persistentvolumes/{volume}"),
                json!({"metadata": metadata, "spec": {"claimRef": claim_ref}}),
            )
        }
        VolumeRequest::SelectNode {
            namespace,
            claim,
            resource_version,
            node,
        } => (
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"),
            json!({"metadata": {
                "resourceVersion": resource_version,
                "annotations": {SELECTED_NODE: node.as_str()},
            }}),
        ),
    }
}

/// Whether the object is as the request wants it.
fn is_applied(request: &VolumeRequest, seen: &Seen) -> bool {
    match request {
        VolumeRequest::BindVolume { claim_uid, .. } => {
            let claim = seen.spec.claim_ref.as_ref();
            claim.is_some_and(|claim| *claim.uid == **claim_uid)
        }
        VolumeRequest::SelectNode { node, .. } => {
            let selected = seen.metadata.annotations.get(SELECTED_NODE);
            selected.is_some_and(|selected| selected == node.as_str())
        }
    }
}

fn classify(status: StatusCode, asked: Option<Duration>, body: &[u8]) -> Answer {
    if status.is_success() {
        return match serde_json::from_slice(body) {
            Ok(seen) => Answer::Object(seen),
            Err(error) => Answer::Lost(error.to_string()),
        };
    }
    let answer = serde_json::from_slice::<StatusAnswer>(body).unwrap_or_default();
    let text = if answer.message.is_empty() {
        format!("the API server answered {status}")
    } else {
        answer.message
    };
    let asked = asked.map(|asked| asked.min(MAX_RETRY));
    match status {
        StatusCode::TOO_MANY_REQUESTS => Answer::Later(asked.unwrap_or(DEFAULT_RETRY), text),
        StatusCode::SERVICE_UNAVAILABLE if asked.is_some() => Answer::Later(asked.unwrap_or(DEFAULT_RETRY), text),
        status if status.is_server_error() => Answer::Lost(text),
        status => Answer::Refused(status, text),
    }
}
