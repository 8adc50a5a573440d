//! Counting the Events that a scheduler wrote, and waiting until it has written its last.
//!
//! While it waits it asks for a page of one object and reads how many remain, so that a server with 50,000 Events is
//! not made to send them again and again; they are read once, at the end.
//!
//! Does not: wait for a given number: a scheduler decides itself how many it writes.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use serde::Deserialize;

use crate::client::ApiClient;
use crate::process::{ProcessUse, usage};

const PAGE: usize = 2_000;
const EVENTS: &str = "/api/v1/events";
const POLL: Duration = Duration::from_millis(250);
/// Without a new Event for this long (and with none missing that must come) the scheduler has written its last.
const QUIET: Duration = Duration::from_secs(3);

/// How many Events of each kind exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounts {
    /// Reason Scheduled.
    pub scheduled: u64,
    /// Reason FailedScheduling.
    pub failed: u64,
}

/// What was seen when the last Event had been written.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    /// When the number of Events last grew; the start of the wait when it never did.
    pub last_growth: Instant,
    /// The scheduler's use of the machine at that moment, where it is a process.
    pub process: Option<ProcessUse>,
}

/// Waits until no Event comes any more: at least `expected` exist, or `limit` passed, and none came for 3 s.
///
/// # Errors
/// When Events cannot be listed or the process is gone.
///
/// # Cancel safety
/// Safe.
pub async fn drain(client: &ApiClient, pid: Option<u32>, expected: u64, limit: Duration) -> Result<Drained> {
    let start = Instant::now();
    let mut count = total(client, EVENTS).await?;
    let mut drained = Drained {
        last_growth: start,
        process: pid.map(usage).transpose()?,
    };
    loop {
        let quiet = drained.last_growth.elapsed() >= QUIET;
        if (quiet && count >= expected) || start.elapsed() >= limit {
            return Ok(drained);
        }
        tokio::time::sleep(POLL).await;
        let now = total(client, EVENTS).await?;
        if now != count {
            count = now;
            drained = Drained {
                last_growth: Instant::now(),
                process: pid.map(usage).transpose()?,
            };
        }
    }
}

/// The number of objects in the collection with this path.
///
/// # Errors
/// When it cannot be listed.
pub async fn total(client: &ApiClient, collection: &str) -> Result<u64> {
    let page: Slim = client.get(&format!("{collection}?limit=1")).await?;
    let first = u64::try_from(page.items.len()).unwrap_or(u64::MAX);
    match page.metadata.remaining {
        Some(remaining) => Ok(first.saturating_add(remaining)),
        None if page.metadata.token.is_empty() => Ok(first),
        None => bail!("the server gives no remainingItemCount for a limited list of {collection}"),
    }
}

/// Reads all Events once and counts them by reason.
///
/// # Errors
/// When they cannot be listed or do not decode.
pub async fn count(client: &ApiClient) -> Result<EventCounts> {
    let mut counts = EventCounts::default();
    let mut token = String::new();
    loop {
        let path = format!("{EVENTS}?limit={PAGE}&continue={token}");
        let (status, body) = client
            .send(http::Method::GET, &path, "application/json", Bytes::new())
            .await?;
        if !status.is_success() {
            bail!("listing events: {status}");
        }
        let page: Page<'_> = serde_json::from_slice(&body).context("a list of events does not decode")?;
        for event in &page.items {
            match event.reason.as_deref() {
                Some("Scheduled") => counts.scheduled += 1,
                Some("FailedScheduling") => counts.failed += 1,
                _ => {}
            }
        }
        if page.metadata.token.is_empty() {
            return Ok(counts);
        }
        token = page.metadata.token;
    }
}

#[derive(Deserialize)]
struct Slim {
    metadata: ListMeta,
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<Event<'a>>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    token: String,
    #[serde(rename = "remainingItemCount")]
    remaining: Option<u64>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}
