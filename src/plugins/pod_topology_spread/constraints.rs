//! The constraints of one pod: its own, or the profile's defaults with a selector deduced from whatever owns the pod.
//!
//! Source: `pkg/scheduler/framework/plugins/podtopologyspread/common.go` and `plugins/helper/spread.go`,
//! Kubernetes 1.36.

use std::sync::LazyLock;

use supercargo_config::plugin_args::{
    NodeInclusionPolicy, PodTopologySpreadArgs, SpreadConstraint as Args, SpreadDefaulting, WhenUnsatisfiable,
};

use crate::cluster::{
    LabelSelector, Labels, NodeInfo, OwnerKind, Owners, PodInfo, Requirement, RequirementOp, SpreadConstraint,
    first_untolerated,
};
use crate::ids::Symbol;
use crate::plugins::node_affinity;

/// The domain of which every node is one of its own in the score.
pub(super) static HOSTNAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("kubernetes.io/hostname"));

/// What is done about a node that would break a constraint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// It is rejected.
    DoNotSchedule,
    /// It scores lower.
    ScheduleAnyway,
}

impl Action {
    const fn word(self) -> &'static str {
        match self {
            Self::DoNotSchedule => "hard",
            Self::ScheduleAnyway => "soft",
        }
    }
}

/// A constraint, ready to be counted for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Constraint {
    /// How far a domain may be above the lowest.
    pub(super) max_skew: i64,
    /// The node label whose values are the domains.
    pub(super) key: Symbol,
    /// Which pods are counted, the pod's own values of `matchLabelKeys` included.
    pub(super) selector: LabelSelector,
    /// With fewer domains the lowest counts as empty.
    pub(super) min_domains: i64,
    honor_affinity: bool,
    honor_taints: bool,
}

impl Constraint {
    /// Whether a placed pod with these labels is counted. An empty selector counts nobody, though it matches everybody.
    pub(super) fn counts(&self, labels: &Labels) -> bool {
        !self.selector.is_everything() && self.selector.matches(labels)
    }

    /// Whether the pods of a node are counted for `pod`.
    pub(super) fn admits(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        (!self.honor_affinity || node_affinity::satisfies(&pod.spec, node.name, &node.spec.labels))
            && (!self.honor_taints || first_untolerated(&node.spec.taints, &pod.spec.tolerations).is_none())
    }

    /// Whether its domains are nodes, as the score sees it.
    pub(super) fn is_by_host(&self) -> bool {
        self.key == *HOSTNAME
    }
}

/// Whether a node has the labels of all constraints.
pub(super) fn has_all_keys(node: &NodeInfo, constraints: &[Constraint]) -> bool {
    constraints
        .iter()
        .all(|constraint| node.label(constraint.key).is_some())
}

/// What pods without constraints of their own get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Defaults {
    constraints: Box<[Default]>,
    /// They are the built-in ones: nodes without one of the labels take part all the same.
    is_system: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Default {
    max_skew: u32,
    key: Symbol,
    action: Action,
    min_domains: u32,
    honor_affinity: bool,
    honor_taints: bool,
}

impl Defaults {
    /// The built-in ones: soft spreading over hosts and zones.
    pub(super) fn system() -> Self {
        let soft = |max_skew, key| Default {
            max_skew,
            key,
            action: Action::ScheduleAnyway,
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        };
        Self {
            constraints: Box::new([soft(3, *HOSTNAME), soft(5, Symbol::new("topology.kubernetes.io/zone"))]),
            is_system: true,
        }
    }

