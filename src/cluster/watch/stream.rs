//! The watch of one kind: list, watch, bookmarks, relist when the server has forgotten, backoff when it is away.
//!
//! kube-runtime does the protocol; what is added here: one malformed object costs only itself, a kind that the server
//! does not have is an empty list and looked for again later, a missing right is said once a minute, why a watch does
//! not come up can be read at any time ([`WatchStatus`]), and pauses between attempts grow until something is delivered
//! (kube-runtime's own start afresh with each list that is asked for).
//!
//! Does not: keep objects. Each delivery goes on to whoever applies it, in order.
//!
//! A server that is behind what was seen of it is listed anew.
//!
//! Threads: one task a kind. Decoding happens in that task.
//!
//! Child: `version` (servers that went back).

mod version;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::clock::{Clock, Nanos};
use crate::cluster::watch::{Object, Watched, WithText};
use crate::sync::Mutex;
use crate::telemetry::{Metrics, error_text};
pub use version::Alarm;
use version::Newest;

/// The longest pause between attempts: a server that comes back is noticed within this time.
const MAX_PAUSE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// How often a fault that lasts is logged.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// How often a kind that the server lacks is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// After so long without an event the server is asked how far it is.
const SILENCE: Duration = Duration::from_secs(60);
/// Objects a page of a list: a page of 4 KB pods is 2 MB.
const PAGE_SIZE: u32 = 500;

/// What a watch delivers, in order.
#[derive(Debug)]
pub enum Delivery<T> {
    /// A list begins: what it does not contain is gone once it is complete.
    Restarted,
    /// An object of the list.
    Listed(Object<T>),
    /// The list is complete.
    Complete,
    /// An object came or changed.
    Applied(Object<T>),
    /// An object is gone.
    Deleted(Object<T>),
}

impl<T: Watched + Clone> Delivery<WithText<T>> {
    /// The same with the object's text beside it.
    #[must_use]
    pub fn apart(self) -> Delivery<T> {
        match self {
            Self::Restarted => Delivery::Restarted,
            Self::Listed(object) => Delivery::Listed(object.apart()),
            Self::Complete => Delivery::Complete,
            Self::Applied(object) => Delivery::Applied(object.apart()),
            Self::Deleted(object) => Delivery::Deleted(object.apart()),
        }
    }
}

