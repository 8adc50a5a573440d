//! The in-memory store: resources, objects, versions and the rules of the API around them.
//!
//! A pod's way through it: `create` (admission) → history → watchers; `bind` splices the node's name into the stored
//! bytes; `delete` sets the deletion time stamp or removes.
//!
//! Threads: `Store` is shared by all tasks. One lock a resource (see `resource`), one for the table of resources; no two
//! are held at once. Every write is optimistic: read, compute outside the lock, replace exactly what was read, else again.
//!
//! Does not: speak HTTP; survive the process; enforce RBAC or schemas of custom resources.
//!
//! Children in reading order: `kinds`, `object`, `resource`, `selector`, `list`, `watch`, `admission`, `patch`,
//! `writes`, `lifecycle`, `binding`, `crd`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use serde_json::Value;

use crate::error::ApiError;

mod admission;
mod binding;
mod crd;
pub mod kinds;
mod lifecycle;
mod list;
mod object;
mod patch;
mod resource;
mod selector;
mod watch;
mod writes;

pub use self::binding::BindRequest;
pub use self::kinds::Kind;
pub use self::lifecycle::{DeleteOptions, Deleted};
pub use self::list::{Continue, ListPage, ListQuery};
pub use self::object::{Draft, Event, EventKind, Index, Object};
pub use self::patch::PatchKind;
pub use self::resource::{HistoryLimits, Resource, key_of};
pub use self::selector::{FieldSelector, LabelSelector, Selectors};
pub use self::watch::{Poll, WatchBatch, WatchItem, WatchStart, Watcher};
pub use self::writes::WriteTarget;

/// A fresh store starts here, so that small versions are too old, as on a server that has lived for a while.
const FIRST_VERSION: u64 = 100;

/// Resources by (group, plural).
type Table = HashMap<(String, String), Arc<Resource>>;

/// The store. Cheap to clone: clones share everything.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    resources: ArcSwap<Table>,
    version: Arc<AtomicU64>,
    limits: HistoryLimits,
}

impl Store {
    /// A store with the built-in kinds and the objects that every cluster has.
    ///
    /// # Errors
    /// When a built-in object breaks a rule, which a test would show.
    pub fn new(limits: HistoryLimits) -> Result<Self, ApiError> {
        let version = Arc::new(AtomicU64::new(FIRST_VERSION));
        let mut table = Table::new();
        for kind in kinds::built_in() {
            let key = (kind.group.to_string(), kind.plural.to_string());
            table.insert(key, Arc::new(Resource::new(kind, Arc::clone(&version), limits)));
        }
        let store = Self {
            inner: Arc::new(Inner {
                resources: ArcSwap::from_pointee(table),
                version,
                limits,
            }),
        };
        store.create_system_objects()?;
        Ok(store)
    }

    fn create_system_objects(&self) -> Result<(), ApiError> {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.create_namespace(name)?;
        }
        for (name, value) in [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ] {
            let class = serde_json::json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            });
            self.create_as("scheduling.k8s.io", "priorityclasses", "", class)?;
        }
        Ok(())
    }

    /// Creates a namespace.
    ///
    /// # Errors
    /// When it exists or its name is bad.
    pub fn create_namespace(&self, name: &str) -> Result<Arc<Object>, ApiError> {
        let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {"kubernetes.io/metadata.name": name}}});
        self.create_as("", "namespaces", "", body)
    }

    /// The newest resource version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    /// Sets the version counter forward, as a restored backup does. It never goes back.
    pub fn advance_version(&self, at_least: u64) {
        self.inner.version.fetch_max(at_least, Ordering::AcqRel);
    }

    /// A resource by group and plural name; events answer in both their groups.
    ///
    /// # Errors
    /// 404 when there is none, or a fault hides it.
    pub fn resource(&self, group: &str, plural: &str) -> Result<Arc<Resource>, ApiError> {
        let group = if group == kinds::EVENTS_GROUP && plural == "events" {
            ""
        } else {
            group
        };
        let table = self.inner.resources.load();
        // A borrowed pair cannot be looked up in a map of owned pairs, and the keys are short.
        let found = table.get(&(group.to_owned(), plural.to_owned()));
        found
            .filter(|resource| !resource.is_hidden())
            .cloned()
            .ok_or_else(ApiError::no_such_path)
    }

    /// The pods.
    ///
    /// # Errors
    /// 404 while a fault hides them.
    pub fn pods(&self) -> Result<Arc<Resource>, ApiError> {
        self.resource("", "pods")
    }

    /// All resources that are served, sorted by group and name.
    #[must_use]
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        let table = self.inner.resources.load();
        let mut all: Vec<Arc<Resource>> = table
            .values()
            .filter(|resource| !resource.is_hidden())
            .cloned()
            .collect();
        all.sort_by(|left, right| (&left.kind.group, &left.kind.plural).cmp(&(&right.kind.group, &right.kind.plural)));
        all
    }

    /// All resources, hidden ones too.
    pub(crate) fn all_resources(&self) -> Vec<Arc<Resource>> {
        self.inner.resources.load().values().cloned().collect()
    }

    /// Reads an object.
    ///
    /// # Errors
    /// 404 when it does not exist.
    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError> {
        let resource = self.resource(group, plural)?;
        resource
            .get(&key_of(namespace, name))
            .ok_or_else(|| ApiError::not_found(group, plural, name))
    }

    /// All objects of a resource, parsed. For tests and checks; a big cluster is better read with [`Resource::snapshot`].
    ///
    /// # Errors
    /// 404 when there is no such resource.
    pub fn values(&self, group: &str, plural: &str) -> Result<Vec<Value>, ApiError> {
        let (objects, _) = self.resource(group, plural)?.snapshot();
        Ok(objects.iter().map(|object| object.value()).collect())
    }

    /// Opens a watch over all namespaces.
    ///
    /// # Errors
    /// 404 when there is no such resource, 410 when the start has left the history.
    pub fn watch(&self, group: &str, plural: &str, start: WatchStart) -> Result<Watcher, ApiError> {
        Watcher::open(&self.resource(group, plural)?, None, Selectors::default(), start)
    }
}

#[cfg(test)]
mod tests;
