//! `VolumeBinding`: a pod goes only where its volumes are, or can be found or made; those that are not bound yet are
//! bound before the pod is.
//!
//! PreFilter looks the pod's claims up and, for claims that wait for their first consumer, every volume that suits them
//! but for the node. Filter then decides about a node alone. Reserve promises the volumes in the catalogue; PreBind
//! writes the promises to the API server and waits until the volume controller and the provisioners have done their
//! part; Unreserve takes back what is not written.
//!
//! Of two pods that were decided about at the same time, the second to promise a volume looks again, and fails if
//! nothing is left on its node.
//!
//! Does not: make volumes, or complete a binding: `kube-controller-manager` and the CSI provisioners do. Pods of one
//! class may have claims of their own (generic ephemeral volumes), so what PreFilter found holds for one pod only.
//!
//! Children in reading order: `claims` (what PreFilter finds), `by_label` and `candidates` (volumes for a claim), `node` (one node),
//! `promise` (Reserve to PreBind), `score`, `hints`.
//!
//! Source: `pkg/scheduler/framework/plugins/volumebinding`, Kubernetes 1.36.

mod by_label;
mod candidates;
mod claims;
mod hints;
mod node;
mod promise;
mod score;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use supercargo_config::plugin_args::VolumeBindingArgs;

use crate::cluster::{AssumeError, ClusterView, NodeInfo, PodInfo, PodVolume};
use crate::framework::{
    CycleState, EventHint, Filter, Handle, LabelsRead, Plugin, PluginContext, PreBind, PreBindAction, PreFilter,
    PreFilterOutcome, PreScore, Reads, Reserve, Score, Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::args::own_args;
use crate::plugins::node_resources_fit::Shape;
use crate::telemetry::VolumeStage;
use claims::Claims;
use promise::Promise;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("VolumeBinding"));
/// How often a pod whose volume was promised to another looks for another one.
const MAX_LOOKS: u32 = 4;

/// The plugin.
pub(super) struct VolumeBinding {
    timeout: Duration,
    /// Present: nodes are scored.
    shape: Option<Shape>,
    handle: Arc<Handle>,
}

/// Makes the plugin from `VolumeBindingArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<VolumeBindingArgs>(context)?;
    Ok(Arc::new(VolumeBinding {
        timeout: args.bind_timeout,
        shape: args.shape.as_deref().map(Shape::new),
        handle: Arc::clone(&context.handle),
    }))
}

/// What Reserve did.
#[derive(Clone)]
enum Reserved {
    /// All claims are bound.
    AllBound,
    /// These are promised.
    Promised(Arc<Promise>),
}

impl Plugin for VolumeBinding {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(hints::events())
    }

    fn applies_to(&self, pod: &PodInfo) -> bool {
        has_claims(pod)
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

    fn reserve(&self) -> Option<&dyn Reserve> {
        Some(self)
    }

    fn pre_bind(&self) -> Option<&dyn PreBind> {
        Some(self)
    }
}

fn has_claims(pod: &PodInfo) -> bool {
    let mut volumes = pod.spec.volumes.iter();
    volumes.any(|volume| matches!(volume, PodVolume::Claim(_) | PodVolume::Ephemeral(_)))
}

impl PreFilter for VolumeBinding {
    fn pre_filter_reads(&self) -> Reads {
        Reads::VOLUMES
    }

    fn pre_filter_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if !has_claims(pod) {
            return Status::SKIP.into();
        }
        match Claims::of(cluster.volumes, pod) {
            Ok(claims) => {
                state.write(Arc::new(claims));
                Status::SUCCESS.into()
            }
            Err(status) => status.into(),
        }
    }
}

fn claims_in(state: &CycleState) -> Option<&Claims> {
    state.read::<Arc<Claims>>().map(|claims| &**claims)
}

fn not_prepared() -> Status {
    Status::error("PreFilter left nothing about the pod's claims")
}

impl Filter for VolumeBinding {
    fn filter_reads(&self) -> Reads {
        Reads::VOLUMES.and(Reads::NODE_SPEC)
    }

