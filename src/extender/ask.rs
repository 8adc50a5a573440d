//! The verbs filter and prioritise, asked of all extenders that are interested in a pod.

use std::sync::Arc;

use futures::future::join_all;
use rustc_hash::FxHashMap;

use super::client::Extent;
use super::error::CallError;
use super::wire::{Args, Empty, FilterResult, HostPriority, Messages, NamedObject, NodeList, read};
use super::{Extender, Extenders, Interest};
use crate::cluster::watch::decode_node;
use crate::cluster::{NodeSpec, ObjectText, PodInfo};
use crate::framework::{Code, Reason, Status};
use crate::ids::{Incarnation, NodeIdx, Symbol};
use crate::telemetry::ExtenderVerb;

/// Upstream's scores go to 100, extenders' to 10.
const SCORE_FACTOR: i64 = 10;

/// A node that is asked about.
#[derive(Debug)]
pub(super) struct AskedNode {
    pub(super) idx: NodeIdx,
    pub(super) incarnation: Incarnation,
    pub(super) name: Symbol,
    /// The whole object, if anybody wants it.
    pub(super) text: Option<Arc<ObjectText>>,
}

/// What extenders are asked about a pod.
#[derive(Debug)]
pub struct Question {
    pub(super) pod: Arc<PodInfo>,
    pub(super) interest: Interest,
    pub(super) nodes: Vec<AskedNode>,
}

/// What they said of one node.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) incarnation: Incarnation,
    /// It may take the pod.
    pub(super) passed: bool,
    /// The object that was sent back in its place.
    pub(super) object: Option<Arc<NodeSpec>>,
    /// To be added to its total.
    pub(super) score: i64,
}

/// What they said.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Of the nodes that were asked about.
    pub(super) nodes: FxHashMap<NodeIdx, Answered>,
    /// Why nodes were turned away, by name; whoever says so may name any node.
    pub(super) rejections: Vec<(Symbol, Status)>,
    /// Set when one failed that must be heard.
    pub(super) failure: Option<Status>,
}

impl Answer {
    /// The answer in place of one that went missing.
    #[must_use]
    pub fn failed(text: &str) -> Self {
        Self {
            failure: Some(Status::error(text)),
            ..Self::default()
        }
    }

    /// Whether any node was turned away.
    pub(super) fn turned_away(&self) -> bool {
        self.nodes.len() != self.nodes.values().filter(|node| node.passed).count()
    }
}

/// A node on its way through the filters.
struct Passing<'a> {
    node: &'a AskedNode,
    text: Option<Arc<ObjectText>>,
    object: Option<Arc<NodeSpec>>,
    score: i64,
}

impl<'a> Passing<'a> {
    fn new(node: &'a AskedNode) -> Self {
        Self {
            node,
            text: node.text.clone(),
            object: None,
            score: 0,
        }
    }
}

/// What one filter said: positions of the nodes that pass, with the objects sent back.
struct Filtered {
    passed: Vec<(usize, Option<Returned>)>,
    failed: Messages,
    unresolvable: Messages,
}

type Returned = (Arc<ObjectText>, Option<Arc<NodeSpec>>);

impl Extenders {
    /// Asks the filters one after another, each about the nodes that the last let pass; then, if more than one node is
    /// left, all prioritisers at once.
    pub async fn decide(&self, question: &Question) -> Answer {
        let mut answer = Answer::default();
        let mut passing: Vec<Passing<'_>> = question.nodes.iter().map(Passing::new).collect();
        for extender in self.members(&question.interest.filters) {
            if passing.is_empty() {
                break;
            }
            match extender.filter(&question.pod, &passing).await {
                Ok(filtered) => take(filtered, &mut passing, &mut answer.rejections),
                Err(error) if extender.config.ignorable => extender.passed_over("filter", &question.pod, &error),
                Err(error) => return Answer::failed(&error.to_string()),
            }
        }
        if passing.len() > 1 {
            self.prioritize(question, &mut passing).await;
        }
        answer.nodes = question
            .nodes
            .iter()
            .map(|node| {
                let turned_away = Answered {
                    incarnation: node.incarnation,
                    passed: false,
                    object: None,
                    score: 0,
                };
                (node.idx, turned_away)
            })
            .collect();
        for passed in passing {
            if let Some(node) = answer.nodes.get_mut(&passed.node.idx) {
                node.passed = true;
                node.object = passed.object;
                node.score = passed.score;
            }
        }
        answer
    }

