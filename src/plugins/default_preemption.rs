//! `DefaultPreemption`: looks for pods of lower priority whose eviction makes room, and holds a pod back while pods are
//! being evicted for it.
//!
//! It answers with the node and the victims; whoever runs it nominates the pod, if nothing happened on the node since,
//! and has the victims evicted.
//!
//! Does not: reject a pod by itself, nominate or evict, or choose victims (that is [`crate::preemption`]).
//!
//! Source: `pkg/scheduler/framework/plugins/defaultpreemption`, Kubernetes 1.36.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use supercargo_config::plugin_args::DefaultPreemptionArgs;

use crate::cluster::{ClusterView, PodInfo};
use crate::framework::{
    ActionType, Code, CycleState, EventHint, EventResource, Handle, LabelsRead, NodeStatuses, NominatedNode, Plugin,
    PluginContext, PostFilter, PostFilterResult, PreEnqueue, Preemption, Profile, QueueingHint, Reason, Status,
};
use crate::ids::Symbol;
use crate::plugins::args::own_args;
use crate::preemption::{self, Advice, Adviser, CandidateLimits, Trial};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("DefaultPreemption"));
static EVICTING: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("waiting for the preemption for this pod to be finished"));

/// The plugin.
pub(super) struct DefaultPreemption {
    limits: CandidateLimits,
    calls: AtomicU64,
    handle: Arc<Handle>,
}

/// Makes the plugin from `DefaultPreemptionArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<DefaultPreemptionArgs>(context)?;
    Ok(Arc::new(DefaultPreemption {
        limits: CandidateLimits {
            percentage: args.min_candidate_nodes_percentage,
            absolute: args.min_candidate_nodes_absolute,
        },
        calls: AtomicU64::new(0),
        handle: Arc::clone(&context.handle),
    }))
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    /// Rejects no pod by itself; its event only has gated pods looked at again.
    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(EventResource::Pod, ActionType::DELETE, |_, _| {
                Ok(QueueingHint::QueueSkip)
            })
            .by_class(),
        ])
    }

    fn pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        Some(self)
    }

    fn post_filter(&self) -> Option<&dyn PostFilter> {
        Some(self)
    }
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue_pod(&self, pod: &PodInfo) -> Status {
        if self.handle.is_evicting_for(pod.uid) {
            Status::unresolvable(*EVICTING)
        } else {
            Status::SUCCESS
        }
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter_pod(
        &self,
        cluster: &ClusterView<'_>,
        profile: &Profile,
        state: &CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFilterResult {
        profile.count_preemption_attempt();
        if let Err(reason) = preemption::eligible(cluster, pod, statuses) {
            return answer(Code::Unschedulable, reason.as_str(), NominatedNode::Keep);
        }
        let potential = preemption::potential_nodes(cluster, statuses);
        let budgets = cluster.pods.budgets();
        let trial = Trial {
            cluster: *cluster,
            profile,
            state,
            pod,
            budgets: &budgets,
        };
        let mut run = preemption::dry_run(&trial, &potential, self.limits, self.offset());
        let found_any = !run.candidates.is_empty();
        let candidates = match Adviser::narrow(state, cluster, pod, std::mem::take(&mut run.candidates)) {
            Advice::Candidates(candidates) => candidates,
            Advice::Later => return answer(Code::Pending, "extenders are asked", NominatedNode::Keep),
            Advice::Failed(status) => return answer(Code::Error, &status.message(), NominatedNode::Keep),
        };
        if found_any && candidates.is_empty() {
            let text = "no candidate node for preemption";
            return answer(Code::Unschedulable, text, NominatedNode::Keep);
        }
        if let Some(best) = preemption::best_candidates(&candidates).first() {
            tracing::debug!(
                pod = pod.full_name(),
                node = best.name.as_str(),
                victims = best.victims.len(),
                pdb_violations = best.pdb_violations,
                "evictions make room"
            );
            return PostFilterResult {
                status: Status::SUCCESS,
                nomination: NominatedNode::Set(best.name),
                preemption: Some(Box::new(Preemption {
                    plugin: *NAME,
                    node: best.node,
                    name: best.name,
                    version: best.version,
                    victims: best.victims.clone(),
                })),
            };
        }
        match run.errors() {
            Some(text) => answer(Code::Error, &text, NominatedNode::Keep),
            None => answer(Code::Unschedulable, &run.message(cluster), NominatedNode::Clear),
        }
    }
}

fn answer(code: Code, text: &str, nomination: NominatedNode) -> PostFilterResult {
    let status = Status::new(code, Reason::from(format!("preemption: {text}")));
    PostFilterResult::new(status, nomination)
}

impl DefaultPreemption {
    /// Where the next search begins: spread over the nodes, and the same in every run of the process.
    fn offset(&self) -> usize {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        // The finaliser of SplitMix64.
        let mut mixed = call.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