    fn filter_node(&self, cluster: &ClusterView<'_>, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Status {
        let Some(claims) = claims_in(state) else {
            return not_prepared();
        };
        match node::look(claims, cluster.volumes, node) {
            Ok(found) => found.status(),
            Err(error) => {
                self.handle.volume_stage_failed(VolumeStage::Predicate);
                Status::error(error)
            }
        }
    }
}

impl PreScore for VolumeBinding {
    fn pre_score_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_score_pod(&self, _: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo, _: &[NodeIdx]) -> Status {
        match &self.shape {
            Some(_) if has_claims(pod) && claims_in(state).is_some() => Status::SUCCESS,
            _ => Status::SKIP,
        }
    }
}

impl Score for VolumeBinding {
    fn score_reads(&self) -> Reads {
        Reads::VOLUMES.and(Reads::NODE_SPEC)
    }

    fn score_node(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        _: &PodInfo,
        node: &NodeInfo,
    ) -> Result<i64, Status> {
        let (Some(shape), Some(claims)) = (&self.shape, claims_in(state)) else {
            return Ok(0);
        };
        let found = node::look(claims, cluster.volumes, node).map_err(Status::error)?;
        Ok(score::score(shape, claims, &found))
    }
}

impl VolumeBinding {
    /// Promises what the pod needs on the node. When a volume was promised to another meanwhile, it looks again.
    fn promise(&self, cluster: &ClusterView<'_>, pod: &PodInfo, node: &NodeInfo) -> Result<Reserved, String> {
        let mut last = String::new();
        for _ in 0..MAX_LOOKS {
            let claims = Claims::of(cluster.volumes, pod).map_err(|status| status.message())?;
            if claims.delayed.is_empty() {
                return Ok(Reserved::AllBound);
            }
            let found = node::look(&claims, cluster.volumes, node)?;
            if !found.fits() {
                let reasons = found.status().message();
                return Err(if last.is_empty() {
                    reasons
                } else {
                    format!("{last}: {reasons}")
                });
            }
            let handle = Arc::clone(&self.handle);
            match Promise::make(cluster.volumes, &claims, &found, node.name, self.timeout, handle) {
                Ok(promise) => return Ok(Reserved::Promised(Arc::new(promise))),
                Err(AssumeError::Gone(name)) => return Err(AssumeError::Gone(name).to_string()),
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

impl Reserve for VolumeBinding {
    fn reserve_pod(&self, cluster: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        let Some(claims) = claims_in(state) else {
            return Status::SUCCESS;
        };
        let reserved = if claims.delayed.is_empty() {
            Ok(Reserved::AllBound)
        } else {
            self.promise(cluster, pod, node)
        };
        match reserved {
            Ok(reserved) => {
                state.write(reserved);
                Status::SUCCESS
            }
            Err(error) => {
                self.handle.volume_stage_failed(VolumeStage::Assume);
                Status::error(error)
            }
        }
    }

    fn unreserve_pod(&self, state: &mut CycleState, _: &PodInfo, _: Symbol) {
        if let Some(Reserved::Promised(promise)) = state.read::<Reserved>() {
            promise.take_back();
        }
    }
}

impl PreBind for VolumeBinding {
    fn pre_bind_pre_flight(&self, state: &CycleState, _: &PodInfo, node: Symbol) -> Status {
        match (claims_in(state), state.read::<Reserved>()) {
            (None, _) | (_, Some(Reserved::AllBound)) => Status::SKIP,
            (_, Some(Reserved::Promised(_))) => Status::SUCCESS,
            (Some(_), None) => Status::error(format!("no pod volume found for node {node:?}")),
        }
    }

    fn allow_parallel(&self) -> bool {
        true
    }

    fn pre_bind_pod(&self, state: &CycleState, _: &PodInfo, _: Symbol) -> PreBindAction {
        match state.read::<Reserved>() {
            Some(Reserved::Promised(promise)) => {
                let work: Arc<Promise> = Arc::clone(promise);
                PreBindAction::Work(work)
            }
            _ => PreBindAction::Future(Box::pin(std::future::ready(Status::SUCCESS))),
        }
    }
}
