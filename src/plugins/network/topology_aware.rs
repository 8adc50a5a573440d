//! `TopologyAware`: pods go where those that they talk to are near.
//!
//! A pod's *network location* is where its partners are: the pods that its annotation selects, places that it names, the
//! workloads that its AppGroup lets it call. A node that cannot reach them is rejected, as is one that is further from
//! them than the threshold; of the others the nearer one scores higher: `max(0, 100 - latency_ms / divisor)`. With
//! several partners the latency is their mean by traffic, or the greatest. Those who call the pod count for the score
//! too, so that it does not matter who of the two comes first.
//!
//! Latencies are kept by place as sums over the partners' pods, brought up to date pod by pod, so that neither filter nor
//! score looks at more than a few numbers.
//!
//! Does not: know where figures come from ([`crate::topology`]), nor fetch any.
//!
//! Children in reading order: `reach` (latencies to one partner, by place), `located` (to all of them), `points` (the
//! extension points), `hints`.

mod hints;
mod located;
mod points;
mod reach;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use supercargo_config::plugin_args::{Aggregation, FigureMeaning, TopologyAwareArgs};

use crate::cluster::PodInfo;
use crate::framework::{
    DomainCounts, EventHint, Filter, LabelsRead, Plugin, PluginContext, PreFilter, PreScore, Score,
};
use crate::ids::Symbol;
use crate::plugins::args::own_args;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("TopologyAware"));

/// The plugin.
pub(in crate::plugins) struct TopologyAware {
    /// µs; 0: none.
    threshold_micros: i64,
    /// ms that cost a point.
    divisor: i64,
    aggregation: Aggregation,
    missing: FigureMeaning,
    stretches: bool,
    counts_callers: bool,
}

/// Makes the plugin from `TopologyAwareArgs`.
pub(in crate::plugins) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<TopologyAwareArgs>(context)?;
    Ok(Arc::new(TopologyAware {
        threshold_micros: args.latency_threshold_ms.saturating_mul(1000),
        divisor: args.score_divisor.max(1),
        aggregation: args.aggregation,
        missing: args.missing_figures,
        stretches: args.stretch_scores,
        counts_callers: args.count_callers,
    }))
}

impl Plugin for TopologyAware {
    fn name(&self) -> Symbol {
        *NAME
    }

    /// Labels become visible with the peers that select by them.
    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(hints::events())
    }

    /// A pod that says nothing about the network may still be called by others.
    fn applies_to(&self, pod: &PodInfo) -> bool {
        self.counts_callers || pod.spec.network.is_some()
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
