//! `NodeResourcesFit`: a pod fits where what it requests is left over; scores by how full the node would be.
//!
//! The filter compares the pod's own request with allocatable minus requested, resource by resource. A resource that
//! the pod does not request is not checked, and neither is an extended resource that the args ignore. A shortage that
//! an empty node would have too makes the answer unresolvable.
//!
//! Does not: leave extended resources to device claims (`spec.extendedResourceName` of a DeviceClass).
//!
//! Cost: a node's filter is four comparisons and one for each extended resource of the pod.
//!
//! Source: `pkg/scheduler/framework/plugins/noderesources/fit.go`, Kubernetes 1.36.

mod strategy;

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;
use supercargo_config::plugin_args::NodeResourcesFitArgs;

use crate::cluster::{ClusterView, NodeInfo, NodeSpec, PodInfo};
use crate::framework::{
    ActionType, Code, CycleState, EventHint, EventObject, EventResource, Filter, LabelsRead, Plugin, PluginContext,
    PreFilter, PreFilterOutcome, Reads, Score, Status,
};
use crate::ids::Symbol;
use crate::ledger::{Capacity, Checks};
use crate::plugins::args::own_args;
use crate::plugins::hints::{Hint, changed_node, changed_pod, deleted_pod, queue_if};
use crate::resources::{Resource, Resources, is_extended};

pub(super) use strategy::{Shape, weighted_resources};

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeResourcesFit"));
static TOO_MANY_PODS: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Too many pods"));
static INSUFFICIENT_CPU: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Insufficient cpu"));
static INSUFFICIENT_MEMORY: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Insufficient memory"));
static INSUFFICIENT_STORAGE: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Insufficient ephemeral-storage"));

/// The plugin.
pub(super) struct NodeResourcesFit {
    ignored: Ignored,
    scorer: strategy::Scorer,
}

/// Extended resources that the filter does not check.
#[derive(Default)]
struct Ignored {
    resources: Box<[Symbol]>,
    groups: Box<[Box<str>]>,
}

impl Ignored {
    fn covers(&self, resource: Symbol) -> bool {
        if self.resources.is_empty() && self.groups.is_empty() {
            return false;
        }
        let name = resource.as_str();
        let group = name.split_once('/').map_or(name, |(group, _)| group);
        is_extended(name) && (self.resources.contains(&resource) || self.groups.iter().any(|have| **have == *group))
    }
}

/// An extended resource (or its like) that the pod requests and the filter checks.
#[derive(Clone, Copy)]
struct ScalarCheck {
    name: Symbol,
    amount: i64,
    reason: Symbol,
}

type ScalarChecks = SmallVec<[ScalarCheck; 2]>;

/// What the filter checks beside the fixed resources; kept only when there is something.
#[derive(Clone)]
struct Prepared(ScalarChecks);

/// Makes the plugin from `NodeResourcesFitArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let args = own_args::<NodeResourcesFitArgs>(context)?;
    Ok(Arc::new(NodeResourcesFit {
        ignored: Ignored {
            resources: args.ignored_resources.iter().map(|name| Symbol::new(name)).collect(),
            groups: args
                .ignored_resource_groups
                .iter()
                .map(|group| group.as_str().into())
                .collect(),
        },
        scorer: strategy::Scorer::new(&args.scoring_strategy),
    }))
}

fn scalar_checks(request: &Resources, ignored: &Ignored) -> ScalarChecks {
    let wanted = request.scalars.iter().filter(|(_, amount)| *amount != 0);
    wanted
        .filter(|(name, _)| !ignored.covers(*name))
        .map(|(name, amount)| ScalarCheck {
            name: *name,
            amount: *amount,
            reason: Symbol::new(&format!("Insufficient {name}")),
        })
        .collect()
}