/// How a watch fares.
#[derive(Debug)]
pub struct WatchStatus {
    kind: &'static str,
    synced: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl WatchStatus {
    /// Of a watch that has not begun.
    #[must_use]
    pub fn new(kind: &'static str) -> Arc<Self> {
        Arc::new(Self {
            kind,
            synced: AtomicBool::new(false),
            trouble: Mutex::new(None),
        })
    }

    /// The kind that is watched.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Whether everything that there was at first has been applied, or the server does not have the kind. Never goes
    /// back to false.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that the first list has been applied.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Why the watch does not deliver at the moment.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }
}

/// What a watch needs.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "a client has none")]
pub struct WatchParts {
    /// For lists and watches.
    pub client: Client,
    /// Which objects; all when absent.
    pub field_selector: Option<&'static str>,
    /// Where to say how it fares.
    pub status: Arc<WatchStatus>,
    /// Recorders.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: Clock,
    /// Shared by the watches of one server.
    pub alarm: Alarm,
}

/// Watches `T` and sends every delivery as what `wrap` makes of it, for ever; returns when nobody listens.
///
/// # Cancel safety
/// May be dropped at any time; a delivery is then either sent or not.
pub async fn watch<T, M>(parts: WatchParts, sender: mpsc::Sender<M>, wrap: impl Fn(Delivery<T>) -> M)
where
    T: Watched + Clone + std::fmt::Debug,
    Object<T>: Resource<DynamicType = ()>,
{
    watch_asking(parts, sender, wrap, SILENCE).await;
}

/// [`watch`] that asks after `silence` how far the server is.
async fn watch_asking<T, M>(
    parts: WatchParts,
    sender: mpsc::Sender<M>,
    wrap: impl Fn(Delivery<T>) -> M,
    silence: Duration,
) where
    T: Watched + Clone + std::fmt::Debug,
    Object<T>: Resource<DynamicType = ()>,
{
    let status = &parts.status;
    let mut said: Option<Nanos> = None;
    let (mut retries, mut pauses) = (Pauses::default(), Pauses::default());
    loop {
        let config = list_config(parts.field_selector);
        let api: Api<Object<T>> = Api::all(parts.client.clone());
        let mut events = watcher::watcher(api.clone(), config).boxed();
        let mut pause = FIRST_PAUSE;
        // A list is asked for before it is known whether the server gives one: until then nothing has begun.
        let mut is_asked_for = false;
        let mut newest = Newest::default();
        let mut rung = parts.alarm.listen();
        while let Some(event) = newest
            .next_of(&mut events, &api, (&parts.alarm, &mut rung), silence)
            .await
        {
            let delivery = match event {
                Ok(Event::Init) => {
                    is_asked_for = true;
                    continue;
                }
                Ok(event) => {
                    status.trouble.lock().take();
                    retries.reset();
                    translate(event)
                }
                Err(error) if !T::SERVED.group.is_empty() && is_missing(&error) => {
                    tracing::info!(
                        kind = status.kind,
                        "the API server does not have this kind: it is not watched"
                    );
                    let empty = [wrap(Delivery::Restarted), wrap(Delivery::Complete)];
                    if send_all(&sender, empty).await.is_err() {
                        return;
                    }
                    pause = LOOK_AGAIN;
                    break;
                }
                Err(error) => {
                    report(&error, status, &parts.clock, &mut said);
                    newest.doubt();
                    if is_lost(&error) {
                        pause = pauses.next().unwrap_or(MAX_PAUSE);
                        break;
                    }
                    tokio::time::sleep(retries.next().unwrap_or(MAX_PAUSE)).await;
                    continue;
                }
            };
            if matches!(delivery, Delivery::Applied(_) | Delivery::Deleted(_)) {
                pauses.reset();
            }
            newest.note_delivery(&delivery);
            let mut restarted = None;
            if std::mem::take(&mut is_asked_for) {
                parts.metrics.watch_relisted(status.kind);
                restarted = Some(wrap(Delivery::Restarted));
            }
            let deliveries = restarted.into_iter().chain([wrap(delivery)]);
            if send_all(&sender, deliveries).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// The most recent list, in pages: one of any version may be older than what was seen before, and what it does not name
/// would count as gone.
fn list_config(field_selector: Option<&str>) -> watcher::Config {
    watcher::Config {
        field_selector: field_selector.map(str::to_owned),
        list_semantic: watcher::ListSemantic::MostRecent,
        ..watcher::Config::default().page_size(PAGE_SIZE)
    }
}

async fn send_all<M>(
    sender: &mpsc::Sender<M>,
    messages: impl IntoIterator<Item = M>,
) -> Result<(), mpsc::error::SendError<M>> {
    for message in messages {
        sender.send(message).await?;
    }
    Ok(())
}

fn translate<T>(event: Event<Object<T>>) -> Delivery<T> {
    match event {
        Event::Init => Delivery::Restarted,
        Event::InitApply(object) => Delivery::Listed(object),
        Event::InitDone => Delivery::Complete,
        Event::Apply(object) => Delivery::Applied(object),
        Event::Delete(object) => Delivery::Deleted(object),
    }
}

fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(answer))
        | watcher::Error::WatchStartFailed(kube::Error::Api(answer)) => answer.code == 404,
        _ => false,
    }
}

/// Whether no watch can go on from the version that was reached, so that only a new list helps: the server has forgotten
/// it, or, restored from a backup, has not got there yet. kube-runtime lists anew by itself only after a 410 inside of a
/// watch.
fn is_lost(error: &watcher::Error) -> bool {
    let answer = match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(answer)) => answer,
        watcher::Error::WatchError(answer) => answer,
        _ => return false,
    };
    let is_ahead = answer.code == 504 && answer.message.contains("Too large resource version");
    let is_forgotten = answer.code == 410 && matches!(error, watcher::Error::WatchStartFailed(_));
    is_ahead || is_forgotten
}

fn report(error: &watcher::Error, status: &WatchStatus, clock: &Clock, said: &mut Option<Nanos>) {
    let text = error_text(error);
    let now = clock.now();
    if said.is_none_or(|said| now.since(said) >= SAY_AGAIN) {
        *said = Some(now);
        tracing::warn!(
            kind = status.kind,
            error = text,
            "a watch does not deliver; trying again"
        );
    }
    *status.trouble.lock() = Some(text);
}

/// Pauses that double up to a limit.
#[derive(Debug, Default)]
struct Pauses {
    next: Option<Duration>,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next.unwrap_or(FIRST_PAUSE);
        self.next = Some((pause * 2).min(MAX_PAUSE));
        Some(pause)
    }
}

impl Pauses {
    fn reset(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests;