    /// Those that the args say.
    pub(super) fn from_args(args: &PodTopologySpreadArgs) -> Self {
        match &args.defaulting {
            SpreadDefaulting::System => Self::system(),
            SpreadDefaulting::List(list) => Self {
                constraints: list.iter().map(Default::from_args).collect(),
                is_system: false,
            },
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    fn hard(&self) -> impl Iterator<Item = &Default> {
        self.constraints
            .iter()
            .filter(|default| default.action == Action::DoNotSchedule)
    }

    /// Whether any of them is hard.
    pub(super) fn has_hard(&self) -> bool {
        self.hard().next().is_some()
    }

    /// Node labels of the hard ones.
    pub(super) fn hard_keys(&self) -> impl Iterator<Item = Symbol> {
        self.hard().map(|default| default.key)
    }

    /// Whether one of the hard ones looks at taints.
    pub(super) fn hard_honors_taints(&self) -> bool {
        self.hard().any(|default| default.honor_taints)
    }

    /// Whether a node must have the labels of all soft constraints to be scored.
    pub(super) fn requires_all_keys(&self, pod: &PodInfo) -> bool {
        !self.is_system || !pod.spec.spread.is_empty()
    }

    /// The constraints of `pod` with this action, in their order.
    ///
    /// # Errors
    /// A selector of one of them is wrong; the text is as upstream begins it.
    pub(super) fn resolve(&self, pod: &PodInfo, owners: &Owners, action: Action) -> Result<Box<[Constraint]>, String> {
        if pod.spec.spread.is_empty() {
            return Ok(self.for_pod(pod, owners, action));
        }
        let own = own_constraints(pod, action).map(|constraint| match &constraint.error {
            Some(error) => Err(format!(
                "obtaining pod's {} topology spread constraints: {error}",
                action.word()
            )),
            None => Ok(compile(constraint, pod)),
        });
        own.collect()
    }

    fn for_pod(&self, pod: &PodInfo, owners: &Owners, action: Action) -> Box<[Constraint]> {
        let mut wanted = self.constraints.iter().filter(|c| c.action == action).peekable();
        if wanted.peek().is_none() {
            return Box::default();
        }
        let requirements = owner_requirements(pod, owners);
        if requirements.is_empty() {
            return Box::default();
        }
        let selector = LabelSelector::All(requirements.into());
        wanted.map(|default| default.with(&selector)).collect()
    }
}

impl Default {
    fn from_args(args: &Args) -> Self {
        Self {
            max_skew: args.max_skew,
            key: Symbol::new(&args.topology_key),
            action: match args.when_unsatisfiable {
                WhenUnsatisfiable::DoNotSchedule => Action::DoNotSchedule,
                WhenUnsatisfiable::ScheduleAnyway => Action::ScheduleAnyway,
            },
            min_domains: args.min_domains.unwrap_or(1),
            honor_affinity: args.node_affinity_policy != Some(NodeInclusionPolicy::Ignore),
            honor_taints: args.node_taints_policy == Some(NodeInclusionPolicy::Honor),
        }
    }

    fn with(&self, selector: &LabelSelector) -> Constraint {
        Constraint {
            max_skew: self.max_skew.into(),
            key: self.key,
            selector: selector.clone(),
            min_domains: self.min_domains.into(),
            honor_affinity: self.honor_affinity,
            honor_taints: self.honor_taints,
        }
    }
}

/// The pod's own constraints with this action, as its object has them.
pub(super) fn own_constraints(pod: &PodInfo, action: Action) -> impl Iterator<Item = &SpreadConstraint> {
    let hard = action == Action::DoNotSchedule;
    pod.spec.spread.iter().filter(move |constraint| constraint.hard == hard)
}

/// Whether a constraint of `pod` selects labels, for those who look at a constraint once.
pub(super) fn selects(constraint: &SpreadConstraint, pod: &PodInfo, labels: &Labels) -> bool {
    let agrees = |key: &Symbol| pod.labels.get(*key).is_none_or(|own| labels.get(*key) == Some(own));
    constraint.selector.matches(labels) && constraint.match_label_keys.iter().all(agrees)
}

fn compile(constraint: &SpreadConstraint, pod: &PodInfo) -> Constraint {
    Constraint {
        max_skew: constraint.max_skew.into(),
        key: constraint.topology_key,
        selector: with_own_values(constraint, pod),
        min_domains: constraint.min_domains.unwrap_or(1).into(),
        honor_affinity: constraint.honor_affinity,
        honor_taints: constraint.honor_taints,
    }
}

/// The selector and, for each of `matchLabelKeys` that the pod has, its value. Absent, it still selects nothing.
fn with_own_values(constraint: &SpreadConstraint, pod: &PodInfo) -> LabelSelector {
    let LabelSelector::All(requirements) = &constraint.selector else {
        return LabelSelector::Nothing;
    };
    let keys = constraint.match_label_keys.iter();
    let own = keys.filter_map(|key| Some(exactly(*key, pod.labels.get(*key)?)));
    LabelSelector::All(own.chain(requirements.iter().cloned()).collect())
}

fn exactly(key: Symbol, value: Symbol) -> Requirement {
    Requirement {
        key,
        op: RequirementOp::In(Box::new([value])),
    }
}

/// What the Services that select the pod and the controller that owns it ask of labels, together; empty: nobody asks
/// for anything.
fn owner_requirements(pod: &PodInfo, owners: &Owners) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = Vec::new();
    let services = owners.services(pod.namespace);
    for service in services.iter().filter(|service| service.selects(&pod.labels)) {
        let pairs = service.selector.iter().flat_map(Labels::iter);
        for (key, value) in pairs {
            put(&mut all, exactly(key, value));
        }
    }
    let Some(owner) = pod.spec.controller else {
        return all;
    };
    let Some(controller) = owners.controller(pod.namespace, owner) else {
        return all;
    };
    if let LabelSelector::All(requirements) = &controller.selector {
        for requirement in requirements.iter().cloned() {
            // A replication controller has a map, which is merged into that of the Services; the others add to it.
            if owner.kind == OwnerKind::ReplicationController {
                put(&mut all, requirement);
            } else {
                all.push(requirement);
            }
        }
    }
    all
}

/// Adds a requirement; one of the same key goes.
fn put(all: &mut Vec<Requirement>, requirement: Requirement) {
    match all.iter_mut().find(|have| have.key == requirement.key) {
        Some(have) => *have = requirement,
        None => all.push(requirement),
    }
}
