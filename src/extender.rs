//! HTTP extenders: webhooks that filter nodes, score them, have a say about victims, and bind.
//!
//! The protocol is kube-scheduler's. An extender is asked about pods that name one of its `managedResources` in any
//! container, or about all pods when it manages none; those that are not `ignorable` are asked first. It is sent whole
//! objects, or names alone if it is `nodeCacheCapable`: where somebody wants whole objects, the watches keep their text.
//!
//! A pod that an extender is interested in is evaluated in full. After the filters its cycle is put aside as a value
//! ([`Consultation`]) while a task asks; then a worker takes it up again: it evaluates anew what is known by then, keeps
//! the nodes that the extenders let pass, and adds their scores. Nodes that became feasible meanwhile are left out,
//! unless there is no other: then they are asked about, too. Pods for which the same extenders are asked share a
//! number of lanes ([`Lanes`]), so that a slow extender holds up its own pods and nobody else's.
//!
//! Does not: wait on a worker's thread, follow redirects, or trust an answer: its length is bounded, and names that were
//! not asked about are refused.
//!
//! Where we differ from upstream: several pods are asked about at a time; an answer that is too long is a failure; a
//! node that an extender names and nobody knows is an error with whole nodes too, and passed over as a failed one; so are
//! victims on a node that was no candidate.
//!
//! Threads: questions are asked in tasks on the runtime, everything else is called by workers. Cost: of a pod that no
//! extender is interested in, one look at its resources; of any other, a full evaluation before and after each question.
//!
//! Source: `pkg/scheduler/extender.go` and `pkg/scheduler/schedule_one.go`, Kubernetes 1.36.
//!
//! Children in reading order: `error`, `wire` (JSON), `tls` and `client` (one call), `ask` (filter and prioritise),
//! `victims` (preempt and bind), `consult` (the cycle that is put aside), `advise` (its PostFilter), `lanes`.

mod advise;
mod ask;
mod client;
mod consult;
mod error;
mod lanes;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod victims;
mod wire;

use std::sync::Arc;

use smallvec::SmallVec;
use supercargo_config::extender::Extender as ExtenderConfig;

use crate::cluster::{ObjectText, PodInfo};
use crate::ids::Symbol;
use crate::telemetry::{Metrics, OperationLabel};

pub use ask::{Answer, Question};
pub use consult::{Consultation, Deciding, Step};
pub use error::ExtenderError;
pub use lanes::{Lanes, Permit, Ready};
pub use victims::{BindError, Binder, VictimsAnswer, VictimsQuestion};

/// One extender.
#[derive(Debug)]
struct Extender {
    config: ExtenderConfig,
    managed: Box<[Symbol]>,
    connection: client::Connection,
}

impl Extender {
    fn is_interested(&self, resources: &[Symbol]) -> bool {
        self.managed.is_empty() || self.managed.iter().any(|managed| resources.contains(managed))
    }
}

/// The extenders of a process, in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Extenders {
    list: Box<[Extender]>,
    metrics: Option<(Arc<Metrics>, OperationLabel)>,
}

/// Which extenders have a say about a pod before it is bound, and in what. Positions in the order of asking.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interest {
    filters: SmallVec<[usize; 2]>,
    prioritizers: SmallVec<[usize; 2]>,
    preempters: SmallVec<[usize; 2]>,
}

impl Interest {
    /// Whether any filters or scores nodes.
    #[must_use]
    pub fn decides(&self) -> bool {
        !(self.filters.is_empty() && self.prioritizers.is_empty())
    }

    /// Whether any has a say about victims.
    #[must_use]
    pub fn preempts(&self) -> bool {
        !self.preempters.is_empty()
    }
}

impl Extenders {
    /// Sets extenders up; opens no connection.
    ///
    /// # Errors
    /// One has an address or TLS settings that are of no use.
    pub fn new(configs: &[ExtenderConfig], metrics: &Arc<Metrics>) -> Result<Self, ExtenderError> {
        let (last, first): (Vec<_>, Vec<_>) = configs.iter().partition(|config| config.ignorable);
        let make = |config: &ExtenderConfig| {
            let managed = config.managed_resources.iter();
            Ok(Extender {
                managed: managed.map(|managed| Symbol::new(&managed.name)).collect(),
                connection: client::Connection::new(config, metrics)?,
                config: config.clone(),
            })
        };
        let list: Result<Box<[Extender]>, ExtenderError> = first.into_iter().chain(last).map(make).collect();
        Ok(Self {
            list: list?,
            metrics: Some((Arc::clone(metrics), metrics.operation("prioritizing_extender"))),
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the texts of nodes have to be kept.
    #[must_use]
    pub fn want_nodes(&self) -> bool {
        let wants = |config: &ExtenderConfig| {
            let asks = !(config.filter_verb.is_empty() && config.prioritize_verb.is_empty());
            asks && !config.node_cache_capable
        };
        self.list.iter().any(|extender| wants(&extender.config))
    }

    /// Whether the text of this pod has to be kept.
    #[must_use]
    pub fn want_pod(&self, pod: &PodInfo, text: &ObjectText) -> bool {
        let wants_victims = |config: &ExtenderConfig| !config.preempt_verb.is_empty() && !config.node_cache_capable;
        let mut list = self.list.iter();
        list.any(|extender| {
            wants_victims(&extender.config) || pod.bound_to.is_none() && extender.is_interested(text.resources())
        })
    }

    /// Who has a say about a pod; `None`: nobody.
    #[must_use]
    pub fn interest(&self, pod: &PodInfo) -> Option<Interest> {
        if self.list.is_empty() {
            return None;
        }
        let mut interest = Interest::default();
        for (at, extender) in self.interested(pod) {
            let config = &extender.config;
            for (verb, members) in [
                (&config.filter_verb, &mut interest.filters),
                (&config.prioritize_verb, &mut interest.prioritizers),
                (&config.preempt_verb, &mut interest.preempters),
            ] {
                if !verb.is_empty() {
                    members.push(at);
                }
            }
        }
        (interest.decides() || interest.preempts()).then_some(interest)
    }

    fn interested(&self, pod: &PodInfo) -> impl Iterator<Item = (usize, &Extender)> {
        let resources = pod.text.as_ref().map_or(&[][..], |text| text.resources());
        let list = self.list.iter().enumerate();
        list.filter(move |(_, extender)| extender.is_interested(resources))
    }

    fn members<'a>(&'a self, of: &'a [usize]) -> impl Iterator<Item = &'a Extender> {
        of.iter().filter_map(|at| self.list.get(*at))
    }
}
