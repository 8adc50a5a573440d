//! What an election is about, and the name under which this process takes part.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Retries are spread by up to this factor of the retry period; the renew deadline must leave room for one retry.
const JITTER_FACTOR: f64 = 1.2;

/// Settings of an election, with kube-scheduler's meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Name of this process in the record; unique among all processes ever (see [`identity`]).
    pub identity: String,
    /// A term without renewal; others take over after it. Whole seconds count.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long stops.
    pub renew_deadline: Duration,
    /// Time between renewals.
    pub retry_period: Duration,
}

/// Why the settings cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A leader would still act when others take over.
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseDuration,
    /// A leader could not even try twice.
    #[error("renewDeadline must be greater than retryPeriod*1.2")]
    RenewDeadline,
    /// The record holds whole seconds.
    #[error("leaseDuration must be at least one second")]
    LeaseTooShort,
    /// A loop without a pause.
    #[error("retryPeriod must be greater than zero")]
    RetryPeriod,
    /// A name is missing.
    #[error("{0} must not be empty")]
    Empty(&'static str),
}

impl LeaderElectionConfig {
    /// Checks that the durations can work together. Seconds that the record cannot hold do not count.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.lease_seconds() < 1 {
            return Err(ConfigError::LeaseTooShort);
        }
        if Duration::from_secs(self.lease_duration.as_secs()) <= self.renew_deadline {
            return Err(ConfigError::LeaseDuration);
        }
        if self.retry_period.is_zero() {
            return Err(ConfigError::RetryPeriod);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(ConfigError::RenewDeadline);
        }
        for (field, value) in [
            ("resourceNamespace", &self.namespace),
            ("resourceName", &self.name),
            ("identity", &self.identity),
        ] {
            if value.is_empty() {
                return Err(ConfigError::Empty(field));
            }
        }
        Ok(())
    }

    /// `namespace/name` of the Lease.
    pub(super) fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The term as the record holds it.
    pub(super) fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// Longest wait for one answer: half the renew deadline, so that a hanging call leaves time for another, but at
    /// least a second (client-go's figures).
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

/// A name for this process: `<hostname>_<random UUID>`, as kube-scheduler's.
#[must_use]
pub fn identity() -> String {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_missing| std::fs::read_to_string("/etc/hostname"))
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{hostname}_{}", uuid(random_bits()))
}

/// Bits that differ between processes and calls: the standard library keys each `RandomState` from the system.
fn random_bits() -> u128 {
    let state = RandomState::new();
    (u128::from(state.hash_one(0_u8)) << 64) | u128::from(state.hash_one(1_u8))
}

/// A seed for the chance that keeps replicas apart.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(2_u8)
}

/// Formats random bits as a version 4 UUID (RFC 9562).
fn uuid(random: u128) -> String {
    let bits = (random & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (position, digit) in hex.chars().enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LeaderElectionConfig {
        LeaderElectionConfig {
            namespace: "kube-system".to_owned(),
            name: "kube-scheduler".to_owned(),
            identity: "me".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    #[test]
    fn durations_that_cannot_work_together_are_refused() {
        assert_eq!(config().validate(), Ok(()));
        let check = |change: fn(&mut LeaderElectionConfig)| {
            let mut changed = config();
            change(&mut changed);
            changed.validate()
        };
        assert_eq!(
            check(|config| config.renew_deadline = config.lease_duration),
            Err(ConfigError::LeaseDuration)
        );
        // The record would say ten seconds, so a deadline of 10.5 s would overlap with the next leader.
        assert_eq!(
            check(|config| {
                config.lease_duration = Duration::from_millis(10_900);
                config.renew_deadline = Duration::from_millis(10_500);
            }),
            Err(ConfigError::LeaseDuration)
        );
        assert_eq!(
            check(|config| config.retry_period = Duration::from_secs(9)),
            Err(ConfigError::RenewDeadline)
        );
        assert_eq!(
            check(|config| config.retry_period = Duration::ZERO),
            Err(ConfigError::RetryPeriod)
        );
        assert_eq!(
            check(|config| config.lease_duration = Duration::from_millis(900)),
            Err(ConfigError::LeaseTooShort)
        );
        assert_eq!(
            check(|config| config.name.clear()),
            Err(ConfigError::Empty("resourceName"))
        );
    }

    #[test]
    fn identities_differ_on_one_host_and_end_in_a_uuid() {
        let (first, second) = (identity(), identity());
        assert_ne!(first, second);
        let (_, uuid) = first.rsplit_once('_').unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.chars().nth(14), Some('4'));
        assert!(matches!(uuid.chars().nth(19), Some('8' | '9' | 'a' | 'b')));
    }
}
