//! Faults on demand: delays, refusals, broken connections, watches that end or expire, kinds that are missing.
//!
//! Set from Rust through [`Faults`] or over HTTP at `/supercargo/faults` (see `server`). While none is set, a request
//! pays one atomic load.
//!
//! Does not: apply the faults to HTTP; `server` asks [`Faults::decide`] and obeys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::store::Store;

/// Most rules at once.
const MAX_RULES: usize = 256;
/// Longest delay that a rule may ask for.
const MAX_LATENCY: Duration = Duration::from_secs(600);

/// What a matching request suffers, after the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FaultAction {
    /// An error answer; the request is not applied.
    Status {
        /// HTTP code, 400 to 599.
        code: u16,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after_seconds: Option<u32>,
    },
    /// The connection breaks before the request is applied.
    ResetBefore,
    /// The request is applied and the connection breaks before the answer.
    ResetAfter,
    /// A watch answers with an `ERROR` event 410; other verbs with 410.
    Expired,
}

/// One rule: which requests, how often, what happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty: every verb.
    pub verbs: Vec<String>,
    /// Plural resource name; empty: every resource.
    pub resource: String,
    /// Subresource; `None`: any or none. The empty text means the object itself.
    pub subresource: Option<String>,
    /// Added before the answer, in milliseconds.
    pub latency_millis: u64,
    /// What happens after the delay; `None`: the ordinary answer.
    pub action: Option<FaultAction>,
    /// Share of matching requests that are hit, 0 to 1.
    pub probability: f64,
    /// Requests left to hit; `None`: no end.
    pub remaining: Option<u64>,
}

impl Default for FaultRule {
    fn default() -> Self {
        Self {
            verbs: Vec::new(),
            resource: String::new(),
            subresource: None,
            latency_millis: 0,
            action: None,
            probability: 1.0,
            remaining: None,
        }
    }
}

impl FaultRule {
    /// A rule for one verb of one resource, `pods` or `pods/binding`.
    #[must_use]
    pub fn on(verb: &str, resource: &str) -> Self {
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (resource, None),
        };
        let verbs = if verb.is_empty() {
            Vec::new()
        } else {
            vec![verb.to_owned()]
        };
        Self {
            verbs,
            resource: resource.to_owned(),
            subresource,
            ..Self::default()
        }
    }

    /// Delays the request.
    #[must_use]
    pub fn delayed(mut self, latency: Duration) -> Self {
        self.latency_millis = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Lets the request suffer an action.
    #[must_use]
    pub const fn with(mut self, action: FaultAction) -> Self {
        self.action = Some(action);
        self
    }

    /// Hits only the next `count` requests.
    #[must_use]
    pub const fn times(mut self, count: u64) -> Self {
        self.remaining = Some(count);
        self
    }

    /// Hits a random share of the requests.
    #[must_use]
    pub const fn at_random(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn check(&self) -> Result<(), ApiError> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(ApiError::bad_request("probability: must be between 0 and 1"));
        }
        if Duration::from_millis(self.latency_millis) > MAX_LATENCY {
            return Err(ApiError::bad_request("latencyMillis: must be at most ten minutes"));
        }
        match self.action {
            Some(FaultAction::Status { code, .. }) if !(400..600).contains(&code) => {
                Err(ApiError::bad_request("action.code: must be between 400 and 599"))
            }
            _ => Ok(()),
        }
    }

    fn matches(&self, verb: &str, resource: &str, subresource: &str) -> bool {
        (self.verbs.is_empty() || self.verbs.iter().any(|other| other == verb))
            && (self.resource.is_empty() || self.resource == resource)
            && self.subresource.as_deref().is_none_or(|other| other == subresource)
    }
}

/// What one request suffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decision {
    /// Delay before the answer.
    pub latency: Duration,
    /// What happens then.
    pub action: Option<FaultAction>,
}

/// The faults of a server. Shared by all its tasks.
#[derive(Debug)]
pub struct Faults {
    store: Store,
    active: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rules: Vec<(u64, FaultRule)>,
    next_id: u64,
    random: Pcg64Mcg,
}

