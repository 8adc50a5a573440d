//! The pod's condition and nomination, written when they change.
//!
//! Source: `pkg/scheduler/schedule_one.go` (`updatePod`) and `pkg/scheduler/util/utils.go` (`PatchPodStatus`),
//! Kubernetes 1.36.

use std::collections::VecDeque;
use std::sync::Arc;

use http::Method;
use kube::Client;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::write::{BRIEFLY, Write, Written, is_there, path, send};
use crate::clock::Clock;
use crate::cluster::PodInfo;
use crate::framework::NominatedNode;
use crate::ids::PodUid;
use crate::sync::Mutex;

/// Pods without a patch that the order may hold before it is cleaned.
const SLACK: usize = 1024;

/// What is to stand on a pod.
#[derive(Clone, Debug)]
pub struct StatusPatch {
    /// The pod as last seen.
    pub pod: Arc<PodInfo>,
    /// Reason and message of `PodScheduled=False`; absent: the condition stays.
    pub condition: Option<(String, String)>,
    /// The nomination.
    pub nominated: NominatedNode,
}

/// A patch and what was on its way when it came.
#[derive(Clone, Debug)]
struct Waiting {
    patch: StatusPatch,
    /// Another nomination is on its way, so that the pod as last seen does not say what stands there.
    superseding: bool,
    /// The same of the condition.
    restating: bool,
}

#[derive(Debug, Default)]
struct Pending {
    /// The newest patch of each pod.
    patches: FxHashMap<PodUid, Waiting>,
    /// Pods in the order of their first patch; those that have no patch any more are passed over.
    order: VecDeque<PodUid>,
    /// Pods of which a patch is being written: the next one waits, so that the newest is the last.
    writing: FxHashSet<PodUid>,
    closed: bool,
}

impl Pending {
    /// Takes a patch unless it changes nothing.
    fn add(&mut self, patch: StatusPatch) -> bool {
        let uid = patch.pod.uid;
        let waiting = self.patches.get_mut(&uid);
        let writing = self.writing.contains(&uid);
        let before = waiting.as_ref().map(|it| &it.patch);
        let mut new = Waiting {
            superseding: writing || before.is_some_and(|before| before.nominated != NominatedNode::Keep),
            restating: writing || before.is_some_and(|before| before.condition.is_some()),
            patch,
        };
        if body(&new, jiff::Timestamp::UNIX_EPOCH).is_none() {
            return false;
        }
        match waiting {
            Some(waiting) => {
                // A patch says nothing about the part that it leaves out.
                if new.patch.condition.is_none() {
                    new.patch.condition = waiting.patch.condition.take();
                }
                if new.patch.nominated == NominatedNode::Keep {
                    new.patch.nominated = waiting.patch.nominated;
                }
                *waiting = new;
            }
            None => {
                self.patches.insert(uid, new);
                if !self.writing.contains(&uid) {
                    self.order.push_back(uid);
                }
                // Pods whose patches were taken back stay in the order until they are passed over.
                if self.order.len() > 2 * self.patches.len() + SLACK {
                    self.order.retain(|uid| self.patches.contains_key(uid));
                }
            }
        }
        true
    }

    fn take(&mut self) -> Option<Waiting> {
        loop {
            let uid = self.order.pop_front()?;
            if self.writing.contains(&uid) {
                continue;
            }
            if let Some(patch) = self.patches.remove(&uid) {
                self.writing.insert(uid);
                return Some(patch);
            }
        }
    }

    /// A write is over; true: the pod has another patch.
    fn finish(&mut self, uid: PodUid) -> bool {
        self.writing.remove(&uid);
        let more = self.patches.contains_key(&uid);
        if more {
            self.order.push_back(uid);
        }
        more
    }
}

/// Writes conditions and nominations. Of several patches of one pod that wait, the newest is written, and never while
/// an older one is under way.
#[derive(Debug)]
pub struct StatusWriter {
    pending: Mutex<Pending>,
    changed: Notify,
    finished: Notify,
    done: TaskTracker,
}

impl StatusWriter {
    /// Starts the writer's lanes.
    #[must_use]
    pub fn start(client: &Client, concurrency: usize, clock: &Clock, tracker: &TaskTracker) -> Arc<Self> {
        let done = TaskTracker::new();
        let writer = Arc::new(Self {
            pending: Mutex::default(),
            changed: Notify::new(),
            finished: Notify::new(),
            done: done.clone(),
        });
        for _ in 0..concurrency.max(1) {
            let lane = Arc::clone(&writer).run(client.clone(), clock.clone());
            done.spawn(tracker.track_future(lane));
        }
        writer
    }

