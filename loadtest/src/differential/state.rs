//! What the API server holds, and a mirror of it: every object as the server last gave it, so that a decision can be
//! evaluated here on the state on which the schedulers made it.
//!
//! Does not: watch. Whoever changes an object outside of this module reads it back with [`State::refresh`].

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::{ApiClient, excerpt};
use crate::populate::persist;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// The collection's name in a record of a decision.
    pub(super) collection: &'static str,
    root: &'static str,
    plural: &'static str,
    namespaced: bool,
}

macro_rules! kinds {
    ($($name:ident: $collection:literal $root:literal $plural:literal $namespaced:literal;)*) => {
        $(pub(super) const $name: Kind = Kind {
            collection: $collection, root: $root, plural: $plural, namespaced: $namespaced,
        };)*
    };
}

kinds! {
    NAMESPACES: "namespaces" "/api/v1" "namespaces" false;
    NODES: "nodes" "/api/v1" "nodes" false;
    PODS: "pods" "/api/v1" "pods" true;
    SERVICES: "services" "/api/v1" "services" true;
    CONTROLLERS: "replicationControllers" "/api/v1" "replicationcontrollers" true;
    REPLICA_SETS: "replicasets" "/apis/apps/v1" "replicasets" true;
    STATEFUL_SETS: "statefulSets" "/apis/apps/v1" "statefulsets" true;
    PRIORITY_CLASSES: "priorityClasses" "/apis/scheduling.k8s.io/v1" "priorityclasses" false;
    BUDGETS: "podDisruptionBudgets" "/apis/policy/v1" "poddisruptionbudgets" true;
    STORAGE_CLASSES: "storageClasses" "/apis/storage.k8s.io/v1" "storageclasses" false;
    CSI_DRIVERS: "csiDrivers" "/apis/storage.k8s.io/v1" "csidrivers" false;
    CSI_NODES: "csiNodes" "/apis/storage.k8s.io/v1" "csinodes" false;
    VOLUMES: "persistentVolumes" "/api/v1" "persistentvolumes" false;
    CLAIMS: "persistentVolumeClaims" "/api/v1" "persistentvolumeclaims" true;
}

/// Namespace (empty for none) and name.
pub(super) type Key = (String, String);

/// The key of an object.
pub(super) fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// The objects by kind.
#[derive(Debug)]
pub(super) struct State {
    pub(super) client: ApiClient,
    mirror: BTreeMap<Kind, BTreeMap<Key, Value>>,
}

impl State {
    pub(super) fn new(client: ApiClient) -> Self {
        Self {
            client,
            mirror: BTreeMap::new(),
        }
    }

    /// Creates an object (a namespace that exists is patched instead), with its status where `body` has one.
    pub(super) async fn create(&mut self, kind: Kind, body: &Value) -> Result<Value> {
        let key = key(body);
        let collection = collection(kind, &key);
        let bytes = Bytes::from(body.to_string());
        let (status, answer) = self.client.post(&collection, bytes.clone()).await?;
        let created = match status {
            StatusCode::CONFLICT if kind == NAMESPACES => self.send(Method::PATCH, kind, &key, "", body).await?,
            status if status.is_success() => decode(&answer)?,
            _ => anyhow::bail!("POST {collection}: {status}: {}\n{body}", excerpt(&answer)),
        };
        self.put(kind, key, created.clone());
        Ok(created)
    }

    /// Merges a patch into an object, or into its status.
    pub(super) async fn patch(&mut self, kind: Kind, key: &Key, subresource: &str, patch: &Value) -> Result<Value> {
        let patched = self.send(Method::PATCH, kind, key, subresource, patch).await?;
        self.put(kind, key.clone(), patched.clone());
        Ok(patched)
    }

