//! What this release cannot replay, and why. The list only shrinks.

use serde_json::Value;

use super::record::Record;

/// A part of a pod that the case needs and this release does not evaluate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum NotSupported {
    /// Resource claims.
    ResourceClaims,
    /// Membership of a pod group.
    SchedulingGroup,
}

impl NotSupported {
    /// For people.
    #[must_use]
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::ResourceClaims => "resource claims",
            Self::SchedulingGroup => "scheduling groups",
        }
    }
}

/// The first part of the case's pods that is not evaluated, if there is one.
pub(super) fn missing(record: &Record) -> Option<NotSupported> {
    let pods: Vec<Value> = record.pending().filter_map(parse).collect();
    let has = |path: &str| {
        pods.iter()
            .any(|pod| pod.pointer(path).is_some_and(|part| !part.is_null()))
    };
    if has("/spec/resourceClaims/0") {
        return Some(NotSupported::ResourceClaims);
    }
    has("/spec/schedulingGroup").then_some(NotSupported::SchedulingGroup)
}

fn parse(raw: &serde_json::value::RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}