/// All that does not fit, in upstream's order.
fn shortages(request: &Resources, scalars: &[ScalarCheck], capacity: &Capacity, used: &Resources, pods: i64) -> Status {
    let mut status = Status::SUCCESS;
    let mut short = |reason: Symbol, even_if_empty: bool| {
        status.reasons.push(reason.into());
        if even_if_empty {
            status.code = Code::UnschedulableAndUnresolvable;
        } else if status.code == Code::Success {
            status.code = Code::Unschedulable;
        }
    };
    let offered = &capacity.resources;
    if pods >= capacity.pods {
        short(*TOO_MANY_PODS, false);
    }
    let left = |offered: i64, used: i64| offered.saturating_sub(used);
    if request.milli_cpu > 0 && request.milli_cpu > left(offered.milli_cpu, used.milli_cpu) {
        short(*INSUFFICIENT_CPU, request.milli_cpu > offered.milli_cpu);
    }
    if request.memory > 0 && request.memory > left(offered.memory, used.memory) {
        short(*INSUFFICIENT_MEMORY, request.memory > offered.memory);
    }
    if request.ephemeral_storage > 0
        && request.ephemeral_storage > left(offered.ephemeral_storage, used.ephemeral_storage)
    {
        let even_if_empty = request.ephemeral_storage > offered.ephemeral_storage;
        short(*INSUFFICIENT_STORAGE, even_if_empty);
    }
    for check in scalars {
        let offered = offered.scalar(check.name);
        if check.amount > left(offered, used.scalar(check.name)) {
            short(check.reason, check.amount > offered);
        }
    }
    status
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(vec![
            EventHint::when(EventResource::Pod, ActionType::DELETE, |_, event| {
                queue_if(deleted_pod(event)?.is_assigned_or_nominated())
            })
            .by_class(),
            EventHint::when(EventResource::Pod, ActionType::UPDATE_POD_SCALE_DOWN, after_scale_down).by_class(),
            EventHint::when(
                EventResource::Node,
                ActionType::ADD.or(ActionType::UPDATE_NODE_ALLOCATABLE),
                after_node_change,
            )
            .by_class(),
        ])
    }

    fn pre_filter(&self) -> Option<&dyn PreFilter> {
        Some(self)
    }

    fn filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

/// The pod itself asks for less, or a pod on a node gave back some of what it asks for.
fn after_scale_down(pod: &PodInfo, event: &EventObject) -> Hint {
    let changed = changed_pod(event)?;
    if changed.uid == pod.uid {
        return queue_if(true);
    }
    let EventObject::Pod { old: Some(before), .. } = event else {
        return Err("expected the pod before its update".to_owned());
    };
    let fell = |resource: Resource| {
        pod.spec.request.get(resource) > 0 && before.charge.request.get(resource) > changed.charge.request.get(resource)
    };
    queue_if(changed.bound_to.is_some() && requested(&pod.spec.request).any(fell))
}

/// A node of this size would take the pod if it were empty, and did not do so before.
fn after_node_change(pod: &PodInfo, event: &EventObject) -> Hint {
    let (old, new) = changed_node(event)?;
    let request = &pod.spec.request;
    let scalars = scalar_checks(request, &Ignored::default());
    let fits = shortages(request, &scalars, &new.allocatable, &Resources::default(), 0).is_success();
    queue_if(fits && old.is_none_or(|old| offers_more(request, old, new)))
}

fn offers_more(request: &Resources, old: &NodeSpec, new: &NodeSpec) -> bool {
    let rose = |resource: Resource| {
        request.get(resource) != 0 && old.allocatable.resources.get(resource) < new.allocatable.resources.get(resource)
    };
    new.allocatable.pods > old.allocatable.pods || requested(request).any(rose)
}

/// Every resource that `request` may name.
fn requested(request: &Resources) -> impl Iterator<Item = Resource> {
    let scalars = request.scalars.iter().map(|(name, _)| Resource::Scalar(*name));
    [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage]
        .into_iter()
        .chain(scalars)
}

impl PreFilter for NodeResourcesFit {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, state: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        if !pod.spec.request.scalars.is_empty() {
            state.write(Prepared(scalar_checks(&pod.spec.request, &self.ignored)));
        }
        Status::SUCCESS.into()
    }
}

impl Filter for NodeResourcesFit {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::NODE_USAGE)
    }

    fn reserve_checks(&self, pod: &PodInfo, checks: &mut Checks) {
        let request = &pod.spec.request;
        checks.pod_slot = true;
        for resource in [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage] {
            let amount = request.get(resource);
            if amount > 0 {
                checks.resources.push((resource, amount));
            }
        }
        for (name, amount) in &request.scalars {
            if *amount != 0 && !self.ignored.covers(*name) {
                checks.resources.push((Resource::Scalar(*name), *amount));
            }
        }
    }

    fn filter_node(&self, _: &ClusterView<'_>, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        let request = &pod.spec.request;
        let own;
        let scalars: &[ScalarCheck] = if request.scalars.is_empty() {
            &[]
        } else if let Some(prepared) = state.read::<Prepared>() {
            &prepared.0
        } else {
            own = scalar_checks(request, &self.ignored);
            &own
        };
        shortages(
            request,
            scalars,
            node.allocatable(),
            &node.used.requested,
            node.used.pods,
        )
    }
}

impl Score for NodeResourcesFit {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::NODE_USAGE)
    }

    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        Ok(self.scorer.score(&pod.spec.fit_score_request, node))
    }
}

#[cfg(test)]
mod tests;
