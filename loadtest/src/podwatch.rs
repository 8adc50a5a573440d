//! The harness's own watch on pods: who got a node, when, and who was called unschedulable.
//!
//! It shares the machine with what is measured, so it is cheap: events are decoded into a few borrowed fields (about
//! 3 µs each) and a moment is taken as an event is decoded. Rates come from these moments alone, for every scheduler.
//!
//! Does not: look at anything but name, uid, node and the PodScheduled condition.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, Endpoint, Lines};

/// Objects a page when listing: a page of small pods is a few megabytes.
const PAGE: usize = 2_000;
/// Asks the server to keep a watch open for longer than any run takes.
const WATCH_SECONDS: u32 = 7_200;
/// Pause before the pods are listed anew after the watch broke.
const RELIST_PAUSE: Duration = Duration::from_millis(200);

/// A pod that was seen with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// The pod's namespace.
    pub namespace: Box<str>,
    /// The pod's name.
    pub name: Box<str>,
    /// The pod's uid.
    pub uid: Box<str>,
    /// The node it is on.
    pub node: Box<str>,
    /// When the event was decoded.
    pub at: Instant,
}

/// Counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pods that exist and were seen.
    pub pods: usize,
    /// Pods with a node.
    pub bound: usize,
    /// Pods without a node and with PodScheduled=False, reason Unschedulable.
    pub unschedulable: usize,
    /// When the first pod got its node.
    pub first: Option<Instant>,
    /// When the last pod got its node.
    pub last: Option<Instant>,
    /// When the first pod got its node or was called unschedulable.
    pub first_decision: Option<Instant>,
    /// When a pod last got its node or was called unschedulable.
    pub last_decision: Option<Instant>,
    /// How often the watch broke and pods were listed anew; the moments of that time are late.
    pub interruptions: u32,
}

impl Counts {
    /// `(bound − 1) / (last − first)` in pods a second; zero for fewer than two pods.
    #[must_use]
    pub fn pods_per_second(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return 0.0;
        };
        let seconds = last.duration_since(first).as_secs_f64();
        let intervals = u32::try_from(self.bound.saturating_sub(1)).unwrap_or(u32::MAX);
        if seconds > 0.0 {
            f64::from(intervals) / seconds
        } else {
            0.0
        }
    }

    /// Bound pods a second, counted from the first decision: for pods that are refused before they are bound.
    #[must_use]
    pub fn since_first_decision(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first_decision, self.last) else {
            return 0.0;
        };
        let seconds = last.saturating_duration_since(first).as_secs_f64();
        let bound = u32::try_from(self.bound).unwrap_or(u32::MAX);
        if seconds > 0.0 { f64::from(bound) / seconds } else { 0.0 }
    }
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waiting,
    Unschedulable,
    Bound,
}

#[derive(Debug, Default)]
struct Seen {
    standing: HashMap<Box<str>, Standing>,
    bound: Vec<BoundPod>,
    counts: Counts,
    failure: Option<String>,
}

/// A running watch on a thread of its own; dropping it ends it.
#[derive(Debug)]
pub struct PodWatch {
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
}

