//! Objects as kube-runtime's watchers carry them.
//!
//! A list or a watch deserialises its items as these types. Each decodes its own text and keeps the error if that
//! fails, so that one malformed object costs that object and nothing else.
//!
//! Does not: find a pod's class; whoever takes the pod in does.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cluster::watch::budget;
use crate::cluster::watch::error::{DecodeError, Salvaged};
use crate::cluster::watch::node::decode_with_identity;
use crate::cluster::watch::pod::DecodedPod;
use crate::cluster::{Budget, NodeSpec, ObjectText};

/// Where the API server serves a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// As paths spell it.
    pub plural: &'static str,
    /// Such as `Pod`.
    pub kind: &'static str,
}

impl Served {
    /// Version 1 of a kind.
    #[must_use]
    pub const fn v1(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version: "v1",
            plural,
            kind,
        }
    }
}

/// A kind of object that can be watched: where it is served and how it is decoded.
pub trait Watched: Sized + Send + Sync + 'static {
    /// Namespaced or cluster-wide.
    type Scope;
    /// Where it is served.
    const SERVED: Served;
    /// Decodes an object from JSON; name, namespace, UID and resource version are apart.
    ///
    /// # Errors
    /// The object cannot be used.
    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError>;
}

impl Watched for DecodedPod {
    type Scope = NamespaceResourceScope;
    const SERVED: Served = Served::v1("", "pods", "Pod");

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        Self::from_json(json).map(|pod| {
            let meta = pod.identity();
            (pod, meta)
        })
    }
}

impl Watched for NodeSpec {
    type Scope = ClusterResourceScope;
    const SERVED: Served = Served::v1("", "nodes", "Node");

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        decode_with_identity(json)
    }
}

impl Watched for Budget {
    type Scope = NamespaceResourceScope;
    const SERVED: Served = Served::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget");

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        budget::decode_with_identity(json)
    }
}

/// An object that is watched together with its own text.
#[derive(Clone, Debug)]
pub struct WithText<T> {
    object: T,
    text: Option<Arc<ObjectText>>,
}

impl<T: Watched> Watched for WithText<T> {
    type Scope = T::Scope;
    const SERVED: Served = T::SERVED;

    fn decode(json: &str) -> Result<(Self, ObjectMeta), DecodeError> {
        let (object, meta) = T::decode(json)?;
        let text = ObjectText::from_json(json).map(Arc::new);
        Ok((Self { object, text }, meta))
    }
}

/// An object from a list or a watch: decoded, or the reason why it could not be.
#[derive(Debug)]
pub struct Object<T> {
    meta: ObjectMeta,
    decoded: Result<Arc<T>, Arc<DecodeError>>,
    text: Option<Arc<ObjectText>>,
}

/// A pod from a list or a watch.
pub type PodObject = Object<DecodedPod>;
/// A node from a list or a watch.
pub type NodeObject = Object<NodeSpec>;
/// A PodDisruptionBudget from a list or a watch.
pub type BudgetObject = Object<Budget>;

impl<T> Clone for Object<T> {
    fn clone(&self) -> Self {
        Self {
            meta: self.meta.clone(),
            decoded: self.decoded.clone(),
            text: self.text.clone(),
        }
    }
}

impl<T: Watched> Object<T> {
    /// Decodes an object's JSON, keeping the error if there is one.
    #[must_use]
    pub fn from_json(json: &str) -> Self {
        match T::decode(json) {
            Ok((object, meta)) => Self {
                meta,
                decoded: Ok(Arc::new(object)),
                text: None,
            },
            Err(error) => Self {
                meta: Salvaged::from_json(json).into_meta(),
                decoded: Err(Arc::new(error)),
                text: None,
            },
        }
    }

    /// The object's own text, if it was watched with it.
    #[must_use]
    pub const fn text(&self) -> Option<&Arc<ObjectText>> {
        self.text.as_ref()
    }

    /// The decoded object.
    ///
    /// # Errors
    /// It could not be decoded.
    pub fn into_decoded(self) -> Result<T, Arc<DecodeError>>
    where
        T: Clone,
    {
        self.decoded.map(Arc::unwrap_or_clone)
    }

