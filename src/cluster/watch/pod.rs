//! Compiles a pod.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use smallvec::SmallVec;

use crate::cluster::watch::error::{DecodeError, Fault, Salvaged};
use crate::cluster::watch::parse::parse;
use crate::cluster::watch::requests::{self, Requests};
use crate::cluster::watch::text::{Pairs, Text, micros, symbol_of, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::cluster::watch::{affinity, network, pod_volumes, ports, selectors};
use crate::cluster::{
    ClassTable, Classified, Effect, Labels, PodInfo, PodSpec, ScheduledCondition, Toleration, TolerationOp, Unsupported,
};
use crate::ids::{PodUid, Symbol};
use crate::ledger::Charge;

/// A pod, decoded and compiled, that has no class yet.
#[derive(Clone, Debug)]
pub struct DecodedPod {
    spec: PodSpec,
    uid: PodUid,
    uid_text: Box<str>,
    resource_version: Box<str>,
    namespace: Symbol,
    name: Box<str>,
    labels: Labels,
    bound_to: Option<Symbol>,
    nominated_node: Option<Symbol>,
    gates: Box<[Box<str>]>,
    terminal: bool,
    terminating: bool,
    start_time_micros: Option<i64>,
    created_micros: Option<i64>,
    generation: i64,
    condition: Option<ScheduledCondition>,
    preempted: bool,
    claim_statuses: u64,
}

impl DecodedPod {
    /// Decodes a pod from JSON.
    ///
    /// # Errors
    /// The JSON has not the shape of a pod, or a field that scheduling reads is wrong.
    pub fn from_json(json: &str) -> Result<Self, DecodeError> {
        let pod: wire::Pod<'_> = parse("pod", json)?;
        let meta = pod.metadata.unwrap_or_default();
        let compiled = compile(&meta, &pod.spec.unwrap_or_default(), &pod.status.unwrap_or_default());
        compiled.map_err(|fault| fault.of("pod", text_of(&meta.namespace), text_of(&meta.name)))
    }

    /// The same pod as one that asks for the node it names and is not bound to it: how a pod with `spec.nodeName` set
    /// is evaluated by itself.
    #[must_use]
    pub fn into_pending(mut self) -> Self {
        self.spec.node_name = self.bound_to.take();
        self
    }

    /// Name, namespace, UID and resource version.
    pub(super) fn identity(&self) -> ObjectMeta {
        Salvaged {
            namespace: self.namespace.as_str().to_owned(),
            name: self.name.to_string(),
            uid: self.uid_text.to_string(),
            resource_version: self.resource_version.to_string(),
        }
        .into_meta()
    }

    /// Finds the pod's class and shares what its like have in common.
    #[must_use]
    pub fn classify(self, classes: &ClassTable) -> PodInfo {
        // Read first: a class that is too new is classified again, one that is too old never goes unnoticed.
        let class_epoch = classes.epoch();
        let (spec, class) = classes.classify(
            self.spec,
            Classified {
                namespace: self.namespace,
                labels: &self.labels,
                terminating: self.terminating,
            },
        );
        let charge = Charge {
            uid: self.uid,
            class,
            priority: spec.priority,
            request: spec.charged_request.clone(),
            non_zero: spec.charged_non_zero,
            ports: spec.ports.clone(),
        };
        PodInfo {
            uid: self.uid,
            uid_text: self.uid_text,
            resource_version: self.resource_version,
            namespace: self.namespace,
            name: self.name,
            labels: self.labels,
            spec,
            class,
            class_epoch,
            charge: Arc::new(charge),
            bound_to: self.bound_to,
            nominated_node: self.nominated_node,
            gates: self.gates,
            terminal: self.terminal,
            terminating: self.terminating,
            start_time_micros: self.start_time_micros,
            created_micros: self.created_micros,
            generation: self.generation,
            condition: self.condition,
            preempted: self.preempted,
            claim_statuses: self.claim_statuses,
            text: None,
        }
    }
}

fn compile(
    meta: &wire::RawMeta<'_>,
    spec: &wire::PodSpec<'_>,
    status: &wire::PodStatus<'_>,
) -> Result<DecodedPod, Fault> {
    for (field, text) in [("name", &meta.name), ("namespace", &meta.namespace), ("uid", &meta.uid)] {
        if text_of(text).is_empty() {
            return Err(Fault::new(format!("metadata.{field}"), "missing"));
        }
    }
    let uid_text = text_of(&meta.uid);
    let gates = items(&spec.scheduling_gates)
        .iter()
        .map(|gate| text_of(&gate.name).into())
        .collect();
    let hash = |raw: &serde_json::value::RawValue| xxhash_rust::xxh3::xxh3_64(raw.get().as_bytes());
    Ok(DecodedPod {
        uid: PodUid::parse(uid_text),
        uid_text: uid_text.into(),
        resource_version: text_of(&meta.resource_version).into(),
        namespace: Symbol::new(text_of(&meta.namespace)),
        name: text_of(&meta.name).into(),
        labels: labels_of(meta.labels.as_ref()),
        bound_to: symbol_of(&spec.node_name),
        nominated_node: symbol_of(&status.nominated_node_name),
        gates,
        terminal: matches!(text_of(&status.phase), "Succeeded" | "Failed"),
        terminating: meta.deletion_timestamp.is_some(),
        start_time_micros: micros(&status.start_time, "status.startTime")?,
        created_micros: micros(&meta.creation_timestamp, "metadata.creationTimestamp")?,
        generation: meta.generation.unwrap_or_default(),
        condition: scheduled_condition(status),
        preempted: is_preempted(status),
        claim_statuses: status.resource_claim_statuses.map_or(0, hash),
        spec: compile_spec(meta, spec, status)?,
    })
}

pub(super) fn labels_of(pairs: Option<&Pairs<'_, Text<'_>>>) -> Labels {
    let pairs = pairs.map(|pairs| pairs.0.as_slice()).unwrap_or_default();
    pairs.iter().map(|(key, value)| (key, value)).collect()
}

fn compile_spec(
    meta: &wire::RawMeta<'_>,
    spec: &wire::PodSpec<'_>,
    status: &wire::PodStatus<'_>,
) -> Result<PodSpec, Fault> {
    let figures = Requests::read(spec, status)?.figures();
    let affinity = spec.affinity.as_ref();
    let node_affinity = affinity.and_then(|a| a.node_affinity.as_ref());
    Ok(PodSpec {
        scheduler_name: Some(Symbol::new(match text_of(&spec.scheduler_name) {
            "" => "default-scheduler",
            name => name,
        })),
        priority: spec.priority.unwrap_or_default(),
        never_preempts: text_of(&spec.preemption_policy) == "Never",
        node_name: None,
        request: figures.request,
        fit_score_request: figures.fit_score,
        balanced_request: figures.charged.clone(),
        charged_request: figures.charged,
        charged_non_zero: figures.charged_non_zero,
        limits: requests::limits(spec)?,
        node_selector: spec.node_selector.as_ref().map(|pairs| labels_of(Some(pairs))),
        required_node_affinity: node_affinity.and_then(affinity::required),
        preferred_node_affinity: node_affinity.and_then(affinity::preferred),
        affinity: selectors::pod_affinity(affinity, Symbol::new(text_of(&meta.namespace))),
        spread: items(&spec.topology_spread_constraints)
            .iter()
            .map(selectors::spread)
            .collect(),
        controller: selectors::controller(meta),
        tolerations: items(&spec.tolerations).iter().map(toleration).collect(),
        ports: ports::host_ports(spec)?,
        images: images(spec),
        volumes: pod_volumes::compile(items(&spec.volumes)),
        container_count: u32::try_from(containers(spec).count()).unwrap_or(u32::MAX),
        required_features: required_features(spec),
        network: network::pod(
            Symbol::new(text_of(&meta.namespace)),
            meta.labels.as_ref(),
            meta.annotations,
        ),
        unsupported: unsupported(spec),
    })
}

/// Init containers, then containers.
pub(super) fn containers<'s, 'a>(spec: &'s wire::PodSpec<'a>) -> impl Iterator<Item = &'s wire::Container<'a>> {
    items(&spec.init_containers).iter().chain(items(&spec.containers))
}

fn toleration(toleration: &wire::Toleration<'_>) -> Toleration {
    Toleration {
        key: symbol_of(&toleration.key),
        op: match text_of(&toleration.operator) {
            "" | "Equal" => TolerationOp::Equal,
            "Exists" => TolerationOp::Exists,
            _ => TolerationOp::Never,
        },
        value: Symbol::new(text_of(&toleration.value)),
        effect: toleration
            .effect
            .as_ref()
            .map(Text::as_str)
            .filter(|text| !text.is_empty())
            .map(Effect::parse),
    }
}

fn images(spec: &wire::PodSpec<'_>) -> Box<[Symbol]> {
    let of_containers = containers(spec).map(|container| text_of(&container.image));
    let of_volumes = items(&spec.volumes)
        .iter()
        .filter_map(|volume| volume.image.as_ref())
        .map(|image| text_of(&image.reference));
    of_containers.chain(of_volumes).map(normalized_image).collect()
}

/// The name under which a node reports the image: `latest` is the tag when there is neither a tag nor a digest.
///
/// Source: `pkg/scheduler/framework/plugins/imagelocality/image_locality.go` (`normalizedImageName`), Kubernetes 1.36.
fn normalized_image(name: &str) -> Symbol {
    if name.rfind(':') <= name.rfind('/') {
        Symbol::new(&format!("{name}:latest"))
    } else {
        Symbol::new(name)
    }
}

/// Source: `staging/src/k8s.io/component-helpers/nodedeclaredfeatures`, Kubernetes 1.36.
fn required_features(spec: &wire::PodSpec<'_>) -> SmallVec<[Symbol; 2]> {
    let mut features = SmallVec::new();
    let restarts_all = |container: &wire::Container<'_>| {
        let mut rules = items(&container.restart_policy_rules).iter();
        rules.any(|rule| text_of(&rule.action) == "RestartAllContainers")
    };
    if containers(spec).any(restarts_all) {
        features.push(Symbol::new("RestartAllContainersOnContainerExits"));
    }
    if spec.host_network == Some(true) && spec.host_users == Some(false) {
        features.push(Symbol::new("UserNamespacesHostNetworkSupport"));
    }
    features.sort_unstable();
    features
}

fn unsupported(spec: &wire::PodSpec<'_>) -> SmallVec<[Unsupported; 2]> {
    let parts = [
        (Unsupported::ResourceClaims, !items(&spec.resource_claims).is_empty()),
        (Unsupported::SchedulingGroup, spec.scheduling_group.is_some()),
    ];
    parts
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(part, _)| part)
        .collect()
}

fn scheduled_condition(status: &wire::PodStatus<'_>) -> Option<ScheduledCondition> {
    let condition = items(&status.conditions)
        .iter()
        .find(|condition| text_of(&condition.kind) == "PodScheduled")?;
    Some(ScheduledCondition {
        status: text_of(&condition.status).into(),
        reason: text_of(&condition.reason).into(),
        message: text_of(&condition.message).into(),
    })
}

fn is_preempted(status: &wire::PodStatus<'_>) -> bool {
    items(&status.conditions).iter().any(|condition| {
        text_of(&condition.kind) == "DisruptionTarget"
            && text_of(&condition.status) == "True"
            && text_of(&condition.reason) == "PreemptionByScheduler"
    })
}
