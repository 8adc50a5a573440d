//! The election of a run: a Lease when leader election is on, nothing otherwise.

use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientSet;
use crate::telemetry::Metrics;
use supercargo_shards::leader::{self, Fence, LeaderElectionConfig, LeaderElector, LeaderState, Outcome};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::command::options::Options;

/// How long giving the Lease back may take.
const RELEASE: Duration = Duration::from_secs(5);
/// How much longer than its term a leader may fail to renew before `/healthz` says so, as upstream.
const HEALTH_GRACE: Duration = Duration::from_secs(20);

/// An election that has not begun.
pub(super) struct Election {
    elector: Option<LeaderElector>,
    metrics: Arc<Metrics>,
    name: String,
    lease_duration: Duration,
}

impl Election {
    pub(super) fn new(options: &Options, clients: &ClientSet, metrics: &Arc<Metrics>) -> anyhow::Result<Self> {
        let settings = &options.configuration.leader_election;
        let config = LeaderElectionConfig {
            namespace: settings.resource_namespace.clone(),
            name: settings.resource_name.clone(),
            identity: leader::identity(),
            lease_duration: settings.lease_duration,
            renew_deadline: settings.renew_deadline,
            retry_period: settings.retry_period,
        };
        let elector = if settings.leader_elect {
            Some(LeaderElector::new(clients.lease.clone(), config)?)
        } else {
            None
        };
        Ok(Self {
            elector,
            metrics: Arc::clone(metrics),
            name: settings.resource_name.clone(),
            lease_duration: settings.lease_duration,
        })
    }

    /// Whether others may lead.
    pub(super) const fn is_contested(&self) -> bool {
        self.elector.is_some()
    }

    /// The right to act.
    pub(super) fn fence(&self) -> Fence {
        self.elector.as_ref().map_or_else(Fence::always, LeaderElector::fence)
    }

    /// What `/healthz` and `/readyz` say about it; `None` without an election.
    pub(super) fn health(&self) -> Option<impl Fn() -> Result<String, String> + Send + Sync + 'static> {
        let elector = self.elector.as_ref()?;
        let (state, fence, grace) = (elector.subscribe(), elector.fence(), self.lease_duration + HEALTH_GRACE);
        let failing_since = crate::sync::Mutex::new(None::<tokio::time::Instant>);
        Some(move || {
            let leading = match &*state.borrow() {
                LeaderState::Leading { since } => format!("leader since {since}"),
                LeaderState::Standby {
                    holder: Some(holder),
                    since,
                } => {
                    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
                    return Ok(format!("standby, the leader is {holder}{since}"));
                }
                LeaderState::Standby { holder: None, .. } => return Ok("standby, no leader known".to_owned()),
                LeaderState::Lost { reason } => return Err(format!("the lease is lost: {reason}")),
                LeaderState::Stopped => return Ok("stopped".to_owned()),
            };
            let now = tokio::time::Instant::now();
            let mut failing = failing_since.lock();
            if fence.may_act() {
                *failing = None;
                return Ok(leading);
            }
            let since = *failing.get_or_insert(now);
            if now - since > grace {
                Err("the lease could not be renewed".to_owned())
            } else {
                Ok(leading)
            }
        })
    }

    /// Whether this process leads, at any time.
    pub(super) fn leading(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let fence = self.fence();
        move || fence.may_act()
    }

    /// Takes part.
    pub(super) fn start(self) -> Running {
        let Some(elector) = self.elector else {
            return Running { contest: None };
        };
        let (state, slow_renewals) = (elector.subscribe(), elector.slow_renewals());
        let cancel = CancellationToken::new();
        let task = tokio::spawn(elector.run(cancel.clone()));
        self.metrics.leader(&self.name, false);
        self.metrics.leader_slow_path(&self.name, &slow_renewals);
        Running {
            contest: Some(Contest {
                state,
                cancel,
                task,
                metrics: self.metrics,
                name: self.name,
            }),
        }
    }
}

struct Contest {
    state: watch::Receiver<LeaderState>,
    cancel: CancellationToken,
    task: JoinHandle<Outcome>,
    metrics: Arc<Metrics>,
    name: String,
}

/// An election under way.
pub(super) struct Running {
    contest: Option<Contest>,
}

impl Running {
    /// Waits until this process leads.
    pub(super) async fn elected(&mut self) -> Result<(), String> {
        let Some(contest) = &mut self.contest else {
            return Ok(());
        };
        let led = contest
            .state
            .wait_for(|state| matches!(state, LeaderState::Leading { .. }))
            .await
            .is_ok();
        if led {
            contest.metrics.leader(&contest.name, true);
            return Ok(());
        }
        Err("the election ended".to_owned())
    }

    /// Waits until this process may not lead any more, and says why.
    pub(super) async fn lost(&mut self) -> String {
        let Some(contest) = &mut self.contest else {
            return std::future::pending().await;
        };
        let reason = match (&mut contest.task).await {
            Ok(Outcome::Lost(reason)) => reason.to_string(),
            Ok(Outcome::Stopped { .. }) => "the election ended".to_owned(),
            Err(error) => format!("the election failed: {error}"),
        };
        contest.metrics.leader(&contest.name, false);
        reason
    }

    /// Gives the Lease back.
    pub(super) async fn release(self) {
        let Some(contest) = self.contest else { return };
        contest.cancel.cancel();
        match tokio::time::timeout(RELEASE, contest.task).await {
            Ok(Ok(Outcome::Stopped { released })) => tracing::info!(released, "left the election"),
            Ok(other) => tracing::warn!(?other, "the election did not end as it should"),
            Err(_elapsed) => tracing::warn!("the lease could not be released in time; it runs out by itself"),
        }
        contest.metrics.leader(&contest.name, false);
    }
}
