//! Leader election with a `coordination.k8s.io/v1` Lease.
//!
//! The record and its rules are client-go's (`tools/leaderelection`, release 1.36), so that replicas of kube-scheduler
//! and of Supercargo can stand behind one Lease. Three things are stricter:
//! * the right to act ends `renewDeadline` after the last successful renewal was *sent* (client-go: after the first
//!   failed try), so a leader that cannot renew has stopped well before anybody may take over;
//! * a standby reads the Lease twice in each retry period and wakes when the term that it saw ends, so that a takeover
//!   comes within about a second of the lease duration;
//! * a Lease that vanishes while its holder's term runs is not free before that term ends.
//!
//! Does not: trust anybody's wall clock. Terms are measured on the local monotonic clock from the moment when a change
//! of the record was seen.
//!
//! Threads: one task runs [`LeaderElector::run`]; any thread may ask the [`Fence`] (one atomic load and one clock
//! reading) or read the state.
//!
//! Children: `config` (durations, identity), `record` (the rules, pure), `fence` (the right to act), `lock` (the calls).

mod config;
mod fence;
mod lock;
mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub use config::{ConfigError, LeaderElectionConfig, identity};
pub use fence::Fence;

use lock::{LeaseLock, LockError};
use record::{Observed, Step};

/// How often a process that waits says for whom, or why it cannot know: two schedulers that share a Lease by mistake
/// show that way.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What a process knows about the leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderState {
    /// Another process leads, or nobody does yet.
    Standby {
        /// The holder in the record; `None` before the first answer and while the Lease is free.
        holder: Option<String>,
        /// Since when it holds the Lease, as it says itself.
        since: Option<jiff::Timestamp>,
    },
    /// This process leads.
    Leading {
        /// When it was elected.
        since: jiff::Timestamp,
    },
    /// This process led and may not act any more.
    Lost {
        /// Why.
        reason: LossReason,
    },
    /// The election ended on purpose.
    Stopped,
}

/// Why a leader lost its Lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// No renewal succeeded for the renew deadline.
    #[error("the lease could not be renewed within the renew deadline")]
    RenewDeadline,
    /// The record names somebody else.
    #[error("the lease was taken by {0:?}")]
    Taken(String),
}

/// How an election ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was cancelled. `released` says whether a held Lease was given up (false also when none was held).
    Stopped {
        /// The Lease was held and is free now.
        released: bool,
    },
    /// The Lease was lost; the process must end with a code other than zero.
    Lost(LossReason),
}

/// Takes part in one election. Made once, run once.
#[derive(Debug)]
pub struct LeaderElector {
    config: LeaderElectionConfig,
    lock: LeaseLock,
    observed: Observed,
    fence: Fence,
    state: watch::Sender<LeaderState>,
    slow_renewals: Arc<AtomicU64>,
    chance: StdRng,
    /// When it was last said who holds the Lease.
    said: Option<Instant>,
    /// When it was last said that the Lease cannot be read or written.
    complained: Option<Instant>,
}

/// How one try to take or renew the Lease ended.
#[derive(Debug, PartialEq)]
enum Attempt {
    /// It is ours; the call that made it so was sent at this time.
    Held(Instant),
    /// It is somebody else's.
    Other(String),
    /// Free or ours, but the call failed.
    Failed,
}

