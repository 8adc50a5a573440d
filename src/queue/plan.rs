//! Who must be asked about an event: worked out once per kind of event and set of profiles.
//!
//! An event that no plugin registered has an empty plan, and costs its sender one look-up.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::heap::Order;
use crate::framework::{ClusterEvent, HintFn, Profile, Profiles};
use crate::ids::Symbol;
use crate::sync::RwLock;
use crate::telemetry::{EventLabel, Metrics};

/// Most kinds of event remembered. Callers use about 60 (resource and action); a further one is worked out each time.
const MAX_PLANS: usize = 512;

/// A hint that must be asked when its plugin rejected a pod.
pub(super) struct PlannedHint {
    pub(super) plugin: Symbol,
    /// The plugin's index in metrics.
    pub(super) metrics_index: usize,
    /// Absent: always queue.
    pub(super) hint: Option<HintFn>,
    /// Whether pods of one class get one answer.
    pub(super) by_class: bool,
}

impl std::fmt::Debug for PlannedHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedHint")
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// What an event means to the plugins of all profiles.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) event: ClusterEvent,
    pub(super) label: EventLabel,
    /// `[profile]`: the hints that match the event, in the order of registration.
    hints: Vec<Vec<PlannedHint>>,
}

impl Plan {
    /// Whether any plugin waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.event.is_wildcard() || self.hints.iter().any(|hints| !hints.is_empty())
    }

    /// The hints that match, of one profile.
    pub(super) fn hints(&self, profile: &Profile) -> &[PlannedHint] {
        self.hints.get(profile.index).map_or(&[], Vec::as_slice)
    }

    /// Whether the plugin that gates a pod waits for it.
    pub(super) fn concerns(&self, profile: &Profile, plugin: Symbol) -> bool {
        self.hints(profile).iter().any(|hint| hint.plugin == plugin)
    }
}

/// The plans of one set of profiles.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) profiles: Arc<Profiles>,
    pub(super) order: Order,
    metrics: Arc<Metrics>,
    by_event: RwLock<FxHashMap<ClusterEvent, Arc<Plan>>>,
}

impl Plans {
    pub(super) fn new(profiles: Arc<Profiles>, metrics: Arc<Metrics>) -> Self {
        Self {
            order: Order::of(&profiles),
            profiles,
            metrics,
            by_event: RwLock::default(),
        }
    }

    /// The plan of an event.
    pub(super) fn get(&self, event: ClusterEvent) -> Arc<Plan> {
        if let Some(found) = self.by_event.read().get(&event) {
            return Arc::clone(found);
        }
        let plan = Arc::new(self.make(event));
        let mut by_event = self.by_event.write();
        if by_event.len() < MAX_PLANS {
            by_event.insert(event, Arc::clone(&plan));
        }
        plan
    }

    fn make(&self, event: ClusterEvent) -> Plan {
        let planned = |profile: &Arc<Profile>| {
            let matching = profile.events().iter().filter(|own| own.hint.event.matches(event));
            matching
                .map(|own| PlannedHint {
                    plugin: own.plugin,
                    metrics_index: self.metrics.plugin_index(own.plugin.as_str()).unwrap_or(usize::MAX),
                    hint: own.hint.hint.clone(),
                    by_class: own.hint.by_class,
                })
                .collect()
        };
        Plan {
            event,
            label: self.metrics.event(&event.label()),
            hints: self.profiles.all().iter().map(planned).collect(),
        }
    }
}