    /// Takes a patch if it changes something; never blocks. Bounded by the number of pending pods.
    pub fn write(&self, patch: StatusPatch) {
        let mut pending = self.pending.lock();
        if !pending.closed && pending.add(patch) {
            drop(pending);
            self.changed.notify_one();
        }
    }

    /// The pod is gone: nothing is to be written about it.
    pub fn forget(&self, pod: PodUid) {
        self.pending.lock().patches.remove(&pod);
    }

    /// The pod is about to be bound: what waits to be written about it is out of date, and what is being written is
    /// waited for.
    pub(super) async fn settle(&self, pod: PodUid) {
        loop {
            let finished = self.finished.notified();
            tokio::pin!(finished);
            {
                let mut pending = self.pending.lock();
                pending.patches.remove(&pod);
                if !pending.writing.contains(&pod) {
                    return;
                }
                finished.as_mut().enable();
            }
            finished.await;
        }
    }

    /// Until nothing waits or is being written.
    #[cfg(test)]
    pub(super) async fn idle(&self) {
        loop {
            let finished = self.finished.notified();
            tokio::pin!(finished);
            {
                let pending = self.pending.lock();
                if pending.writing.is_empty() && pending.patches.is_empty() {
                    return;
                }
                finished.as_mut().enable();
            }
            finished.await;
        }
    }

    /// Writes what is waiting, until `end`; nothing is taken any more.
    pub async fn drain(&self, end: tokio::time::Instant) {
        self.pending.lock().closed = true;
        self.done.close();
        self.changed.notify_waiters();
        if tokio::time::timeout_at(end, self.done.wait()).await.is_err() {
            tracing::warn!(
                left = self.pending.lock().patches.len(),
                "conditions were not written in time"
            );
        }
    }

    async fn run(self: Arc<Self>, client: Client, clock: Clock) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let next = {
                let mut pending = self.pending.lock();
                match pending.take() {
                    Some(patch) => Some(patch),
                    None if pending.closed => return,
                    None => None,
                }
            };
            let Some(patch) = next else {
                changed.await;
                continue;
            };
            self.write_one(&client, &clock, &patch).await;
            if self.pending.lock().finish(patch.patch.pod.uid) {
                self.changed.notify_one();
            }
            self.finished.notify_waiters();
        }
    }

    async fn write_one(&self, client: &Client, clock: &Clock, waiting: &Waiting) {
        let Some(body) = body(waiting, clock.wall()) else {
            return;
        };
        let patch = &waiting.patch;
        let write = Write {
            method: Method::PATCH,
            path: format!("{}/status", path(&patch.pod)),
            content_type: "application/strategic-merge-patch+json",
            body: body.to_string().into_bytes(),
        };
        let pod = &patch.pod;
        match send(client, &write, BRIEFLY).await {
            // Of a pod that is gone or re-created nobody needs to know anything any more.
            Written::Mismatch(_) if matches!(is_there(client, pod).await, Ok(false)) => {}
            Written::Mismatch(error) | Written::No(error) => {
                tracing::warn!(pod = pod.full_name(), error, "a pod's condition could not be written");
            }
            Written::Yes | Written::NotFound | Written::Forbidden => {}
        }
    }
}

