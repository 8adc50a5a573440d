//! Events: written after binds, never in their way.
//!
//! Events wait in a bounded queue; when it is full, new ones are dropped and counted. While binds are in flight only a
//! trickle is written (an event costs the API server about as much as a bind); between bursts, and when the queue is
//! half full, all lanes write. A failure that repeats becomes the series of its first event.
//!
//! Source of the fields: `staging/src/k8s.io/client-go/tools/events`, Kubernetes 1.36.
//!
//! Does not: keep an event that the server refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use kube::Client;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::task::TaskTracker;

use super::series::{Repeat, Series};
use super::write::{PATIENTLY, Write, Written, send};
use crate::clock::Clock;
use crate::cluster::PodInfo;
use crate::ids::Symbol;
use crate::sync::Mutex;
use crate::telemetry::Metrics;

/// Bytes of a note that the API takes.
const MAX_NOTE_BYTES: usize = 1024;
const CUT: &str = " ...";
/// Bytes of an object's name.
const MAX_NAME_BYTES: usize = 253;
/// Between two events while binds are in flight: 20 a second.
const TRICKLE: Duration = Duration::from_millis(50);

/// Bounds of the writer.
#[derive(Clone, Debug)]
pub struct EventOptions {
    /// Events that may wait.
    pub queue_length: usize,
    /// Writes in flight.
    pub concurrency: usize,
    /// Binds in flight, to which events yield.
    pub binds_in_flight: Arc<AtomicUsize>,
}

/// What happened to a pod.
#[derive(Clone, Debug)]
pub enum PodEventKind {
    /// It was bound.
    Scheduled {
        /// To this node.
        node: Symbol,
    },
    /// It was not.
    FailedScheduling {
        /// Why.
        note: String,
    },
    /// It had to go.
    Preempted {
        /// For this pod,
        by: Arc<PodInfo>,
        /// on this node,
        node: Symbol,
        /// without a word to the API server, since it was not bound yet.
        in_memory: bool,
    },
}

/// An event about a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The scheduler's name.
    pub reporter: Symbol,
    /// What happened.
    pub kind: PodEventKind,
}

struct Timed {
    event: PodEvent,
    time: jiff::Timestamp,
}

