//! Compiles namespaces, Services and controllers.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::Deserialize;

use crate::cluster::watch::error::{DecodeError, Fault, Salvaged, shape_error};
use crate::cluster::watch::object::Watched;
use crate::cluster::watch::pod::labels_of;
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::{selectors, wire};
use crate::cluster::{LabelSelector, Labels, NamespaceLabels, OwnerKind, OwnerRef, OwnerSelector, ServiceSelector};
use crate::ids::Symbol;

fn parse<'a, T: Deserialize<'a>>(kind: &'static str, json: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(json).map_err(|error| shape_error(kind, json, &error))
}

/// The identity of an object that must have a name.
pub(super) fn identity(kind: &'static str, meta: &wire::Meta<'_>) -> Result<ObjectMeta, DecodeError> {
    let (namespace, name) = (text_of(&meta.namespace), text_of(&meta.name));
    if name.is_empty() {
        return Err(Fault::new("metadata.name", "missing").of(kind, namespace, name));
    }
    Ok(Salvaged {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: text_of(&meta.uid).to_owned(),
        resource_version: text_of(&meta.resource_version).to_owned(),
    }
    .into_meta())
}

impl Watched for NamespaceLabels {
    type Scope = ClusterResourceScope;
    const KIND: &'static str = "Namespace";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "namespaces";

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
    const KIND: &'static str = "Service";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "services";

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
    /// As the API server spells it.
    const KIND: &'static str;
    /// Its group.
    const GROUP: &'static str;
    /// As paths spell it.
    const PLURAL: &'static str;
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
    const KIND: &'static str = "ReplicationController";
    const GROUP: &'static str = "";
    const PLURAL: &'static str = "replicationcontrollers";
}

impl OwnerOf for ReplicaSets {
    const OWNER: OwnerKind = OwnerKind::ReplicaSet;
    const KIND: &'static str = "ReplicaSet";
    const GROUP: &'static str = "apps";
    const PLURAL: &'static str = "replicasets";
}

impl OwnerOf for StatefulSets {
    const OWNER: OwnerKind = OwnerKind::StatefulSet;
    const KIND: &'static str = "StatefulSet";
    const GROUP: &'static str = "apps";
    const PLURAL: &'static str = "statefulsets";
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
    const KIND: &'static str = K::KIND;
    const GROUP: &'static str = K::GROUP;
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = K::PLURAL;

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        let (meta, selector) = match K::OWNER {
            OwnerKind::ReplicationController => {
                let owner: wire::WithMapSelector<'_> = parse(K::KIND, json)?;
                let selector = owner.spec.unwrap_or_default().selector;
                (
                    owner.metadata,
                    selector.map_or(LabelSelector::Nothing, |pairs| exact(&labels_of(Some(&pairs)))),
                )
            }
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => {
                let owner: wire::WithSelector<'_> = parse(K::KIND, json)?;
                let selector = selectors::lenient(owner.spec.unwrap_or_default().selector.as_ref());
                (owner.metadata, selector)
            }
        };
        let meta = meta.unwrap_or_default();
        let identity = identity(K::KIND, &meta)?;
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