    async fn prioritize(&self, question: &Question, passing: &mut [Passing<'_>]) {
        let shared: &[Passing<'_>] = passing;
        let mut asked = Vec::new();
        for extender in self.members(&question.interest.prioritizers) {
            asked.push(self.prioritize_by(extender, &question.pod, shared));
        }
        let scores = join_all(asked).await;
        let at = positions(passing);
        for (extender, scores) in self.members(&question.interest.prioritizers).zip(scores) {
            match scores {
                Ok(scores) => {
                    for HostPriority { host, score } in scores {
                        let weighted = score
                            .saturating_mul(extender.config.weight)
                            .saturating_mul(SCORE_FACTOR);
                        if let Some(passed) = at.get(host.as_str()).and_then(|at| passing.get_mut(*at)) {
                            passed.score = passed.score.saturating_add(weighted);
                        }
                    }
                }
                // Others decide then, whether or not it is ignorable.
                Err(error) => extender.passed_over("prioritize", &question.pod, &error),
            }
        }
    }

    async fn prioritize_by(
        &self,
        extender: &Extender,
        pod: &PodInfo,
        passing: &[Passing<'_>],
    ) -> Result<Vec<HostPriority>, CallError> {
        let running = self.metrics.as_ref();
        let _running = running.map(|(metrics, operation)| metrics.start_operation(*operation));
        extender.prioritize(pod, passing).await
    }
}

/// Leaves the nodes that passed and notes why the others did not.
fn take(filtered: Filtered, passing: &mut Vec<Passing<'_>>, rejections: &mut Vec<(Symbol, Status)>) {
    let messages = |messages: &Messages, code: Code, skip: Option<&Messages>, to: &mut Vec<(Symbol, Status)>| {
        for (node, message) in messages {
            // Who is unknown here was never a node, and must not fill the table of symbols.
            let Some(name) = Symbol::find(node).filter(|_| skip.is_none_or(|skip| !skip.contains_key(node))) else {
                continue;
            };
            let message = Reason::from(message.clone().unwrap_or_default());
            to.push((name, Status::new(code, message)));
        }
    };
    let Filtered {
        passed,
        failed,
        unresolvable,
    } = filtered;
    messages(&unresolvable, Code::UnschedulableAndUnresolvable, None, rejections);
    messages(&failed, Code::Unschedulable, Some(&unresolvable), rejections);
    let mut before: Vec<Option<Passing<'_>>> = std::mem::take(passing).into_iter().map(Some).collect();
    for (at, returned) in passed {
        let Some(mut passed) = before.get_mut(at).and_then(Option::take) else {
            continue;
        };
        if let Some((text, object)) = returned {
            passed.object = object.or(passed.object);
            passed.text = Some(text);
        }
        passing.push(passed);
    }
}

fn positions(passing: &[Passing<'_>]) -> FxHashMap<&'static str, usize> {
    let names = passing.iter().map(|passed| passed.node.name.as_str());
    names.zip(0..).collect()
}

impl Extender {
    fn passed_over(&self, verb: &str, pod: &PodInfo, error: &CallError) {
        tracing::info!(
            extender = self.config.url_prefix,
            verb,
            pod = pod.full_name(),
            %error,
            "an extender failed and is passed over"
        );
    }

    pub(super) fn cannot_ask(&self, text: String) -> CallError {
        CallError::Question {
            url: self.config.url_prefix.clone(),
            text,
        }
    }

    pub(super) fn text_of<'a>(&self, pod: &'a PodInfo) -> Result<&'a ObjectText, CallError> {
        let text = pod.text.as_deref();
        text.ok_or_else(|| self.cannot_ask(format!("the object of pod {} is not at hand", pod.full_name())))
    }

    fn args<'a>(&self, pod: &'a PodInfo, passing: &'a [Passing<'_>]) -> Result<Args<'a>, CallError> {
        let pod = self.text_of(pod)?.json();
        if self.config.node_cache_capable {
            let names = passing.iter().map(|passed| passed.node.name.as_str());
            return Ok(Args {
                pod,
                nodes: None,
                node_names: Some(names.collect()),
            });
        }
        let text = |passed: &'a Passing<'_>| match &passed.text {
            Some(text) => Ok(text.json()),
            None => Err(self.cannot_ask(format!("the object of node {} is not at hand", passed.node.name))),
        };
        Ok(Args {
            pod,
            nodes: Some(NodeList {
                metadata: Empty {},
                items: passing.iter().map(text).collect::<Result<_, _>>()?,
            }),
            node_names: None,
        })
    }

    fn extent(&self, passing: &[Passing<'_>]) -> Extent {
        let texts = passing.iter().filter_map(|passed| passed.text.as_ref());
        let bytes = texts.map(|text| text.json().get().len());
        Extent {
            nodes: passing.len(),
            bytes: if self.config.node_cache_capable { 0 } else { bytes.sum() },
        }
    }

    async fn filter(&self, pod: &PodInfo, passing: &[Passing<'_>]) -> Result<Filtered, CallError> {
        let args = self.args(pod, passing)?;
        let extent = self.extent(passing);
        let result: FilterResult = self.connection.ask(ExtenderVerb::Filter, &args, extent).await?;
        if !result.error.is_empty() {
            return Err(CallError::said(result.error));
        }
        let at = positions(passing);
        let find = |name: &str| {
            at.get(name).copied().ok_or_else(|| CallError::UnknownNode {
                url: self.config.url_prefix.clone(),
                node: name.chars().take(253).collect(),
            })
        };
        let mut passed = Vec::new();
        match (result.node_names, result.nodes) {
            (Some(names), _) if self.config.node_cache_capable => {
                for name in names {
                    passed.push((find(&name)?, None));
                }
            }
            (_, Some(nodes)) => {
                for raw in nodes.items {
                    let named: NamedObject = read(raw.get().as_bytes()).unwrap_or_default();
                    passed.push((find(&named.metadata.name)?, returned(raw.get())));
                }
            }
            (_, None) => {}
        }
        passed.sort_by_key(|(at, _)| *at);
        passed.dedup_by_key(|(at, _)| *at);
        Ok(Filtered {
            passed,
            failed: result.failed,
            unresolvable: result.unresolvable,
        })
    }

    async fn prioritize(&self, pod: &PodInfo, passing: &[Passing<'_>]) -> Result<Vec<HostPriority>, CallError> {
        let args = self.args(pod, passing)?;
        let extent = self.extent(passing);
        self.connection.ask(ExtenderVerb::Prioritize, &args, extent).await
    }
}

/// A node as it was sent back: scores are computed from it, and the next extender is sent it. One that cannot be read
/// stays what it was.
fn returned(json: &str) -> Option<Returned> {
    let text = Arc::new(ObjectText::from_json(json)?);
    Some((text, decode_node(json).ok().map(Arc::new)))
}