/// The patch; `None`: nothing changes.
fn body(waiting: &Waiting, now: jiff::Timestamp) -> Option<Value> {
    let Waiting {
        patch,
        superseding,
        restating,
    } = waiting;
    let pod = &patch.pod;
    let mut status = Map::new();
    if let Some((reason, message)) = &patch.condition {
        let known = pod.condition.as_ref();
        let same_status = known.is_some_and(|known| &*known.status == "False");
        let same = same_status && known.is_some_and(|known| *known.reason == **reason && *known.message == **message);
        if !same || *restating {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": pod.generation,
            });
            if !same_status {
                condition["lastTransitionTime"] = json!(format!("{now:.0}"));
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
    }
    match patch.nominated {
        NominatedNode::Set(node) if *superseding || pod.nominated_node != Some(node) => {
            status.insert("nominatedNodeName".to_owned(), json!(node.as_str()));
        }
        NominatedNode::Clear if *superseding || pod.nominated_node.is_some() => {
            status.insert("nominatedNodeName".to_owned(), Value::Null);
        }
        _ => {}
    }
    // The UID makes the server refuse the patch for a pod that was re-created under the name.
    (!status.is_empty()).then(|| json!({"metadata": {"uid": &*pod.uid_text}, "status": status}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Symbol;
    use crate::testing::{PodBuilder, pod};

    fn patch(pod: &PodBuilder, condition: Option<(&str, &str)>, nominated: NominatedNode) -> Option<Value> {
        let condition = condition.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
        let patch = StatusPatch {
            pod: pod.clone().uid("u").build(),
            condition,
            nominated,
        };
        let waiting = Waiting {
            patch,
            superseding: false,
            restating: false,
        };
        body(&waiting, jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_nomination_is_taken_back_that_nobody_has_seen_yet() {
        let mut pending = Pending::default();
        let patch = |nominated| StatusPatch {
            pod: pod("a").build(),
            condition: None,
            nominated,
        };
        let set = NominatedNode::Set(Symbol::new("n1"));
        assert!(!pending.add(patch(NominatedNode::Clear)), "nothing to take back");
        // While it waits.
        assert!(pending.add(patch(set)) && pending.add(patch(NominatedNode::Clear)));
        let taken = pending.take().unwrap();
        assert_eq!(
            body(&taken, jiff::Timestamp::UNIX_EPOCH).unwrap()["status"],
            json!({"nominatedNodeName": null})
        );
        // While it is being written.
        assert!(pending.add(patch(NominatedNode::Clear)));
        assert!(pending.finish(taken.patch.pod.uid));
    }

    #[test]
    fn the_last_of_several_conditions_stands_even_if_it_is_the_one_that_was_seen() {
        let mut pending = Pending::default();
        let known = pod("a").condition("PodScheduled", "False", "Unschedulable", "no room");
        let patch = |message: &str| StatusPatch {
            pod: known.build(),
            condition: Some(("Unschedulable".to_owned(), message.to_owned())),
            nominated: NominatedNode::Keep,
        };
        let message = |waiting: &Waiting| {
            let body = body(waiting, jiff::Timestamp::UNIX_EPOCH)?;
            body["status"]["conditions"][0]["message"].as_str().map(str::to_owned)
        };
        assert!(!pending.add(patch("no room")), "nothing to write");
        // While another one waits.
        assert!(pending.add(patch("other")) && pending.add(patch("no room")));
        let taken = pending.take().unwrap();
        assert_eq!(message(&taken).as_deref(), Some("no room"));
        // While it is being written.
        assert!(pending.add(patch("no room")));
    }

    #[test]
    fn an_equal_condition_is_not_written() {
        let known = pod("a").condition("PodScheduled", "False", "Unschedulable", "no room");
        assert_eq!(
            patch(&known, Some(("Unschedulable", "no room")), NominatedNode::Keep),
            None
        );
        let other = patch(&known, Some(("Unschedulable", "other")), NominatedNode::Keep).unwrap();
        let condition = &other["status"]["conditions"][0];
        assert_eq!(condition["message"], "other");
        assert!(condition.get("lastTransitionTime").is_none());
    }

    #[test]
    fn a_first_condition_has_its_time() {
        let written = patch(&pod("a"), Some(("Unschedulable", "no")), NominatedNode::Clear).unwrap();
        assert_eq!(
            written["status"]["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );
        assert!(written["status"].get("nominatedNodeName").is_none());
        assert_eq!(written["metadata"]["uid"], "u");
    }

    #[test]
    fn a_nomination_alone_is_written_alone() {
        let known = pod("a").condition("PodScheduled", "False", "Unschedulable", "no room");
        let set = NominatedNode::Set(Symbol::new("n1"));
        let written = patch(&known, Some(("Unschedulable", "no room")), set).unwrap();
        assert_eq!(written["status"], json!({"nominatedNodeName": "n1"}));
        let nominated = pod("a").nominated("n1");
        assert_eq!(patch(&nominated, None, set), None);
        assert_eq!(
            patch(&nominated, None, NominatedNode::Clear).unwrap()["status"],
            json!({"nominatedNodeName": null})
        );
    }
}
