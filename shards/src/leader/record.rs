//! The rules of the record: who holds it, until when, and what may be written over it.
//!
//! Does not: call anybody or read a clock.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use std::time::Duration;
use tokio::time::Instant;

use super::config::LeaderElectionConfig;

/// The term that a released Lease carries, so that others need not wait.
const RELEASED_SECONDS: i32 = 1;

/// The record as last seen, and when it last changed.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// `None` before the first answer and after the Lease vanished.
    lease: Option<Lease>,
    /// Holder and end of the last term seen; outlives a Lease that vanished.
    term: Option<Term>,
}

#[derive(Debug, Clone)]
struct Term {
    holder: String,
    end: Instant,
}

/// What may be done about the Lease now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is free, over, or ours: write.
    Write,
    /// Somebody else's term runs.
    Wait {
        /// Who.
        holder: String,
    },
}

impl Observed {
    /// Takes in an answer received at `now`. A term starts anew only when the record changed: a record that stays the
    /// same is a holder that is gone.
    pub(super) fn see(&mut self, lease: Lease, now: Instant) {
        let changed = self.lease.as_ref().and_then(|old| old.spec.as_ref()) != lease.spec.as_ref();
        if changed || self.term.is_none() {
            self.term = lease.spec.as_ref().and_then(|spec| {
                let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
                let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
                Some(Term {
                    holder,
                    end: now + Duration::from_secs(seconds),
                })
            });
        }
        self.lease = Some(lease);
    }

    /// The Lease does not exist.
    pub(super) fn vanish(&mut self) {
        self.lease = None;
    }

    /// Whether the record names `identity`.
    pub(super) fn is_held_by(&self, identity: &str) -> bool {
        self.spec()
            .is_some_and(|spec| spec.holder_identity.as_deref() == Some(identity))
    }

    /// Since when the holder has the Lease, as the record says.
    pub(super) fn acquired(&self) -> Option<jiff::Timestamp> {
        Some(self.spec()?.acquire_time.as_ref()?.0)
    }

    /// When the last term seen ends.
    pub(super) fn term_end(&self) -> Option<Instant> {
        self.term.as_ref().map(|term| term.end)
    }

    /// What `identity` may do at `now`.
    pub(super) fn step(&self, identity: &str, now: Instant) -> Step {
        match &self.term {
            Some(term) if term.holder != identity && term.end > now => Step::Wait {
                holder: term.holder.clone(),
            },
            _ => Step::Write,
        }
    }

