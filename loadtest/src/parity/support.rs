//! What this release cannot replay, and why. The list only shrinks.

use serde_json::Value;
use supercargo::framework::Profile;
use supercargo::ids::Symbol;

use super::record::Record;

/// A plugin that the case needs and this release does not have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum NotSupported {
    /// Spreading over topology domains.
    PodTopologySpread,
}

impl NotSupported {
    /// For people.
    #[must_use]
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::PodTopologySpread => "topology spread",
        }
    }
}

/// The first plugin that the case needs and that is missing, if there is one. `profiles` are those of its pods.
pub(super) fn missing(record: &Record, profiles: &[&Profile]) -> Option<NotSupported> {
    let enables = |name: &str| {
        let name = Symbol::new(name);
        profiles.iter().any(|profile| profile.plugin_names().contains(&name))
    };
    let pending: Vec<Value> = record.pending().filter_map(parse).collect();
    if enables("PodTopologySpread") && (pending.iter().any(spreads) || has_default_spread(record)) {
        return Some(NotSupported::PodTopologySpread);
    }
    None
}

fn parse(raw: &serde_json::value::RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

fn spreads(pod: &Value) -> bool {
    let constraints = pod.pointer("/spec/topologySpreadConstraints").and_then(Value::as_array);
    constraints.is_some_and(|list| !list.is_empty())
}

/// Default constraints act on pods that something selects.
fn has_default_spread(record: &Record) -> bool {
    OWNERS.into_iter().any(|owner| !record.collection(owner).is_empty())
}
