//! All volume objects, by name and by what they are looked for.
//!
//! Threads: any. One thread writes what the watches deliver; promises come from any. A look-up takes one shard's read
//! lock and copies an `Arc`; no two locks are held at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::cluster::volumes::slot::Slot;
use crate::cluster::volumes::{
    AssumeError, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment, VolumeKey, VolumeKind, VolumeObject,
};
use crate::ids::Symbol;
use crate::ledger::{Change, ChangeKind, ChangeSink};

type Map<K, V> = DashMap<K, V, FxBuildHasher>;
type ByName<V> = FxHashMap<Box<str>, V>;

/// A namespace, of kinds that have one, and a name.
type FullName = (Option<Symbol>, Box<str>);

/// Objects that are looked for by something that they say, and removed by name.
struct Listed<T> {
    all: Map<FullName, Arc<T>>,
    by: Map<Symbol, BTreeMap<FullName, Arc<T>>>,
    of: fn(&T) -> Symbol,
}

impl<T> Listed<T> {
    fn new(of: fn(&T) -> Symbol) -> Self {
        Self {
            all: Map::default(),
            by: Map::default(),
            of,
        }
    }

    fn put(&self, name: FullName, object: Arc<T>) -> Option<Arc<T>> {
        let former = self.take(&name);
        let at = (self.of)(&object);
        self.by.entry(at).or_default().insert(name.clone(), Arc::clone(&object));
        self.all.insert(name, object);
        former
    }

    fn take(&self, name: &FullName) -> Option<Arc<T>> {
        let (_, object) = self.all.remove(name)?;
        let at = (self.of)(&object);
        if let Some(mut objects) = self.by.get_mut(&at) {
            objects.remove(name);
        }
        self.by.remove_if(&at, |_, objects| objects.is_empty());
        Some(object)
    }

    fn list(&self, at: Symbol) -> Vec<Arc<T>> {
        self.by
            .get(&at)
            .map(|objects| objects.values().map(Arc::clone).collect())
            .unwrap_or_default()
    }

    fn names(&self) -> Vec<FullName> {
        self.all.iter().map(|object| object.key().clone()).collect()
    }
}

struct Tables {
    volumes: Map<Box<str>, Slot<PersistentVolume>>,
    /// Volumes' names by their class; `None`: of no class.
    by_class: Map<Option<Symbol>, FxHashSet<Arc<str>>>,
    claims: Map<Symbol, ByName<Slot<PersistentVolumeClaim>>>,
    classes: Map<Symbol, Arc<StorageClass>>,
    csi_nodes: Map<Symbol, Arc<CsiNode>>,
    csi_drivers: Map<Symbol, Arc<CsiDriver>>,
    capacities: Listed<CsiStorageCapacity>,
    attachments: Listed<VolumeAttachment>,
    epoch: AtomicU64,
    sink: Option<Arc<dyn ChangeSink>>,
}

/// The volume objects. A copy is another handle to the same.
#[derive(Clone)]
pub struct VolumeCatalogue {
    tables: Arc<Tables>,
}

impl Default for VolumeCatalogue {
    fn default() -> Self {
        Self::with(None)
    }
}

impl fmt::Debug for VolumeCatalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeCatalogue")
            .field("volumes", &self.tables.volumes.len())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

impl VolumeCatalogue {
    /// An empty catalogue that tells `sink` of every change.
    #[must_use]
    pub fn new(sink: Arc<dyn ChangeSink>) -> Self {
        Self::with(Some(sink))
    }

    fn with(sink: Option<Arc<dyn ChangeSink>>) -> Self {
        Self {
            tables: Arc::new(Tables {
                volumes: Map::default(),
                by_class: Map::default(),
                claims: Map::default(),
                classes: Map::default(),
                csi_nodes: Map::default(),
                csi_drivers: Map::default(),
                capacities: Listed::new(|capacity| capacity.class),
                attachments: Listed::new(|attachment| attachment.node),
                epoch: AtomicU64::new(0),
                sink,
            }),
        }
    }