    /// Deletes an object at once, whatever protects it; one that is gone is no error.
    pub(super) async fn delete(&mut self, kind: Kind, key: &Key) -> Result<()> {
        self.forget(kind, key);
        let path = path(kind, key, "");
        let now = Bytes::from_static(b"{\"gracePeriodSeconds\":0}");
        let (status, answer) = self.client.send(Method::DELETE, &path, JSON, now).await?;
        if !status.is_success() && status != StatusCode::NOT_FOUND {
            anyhow::bail!("DELETE {path}: {status}: {}", excerpt(&answer));
        }
        Ok(())
    }

    /// Takes away what keeps an object from being deleted at once.
    pub(super) async fn unprotect(&mut self, kind: Kind, key: &Key) -> Result<Value> {
        self.patch(kind, key, "", &json!({"metadata": {"finalizers": null}}))
            .await
    }

    /// Reads an object anew; `None` when it is gone.
    pub(super) async fn refresh(&mut self, kind: Kind, key: &Key) -> Result<Option<Value>> {
        let path = path(kind, key, "");
        let (status, answer) = self.client.send(Method::GET, &path, JSON, Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND {
            self.forget(kind, key);
            return Ok(None);
        }
        anyhow::ensure!(status.is_success(), "GET {path}: {status}: {}", excerpt(&answer));
        let object = decode(&answer)?;
        self.put(kind, key.clone(), object.clone());
        Ok(Some(object))
    }

    async fn send(&self, method: Method, kind: Kind, key: &Key, subresource: &str, body: &Value) -> Result<Value> {
        let path = path(kind, key, subresource);
        let request = (method, path.as_str(), MERGE);
        decode(&persist(&self.client, request, Bytes::from(body.to_string())).await?)
    }

    fn put(&mut self, kind: Kind, key: Key, mut object: Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        self.mirror.entry(kind).or_default().insert(key, object);
    }

    /// Takes an object out of the mirror alone.
    pub(super) fn forget(&mut self, kind: Kind, key: &Key) {
        if let Some(objects) = self.mirror.get_mut(&kind) {
            objects.remove(key);
        }
    }

    pub(super) fn get(&self, kind: Kind, key: &Key) -> Option<&Value> {
        self.mirror.get(&kind)?.get(key)
    }

    /// The objects of a kind in the order of their keys.
    pub(super) fn all(&self, kind: Kind) -> impl DoubleEndedIterator<Item = (&Key, &Value)> {
        self.mirror.get(&kind).into_iter().flatten()
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.mirror.get(&kind).map_or(0, BTreeMap::len)
    }

    /// All objects but one pod, by collection, as a record of a decision holds them.
    pub(super) fn objects(&self, without: &Key) -> Result<BTreeMap<String, Vec<Box<RawValue>>>> {
        let mut objects = BTreeMap::new();
        for (kind, by_key) in &self.mirror {
            let kept = by_key.iter().filter(|(key, _)| *kind != PODS || *key != without);
            let raw = kept.map(|(_, object)| serde_json::value::to_raw_value(object));
            objects.insert(kind.collection.to_owned(), raw.collect::<Result<_, _>>()?);
        }
        Ok(objects)
    }
}

fn collection(kind: Kind, (namespace, _): &Key) -> String {
    let Kind { root, plural, .. } = kind;
    if kind.namespaced {
        format!("{root}/namespaces/{namespace}/{plural}")
    } else {
        format!("{root}/{plural}")
    }
}

fn path(kind: Kind, key: &Key, subresource: &str) -> String {
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{}/{}{slash}{subresource}", collection(kind, key), key.1)
}

fn decode(answer: &[u8]) -> Result<Value> {
    serde_json::from_slice(answer).context("the server's answer is not JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let pod = ("a".to_owned(), "p".to_owned());
        assert_eq!(path(PODS, &pod, "status"), "/api/v1/namespaces/a/pods/p/status");
        let class = (String::new(), "c".to_owned());
        assert_eq!(
            path(STORAGE_CLASSES, &class, ""),
            "/apis/storage.k8s.io/v1/storageclasses/c"
        );
    }
}