impl Faults {
    /// No faults; `seed` decides which requests random rules hit.
    #[must_use]
    pub fn new(store: Store, seed: u64) -> Self {
        let state = State {
            rules: Vec::new(),
            next_id: 1,
            random: Pcg64Mcg::seed_from_u64(seed),
        };
        Self {
            store,
            active: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Adds a rule and returns its id. Rules are asked in the order of their ids; delays add up, the first action wins.
    ///
    /// # Errors
    /// 400 when the rule's numbers are out of range or there are too many rules.
    pub fn add(&self, rule: FaultRule) -> Result<u64, ApiError> {
        rule.check()?;
        let mut state = self.state.lock();
        if state.rules.len() >= MAX_RULES {
            return Err(ApiError::bad_request("too many fault rules"));
        }
        let id = state.next_id;
        state.next_id += 1;
        state.rules.push((id, rule));
        self.active.store(true, Ordering::Release);
        Ok(id)
    }

    /// Removes a rule; false when there is none with that id.
    pub fn remove(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        let before = state.rules.len();
        state.rules.retain(|(other, _)| *other != id);
        self.active.store(!state.rules.is_empty(), Ordering::Release);
        state.rules.len() < before
    }

    /// Removes all rules and shows all hidden resources again.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.rules.clear();
        self.active.store(false, Ordering::Release);
        drop(state);
        for resource in self.store.all_resources() {
            resource.hidden.store(false, Ordering::Release);
        }
    }

    /// All rules with their ids.
    #[must_use]
    pub fn rules(&self) -> Vec<(u64, FaultRule)> {
        self.state.lock().rules.clone()
    }

    /// Hides a resource, as on a server that lacks the kind: absent from discovery, 404, open watches end.
    ///
    /// # Errors
    /// 404 when there is no such resource.
    pub fn hide(&self, group: &str, plural: &str) -> Result<(), ApiError> {
        self.set_hidden(group, plural, true)
    }

    /// Shows a hidden resource again.
    ///
    /// # Errors
    /// 404 when there is no such resource.
    pub fn show(&self, group: &str, plural: &str) -> Result<(), ApiError> {
        self.set_hidden(group, plural, false)
    }

    fn set_hidden(&self, group: &str, plural: &str, hidden: bool) -> Result<(), ApiError> {
        let all = self.store.all_resources();
        let found = all
            .iter()
            .find(|resource| resource.kind.group == group && resource.kind.plural == plural);
        let resource = found.ok_or_else(ApiError::no_such_path)?;
        resource.hidden.store(hidden, Ordering::Release);
        if hidden {
            resource.drop_watches();
        }
        Ok(())
    }

    /// Ends every open watch of a resource (all resources when `plural` is empty).
    pub fn drop_watches(&self, plural: &str) {
        for resource in self.store.all_resources() {
            if plural.is_empty() || resource.kind.plural == plural {
                resource.drop_watches();
            }
        }
    }

    /// Forgets the history of a resource (all when `plural` is empty): old versions and continue tokens answer 410.
    pub fn compact(&self, plural: &str) {
        for resource in self.store.all_resources() {
            if plural.is_empty() || resource.kind.plural == plural {
                resource.compact();
            }
        }
    }

    /// What a request suffers. Counts down the rules that hit it.
    #[must_use]
    pub fn decide(&self, verb: &str, resource: &str, subresource: &str) -> Decision {
        let mut decision = Decision::default();
        if !self.active.load(Ordering::Acquire) {
            return decision;
        }
        let mut state = self.state.lock();
        let State { rules, random, .. } = &mut *state;
        for (_, rule) in rules
            .iter_mut()
            .filter(|(_, rule)| rule.matches(verb, resource, subresource))
        {
            if rule.remaining == Some(0) || (rule.probability < 1.0 && random.random::<f64>() >= rule.probability) {
                continue;
            }
            if rule.action.is_some() && decision.action.is_some() {
                continue;
            }
            rule.remaining = rule.remaining.map(|left| left.saturating_sub(1));
            decision.latency += Duration::from_millis(rule.latency_millis);
            decision.action = decision.action.or(rule.action);
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::HistoryLimits;

    fn faults() -> Faults {
        Faults::new(Store::new(HistoryLimits::default()).unwrap(), 1)
    }

    #[test]
    fn rules_hit_what_they_name_and_run_out() {
        let faults = faults();
        let refused = FaultAction::Status {
            code: 429,
            retry_after_seconds: Some(1),
        };
        faults
            .add(FaultRule::on("create", "pods/binding").with(refused).times(1))
            .unwrap();
        faults
            .add(FaultRule::on("", "pods").delayed(Duration::from_millis(5)))
            .unwrap();
        assert_eq!(faults.decide("create", "nodes", ""), Decision::default());
        let first = faults.decide("create", "pods", "binding");
        assert_eq!(
            first,
            Decision {
                latency: Duration::from_millis(5),
                action: Some(refused)
            }
        );
        assert_eq!(faults.decide("create", "pods", "binding").action, None);
        faults.clear();
        assert_eq!(faults.decide("create", "pods", "binding"), Decision::default());
    }

    #[test]
    fn bad_rules_are_refused() {
        let faults = faults();
        assert!(faults.add(FaultRule::default().at_random(1.5)).is_err());
        let ok_code = FaultAction::Status {
            code: 200,
            retry_after_seconds: None,
        };
        assert!(faults.add(FaultRule::default().with(ok_code)).is_err());
        assert!(faults.hide("", "nothing").is_err());
    }

    #[test]
    fn random_rules_hit_about_their_share() {
        let faults = faults();
        faults
            .add(FaultRule::default().at_random(0.25).with(FaultAction::ResetBefore))
            .unwrap();
        let hits = (0..1_000)
            .filter(|_| faults.decide("get", "pods", "").action.is_some())
            .count();
        assert!((200..300).contains(&hits), "{hits}");
    }
}
