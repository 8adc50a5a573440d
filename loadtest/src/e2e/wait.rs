//! Waiting for what a server or scheduler shows.
//!
//! Does not: wait for a fixed time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::StatusCode;

use crate::schedulers::Scheduler;

/// The longest wait for one thing. Long, as the machine may be busy; a passing test waits for milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at a condition.
pub(super) const LOOK: Duration = Duration::from_millis(25);

/// Looks again and again until there is something to see.
///
/// # Errors
/// When there is nothing after a minute; errors of the look itself are taken as nothing, and the last is told.
pub async fn eventually<T>(mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = look().await;
        match seen {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if Instant::now() >= deadline => bail!("not seen within {PATIENCE:?}"),
            Err(error) if Instant::now() >= deadline => return Err(error),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// What a scheduler answers on a health path: status and text.
///
/// # Errors
/// When it does not answer.
pub async fn health(scheduler: &Scheduler, path: &str) -> Result<(StatusCode, String)> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{}", scheduler.port).parse()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    let request = http::Request::get(path).body(kube::client::Body::empty())?;
    let answer = client.send(request).await?;
    let status = answer.status();
    let bytes = answer.into_body().collect_bytes().await?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}