impl PodWatch {
    /// Lists all pods, or those of one namespace, and watches from there on; returns once the list is in and the watch
    /// is open.
    ///
    /// The thread has a runtime of its own: a load generator with many requests in flight would let the watch wait its
    /// turn, and kube-apiserver ends watches that do not keep up.
    ///
    /// # Errors
    /// When the pods cannot be listed or watched.
    pub async fn start(endpoint: Endpoint, namespace: Option<&str>) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let stop = CancellationToken::new();
        let (ready, opened) = oneshot::channel();
        let path = namespace.map_or_else(
            || "/api/v1/pods".to_owned(),
            |name| format!("/api/v1/namespaces/{name}/pods"),
        );
        let this = Self {
            seen: Arc::clone(&seen),
            stop: stop.clone(),
        };
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            let source = Source { endpoint, path };
            runtime.block_on(async { stop.run_until_cancelled(watch(&source, &seen, ready)).await });
        };
        std::thread::Builder::new()
            .name("pod-watch".to_owned())
            .spawn(body)
            .context("cannot start a thread")?;
        opened.await.context("the watch's thread ended")??;
        Ok(this)
    }

    /// The counts now.
    ///
    /// # Errors
    /// When the watch failed for good.
    pub fn counts(&self) -> Result<Counts> {
        let seen = self.seen.lock();
        match &seen.failure {
            Some(failure) => bail!("the harness's pod watch failed: {failure}"),
            None => Ok(seen.counts),
        }
    }

    /// The pods with a node, in the order in which they were seen to get it.
    #[must_use]
    pub fn bound(&self) -> Vec<BoundPod> {
        self.seen.lock().bound.clone()
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is watched where.
struct Source {
    endpoint: Endpoint,
    path: String,
}

async fn watch(source: &Source, seen: &Mutex<Seen>, ready: oneshot::Sender<Result<()>>) {
    let path = source.path.as_str();
    let opening = async {
        let client = ApiClient::new(&source.endpoint)?;
        let lines = open(&client, path, &list(&client, path, seen).await?).await?;
        Ok((client, lines))
    };
    // Nobody waits for the answer only if the start was given up; the watch then ends with its token.
    match opening.await {
        Ok((client, lines)) => {
            drop(ready.send(Ok(())));
            follow(&client, path, seen, lines).await;
        }
        Err(error) => drop(ready.send(Err(error))),
    }
}

/// Reads events until the task is dropped; a broken watch is followed by a new list.
async fn follow(client: &ApiClient, path: &str, seen: &Mutex<Seen>, mut lines: Lines) {
    loop {
        let end = read(seen, &mut lines).await;
        tracing::debug!(?end, "the harness's pod watch ended");
        seen.lock().counts.interruptions += 1;
        let mut tries = 0;
        lines = loop {
            tokio::time::sleep(RELIST_PAUSE).await;
            let again = async { open(client, path, &list(client, path, seen).await?).await };
            match again.await {
                Ok(lines) => break lines,
                Err(error) if tries >= 300 => {
                    seen.lock().failure = Some(format!("{error:#}"));
                    return;
                }
                Err(error) => tracing::debug!(%error, "the pods cannot be listed"),
            }
            tries += 1;
        };
    }
}

async fn read(seen: &Mutex<Seen>, lines: &mut Lines) -> Result<()> {
    while let Some(line) = lines.next().await? {
        observe_line(&mut seen.lock(), &line, Instant::now())?;
    }
    Ok(())
}

/// Lists all pods, page by page, and gives the list's resourceVersion.
async fn list(client: &ApiClient, path: &str, seen: &Mutex<Seen>) -> Result<String> {
    let mut token = String::new();
    loop {
        let page = format!("{path}?limit={PAGE}&continue={token}");
        let (status, body) = client
            .send(http::Method::GET, &page, "application/json", Bytes::new())
            .await?;
        if !status.is_success() {
            bail!("listing pods: {status}");
        }
        let page: Page<'_> = serde_json::from_slice(&body).context("a list of pods does not decode")?;
        let mut seen = seen.lock();
        for pod in &page.items {
            seen.observe(pod, Instant::now());
        }
        match page.metadata.token {
            Some(next) if !next.is_empty() => token = next.into_owned(),
            _ => return Ok(page.metadata.resource_version.unwrap_or_default().into_owned()),
        }
    }
}

async fn open(client: &ApiClient, path: &str, version: &str) -> Result<Lines> {
    let path = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
    client.watch(&path).await
}

fn observe_line(seen: &mut Seen, line: &[u8], now: Instant) -> Result<()> {
    if line.is_empty() {
        return Ok(());
    }
    let event: Event<'_> = serde_json::from_slice(line).context("a watch event does not decode")?;
    match event.kind.as_ref() {
        "ADDED" | "MODIFIED" => seen.observe(&event.object, now),
        "DELETED" => seen.forget(&event.object),
        "BOOKMARK" => {}
        other => bail!("the server sent {other}"),
    }
    Ok(())
}

impl Seen {
    fn observe(&mut self, pod: &Pod<'_>, now: Instant) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        let standing = pod.standing();
        let old = match self.standing.get_mut(uid) {
            Some(slot) => std::mem::replace(slot, standing),
            None => {
                self.standing.insert(uid.into(), standing);
                self.counts.pods += 1;
                Standing::Waiting
            }
        };
        if old == standing {
            return;
        }
        self.counts.unschedulable -= usize::from(old == Standing::Unschedulable);
        self.counts.unschedulable += usize::from(standing == Standing::Unschedulable);
        if standing != Standing::Waiting {
            self.counts.first_decision.get_or_insert(now);
            self.counts.last_decision = Some(now);
        }
        if standing == Standing::Bound {
            self.counts.bound += 1;
            self.counts.first.get_or_insert(now);
            self.counts.last = Some(now);
            self.bound.push(BoundPod {
                namespace: pod.metadata.namespace.as_deref().unwrap_or_default().into(),
                name: pod.metadata.name.as_deref().unwrap_or_default().into(),
                uid: uid.into(),
                node: pod.node().unwrap_or_default().into(),
                at: now,
            });
        }
    }

    /// A deleted pod is no longer waited for; one that had a node still counts as bound.
    fn forget(&mut self, pod: &Pod<'_>) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        if let Some(standing) = self.standing.remove(uid)
            && standing != Standing::Bound
        {
            self.counts.pods -= 1;
            self.counts.unschedulable -= usize::from(standing == Standing::Unschedulable);
        }
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    metadata: ListMeta<'a>,
    #[serde(borrow)]
    items: Vec<Pod<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(rename = "continue", borrow)]
    token: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Pod<'a>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Option<Spec<'a>>,
    #[serde(borrow, default, deserialize_with = "status")]
    status: Option<Status<'a>>,
}

#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
struct Status<'a> {
    #[serde(borrow, default)]
    conditions: Vec<Condition<'a>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

/// An error event's object is a Status, whose own `status` is a string: it decodes to nothing.
fn status<'de, D: serde::Deserializer<'de>>(decoder: D) -> Result<Option<Status<'de>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<'a> {
        Pod(#[serde(borrow)] Status<'a>),
        Text(serde::de::IgnoredAny),
    }
    Ok(match Either::deserialize(decoder)? {
        Either::Pod(status) => Some(status),
        Either::Text(_) => None,
    })
}

impl Pod<'_> {
    fn node(&self) -> Option<&str> {
        let name = self.spec.as_ref()?.node_name.as_deref()?;
        (!name.is_empty()).then_some(name)
    }

    fn standing(&self) -> Standing {
        if self.node().is_some() {
            return Standing::Bound;
        }
        let conditions = self
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let refused = conditions.iter().any(|condition| {
            condition.kind == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        if refused {
            Standing::Unschedulable
        } else {
            Standing::Waiting
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, uid: &str, spec: &str, status: &str) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"name":"p-{uid}","namespace":"a","uid":"{uid}","labels":{{"name":"x"}}}},"spec":{spec},"status":{status}}}}}"#
        )
    }

    fn after(events: &[String]) -> Seen {
        let mut seen = Seen::default();
        let start = Instant::now();
        for (index, line) in events.iter().enumerate() {
            let at = start + Duration::from_secs(u64::try_from(index).unwrap());
            observe_line(&mut seen, line.as_bytes(), at).unwrap();
        }
        seen
    }

    const REFUSED: &str =
        r#"{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}"#;

    #[test]
    fn rate_is_intervals_over_time_between_first_and_last() {
        let node = r#"{"nodeName":"n1"}"#;
        let events: Vec<String> = ["1", "2", "3"].map(|uid| event("MODIFIED", uid, node, "{}")).into();
        let seen = after(&events);
        assert!((seen.counts.pods_per_second() - 1.0).abs() < 1e-9);
        assert_eq!(seen.bound[2].name.as_ref(), "p-3");
    }

    #[test]
    fn a_refused_pod_that_gets_a_node_is_bound_once() {
        let seen = after(&[
            event("ADDED", "1", "{}", "{}"),
            event("MODIFIED", "1", "{}", REFUSED),
            event("ADDED", "2", "{}", REFUSED),
            event("MODIFIED", "1", r#"{"nodeName":"n"}"#, REFUSED),
            event("MODIFIED", "1", r#"{"nodeName":"n"}"#, "{}"),
        ]);
        let Counts {
            pods,
            bound,
            unschedulable,
            ..
        } = seen.counts;
        assert_eq!((pods, bound, unschedulable), (2, 1, 1));
    }

    #[test]
    fn a_deleted_waiting_pod_is_not_waited_for() {
        let seen = after(&[event("ADDED", "1", "{}", REFUSED), event("DELETED", "1", "{}", REFUSED)]);
        assert_eq!((seen.counts.pods, seen.counts.unschedulable), (0, 0));
    }

    #[test]
    fn a_gated_pod_is_neither_bound_nor_refused() {
        let gated = REFUSED.replace("Unschedulable", "SchedulingGated");
        assert_eq!(after(&[event("ADDED", "1", "{}", &gated)]).counts.unschedulable, 0);
    }

    #[test]
    fn an_error_event_ends_the_watch() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}"#;
        assert!(observe_line(&mut Seen::default(), line.as_bytes(), Instant::now()).is_err());
    }
}
