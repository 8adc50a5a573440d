//! Objects that are kept as they come, by namespace and name: how deliveries of them are applied, whatever the kind.
//!
//! Does not: know pods or nodes, whose life is more than that ([`super::ingest`]).

use std::sync::Arc;

use kube::Resource;
use rustc_hash::FxHashSet;

use super::ingest::Ingest;
use crate::cluster::watch::{Delivery, Object, OwnerObject, OwnerOf, WatchStatus, Watched};
use crate::cluster::{Budget, Cluster, Labels, NamespaceLabels, OwnerRef, ServiceSelector};
use crate::framework::{ActionType, ClusterEvent, EventObject, EventResource};
use crate::ids::Symbol;
use crate::ledger::ChangeKind;

/// Namespace (empty for kinds that have none) and name.
pub(super) type ObjectKey = (Symbol, Box<str>);

/// What a change of an object means for pods that wait: an event, if plugins can wait for one.
pub(super) type Told = Option<(ClusterEvent, EventObject)>;

/// A kind of object that is kept as it comes.
pub(super) trait Kept: Watched + Clone + std::fmt::Debug {
    /// Takes an object in; `None`: nothing that is read of it changed.
    fn put(self, cluster: &Cluster) -> Option<Told>;
    /// Forgets an object; `None`: it was not known.
    fn forget(cluster: &Cluster, key: &ObjectKey) -> Option<Told>;
    /// All that are known.
    fn keys(cluster: &Cluster) -> Vec<ObjectKey>;
}

/// A delivery whose kind the one who applies it need not know.
pub(super) trait Apply: std::fmt::Debug + Send {
    /// Applies it.
    fn apply(self: Box<Self>, ingest: &mut Ingest);
}

/// A delivery of a kept kind, and how its watch fares.
#[derive(Debug)]
pub(super) struct KeptDelivery<T> {
    pub(super) delivery: Delivery<T>,
    pub(super) status: Arc<WatchStatus>,
}

impl<T: Kept> Apply for KeptDelivery<T>
where
    Object<T>: Resource<DynamicType = ()>,
{
    fn apply(self: Box<Self>, ingest: &mut Ingest) {
        match self.delivery {
            Delivery::Restarted => {
                ingest.listed.insert(T::SERVED.kind, FxHashSet::default());
            }
            Delivery::Listed(object) => {
                if let Some(key) = key_of(&object) {
                    ingest.listed.entry(T::SERVED.kind).or_default().insert(key);
                }
                take(object, ingest);
            }
            Delivery::Applied(object) => take(object, ingest),
            Delivery::Deleted(object) => {
                if let Some(key) = key_of(&object) {
                    forget::<T>(&key, ingest);
                }
            }
            Delivery::Complete => {
                let listed = ingest.listed.remove(T::SERVED.kind).unwrap_or_default();
                let known = T::keys(&ingest.cluster);
                for key in known.iter().filter(|key| !listed.contains(*key)) {
                    forget::<T>(key, ingest);
                }
                self.status.set_synced();
            }
        }
    }
}

fn take<T: Kept>(object: Object<T>, ingest: &Ingest) {
    match object.into_decoded() {
        Ok(object) => tell(object.put(&ingest.cluster), ingest),
        Err(error) => ingest.skip(T::SERVED.kind, &*error),
    }
}

fn forget<T: Kept>(key: &ObjectKey, ingest: &Ingest) {
    tell(T::forget(&ingest.cluster, key), ingest);
}

fn tell(told: Option<Told>, ingest: &Ingest) {
    if let Some((event, object)) = told.flatten() {
        ingest.queue.on_event(event, &object, None);
        if matches!(object, EventObject::Volume { .. }) {
            ingest.binding.volumes_changed();
        }
    }
}

fn key_of<T>(object: &Object<T>) -> Option<ObjectKey>
where
    Object<T>: Resource<DynamicType = ()>,
{
    let meta = object.meta();
    let namespace = Symbol::new(meta.namespace.as_deref().unwrap_or_default());
    Some((namespace, meta.name.as_deref()?.into()))
}

/// Logs a change if there is one.
fn logged(changed: bool, cluster: &Cluster, kind: ChangeKind) -> Option<Told> {
    changed.then(|| {
        cluster.log.append_global(kind);
        None
    })
}

impl Kept for Budget {
    fn put(self, cluster: &Cluster) -> Option<Told> {
        cluster.apply_budget(self);
        Some(None)
    }