    /// The object to write so that the record names us. A new term of office counts one transition more; a renewal
    /// keeps when it began. Without a resource version it must be created.
    pub(super) fn claim(&self, config: &LeaderElectionConfig, now: jiff::Timestamp) -> Lease {
        let renewal = self.is_held_by(&config.identity);
        let old = self.spec();
        let acquired = old.and_then(|spec| spec.acquire_time.clone()).filter(|_| renewal);
        let transitions = old.map_or(0, |spec| {
            let so_far = spec.lease_transitions.unwrap_or_default();
            if renewal { so_far } else { so_far.saturating_add(1) }
        });
        let spec = LeaseSpec {
            holder_identity: Some(config.identity.clone()),
            lease_duration_seconds: Some(config.lease_seconds()),
            acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        let metadata = self.lease.as_ref().map_or_else(
            || ObjectMeta {
                name: Some(config.name.clone()),
                namespace: Some(config.namespace.clone()),
                ..ObjectMeta::default()
            },
            |lease| lease.metadata.clone(),
        );
        Lease {
            metadata,
            spec: Some(spec),
        }
    }

    /// The object to write so that nobody holds the record; `None` when it is not ours.
    pub(super) fn give_up(&self, identity: &str, now: jiff::Timestamp) -> Option<Lease> {
        let lease = self.lease.as_ref().filter(|_| self.is_held_by(identity))?;
        let transitions = self.spec().and_then(|spec| spec.lease_transitions);
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECONDS),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        };
        Some(Lease {
            metadata: lease.metadata.clone(),
            spec: Some(spec),
        })
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        self.lease.as_ref()?.spec.as_ref()
    }
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

    fn at(seconds: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(seconds * 1_000_000 + 7).unwrap()
    }

    fn lease(holder: &str, seconds: i32, renewed: i64) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some("5".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(seconds),
                acquire_time: Some(MicroTime(at(1))),
                renew_time: Some(MicroTime(at(renewed))),
                lease_transitions: Some(3),
                ..LeaseSpec::default()
            }),
        }
    }

    #[test]
    fn a_term_lasts_as_long_as_its_record_says_and_only_a_change_starts_it_anew() {
        let start = Instant::now();
        let mut observed = Observed::default();
        observed.see(lease("other", 7, 1), start);
        let wait = Step::Wait {
            holder: "other".to_owned(),
        };
        assert_eq!(observed.step("me", start + Duration::from_millis(6_999)), wait);
        observed.see(lease("other", 7, 1), start + Duration::from_secs(5));
        assert_eq!(observed.step("me", start + Duration::from_secs(7)), Step::Write);
        observed.see(lease("other", 7, 2), start + Duration::from_secs(7));
        assert_eq!(observed.step("me", start + Duration::from_secs(13)), wait);
    }

    #[test]
    fn a_released_or_empty_record_is_free_at_once() {
        let start = Instant::now();
        for free in [
            lease("", 15, 1),
            Lease::default(),
            lease("other", -4, 1),
            lease("other", 0, 1),
        ] {
            let mut observed = Observed::default();
            observed.see(free, start);
            assert_eq!(observed.step("me", start), Step::Write);
        }
    }

    #[test]
    fn a_lease_that_vanishes_is_free_only_when_its_term_ends() {
        let start = Instant::now();
        let mut observed = Observed::default();
        observed.vanish();
        assert_eq!(observed.step("me", start), Step::Write);
        observed.see(lease("other", 15, 1), start);
        observed.vanish();
        assert_eq!(
            observed.step("me", start + Duration::from_secs(1)),
            Step::Wait {
                holder: "other".to_owned()
            }
        );
        assert_eq!(observed.step("me", start + Duration::from_secs(15)), Step::Write);
        assert!(observed.claim(&config(), at(9)).metadata.resource_version.is_none());
    }

    #[test]
    fn a_renewal_keeps_the_term_of_office_and_a_takeover_counts_a_transition() {
        let mut observed = Observed::default();
        observed.see(lease("other", 15, 1), Instant::now());
        let taken = observed.claim(&config(), at(50)).spec.unwrap();
        assert_eq!(
            (taken.lease_transitions, taken.acquire_time),
            (Some(4), Some(MicroTime(at(50))))
        );
        observed.see(lease("me", 15, 60), Instant::now());
        let renewed = observed.claim(&config(), at(62)).spec.unwrap();
        assert_eq!(
            (renewed.lease_transitions, renewed.acquire_time),
            (Some(3), Some(MicroTime(at(1))))
        );
        assert_eq!(renewed.renew_time, Some(MicroTime(at(62))));
    }

    #[test]
    fn the_record_reads_as_client_go_writes_it() {
        let claimed = Observed::default().claim(&config(), at(1_800_000_000));
        expect_test::expect![[r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kube-scheduler","namespace":"kube-system"},"spec":{"acquireTime":"2027-01-15T08:00:00.000007Z","holderIdentity":"me","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"2027-01-15T08:00:00.000007Z"}}"#]]
        .assert_eq(&serde_json::to_string(&claimed).unwrap());
        let mut observed = Observed::default();
        observed.see(lease("me", 15, 60), Instant::now());
        let released = observed.give_up("me", at(1_800_000_000)).unwrap();
        expect_test::expect![[r#"{"acquireTime":"2027-01-15T08:00:00.000007Z","holderIdentity":"","leaseDurationSeconds":1,"leaseTransitions":3,"renewTime":"2027-01-15T08:00:00.000007Z"}"#]]
        .assert_eq(&serde_json::to_string(&released.spec).unwrap());
        assert_eq!(observed.give_up("somebody", at(1)), None);
    }
}
