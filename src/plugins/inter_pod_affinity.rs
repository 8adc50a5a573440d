//! `InterPodAffinity`: required and preferred affinity and anti-affinity between pods, in both directions: what the pod
//! to be scheduled wants of those that are placed, and what they want of it.
//!
//! Selectors are evaluated once for each class of placed pods. What was counted is kept up to date pod by pod
//! (`counts`), so that nothing is counted anew while pods come and go.
//!
//! Does not: know `matchLabelKeys` and `mismatchLabelKeys`; the API server folds them into the selectors.
//!
//! Cost: PreFilter and PreScore look at each class once and at each node of the classes that count; Filter and Score
//! are one look-up for each topology key.
//!
//! Source: `pkg/scheduler/framework/plugins/interpodaffinity`, Kubernetes 1.36.
//!
//! Children in reading order: `terms` (who is meant), `tally` (counts by domain), `filtering`, `scoring`, `counts`
//! (up to date change by change), `hints`.

mod counts;
mod filtering;
mod hints;
mod scoring;
mod tally;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use supercargo_config::plugin_args::InterPodAffinityArgs;

use crate::framework::{
    DomainCounts, EventHint, Filter, LabelsRead, Plugin, PluginContext, PreFilter, PreScore, Score,
};
use crate::ids::Symbol;
use crate::plugins::args::own_args;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("InterPodAffinity"));

/// The plugin.
pub(super) struct InterPodAffinity {
    /// What a term of a placed pod's required affinity adds to the score of its domain.
    hard_weight: i64,
    /// Pods without preferences of their own get no score.
    ignores_placed_preferences: bool,
}

/// Makes the plugin from `InterPodAffinityArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<InterPodAffinityArgs>(context)?;
    Ok(Arc::new(InterPodAffinity {
        hard_weight: i64::from(args.hard_pod_affinity_weight),
        ignores_placed_preferences: args.ignore_preferred_terms_of_existing_pods,
    }))
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> Symbol {
        *NAME
    }

    /// Labels become visible with the terms that select by them.
    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(hints::events())
    }

    fn domain_counts(&self) -> Option<&dyn DomainCounts> {
        Some(self)
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn pre_score(&self) -> Option<&dyn PreScore> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}