    fn forget(cluster: &Cluster, key: &ObjectKey) -> Option<Told> {
        cluster.remove_budget(key);
        Some(None)
    }

    fn keys(cluster: &Cluster) -> Vec<ObjectKey> {
        cluster.budget_keys()
    }
}

/// Tells the queue of a namespace whose labels changed, once that is logged.
fn relabelled(cluster: &Cluster, name: Symbol, old: Option<Arc<Labels>>) -> Option<Told> {
    let new = cluster.namespaces.labels(name);
    let action = match (&old, &new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => ActionType::UPDATE,
    };
    let event = ClusterEvent::new(EventResource::Namespace, action);
    cluster.log.append_global(ChangeKind::NamespaceLabels);
    Some(Some((event, EventObject::Namespace { name, old, new })))
}

/// Terms may mean other pods from now on: nobody commits while that changes, and whoever evaluated before does so again.
impl Kept for NamespaceLabels {
    fn put(self, cluster: &Cluster) -> Option<Told> {
        let name = self.name;
        let alone = cluster.commit.write();
        let old = cluster.namespaces.labels(name);
        if !cluster.namespaces.put(self) {
            return None;
        }
        let told = relabelled(cluster, name, old);
        alone.advance_epoch();
        told
    }

    fn forget(cluster: &Cluster, (_, name): &ObjectKey) -> Option<Told> {
        let name = Symbol::new(name);
        let alone = cluster.commit.write();
        let old = cluster.namespaces.labels(name);
        if !cluster.namespaces.remove(name) {
            return None;
        }
        let told = relabelled(cluster, name, old);
        alone.advance_epoch();
        told
    }

    fn keys(cluster: &Cluster) -> Vec<ObjectKey> {
        let names = cluster.namespaces.names().into_iter();
        names.map(|name| (Symbol::new(""), name.as_str().into())).collect()
    }
}

impl Kept for ServiceSelector {
    fn put(self, cluster: &Cluster) -> Option<Told> {
        let keys: Vec<Symbol> = self
            .selector
            .iter()
            .flat_map(|labels| labels.iter().map(|(key, _)| key))
            .collect();
        cluster.show_labels(&keys);
        logged(cluster.owners.put_service(self), cluster, ChangeKind::OwnerSelectors)
    }

    fn forget(cluster: &Cluster, (namespace, name): &ObjectKey) -> Option<Told> {
        let gone = cluster.owners.remove_service(*namespace, name);
        logged(gone, cluster, ChangeKind::OwnerSelectors)
    }

    fn keys(cluster: &Cluster) -> Vec<ObjectKey> {
        cluster.owners.service_keys()
    }
}

impl<K: OwnerOf> Kept for OwnerObject<K> {
    fn put(self, cluster: &Cluster) -> Option<Told> {
        let keys: Vec<Symbol> = self.selector.selector.keys().collect();
        cluster.show_labels(&keys);
        let changed = cluster.owners.put_controller(self.selector);
        logged(changed, cluster, ChangeKind::OwnerSelectors)
    }

    fn forget(cluster: &Cluster, (namespace, name): &ObjectKey) -> Option<Told> {
        let owner = OwnerRef {
            kind: K::OWNER,
            name: Symbol::new(name),
        };
        let gone = cluster.owners.remove_controller(*namespace, owner);
        logged(gone, cluster, ChangeKind::OwnerSelectors)
    }

    fn keys(cluster: &Cluster) -> Vec<ObjectKey> {
        cluster.owners.controller_keys(K::OWNER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::LabelVisibility;

    #[test]
    fn whoever_evaluated_before_a_namespace_was_relabelled_must_do_so_again() {
        let cluster = Cluster::new([], LabelVisibility::All);
        let labelled = |team: &str| NamespaceLabels {
            name: Symbol::new("ns"),
            labels: [("team", team)].into_iter().collect(),
        };
        let epoch = || cluster.commit.epoch();
        assert!(labelled("a").put(&cluster).is_some());
        let before = epoch();
        assert!(labelled("a").put(&cluster).is_none());
        assert_eq!(epoch(), before);
        assert!(labelled("b").put(&cluster).is_some());
        assert_eq!(epoch(), before + 1);
        let key = (Symbol::new(""), "ns".into());
        assert!(NamespaceLabels::forget(&cluster, &key).is_some());
        assert!(NamespaceLabels::forget(&cluster, &key).is_none());
        assert_eq!(epoch(), before + 2);
    }
}
