//! `NodeAffinity`: `spec.nodeSelector`, required and preferred node affinity, and the affinity that a profile adds to
//! all of its pods (`addedAffinity`).
//!
//! Does not: look at the labels of pods, or fail for a requirement that is wrong: its term matches nothing.
//!
//! Source: `pkg/scheduler/framework/plugins/nodeaffinity`, Kubernetes 1.36.

use std::sync::{Arc, LazyLock};

use supercargo_config::plugin_args::NodeAffinityArgs;
use supercargo_config::selectors::{NodeSelectorRequirement, NodeSelectorTerm as TermArgs};

use crate::cluster::{ClusterView, Labels, NodeInfo, NodeSelectorTerm, NodeSpec, PodInfo, PodSpec, PreferredTerm};
use crate::framework::{
    ActionType, CycleState, EventHint, EventResource, Filter, LabelsRead, NormalizeScore, Plugin, PluginContext,
    PreFilter, PreFilterOutcome, PreScore, Reads, Score, Status,
};
use crate::ids::{NodeIdx, Symbol};
use crate::plugins::args::own_args;
use crate::plugins::hints::{changed_node, queue_if};
use crate::plugins::normalize::ByGreatest;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("NodeAffinity"));
static POD_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match Pod's node affinity/selector"));
static ENFORCED_REASON: LazyLock<Symbol> =
    LazyLock::new(|| Symbol::new("node(s) didn't match scheduler-enforced node affinity"));
static CONFLICT_REASON: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("pod affinity terms conflict"));

/// The plugin.
pub(super) struct NodeAffinity {
    added: Arc<Added>,
}

/// The affinity that the profile adds.
#[derive(Default)]
struct Added {
    required: Option<Box<[NodeSelectorTerm]>>,
    preferred: Box<[PreferredTerm]>,
}

/// Makes the plugin from `NodeAffinityArgs`.
pub(super) fn make(context: &PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> {
    let added = compile(&*own_args(context)?)?;
    Ok(Arc::new(NodeAffinity { added: Arc::new(added) }))
}

fn compile(args: &NodeAffinityArgs) -> Result<Added, String> {
    let Some(affinity) = &args.added_affinity else {
        return Ok(Added::default());
    };
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let required = required.map(|selector| {
        let terms = selector.node_selector_terms.iter().enumerate();
        terms
            .map(|(at, term)| compile_term(term, &format!("required term {at}")))
            .collect::<Result<_, _>>()
    });
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
    let preferred = preferred.enumerate().map(|(at, term)| {
        let compiled = compile_term(&term.preference, &format!("preferred term {at}"))?;
        Ok(PreferredTerm {
            weight: term.weight,
            term: compiled,
        })
    });
    Ok(Added {
        required: required.transpose()?,
        preferred: preferred.collect::<Result<_, String>>()?,
    })
}

fn compile_term(term: &TermArgs, place: &str) -> Result<NodeSelectorTerm, String> {
    fn raw(requirements: &[NodeSelectorRequirement]) -> Vec<(&str, &str, Vec<&str>)> {
        requirements
            .iter()
            .map(|r| {
                (
                    r.key.as_str(),
                    r.operator.as_str(),
                    r.values.iter().map(String::as_str).collect(),
                )
            })
            .collect()
    }
    let compiled = NodeSelectorTerm::compile(&raw(&term.match_expressions), &raw(&term.match_fields));
    match compiled.error() {
        Some(error) => Err(format!("parsing addedAffinity: {place}: {error}")),
        None => Ok(compiled),
    }
}

impl Added {
    fn allows(&self, name: Symbol, labels: &Labels) -> bool {
        let required = self.required.as_deref();
        required.is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }
}

/// Whether a node satisfies the pod's own selector and required affinity.
pub(super) fn satisfies(pod: &PodSpec, name: Symbol, labels: &Labels) -> bool {
    let selector = pod.node_selector.as_ref();
    let affinity = pod.required_node_affinity.as_deref();
    selector.is_none_or(|pairs| pairs.iter().all(|(key, value)| labels.get(key) == Some(value)))
        && affinity.is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
}

/// The nodes that the pod's required affinity names; `None`: it names none, or not in every term.
fn named_nodes(pod: &PodSpec) -> Option<Vec<Symbol>> {
    let terms = pod
        .required_node_affinity
        .as_deref()
        .filter(|terms| !terms.is_empty())?;
    let mut nodes = Vec::new();
    for term in terms {
        nodes.extend_from_slice(term.names()?);
    }
    nodes.sort_unstable();
    nodes.dedup();
    Some(nodes)
}

impl Plugin for NodeAffinity {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        let added = Arc::clone(&self.added);
        let suits = move |pod: &PodInfo, node: &NodeSpec| {
            let name = node.name.unwrap_or_else(|| Symbol::new(""));
            added.allows(name, &node.labels) && satisfies(&pod.spec, name, &node.labels)
        };
        Some(vec![
            EventHint::when(
                EventResource::Node,
                ActionType::ADD.or(ActionType::UPDATE_NODE_LABEL),
                move |pod, event| {
                    let (old, new) = changed_node(event)?;
                    queue_if(suits(pod, new) && old.is_none_or(|old| !suits(pod, old)))
                },
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

    fn pre_score(&self) -> Option<&dyn PreScore> {
        Some(self)
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_filter_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo) -> PreFilterOutcome {
        let spec = &pod.spec;
        if spec.required_node_affinity.is_none() && spec.node_selector.is_none() && self.added.required.is_none() {
            return Status::SKIP.into();
        }
        let nodes = named_nodes(spec);
        if nodes.as_ref().is_some_and(Vec::is_empty) {
            return Status::unresolvable(*CONFLICT_REASON).into();
        }
        PreFilterOutcome {
            status: Status::SUCCESS,
            nodes,
        }
    }
}

impl Filter for NodeAffinity {
    fn filter_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn filter_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Status {
        if !self.added.allows(node.name, &node.spec.labels) {
            return Status::unresolvable(*ENFORCED_REASON);
        }
        if !satisfies(&pod.spec, node.name, &node.spec.labels) {
            return Status::unresolvable(*POD_REASON);
        }
        Status::SUCCESS
    }
}

impl PreScore for NodeAffinity {
    fn pre_score_reads(&self) -> Reads {
        Reads::POD
    }

    fn pre_score_pod(&self, _: &ClusterView<'_>, _: &mut CycleState, pod: &PodInfo, _: &[NodeIdx]) -> Status {
        let preferred = pod.spec.preferred_node_affinity.as_deref();
        if preferred.is_none() && self.added.preferred.is_empty() {
            return Status::SKIP;
        }
        let counted = preferred
            .unwrap_or_default()
            .iter()
            .filter(|preferred| preferred.weight != 0);
        let mut wrong = counted.filter_map(|preferred| preferred.term.error());
        match wrong.next() {
            Some(error) => Status::error(error.to_string()),
            None => Status::SUCCESS,
        }
    }
}

impl Score for NodeAffinity {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC
    }

    fn score_node(&self, _: &ClusterView<'_>, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<i64, Status> {
        let own = pod.spec.preferred_node_affinity.as_deref().unwrap_or_default();
        let mut sum = 0;
        for preferred in self.added.preferred.iter().chain(own) {
            if preferred.term.matches(node.name, &node.spec.labels) {
                sum += i64::from(preferred.weight);
            }
        }
        Ok(sum)
    }

    fn normalizer(&self) -> Option<&dyn NormalizeScore> {
        Some(&ByGreatest::Upwards)
    }
}

#[cfg(test)]
mod tests;
