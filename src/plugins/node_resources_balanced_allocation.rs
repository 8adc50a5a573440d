//! `NodeResourcesBalancedAllocation`: prefers nodes on which the pod evens out the shares in use of each resource.
//!
//! Does not: filter, or count requests that a pod does not make (no defaults).
//!
//! Source: `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`, Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;
use supercargo_config::plugin_args::NodeResourcesBalancedAllocationArgs;

use crate::cluster::{ClusterView, NodeInfo, PodInfo};
use crate::framework::{CycleState, EventHint, LabelsRead, Plugin, PluginContext, PreScore, Reads, Score, Status};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::args::own_args;
use crate::plugins::node_resources_fit::weighted_resources;
use crate::resources::{Resource, Resources};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeResourcesBalancedAllocation"));

/// Shares in use, by resource.
type Fractions = SmallVec<[f64; 4]>;

/// The plugin.
pub(super) struct NodeResourcesBalancedAllocation {
    resources: Box<[Resource]>,
}

/// Makes the plugin from `NodeResourcesBalancedAllocationArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<NodeResourcesBalancedAllocationArgs>(context)?;
    let resources = weighted_resources(&args.resources)
        .iter()
        .map(|(resource, _)| *resource)
        .collect();
    Ok(Arc::new(NodeResourcesBalancedAllocation { resources }))
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(Vec::new())
    }

    fn pre_score(&self) -> Option<&dyn PreScore> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl PreScore for NodeResourcesBalancedAllocation {
    fn pre_score_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_score_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo, _: &[NodeIdx]) -> Status {
        let request = &pod.spec.balanced_request;
        if self.resources.iter().all(|resource| request.get(*resource) == 0) {
            Status::SKIP
        } else {
            Status::SUCCESS
        }
    }
}

impl Score for NodeResourcesBalancedAllocation {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::NODE_USAGE)
    }

    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        Ok(self.score(&pod.spec.balanced_request, node))
    }
}

impl NodeResourcesBalancedAllocation {
    /// 50 to 100; 75 where the pod changes nothing.
    fn score(&self, request: &Resources, node: &NodeInfo) -> i64 {
        let (mut before, mut after) = (Fractions::new(), Fractions::new());
        for resource in &self.resources {
            let wanted = request.get(*resource);
            if wanted == 0 && matches!(resource, Resource::Scalar(_)) {
                continue;
            }
            let offered = node.allocatable().resources.get(*resource);
            if offered == 0 {
                continue;
            }
            let used = node.used.requested.get(*resource);
            before.push(fraction(used, offered));
            after.push(fraction(used.saturating_add(wanted), offered));
        }
        50 + (50 + balance(&after) - balance(&before)) / 2
    }
}

fn fraction(used: i64, offered: i64) -> f64 {
    let fraction = used as f64 / offered as f64;
    if fraction > 1.0 { 1.0 } else { fraction }
}

/// 100 when all fractions are the same, less the further they are apart.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float is cut off as upstream cuts it off"
)]
fn balance(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        all => {
            let count = all.len() as f64;
            let mean = all.iter().sum::<f64>() / count;
            let squares: f64 = all.iter().map(|f| (f - mean) * (f - mean)).sum();
            (squares / count).sqrt()
        }
    };
    ((1.0 - deviation) * 100.0) as i64
}

#[cfg(test)]
mod tests;