impl LeaderElector {
    /// Prepares an election over `client`, which should serve nothing else, so that renewals wait behind no other call.
    ///
    /// # Errors
    /// When the durations cannot work together or a name is missing.
    pub fn new(client: Client, config: LeaderElectionConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            lock: LeaseLock::new(client, &config),
            observed: Observed::default(),
            fence: Fence::closed(),
            state: watch::Sender::new(LeaderState::Standby {
                holder: None,
                since: None,
            }),
            slow_renewals: Arc::default(),
            chance: StdRng::seed_from_u64(config::seed()),
            said: None,
            complained: None,
            config,
        })
    }

    /// The right to act, to be asked before every write.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Follows the state.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<LeaderState> {
        self.state.subscribe()
    }

    /// Renewals so far that had to read the Lease first (`leader_election_slowpath_total`).
    #[must_use]
    pub fn slow_renewals(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.slow_renewals)
    }

    /// Runs until the Lease is lost or `cancel` fires. On cancellation a held Lease is released, so cancel only when no
    /// write is under way any more.
    ///
    /// # Cancel safety
    /// Dropping the future closes nothing: the fence ends by itself, at the latest after the renew deadline.
    pub async fn run(mut self, cancel: CancellationToken) -> Outcome {
        let Some(sent) = self.acquire(&cancel).await else {
            self.state.send_replace(LeaderState::Stopped);
            return Outcome::Stopped { released: false };
        };
        self.fence.extend(sent + self.config.renew_deadline);
        self.state.send_replace(LeaderState::Leading {
            since: jiff::Timestamp::now(),
        });
        tracing::info!(lease = %self.config.lease(), identity = %self.config.identity, "this process leads");
        let lost = self.renew(sent, &cancel).await;
        self.fence.close();
        if let Some(reason) = lost {
            tracing::error!(lease = %self.config.lease(), %reason, "leadership is lost");
            self.state.send_replace(LeaderState::Lost { reason: reason.clone() });
            return Outcome::Lost(reason);
        }
        let released = self.release().await;
        self.state.send_replace(LeaderState::Stopped);
        Outcome::Stopped { released }
    }

    /// Tries until the Lease is ours; `None` when cancelled.
    async fn acquire(&mut self, cancel: &CancellationToken) -> Option<Instant> {
        loop {
            let attempt = tokio::select! {
                () = cancel.cancelled() => return None,
                attempt = self.attempt(self.config.request_timeout()) => attempt,
            };
            match attempt {
                Attempt::Held(sent) => return Some(sent),
                Attempt::Other(holder) => self.show_standby(&holder),
                Attempt::Failed => {}
            }
            let wake = self.next_look();
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = sleep_until(wake) => {}
            }
        }
    }

    /// When a standby looks again: within half a retry period and a fifth of it at random, or when the term that it
    /// sees ends, whichever is first. Chance keeps replicas apart.
    fn next_look(&mut self) -> Instant {
        let now = Instant::now();
        let poll = now + (self.config.retry_period / 2).mul_f64(1.0 + 0.2 * self.chance.random::<f64>());
        match self.observed.term_end() {
            Some(end) if end > now => {
                let spread = Duration::from_millis(self.chance.random_range(0..64));
                poll.min(end + spread)
            }
            _ => poll,
        }
    }

    fn show_standby(&mut self, holder: &str) {
        let since = self.observed.acquired();
        let is_new = self.state.send_if_modified(|state| {
            let now = LeaderState::Standby {
                holder: Some(holder.to_owned()),
                since,
            };
            let changed = *state != now;
            if changed {
                *state = now;
            }
            changed
        });
        if is_new || self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            self.said = Some(Instant::now());
            let since = since.map_or_else(|| "unknown".to_owned(), |since| since.to_string());
            tracing::info!(
                lease = %self.config.lease(),
                identity = %self.config.identity,
                holder,
                since,
                "standing by: the lease is held by another process"
            );
        }
    }

    /// Renews until the deadline passes or the Lease is somebody else's; `None` when cancelled.
    async fn renew(&mut self, mut last_sent: Instant, cancel: &CancellationToken) -> Option<LossReason> {
        let mut next = last_sent + self.config.retry_period;
        loop {
            let deadline = last_sent + self.config.renew_deadline;
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = sleep_until(next.min(deadline)) => {}
            }
            let started = Instant::now();
            if started >= deadline {
                return Some(LossReason::RenewDeadline);
            }
            let timeout = self.config.request_timeout().min(deadline - started);
            let attempt = tokio::select! {
                () = cancel.cancelled() => return None,
                () = sleep_until(deadline) => return Some(LossReason::RenewDeadline),
                attempt = self.attempt(timeout) => attempt,
            };
            match attempt {
                Attempt::Held(sent) => {
                    last_sent = sent;
                    self.fence.extend(sent + self.config.renew_deadline);
                }
                Attempt::Other(holder) => return Some(LossReason::Taken(holder)),
                Attempt::Failed => {}
            }
            next = started + self.config.retry_period;
        }
    }

    /// One try: a leader writes at once and reads only when that failed; everybody else reads first.
    async fn attempt(&mut self, timeout: Duration) -> Attempt {
        if self.observed.is_held_by(&self.config.identity) {
            let sent = Instant::now();
            match self.write(timeout).await {
                Ok(()) => return Attempt::Held(sent),
                Err(error) => {
                    self.slow_renewals.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(lease = %self.config.lease(), %error, "renewal failed, reading the lease");
                }
            }
        }
        match self.lock.get(timeout).await {
            Ok(lease) => self.observed.see(lease, Instant::now()),
            Err(LockError::NotFound) => self.observed.vanish(),
            Err(error) => {
                self.complain("the lease cannot be read", &error);
                return Attempt::Failed;
            }
        }
        let sent = Instant::now();
        match self.observed.step(&self.config.identity, sent) {
            Step::Wait { holder } => return Attempt::Other(holder),
            Step::Write => {}
        }
        match self.write(timeout).await {
            Ok(()) => Attempt::Held(sent),
            Err(LockError::Conflict) => self.read_after_conflict(timeout).await,
            Err(error) => {
                self.complain("the lease cannot be written", &error);
                Attempt::Failed
            }
        }
    }

    /// Warns, but not at every try of a standby that has no right to the Lease or no server.
    fn complain(&mut self, what: &'static str, error: &LockError) {
        if self.complained.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            self.complained = Some(Instant::now());
            tracing::warn!(lease = %self.config.lease(), %error, "{what}");
        }
    }

    /// Somebody was faster: sees who, so that their term is known from now on.
    async fn read_after_conflict(&mut self, timeout: Duration) -> Attempt {
        match self.lock.get(timeout).await {
            Ok(lease) => self.observed.see(lease, Instant::now()),
            Err(error) => {
                tracing::warn!(lease = %self.config.lease(), %error, "the lease cannot be read after a conflict");
                return Attempt::Failed;
            }
        }
        match self.observed.step(&self.config.identity, Instant::now()) {
            Step::Wait { holder } => Attempt::Other(holder),
            Step::Write => Attempt::Failed,
        }
    }

    /// Writes a record that names us, over what was observed.
    async fn write(&mut self, timeout: Duration) -> Result<(), LockError> {
        let lease = self.observed.claim(&self.config, jiff::Timestamp::now());
        let written = match lease.metadata.resource_version {
            Some(_) => self.lock.replace(&lease, timeout).await?,
            None => self.lock.create(&lease, timeout).await?,
        };
        self.observed.see(written, Instant::now());
        Ok(())
    }

    /// Frees the Lease. A failure is logged: the term then ends by itself.
    async fn release(&mut self) -> bool {
        let timeout = self.config.request_timeout();
        for _ in 0..2 {
            let Some(lease) = self.observed.give_up(&self.config.identity, jiff::Timestamp::now()) else {
                return false;
            };
            match self.lock.replace(&lease, timeout).await {
                Ok(_) => {
                    tracing::info!(lease = %self.config.lease(), "the lease is released");
                    return true;
                }
                // A renewal that was cut off by the cancellation may have been written: read and try once more.
                Err(LockError::Conflict) => match self.lock.get(timeout).await {
                    Ok(lease) => self.observed.see(lease, Instant::now()),
                    Err(error) => {
                        tracing::warn!(lease = %self.config.lease(), %error, "the lease cannot be read for its release");
                        return false;
                    }
                },
                Err(error) => {
                    tracing::warn!(lease = %self.config.lease(), %error, "the lease cannot be released");
                    return false;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
