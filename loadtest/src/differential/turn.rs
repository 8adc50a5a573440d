//! One scheduler's turn: a pod is created for it, it decides, and what it decided is read.
//!
//! Does not: judge.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::podview::{PodView, Standing};
use super::state::{Key, PODS, State, key};
use super::volumes::Attached;

/// How long a scheduler may take for one pod; both take milliseconds, and a second more after a failed bind.
const DECISION_LIMIT: Duration = Duration::from_secs(20);
/// How often claims are looked at while a pod waits for them.
const STEP: Duration = Duration::from_millis(15);
const GONE_LIMIT: Duration = Duration::from_secs(20);

/// A pod that stands before a scheduler.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) key: Key,
    pub(super) uid: String,
    /// The object as the server holds it.
    pub(super) object: Value,
}

/// Creates the pod for a scheduler.
pub(super) async fn create(state: &mut State, pod: &Value, scheduler: &str) -> Result<Candidate> {
    let mut pod = pod.clone();
    pod["spec"]["schedulerName"] = scheduler.into();
    let object = state.create(PODS, &pod).await?;
    let uid = object["metadata"]["uid"]
        .as_str()
        .context("a pod without a UID")?
        .to_owned();
    Ok(Candidate {
        key: key(&pod),
        uid,
        object,
    })
}

/// Waits for the decision, binding the pod's claims meanwhile; `None` when there is none in time.
pub(super) async fn decision(
    state: &mut State,
    view: &PodView,
    candidate: &Candidate,
    attached: &Attached,
) -> Result<Option<Standing>> {
    if !attached.is_late() {
        return view.wait(&candidate.uid, DECISION_LIMIT, Standing::is_decided).await;
    }
    let begun = std::time::Instant::now();
    while begun.elapsed() < DECISION_LIMIT {
        if let Some(standing) = view.wait(&candidate.uid, STEP, Standing::is_decided).await? {
            return Ok(Some(standing));
        }
        attached.step(state).await?;
    }
    Ok(None)
}

/// Deletes the pod and waits until it is gone.
pub(super) async fn withdraw(state: &mut State, view: &PodView, candidate: &Candidate) -> Result<()> {
    state.delete(PODS, &candidate.key).await?;
    if view
        .wait(&candidate.uid, GONE_LIMIT, |standing| standing.gone)
        .await?
        .is_none()
    {
        bail!("{:?} is not gone after {GONE_LIMIT:?}", candidate.key);
    }
    Ok(())
}
