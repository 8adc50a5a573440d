//! The verbs preempt and bind.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::client::Extent;
use super::error::CallError;
use super::wire::{
    BindingArgs, BindingResult, MetaPod, MetaVictims, PreemptionArgs, PreemptionResult, ReturnedVictims, Victims,
};
use super::{Extender, Extenders, Interest};
use crate::cluster::{PodInfo, PodLister};
use crate::framework::Status;
use crate::ids::{PodUid, Symbol};
use crate::preemption::Candidate;
use crate::telemetry::ExtenderVerb;

/// What extenders are asked about victims.
#[derive(Debug)]
pub struct VictimsQuestion {
    pub(super) pod: Arc<PodInfo>,
    pub(super) interest: Interest,
    pub(super) candidates: Vec<Candidate>,
}

/// The victims that are left on a node.
#[derive(Clone, Debug)]
pub(super) struct NodeVictims {
    /// In the order in which they were named.
    pub(super) pods: Vec<PodUid>,
    pub(super) pdb_violations: usize,
}

/// What they said, by node; or why one could not be heard that must be.
#[derive(Clone, Debug)]
pub struct VictimsAnswer(pub(super) Result<FxHashMap<Symbol, NodeVictims>, Status>);

impl VictimsAnswer {
    /// The answer in place of one that went missing.
    #[must_use]
    pub fn failed(text: &str) -> Self {
        Self(Err(Status::error(text)))
    }
}

impl Extenders {
    /// Asks those that have a say about victims, one after another, each about the candidates that the last left.
    pub async fn choose_victims(&self, question: &VictimsQuestion, pods: &dyn PodLister) -> VictimsAnswer {
        let mut candidates = question.candidates.clone();
        for extender in self.members(&question.interest.preempters) {
            match extender.preempt(&question.pod, &candidates, pods).await {
                Ok(left) => candidates = left,
                Err(error) if extender.config.ignorable => {
                    let (extender, pod) = (&extender.config.url_prefix, question.pod.full_name());
                    tracing::info!(extender, pod, %error, "an extender failed to preempt and is passed over");
                }
                Err(error) => return VictimsAnswer::failed(&error.to_string()),
            }
            if candidates.is_empty() {
                break;
            }
        }
        let victims = |candidate: Candidate| {
            let victims = NodeVictims {
                pods: candidate.victims.iter().map(|pod| pod.uid).collect(),
                pdb_violations: candidate.pdb_violations,
            };
            (candidate.name, victims)
        };
        VictimsAnswer(Ok(candidates.into_iter().map(victims).collect()))
    }

    /// Those who bind this pod, in the order in which they are to be asked.
    pub fn binders<'a>(&'a self, pod: &PodInfo) -> impl Iterator<Item = Binder<'a>> {
        let binders = self.interested(pod).map(|(_, extender)| Binder(extender));
        binders.filter(|binder| !binder.0.config.bind_verb.is_empty())
    }

    /// Whether an extender binds this pod.
    #[must_use]
    pub fn bind(&self, pod: &PodInfo) -> bool {
        !self.list.is_empty() && self.binders(pod).next().is_some()
    }
}

impl Extender {
    async fn preempt(
        &self,
        pod: &PodInfo,
        candidates: &[Candidate],
        pods: &dyn PodLister,
    ) -> Result<Vec<Candidate>, CallError> {
        let args = self.preemption_args(pod, candidates)?;
        let victims = candidates.iter().flat_map(|candidate| &candidate.victims);
        let texts = victims.clone().filter_map(|victim| victim.text.as_ref());
        let extent = Extent {
            nodes: victims.count(),
            bytes: texts.map(|text| text.json().get().len()).sum(),
        };
        let result: PreemptionResult = self.connection.ask(ExtenderVerb::Preempt, &args, extent).await?;
        let by_name = candidates.iter().map(|candidate| (candidate.name.as_str(), candidate));
        let by_name: FxHashMap<&str, &Candidate> = by_name.collect();
        let mut left = Vec::with_capacity(result.victims.len());
        for (node, victims) in result.victims {
            let Some(candidate) = by_name.get(node.as_str()).copied() else {
                let url = self.config.url_prefix.clone();
                return Err(CallError::NoCandidate { url, node });
            };
            let victims = victims.unwrap_or_default();
            if victims.pods.is_empty() {
                if self.config.ignorable {
                    tracing::info!(
                        extender = self.config.url_prefix,
                        node,
                        "no victims are named: no candidate"
                    );
                    continue;
                }
                return Err(CallError::NoVictim(node));
            }
            left.push(self.with_victims(candidate, victims, pods)?);
        }
        Ok(left)
    }