/// Writes events.
pub struct EventWriter {
    sender: Mutex<Option<mpsc::Sender<Timed>>>,
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    clock: Clock,
    done: TaskTracker,
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter")
            .field("waiting", &self.waiting.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

struct Lane {
    client: Client,
    receiver: Arc<AsyncMutex<mpsc::Receiver<Timed>>>,
    waiting: Arc<AtomicUsize>,
    options: EventOptions,
    series: Arc<Mutex<Series>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    instance_suffix: Arc<str>,
    is_first: bool,
}

impl EventWriter {
    /// Starts the writer's lanes.
    #[must_use]
    pub fn start(
        client: &Client,
        options: &EventOptions,
        metrics: Arc<Metrics>,
        clock: Clock,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel(options.queue_length.max(1));
        let receiver = Arc::new(AsyncMutex::new(receiver));
        let waiting = Arc::new(AtomicUsize::new(0));
        let series = Arc::new(Mutex::new(Series::default()));
        let instance_suffix: Arc<str> = hostname().into();
        let done = TaskTracker::new();
        for number in 0..options.concurrency.max(1) {
            let lane = Lane {
                client: client.clone(),
                receiver: Arc::clone(&receiver),
                waiting: Arc::clone(&waiting),
                options: options.clone(),
                series: Arc::clone(&series),
                metrics: Arc::clone(&metrics),
                clock: clock.clone(),
                instance_suffix: Arc::clone(&instance_suffix),
                is_first: number == 0,
            };
            done.spawn(tracker.track_future(lane.run()));
        }
        Arc::new(Self {
            sender: Mutex::new(Some(sender)),
            waiting,
            metrics,
            clock,
            done,
        })
    }

    /// Takes an event; never blocks. One too many is dropped and counted.
    pub fn record(&self, event: PodEvent) {
        let timed = Timed {
            event,
            time: self.clock.wall(),
        };
        // Counted first: a lane may take it before this call goes on.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let taken = self
            .sender
            .lock()
            .as_ref()
            .is_some_and(|sender| sender.try_send(timed).is_ok());
        if !taken {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.events_dropped(1);
        }
    }

    /// Writes what is waiting, until `end`; nothing is taken any more.
    pub async fn drain(&self, end: tokio::time::Instant) {
        self.sender.lock().take();
        self.done.close();
        if tokio::time::timeout_at(end, self.done.wait()).await.is_err() {
            let left = self.waiting.load(Ordering::Relaxed);
            self.metrics.events_dropped(left as u64);
            tracing::warn!(left, "events were not written in time");
        }
    }
}

impl Lane {
    async fn run(self) {
        loop {
            self.yield_to_binds().await;
            let next = self.receiver.lock().await.recv().await;
            let Some(timed) = next else { return };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let Some(write) = self.prepare(&timed) else { continue };
            let adds_to_series = write.method == Method::PATCH;
            match send(&self.client, &write, PATIENTLY).await {
                Written::Yes => self.metrics.events_written(1),
                // The namespace is gone, or the first event of a series has expired: the next failure is a first one.
                Written::NotFound => {
                    self.metrics.events_dropped(1);
                    if adds_to_series {
                        self.series.lock().forget(timed.event.pod.uid);
                    }
                }
                refused => {
                    let error = refused.why();
                    self.metrics.events_dropped(1);
                    tracing::warn!(
                        pod = timed.event.pod.full_name(),
                        error,
                        "an event could not be written"
                    );
                }
            }
        }
    }

    async fn yield_to_binds(&self) {
        let busy = || self.options.binds_in_flight.load(Ordering::Relaxed) > 0;
        let roomy = || self.waiting.load(Ordering::Relaxed) * 2 < self.options.queue_length;
        while busy() && roomy() {
            tokio::time::sleep(TRICKLE).await;
            if self.is_first {
                return;
            }
        }
    }

    /// The request for an event; `None`: it adds to a series that was told of lately.
    fn prepare(&self, timed: &Timed) -> Option<Write> {
        let pod = &timed.event.pod;
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", pod.namespace);
        let time = micro_time(timed.time);
        let name = event_name(&pod.name, timed.time);
        if matches!(timed.event.kind, PodEventKind::FailedScheduling { .. }) {
            let repeat = self.series.lock().note(pod.uid, &name, self.clock.now());
            match repeat {
                Repeat::First => {}
                Repeat::Silent => return None,
                Repeat::Tell { name, count } => {
                    let body = json!({"series": {"count": count, "lastObservedTime": time}});
                    return Some(Write {
                        method: Method::PATCH,
                        path: format!("{path}/{name}"),
                        content_type: "application/merge-patch+json",
                        body: body.to_string().into_bytes(),
                    });
                }
            }
        }
        let body = body(&timed.event, &name, &time, &self.instance_suffix);
        Some(Write {
            method: Method::POST,
            path,
            content_type: "application/json",
            body: body.to_string().into_bytes(),
        })
    }
}

fn body(event: &PodEvent, name: &str, time: &str, instance_suffix: &str) -> serde_json::Value {
    let pod = &event.pod;
    let (kind, reason, action, note) = match &event.kind {
        PodEventKind::Scheduled { node } => {
            let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
            ("Normal", "Scheduled", "Binding", note)
        }
        PodEventKind::FailedScheduling { note } => ("Warning", "FailedScheduling", "Scheduling", note.clone()),
        PodEventKind::Preempted { by, node, in_memory } => {
            let how = if *in_memory { " (in kube-scheduler memory)." } else { "" };
            let note = format!("Preempted by pod {} on node {node}{how}", by.uid_text);
            ("Normal", "Preempted", "Preempting", note)
        }
    };
    let mut body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace.as_str()},
        "eventTime": time,
        "reportingController": event.reporter.as_str(),
        "reportingInstance": format!("{}-{instance_suffix}", event.reporter),
        "action": action,
        "reason": reason,
        "type": kind,
        "note": cut(note, MAX_NOTE_BYTES),
        "regarding": reference(pod),
    });
    if let PodEventKind::Preempted { by, .. } = &event.kind {
        body["related"] = reference(by);
    }
    body
}

