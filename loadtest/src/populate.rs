//! Puts objects into an API server over many connections at once.
//!
//! Does not: make the objects, or wait for anybody to act on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::task::JoinSet;

use crate::client::{ApiClient, excerpt};

/// Tries for one object: with pauses of 50 ms doubling, the last comes after about 6 s.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// An object to create.
#[derive(Debug, Clone)]
pub struct Item {
    /// The collection's path.
    pub path: Arc<str>,
    /// The object as JSON.
    pub body: Bytes,
}

/// How fast to create.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as the connections allow.
    Full,
    /// At this many objects a second, evenly spaced.
    PerSecond(f64),
}

/// Creates all items and gives the moments at which each request was sent, in the order of the items.
///
/// # Errors
/// When the server refuses an object for good.
///
/// # Cancel safety
/// What was created stays.
pub async fn create_all(client: &ApiClient, items: Vec<Item>, connections: usize, pace: Pace) -> Result<Vec<Instant>> {
    let items: Arc<[Item]> = items.into();
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..connections.clamp(1, 1_024) {
        let (client, items, next) = (client.clone(), Arc::clone(&items), Arc::clone(&next));
        workers.spawn(async move {
            let mut sent = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else {
                    return Ok::<_, anyhow::Error>(sent);
                };
                if let Pace::PerSecond(rate) = pace {
                    tokio::time::sleep_until((start + due(index, rate)).into()).await;
                }
                sent.push((index, Instant::now()));
                create(&client, item).await?;
            }
        });
    }
    let mut moments = vec![start; items.len()];
    while let Some(done) = workers.join_next().await {
        for (index, at) in done.context("a creating task failed")?? {
            if let Some(slot) = moments.get_mut(index) {
                *slot = at;
            }
        }
    }
    Ok(moments)
}

/// When the item of an index is due after the start.
fn due(index: usize, rate: f64) -> Duration {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    Duration::try_from_secs_f64(f64::from(index) / rate).unwrap_or(Duration::MAX)
}

/// Creates one object.
async fn create(client: &ApiClient, item: &Item) -> Result<()> {
    let request = (Method::POST, item.path.as_ref(), "application/json");
    persist(client, request, item.body.clone()).await.map(drop)
}

/// Sends a request (method, path, content type) and gives the answer's body; an answer that asks to come back later, or
/// none, is tried again.
///
/// # Errors
/// When the server refuses it for good.
pub async fn persist(client: &ApiClient, request: (Method, &str, &str), body: Bytes) -> Result<Bytes> {
    let (method, path, content_type) = request;
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=TRIES {
        match client.send(method.clone(), path, content_type, body.clone()).await {
            Ok((status, answer)) if status.is_success() => return Ok(answer),
            // The answer to an earlier try was lost.
            Ok((StatusCode::CONFLICT, answer)) if attempt > 1 && method == Method::POST => return Ok(answer),
            Ok((StatusCode::NOT_FOUND, answer)) if attempt > 1 && method == Method::DELETE => return Ok(answer),
            Ok((status, answer)) if !later(status) || attempt == TRIES => {
                bail!("{method} {path}: {status}: {}", excerpt(&answer));
            }
            Err(error) if attempt == TRIES => return Err(error).with_context(|| format!("{method} {path}")),
            _ => tokio::time::sleep(pause).await,
        }
        pause *= 2;
    }
    bail!("{method} {path}: not answered in {TRIES} tries")
}

fn later(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_spaces_items_evenly() {
        assert_eq!(due(0, 500.0), Duration::ZERO);
        assert_eq!(due(1_000, 500.0), Duration::from_secs(2));
    }

    #[test]
    fn only_overload_and_server_errors_are_tried_again() {
        assert!(later(StatusCode::TOO_MANY_REQUESTS) && later(StatusCode::SERVICE_UNAVAILABLE));
        assert!(!later(StatusCode::CONFLICT) && !later(StatusCode::UNPROCESSABLE_ENTITY));
    }
}