    /// The decoded object, or why there is none.
    ///
    /// # Errors
    /// It could not be decoded.
    pub fn decoded(&self) -> Result<&Arc<T>, &DecodeError> {
        self.decoded.as_ref().map_err(|error| &**error)
    }
}

impl<T: Watched + Clone> Object<WithText<T>> {
    /// The object with its text beside it.
    #[must_use]
    pub fn apart(self) -> Object<T> {
        let (decoded, text) = match self.decoded {
            Ok(both) => {
                let WithText { object, text } = Arc::unwrap_or_clone(both);
                (Ok(Arc::new(object)), text)
            }
            Err(error) => (Err(error), None),
        };
        Object {
            meta: self.meta,
            decoded,
            text,
        }
    }
}

impl<T: Watched> kube::Resource for Object<T> {
    type DynamicType = ();
    type Scope = T::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        T::SERVED.kind.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        T::SERVED.group.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        T::SERVED.version.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::SERVED.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// Reads from text only (`serde_json::from_str`, as kube's client does): the object's own text is borrowed from it.
impl<'de, T: Watched> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self::from_json(raw.get()))
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    const BROKEN: &str =
        r#"{"metadata":{"name":"b","namespace":"ns","uid":"2","resourceVersion":"6"},"spec":{"containers":{}}}"#;

    #[test]
    fn a_malformed_item_costs_only_itself_in_a_list() {
        let item = |name: &str, version: u8| {
            format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}}}}"#
            )
        };
        let json = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{},{BROKEN},{}]}}"#,
            item("a", 5),
            item("c", 7)
        );
        let list: ObjectList<PodObject> = serde_json::from_str(&json).unwrap();
        let seen: Vec<_> = list
            .items
            .iter()
            .map(|o| (o.name_any(), o.resource_version().unwrap(), o.decoded().is_ok()))
            .collect();
        let expected = [("a", "5", true), ("b", "6", false), ("c", "7", true)];
        assert_eq!(
            seen,
            expected.map(|(name, version, fine)| (name.to_owned(), version.to_owned(), fine))
        );
        let error = list.items[1].decoded().unwrap_err().to_string();
        assert!(
            error.starts_with("pod ns/b: spec.containers: invalid type: map"),
            "{error}"
        );
    }

    #[test]
    fn a_malformed_item_costs_only_itself_in_a_watch() {
        let json = format!(r#"{{"type":"MODIFIED","object":{BROKEN}}}"#);
        let event: WatchEvent<PodObject> = serde_json::from_str(&json).unwrap();
        let WatchEvent::Modified(object) = event else {
            panic!("a modification")
        };
        assert!(object.decoded().is_err());
        assert_eq!(object.resource_version().as_deref(), Some("6"));
    }

    #[test]
    fn an_object_watched_with_its_text_has_it_beside_it() {
        let json =
            r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"3"},"status":{"nodeInfo":{"machineID":"m"}}}"#;
        let node: Object<WithText<NodeSpec>> = serde_json::from_str(json).unwrap();
        let node = node.apart();
        assert_eq!(node.resource_version().as_deref(), Some("3"));
        assert!(node.text().is_some_and(|text| text.json().get().contains("machineID")));
        assert!(node.decoded().is_ok());
        let broken: Object<WithText<DecodedPod>> = serde_json::from_str(BROKEN).unwrap();
        let broken = broken.apart();
        assert!(broken.decoded().is_err() && broken.text().is_none());
    }

    #[test]
    fn nodes_and_budgets_keep_their_resource_version() {
        let json = r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"3"}}"#;
        let node: NodeObject = serde_json::from_str(json).unwrap();
        assert_eq!(node.resource_version().as_deref(), Some("3"));
        assert_eq!(node.into_decoded().unwrap().name.unwrap().as_str(), "n");
        let budget = BudgetObject::from_json(r#"{"metadata":{"name":"n","namespace":"x","resourceVersion":"4"}}"#);
        assert_eq!(budget.resource_version().as_deref(), Some("4"));
        assert_eq!(
            <BudgetObject as kube::Resource>::url_path(&(), None),
            "/apis/policy/v1/poddisruptionbudgets"
        );
    }
}
