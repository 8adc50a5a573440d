//! A watch on all pods that keeps what schedulers decide about each: its node, its condition, its nomination, its end.
//!
//! Does not: keep whole objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::{ApiClient, Lines};

/// Asks the server to keep the watch open for longer than any run takes.
const WATCH_SECONDS: u32 = 14_400;

/// Where a pod stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its node.
    pub(super) node: Option<String>,
    /// Reason and message of `PodScheduled=False`.
    pub(super) refused: Option<(String, String)>,
    /// The node that it is nominated to.
    pub(super) nominated: Option<String>,
    /// Whether it is gone.
    pub(super) gone: bool,
}

impl Standing {
    /// Whether a scheduler has said something about it.
    pub(super) fn is_decided(&self) -> bool {
        self.node.is_some() || self.refused.is_some()
    }

    fn of(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut refused = conditions
            .filter(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
            .map(|condition| {
                let field = |name: &str| text(&condition[name]).unwrap_or_default();
                (field("reason"), field("message"))
            });
        Self {
            node: text(&pod["spec"]["nodeName"]),
            refused: refused.next_back(),
            nominated: text(&pod["status"]["nominatedNodeName"]),
            gone: false,
        }
    }
}

type ByUid = Arc<Mutex<HashMap<String, Standing>>>;

/// The running watch; dropping it ends it.
#[derive(Debug)]
pub(super) struct PodView {
    seen: ByUid,
    bell: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl PodView {
    /// Watches from now on.
    pub(super) async fn start(client: ApiClient) -> Result<Self> {
        let list: Value = client.get("/api/v1/pods?limit=1").await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
        let mut lines = client.watch(&path).await?;
        let seen = ByUid::default();
        let (ring, bell) = watch::channel(0_u64);
        let into = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            if let Err(error) = follow(&mut lines, &into, &ring).await {
                tracing::error!(%error, "the watch on pods broke");
            }
        });
        Ok(Self { seen, bell, task })
    }

    /// Waits until what is known of a pod satisfies `is_enough`; `None` when it does not within `limit`.
    ///
    /// # Errors
    /// When the watch broke.
    pub(super) async fn wait(
        &self,
        uid: &str,
        limit: Duration,
        is_enough: impl Fn(&Standing) -> bool,
    ) -> Result<Option<Standing>> {
        let mut bell = self.bell.clone();
        let waiting = async {
            loop {
                bell.borrow_and_update();
                if let Some(standing) = self.standing(uid).filter(|standing| is_enough(standing)) {
                    return Ok(standing);
                }
                bell.changed().await.context("the watch on pods ended")?;
            }
        };
        tokio::time::timeout(limit, waiting).await.ok().transpose()
    }

    pub(super) fn standing(&self, uid: &str) -> Option<Standing> {
        self.seen.lock().get(uid).cloned()
    }

    /// Which of these pods are gone.
    pub(super) fn gone<'a>(&self, uids: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        let seen = self.seen.lock();
        let gone = uids.filter(|(_, uid)| seen.get(*uid).is_some_and(|standing| standing.gone));
        gone.map(|(name, _)| name.to_owned()).collect()
    }
}

impl Drop for PodView {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(lines: &mut Lines, seen: &Mutex<HashMap<String, Standing>>, ring: &watch::Sender<u64>) -> Result<()> {
    while let Some(line) = lines.next().await? {
        if line.is_empty() {
            continue;
        }
        let event: Value = serde_json::from_slice(&line).context("a watch event does not decode")?;
        let pod = &event["object"];
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let mut standing = Standing::of(pod);
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {}
            Some("DELETED") => standing.gone = true,
            _ => bail!("the server sent {event}"),
        }
        seen.lock().insert(uid, standing);
        ring.send_modify(|count| *count += 1);
    }
    bail!("the server closed it")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pods_standing_is_its_node_condition_and_nomination() {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"});
        let pod = json!({"spec": {}, "status": {"nominatedNodeName": "n", "conditions": [condition]}});
        let standing = Standing::of(&pod);
        assert!(standing.is_decided());
        assert_eq!(standing.nominated.as_deref(), Some("n"));
        assert_eq!(standing.refused, Some(("Unschedulable".to_owned(), "m".to_owned())));
        assert!(!Standing::of(&json!({"spec": {"nodeName": ""}, "status": {}})).is_decided());
    }
}
