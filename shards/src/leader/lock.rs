//! The calls behind an election, each with a deadline of its own.
//!
//! Does not: retry. A call that is given up closes its connection when the client speaks HTTP/1.1, so the next one does
//! not hang on the same dead connection.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::config::LeaderElectionConfig;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// There is no such Lease.
    #[error("the lease does not exist")]
    NotFound,
    /// Somebody else wrote first.
    #[error("somebody else wrote the lease first")]
    Conflict,
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Anything else.
    #[error(transparent)]
    Api(Box<kube::Error>),
}

impl From<kube::Error> for LockError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 404 => Self::NotFound,
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            _ => Self::Api(Box::new(error)),
        }
    }
}

/// One Lease of one API server.
pub(super) struct LeaseLock {
    api: Api<Lease>,
    name: String,
}

impl std::fmt::Debug for LeaseLock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LeaseLock")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl LeaseLock {
    pub(super) fn new(client: Client, config: &LeaderElectionConfig) -> Self {
        Self {
            api: Api::namespaced(client, &config.namespace),
            name: config.name.clone(),
        }
    }

    pub(super) async fn get(&self, within: Duration) -> Result<Lease, LockError> {
        bounded(within, self.api.get(&self.name)).await
    }

    pub(super) async fn create(&self, lease: &Lease, within: Duration) -> Result<Lease, LockError> {
        bounded(within, self.api.create(&PostParams::default(), lease)).await
    }

    /// Writes over the version that `lease` was read at.
    pub(super) async fn replace(&self, lease: &Lease, within: Duration) -> Result<Lease, LockError> {
        bounded(within, self.api.replace(&self.name, &PostParams::default(), lease)).await
    }
}

async fn bounded(within: Duration, call: impl Future<Output = Result<Lease, kube::Error>>) -> Result<Lease, LockError> {
    match timeout(within, call).await {
        Ok(answer) => Ok(answer?),
        Err(_elapsed) => Err(LockError::Timeout(within)),
    }
}
