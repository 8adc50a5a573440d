//! The recorders: one struct, made once, shared by `Arc`.
//!
//! Threads: any thread may record and any thread may scrape. Every recorder takes an index (a profile's, a plugin's, an
//! event's) that its caller resolved at start-up; an index out of range records nothing.
//!
//! Does not: read a clock (durations come from the caller) or know objects of the API.
//!
//! Children: `scheduling` (attempts, latency, preemption), `framework` (extension points and plugins), `queue` (pods
//! that wait, events, caches), `own` (`supercargo_*`), `environment` (API client, lease, health, build).

mod environment;
mod framework;
mod own;
mod queue;
mod scheduling;

use std::sync::Arc;

use super::exposition::Exposition;
use super::names::Names;

pub use environment::FeatureState;
pub use framework::{EvaluationSet, OperationGuard, OperationLabel};
pub use own::ExtenderVerb;
pub use queue::EventLabel;

/// Most profiles that metrics tell apart, those of earlier configurations included. Doubles the 16 that the largest
/// installations run, to leave room for reloads; the per-profile tables then stay under 300 KB.
pub const MAX_PROFILES: usize = 32;

/// What must be known before the first observation.
#[derive(Debug, Clone, Default)]
pub struct MetricsOptions {
    /// Names of the profiles; a profile's index here is its index in every recorder.
    pub profiles: Vec<String>,
    /// Names of all registered plugins; a plugin's index here is its index in every recorder.
    pub plugins: Vec<String>,
    /// Feature gates with their stage and whether they are on, for `kubernetes_feature_enabled`.
    pub features: Vec<FeatureState>,
    /// What the page leaves out.
    pub exposition: Exposition,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    exposition: Arc<Exposition>,
    profiles: Names,
    plugins: Names,
    scheduling: scheduling::Cells,
    framework: framework::Cells,
    queue: queue::Cells,
    own: own::Cells,
    environment: environment::Cells,
}

impl Metrics {
    /// Makes the metrics of a process. Profiles beyond [`MAX_PROFILES`] are not recorded.
    #[must_use]
    pub fn new(options: &MetricsOptions) -> Self {
        let profiles = Names::new(MAX_PROFILES);
        for profile in &options.profiles {
            profiles.index(profile);
        }
        let plugins = Names::new(options.plugins.len());
        for plugin in &options.plugins {
            plugins.index(plugin);
        }
        Self {
            scheduling: scheduling::Cells::new(),
            framework: framework::Cells::new(plugins.capacity()),
            queue: queue::Cells::new(plugins.capacity()),
            own: own::Cells::new(),
            environment: environment::Cells::new(options),
            exposition: Arc::new(options.exposition.clone()),
            profiles,
            plugins,
        }
    }

    /// The index of a profile; a new name (after a reload) is added. `None` when [`MAX_PROFILES`] are taken.
    #[must_use]
    pub fn profile_index(&self, name: &str) -> Option<usize> {
        self.profiles.index(name)
    }

    /// The index of a plugin that was named when the metrics were made.
    #[must_use]
    pub fn plugin_index(&self, name: &str) -> Option<usize> {
        self.plugins.index(name)
    }

    /// What the page leaves out.
    pub(super) const fn exposition_rules(&self) -> &Arc<Exposition> {
        &self.exposition
    }

    /// Writes every family that has a value, in a fixed order.
    pub(super) fn write(&self, page: &mut super::encode::Page<'_>) -> std::fmt::Result {
        self.scheduling.write(page, &self.profiles)?;
        self.framework.write(page, &self.profiles, &self.plugins)?;
        self.queue.write(page, &self.profiles, &self.plugins)?;
        self.own.write(page)?;
        self.environment.write(page)
    }
}

/// A row-major index into a table; `None` when a part is out of its range.
fn table_index(parts: &[(usize, usize)]) -> Option<usize> {
    parts
        .iter()
        .try_fold(0, |index, (part, len)| (part < len).then(|| index * len + part))
}

/// The parts of a row-major index, given the lengths of all dimensions but the first.
fn split_index<const N: usize>(index: usize, lengths: [usize; N]) -> (usize, [usize; N]) {
    let mut rest = index;
    let mut parts = [0; N];
    for (part, len) in parts.iter_mut().zip(lengths).rev() {
        *part = rest % len.max(1);
        rest /= len.max(1);
    }
    (rest, parts)
}

#[cfg(test)]
mod tests;