    /// Moves with every change, promises included.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.tables.epoch.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.tables.epoch.fetch_add(1, Ordering::AcqRel);
        if let Some(sink) = &self.tables.sink {
            sink.append(Change::global(ChangeKind::Volumes));
        }
    }

    /// A PersistentVolume, with what is promised of it.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.tables.volumes.get(name).map(|slot| Arc::clone(slot.current()))
    }

    /// A PersistentVolume as the API server has it.
    #[must_use]
    pub fn seen_volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.tables.volumes.get(name).map(|slot| Arc::clone(slot.seen()))
    }

    /// All PersistentVolumes of a class (`None`: of no class), with what is promised of them, in no order.
    /// O(volumes of the class).
    #[must_use]
    pub fn volumes_of_class(&self, class: Option<Symbol>) -> Vec<Arc<PersistentVolume>> {
        let names: Vec<Arc<str>> = match self.tables.by_class.get(&class) {
            Some(names) => names.iter().map(Arc::clone).collect(),
            None => Vec::new(),
        };
        names.iter().filter_map(|name| self.volume(name)).collect()
    }

    /// A PersistentVolumeClaim, with what is promised of it.
    #[must_use]
    pub fn claim(&self, namespace: Symbol, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let claims = self.tables.claims.get(&namespace)?;
        claims.get(name).map(|slot| Arc::clone(slot.current()))
    }

    /// A PersistentVolumeClaim as the API server has it.
    #[must_use]
    pub fn seen_claim(&self, namespace: Symbol, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let claims = self.tables.claims.get(&namespace)?;
        claims.get(name).map(|slot| Arc::clone(slot.seen()))
    }

    /// A StorageClass.
    #[must_use]
    pub fn storage_class(&self, name: Symbol) -> Option<Arc<StorageClass>> {
        self.tables.classes.get(&name).map(|class| Arc::clone(&class))
    }

    /// A node's CSINode.
    #[must_use]
    pub fn csi_node(&self, node: Symbol) -> Option<Arc<CsiNode>> {
        self.tables.csi_nodes.get(&node).map(|node| Arc::clone(&node))
    }

    /// A CSIDriver.
    #[must_use]
    pub fn csi_driver(&self, name: Symbol) -> Option<Arc<CsiDriver>> {
        self.tables.csi_drivers.get(&name).map(|driver| Arc::clone(&driver))
    }

    /// The CSIStorageCapacities of a class, by namespace and name.
    #[must_use]
    pub fn capacities(&self, class: Symbol) -> Vec<Arc<CsiStorageCapacity>> {
        self.tables.capacities.list(class)
    }

    /// The VolumeAttachments of a node, by name.
    #[must_use]
    pub fn attachments(&self, node: Symbol) -> Vec<Arc<VolumeAttachment>> {
        self.tables.attachments.list(node)
    }

    /// Takes in what a watch says of an object; the object that it replaces is returned.
    pub fn apply(&self, object: VolumeObject) -> Option<VolumeObject> {
        let tables = &self.tables;
        let VolumeKey { namespace, name, .. } = object.key();
        let former = match object {
            VolumeObject::Volume(it) => self.apply_volume(it).map(VolumeObject::Volume),
            VolumeObject::Claim(it) => self.apply_claim(it).map(VolumeObject::Claim),
            VolumeObject::Class(it) => tables.classes.insert(it.name, it).map(VolumeObject::Class),
            VolumeObject::CsiNode(it) => tables.csi_nodes.insert(it.name, it).map(VolumeObject::CsiNode),
            VolumeObject::CsiDriver(it) => tables.csi_drivers.insert(it.name, it).map(VolumeObject::CsiDriver),
            VolumeObject::Capacity(it) => tables.capacities.put((namespace, name), it).map(VolumeObject::Capacity),
            VolumeObject::Attachment(it) => tables
                .attachments
                .put((namespace, name), it)
                .map(VolumeObject::Attachment),
        };
        self.changed();
        former
    }

    fn apply_volume(&self, volume: Arc<PersistentVolume>) -> Option<Arc<PersistentVolume>> {
        let (name, class) = (volume.name.clone(), volume.class);
        let former = match self.tables.volumes.entry(name.clone()) {
            dashmap::Entry::Occupied(mut slot) => Some(slot.get_mut().see(volume)),
            dashmap::Entry::Vacant(place) => {
                place.insert(Slot::new(volume));
                None
            }
        };
        if let Some(former) = former.as_ref().filter(|former| former.class != class) {
            self.forget_class(former);
        }
        self.tables.by_class.entry(class).or_default().insert(name.into());
        former
    }

    fn forget_class(&self, volume: &PersistentVolume) {
        if let Some(mut names) = self.tables.by_class.get_mut(&volume.class) {
            names.remove(&*volume.name);
        }
        self.tables
            .by_class
            .remove_if(&volume.class, |_, names| names.is_empty());
    }

    fn apply_claim(&self, claim: Arc<PersistentVolumeClaim>) -> Option<Arc<PersistentVolumeClaim>> {
        let mut claims = self.tables.claims.entry(claim.namespace).or_default();
        if let Some(slot) = claims.get_mut(&claim.name) {
            return Some(slot.see(claim));
        }
        claims.insert(claim.name.clone(), Slot::new(claim));
        None
    }

    /// Notes that an object is gone, and gives it back; what was promised of it is void.
    pub fn remove(&self, key: &VolumeKey) -> Option<VolumeObject> {
        let tables = &self.tables;
        let symbol = || Symbol::find(&key.name);
        let full_name = || (key.namespace, key.name.clone());
        let removed = match key.kind {
            VolumeKind::Volume => {
                let (_, slot) = tables.volumes.remove(&key.name)?;
                self.forget_class(slot.seen());
                VolumeObject::Volume(Arc::clone(slot.seen()))
            }
            VolumeKind::Claim => VolumeObject::Claim(self.remove_claim(key.namespace?, &key.name)?),
            VolumeKind::Class => VolumeObject::Class(tables.classes.remove(&symbol()?)?.1),
            VolumeKind::CsiNode => VolumeObject::CsiNode(tables.csi_nodes.remove(&symbol()?)?.1),
            VolumeKind::CsiDriver => VolumeObject::CsiDriver(tables.csi_drivers.remove(&symbol()?)?.1),
            VolumeKind::Capacity => VolumeObject::Capacity(tables.capacities.take(&full_name())?),
            VolumeKind::Attachment => VolumeObject::Attachment(tables.attachments.take(&full_name())?),
        };
        self.changed();
        Some(removed)
    }

    fn remove_claim(&self, namespace: Symbol, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let slot = self.tables.claims.get_mut(&namespace)?.remove(name)?;
        self.tables.claims.remove_if(&namespace, |_, claims| claims.is_empty());
        Some(Arc::clone(slot.seen()))
    }

    /// The objects of a kind, in no order.
    #[must_use]
    pub fn keys(&self, kind: VolumeKind) -> Vec<VolumeKey> {
        fn symbols<T>(map: &Map<Symbol, Arc<T>>) -> Vec<FullName> {
            map.iter().map(|object| (None, object.key().as_str().into())).collect()
        }
        let tables = &self.tables;
        let names = match kind {
            VolumeKind::Volume => tables.volumes.iter().map(|slot| (None, slot.key().clone())).collect(),
            VolumeKind::Claim => {
                let mut names = Vec::new();
                for claims in &tables.claims {
                    names.extend(claims.keys().map(|name| (Some(*claims.key()), name.clone())));
                }
                names
            }
            VolumeKind::Class => symbols(&tables.classes),
            VolumeKind::CsiNode => symbols(&tables.csi_nodes),
            VolumeKind::CsiDriver => symbols(&tables.csi_drivers),
            VolumeKind::Capacity => tables.capacities.names(),
            VolumeKind::Attachment => tables.attachments.names(),
        };
        let key = |(namespace, name)| VolumeKey { kind, namespace, name };
        names.into_iter().map(key).collect()
    }

    /// Promises that a volume will become `after`; the promise is given back, for [`Self::restore_volume`].
    ///
    /// # Errors
    /// `before` is not how the volume stands any more.
    pub fn assume_volume(
        &self,
        before: &Arc<PersistentVolume>,
        after: PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, AssumeError> {
        let promise = Arc::new(after);
        let is_current = {
            let Some(mut slot) = self.tables.volumes.get_mut(&before.name) else {
                return Err(AssumeError::Gone(before.name.to_string()));
            };
            slot.assume(before, &promise)
        };
        if !is_current {
            return Err(AssumeError::Changed(before.name.to_string()));
        }
        self.changed();
        Ok(promise)
    }

    /// Takes a promise back, if it still stands.
    pub fn restore_volume(&self, promise: &Arc<PersistentVolume>) {
        let restored = self
            .tables
            .volumes
            .get_mut(&promise.name)
            .is_some_and(|mut slot| slot.restore(promise));
        if restored {
            self.changed();
        }
    }

    /// Promises that a claim will become `after`; the promise is given back, for [`Self::restore_claim`].
    ///
    /// # Errors
    /// `before` is not how the claim stands any more.
    pub fn assume_claim(
        &self,
        before: &Arc<PersistentVolumeClaim>,
        after: PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolumeClaim>, AssumeError> {
        let promise = Arc::new(after);
        let is_current = {
            let claims = self.tables.claims.get_mut(&before.namespace);
            let assumed = claims.and_then(|mut claims| {
                let slot = claims.get_mut(&before.name)?;
                Some(slot.assume(before, &promise))
            });
            assumed.ok_or_else(|| AssumeError::Gone(before.full_name()))?
        };
        if !is_current {
            return Err(AssumeError::Changed(before.full_name()));
        }
        self.changed();
        Ok(promise)
    }

    /// Takes a promise back, if it still stands.
    pub fn restore_claim(&self, promise: &Arc<PersistentVolumeClaim>) {
        let restored = self
            .tables
            .claims
            .get_mut(&promise.namespace)
            .is_some_and(|mut claims| {
                let slot = claims.get_mut(&promise.name);
                slot.is_some_and(|slot| slot.restore(promise))
            });
        if restored {
            self.changed();
        }
    }
}

#[cfg(test)]
mod tests;