fn reference(pod: &PodInfo) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace.as_str(),
        "name": &*pod.name,
        "uid": &*pod.uid_text,
    })
}

/// The pod's name and the time in hexadecimal; a long pod name is cut so that the whole is a valid object name.
///
/// Source: `staging/src/k8s.io/client-go/tools/internal/events/naming.go`, Kubernetes 1.36.
fn event_name(pod: &str, time: jiff::Timestamp) -> String {
    let suffix = format!(".{:x}", time.as_nanosecond());
    let longest = MAX_NAME_BYTES - suffix.len().min(MAX_NAME_BYTES);
    // Names of pods are ASCII; one that is not has been refused by the API server.
    let stem = pod.get(..longest).unwrap_or(pod).trim_end_matches(['.', '-']);
    format!("{stem}{suffix}")
}

/// RFC 3339 with exactly six digits of a second: what the API calls a MicroTime.
pub(super) fn micro_time(time: jiff::Timestamp) -> String {
    format!("{time:.6}")
}

/// At most `longest` bytes (at least 4), cut between characters.
pub(super) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let mut end = longest.saturating_sub(CUT.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(cut("short".to_owned(), MAX_NOTE_BYTES), "short");
        let long = cut("ü".repeat(600), MAX_NOTE_BYTES);
        assert!(
            long.len() <= MAX_NOTE_BYTES && long.ends_with("ü ..."),
            "{}",
            long.len()
        );
    }

    #[test]
    fn names_of_events_are_valid_however_long_the_pods_are() {
        let time = jiff::Timestamp::from_nanosecond(0x17a4_5b2c_3d4e_5f60).unwrap();
        assert_eq!(event_name("web-0", time), "web-0.17a45b2c3d4e5f60");
        let long = event_name(&format!("{}.{}", "a".repeat(235), "b".repeat(17)), time);
        assert_eq!((long.len(), long.matches('.').count()), (252, 1), "{long}");
    }

    #[test]
    fn a_preempted_pod_is_told_by_whom() {
        let note = |in_memory| {
            let event = PodEvent {
                pod: pod("v").uid("u1").build(),
                reporter: Symbol::new("default-scheduler"),
                kind: PodEventKind::Preempted {
                    by: pod("p").namespace("other").uid("u2").build(),
                    node: Symbol::new("n1"),
                    in_memory,
                },
            };
            let body = body(&event, "v.1", "t", "host");
            assert_eq!(
                (&body["type"], &body["reason"], &body["action"]),
                (&json!("Normal"), &json!("Preempted"), &json!("Preempting"))
            );
            assert_eq!(
                (&body["regarding"]["uid"], &body["related"]["uid"]),
                (&json!("u1"), &json!("u2"))
            );
            assert_eq!(body["related"]["namespace"], "other");
            body["note"].as_str().unwrap().to_owned()
        };
        assert_eq!(note(false), "Preempted by pod u2 on node n1");
        assert_eq!(note(true), "Preempted by pod u2 on node n1 (in kube-scheduler memory).");
    }

    #[test]
    fn a_scheduled_event_says_where() {
        let event = PodEvent {
            pod: pod("a").namespace("ns").uid("u1").build(),
            reporter: Symbol::new("default-scheduler"),
            kind: PodEventKind::Scheduled {
                node: Symbol::new("n1"),
            },
        };
        let time = micro_time(jiff::Timestamp::from_microsecond(1_700_000_000_000_001).unwrap());
        assert_eq!(time, "2023-11-14T22:13:20.000001Z");
        let body = body(&event, "a.1", &time, "host");
        assert_eq!(body["note"], "Successfully assigned ns/a to n1");
        assert_eq!(body["action"], "Binding");
        assert_eq!(body["reportingInstance"], "default-scheduler-host");
        assert_eq!(body["regarding"]["uid"], "u1");
    }
}