    fn preemption_args<'a>(
        &self,
        pod: &'a PodInfo,
        candidates: &'a [Candidate],
    ) -> Result<PreemptionArgs<'a>, CallError> {
        let pod = self.text_of(pod)?.json();
        if self.config.node_cache_capable {
            let meta = |candidate: &'a Candidate| {
                let pods = candidate.victims.iter().map(|victim| MetaPod { uid: &victim.uid_text });
                let victims = MetaVictims {
                    pods: pods.collect(),
                    pdb_violations: candidate.pdb_violations,
                };
                (candidate.name.as_str(), victims)
            };
            return Ok(PreemptionArgs {
                pod,
                node_name_to_victims: None,
                node_name_to_meta_victims: Some(candidates.iter().map(meta).collect()),
            });
        }
        let mut by_node = BTreeMap::new();
        for candidate in candidates {
            let pods = candidate.victims.iter().map(|victim| Ok(self.text_of(victim)?.json()));
            let victims = Victims {
                pods: pods.collect::<Result<_, CallError>>()?,
                pdb_violations: candidate.pdb_violations,
            };
            by_node.insert(candidate.name.as_str(), victims);
        }
        Ok(PreemptionArgs {
            pod,
            node_name_to_victims: Some(by_node),
            node_name_to_meta_victims: None,
        })
    }

    fn with_victims(
        &self,
        candidate: &Candidate,
        victims: ReturnedVictims,
        pods: &dyn PodLister,
    ) -> Result<Candidate, CallError> {
        let on_node = pods.on_node(candidate.node);
        let find = |uid: String| {
            let found = on_node.iter().find(|pod| *pod.uid_text == *uid).map(Arc::clone);
            found.ok_or_else(|| CallError::UnknownVictim {
                url: self.config.url_prefix.clone(),
                node: candidate.name.as_str().to_owned(),
                uid: uid.chars().take(253).collect(),
            })
        };
        let uids = victims.pods.into_iter().map(|pod| pod.unwrap_or_default().uid);
        Ok(Candidate {
            victims: uids.map(find).collect::<Result<_, _>>()?,
            pdb_violations: usize::try_from(victims.pdb_violations).unwrap_or(0),
            ..candidate.clone()
        })
    }
}

/// An extender that binds.
#[derive(Clone, Copy, Debug)]
pub struct Binder<'a>(&'a Extender);

/// Why an extender did not bind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindError {
    /// What to say of it.
    pub text: String,
    /// Whether the pod may be bound all the same.
    pub is_unsure: bool,
}

impl Binder<'_> {
    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.config.url_prefix
    }

    /// Whether the next one, or the profile's own plugins, are to bind when it fails.
    #[must_use]
    pub const fn is_ignorable(&self) -> bool {
        self.0.config.ignorable
    }

    /// Has it bind the pod.
    ///
    /// # Errors
    /// It did not, or it did not say so.
    ///
    /// # Cancel safety
    /// When dropped, the pod may be bound or not.
    pub async fn bind(&self, pod: &PodInfo, node: Symbol) -> Result<(), BindError> {
        let args = BindingArgs {
            name: &pod.name,
            namespace: pod.namespace.as_str(),
            uid: &pod.uid_text,
            node: node.as_str(),
        };
        let asked = self
            .0
            .connection
            .ask(ExtenderVerb::Bind, &args, Extent { nodes: 1, bytes: 0 });
        let result = asked.await.and_then(|result: BindingResult| match result.error {
            error if error.is_empty() => Ok(()),
            error => Err(CallError::said(error)),
        });
        result.map_err(|error| BindError {
            text: error.to_string(),
            is_unsure: error.is_unsure(),
        })
    }
}
