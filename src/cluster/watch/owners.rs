//! Compiles namespaces, Services and controllers.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};

use crate::cluster::watch::error::DecodeError;
use crate::cluster::watch::object::{Served, Watched};
use crate::cluster::watch::parse::{identity, parse};
use crate::cluster::watch::pod::labels_of;
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::{selectors, wire};
use crate::cluster::{LabelSelector, Labels, NamespaceLabels, OwnerKind, OwnerRef, OwnerSelector, ServiceSelector};
use crate::ids::Symbol;

impl Watched for NamespaceLabels {
    type Scope = ClusterResourceScope;
    const SERVED: Served = Served::v1("", "namespaces", "Namespace");

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        let meta = parse::<wire::Namespace<'_>>("namespace", json)?
            .metadata
            .unwrap_or_default();
        let identity = identity("namespace", &meta)?;
        let namespace = Self {
            name: Symbol::new(text_of(&meta.name)),
            labels: labels_of(meta.labels.as_ref()),
        };
        Ok((namespace, identity))
    }
}

impl Watched for ServiceSelector {
    type Scope = NamespaceResourceScope;
    const SERVED: Served = Served::v1("", "services", "Service");

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        let service: wire::WithMapSelector<'_> = parse("service", json)?;
        let meta = service.metadata.unwrap_or_default();
        let identity = identity("service", &meta)?;
        let selector = service.spec.unwrap_or_default().selector;
        let service = Self {
            namespace: Symbol::new(text_of(&meta.namespace)),
            name: text_of(&meta.name).into(),
            selector: selector.as_ref().map(|pairs| labels_of(Some(pairs))),
        };
        Ok((service, identity))
    }
}

/// Which kind of controller an [`OwnerSelector`] is decoded from.
pub trait OwnerOf: Send + Sync + Clone + std::fmt::Debug + 'static {
    /// The kind.
    const OWNER: OwnerKind;
    /// Where it is served.
    const SERVED: Served;
}

/// ReplicationControllers.
#[derive(Clone, Debug)]
pub struct ReplicationControllers;
/// ReplicaSets.
#[derive(Clone, Debug)]
pub struct ReplicaSets;
/// StatefulSets.
#[derive(Clone, Debug)]
pub struct StatefulSets;

impl OwnerOf for ReplicationControllers {
    const OWNER: OwnerKind = OwnerKind::ReplicationController;
    const SERVED: Served = Served::v1("", "replicationcontrollers", "ReplicationController");
}

impl OwnerOf for ReplicaSets {
    const OWNER: OwnerKind = OwnerKind::ReplicaSet;
    const SERVED: Served = Served::v1("apps", "replicasets", "ReplicaSet");
}

impl OwnerOf for StatefulSets {
    const OWNER: OwnerKind = OwnerKind::StatefulSet;
    const SERVED: Served = Served::v1("apps", "statefulsets", "StatefulSet");
}

/// A controller of the kind that `K` says.
#[derive(Clone, Debug)]
pub struct OwnerObject<K> {
    /// Its selector.
    pub selector: OwnerSelector,
    kind: PhantomData<K>,
}

impl<K: OwnerOf> Watched for OwnerObject<K> {
    type Scope = NamespaceResourceScope;
    const SERVED: Served = K::SERVED;

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        let (meta, selector) = match K::OWNER {
            OwnerKind::ReplicationController => {
                let owner: wire::WithMapSelector<'_> = parse(K::SERVED.kind, json)?;
                let selector = owner.spec.unwrap_or_default().selector;
                (
                    owner.metadata,
                    selector.map_or(LabelSelector::Nothing, |pairs| exact(&labels_of(Some(&pairs)))),
                )
            }
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => {
                let owner: wire::WithSelector<'_> = parse(K::SERVED.kind, json)?;
                let selector = selectors::lenient(owner.spec.unwrap_or_default().selector.as_ref());
                (owner.metadata, selector)
            }
        };
        let meta = meta.unwrap_or_default();
        let identity = identity(K::SERVED.kind, &meta)?;
        let selector = OwnerSelector {
            namespace: Symbol::new(text_of(&meta.namespace)),
            owner: OwnerRef {
                kind: K::OWNER,
                name: Symbol::new(text_of(&meta.name)),
            },
            selector,
        };
        let kind = PhantomData;
        Ok((Self { selector, kind }, identity))
    }
}

/// The selector of a map: every pair must be there.
fn exact(labels: &Labels) -> LabelSelector {
    let pairs: Vec<_> = labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    LabelSelector::compile(&pairs, &[]).unwrap_or(LabelSelector::Nothing)
}
