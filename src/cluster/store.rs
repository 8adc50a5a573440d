//! The store of objects: every pod and node that we know of, and the one way in which they change.
//!
//! Writers: one task applies what the watches deliver ([`Cluster::apply_pod`], [`Cluster::apply_node`] and their
//! kin); the publisher ([`Cluster::publish`]) makes snapshots. Readers: anybody, at any time.
//!
//! What a change means for use goes through the ledger, which tells the change log; what it means for pending pods is
//! returned as a [`PodChange`] or [`NodeChange`] for the queue.
//!
//! Does not: watch, queue or decide.

mod budgets;
mod nodes;
mod nominees;
mod pods;
mod publish;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::cluster::{
    Budget, ChangeLog, ClassTable, Images, LabelVisibility, Namespaces, Network, NetworkLevels, NodeSpec, ObjectText,
    Owners, PodInfo, PodLister, Rules, Snapshot, VolumeCatalogue,
};
use crate::ids::{DomainIdx, Incarnation, NodeIdx, PodUid, Symbol};
use crate::ledger::{CommitLock, Ledger};
use crate::sync::Mutex;

pub use budgets::BudgetKey;
pub use nodes::NodeChange;
pub use pods::{PodChange, PodChanges};
pub use publish::Publisher;

/// A node object and its slot.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    /// Its name.
    pub name: Symbol,
    /// Which tenant of the slot it is.
    pub incarnation: Incarnation,
    /// Where it lies in the network.
    pub place: DomainIdx,
    /// The object.
    pub spec: Arc<NodeSpec>,
}

/// Images and, while nothing changed, the copy that readers share.
#[derive(Debug, Default)]
struct SharedImages {
    images: Images,
    shared: Option<Arc<Images>>,
}

/// All that we know of the cluster.
pub struct Cluster {
    /// What is used and promised.
    pub ledger: Arc<Ledger>,
    /// What changed.
    pub log: Arc<ChangeLog>,
    /// Classes of pods.
    pub classes: ClassTable,
    /// How commits that rules across nodes are about see each other.
    pub commit: Arc<CommitLock>,
    /// Live rules that bind others.
    pub rules: Rules,
    /// Labels of namespaces.
    pub namespaces: Namespaces,
    /// Services and controllers.
    pub owners: Owners,
    /// Claims, volumes, StorageClasses and CSI objects.
    pub volumes: VolumeCatalogue,
    /// The tree, latencies and AppGroups.
    pub network: Network,
    scheduler_names: FxHashSet<Symbol>,
    slots: Mutex<nodes::Slots>,
    records: DashMap<NodeIdx, NodeRecord, FxBuildHasher>,
    pods: DashMap<PodUid, Arc<PodInfo>, FxBuildHasher>,
    uids: DashMap<(Symbol, Box<str>), PodUid, FxBuildHasher>,
    nominees: nominees::Nominees,
    images: Mutex<SharedImages>,
    budgets: Mutex<BTreeMap<BudgetKey, Arc<Budget>>>,
    node_texts: DashMap<Symbol, Arc<ObjectText>, FxBuildHasher>,
    snapshot: ArcSwap<Snapshot>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("nodes", &self.records.len())
            .field("pods", &self.pods.len())
            .finish()
    }
}

impl Cluster {
    /// An empty cluster. Pending pods of these `schedulerName`s are ours.
    #[must_use]
    pub fn new(scheduler_names: impl IntoIterator<Item = Symbol>, labels: LabelVisibility) -> Self {
        let log = ChangeLog::new();
        let sink: Arc<dyn crate::ledger::ChangeSink> = Arc::<ChangeLog>::clone(&log);
        Self {
            volumes: VolumeCatalogue::new(Arc::clone(&sink)),
            network: Network::new(NetworkLevels::default(), Arc::clone(&sink)),
            ledger: Arc::new(Ledger::new(sink)),
            log,
            classes: ClassTable::new(labels),
            commit: Arc::new(CommitLock::new()),
            rules: Rules::default(),
            namespaces: Namespaces::default(),
            owners: Owners::default(),
            scheduler_names: scheduler_names.into_iter().collect(),
            slots: Mutex::default(),
            records: DashMap::default(),
            pods: DashMap::default(),
            uids: DashMap::default(),
            nominees: nominees::Nominees::default(),
            images: Mutex::default(),
            budgets: Mutex::default(),
            node_texts: DashMap::default(),
            snapshot: ArcSwap::default(),
        }
    }

    /// The newest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// A pod as last seen.
    #[must_use]
    pub fn pod(&self, uid: PodUid) -> Option<Arc<PodInfo>> {
        self.pods.get(&uid).map(|pod| Arc::clone(&pod))
    }

    /// All pods, in no order.
    #[must_use]
    pub fn pods(&self) -> Vec<Arc<PodInfo>> {
        self.pods.iter().map(|pod| Arc::clone(&pod)).collect()
    }

    /// Number of pods known.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Number of nodes known.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.records.len()
    }

    /// The node in a slot.
    #[must_use]
    pub fn node(&self, idx: NodeIdx) -> Option<NodeRecord> {
        self.records.get(&idx).map(|record| record.clone())
    }

    /// Images over all nodes, as of now.
    #[must_use]
    pub fn images(&self) -> Arc<Images> {
        let mut guard = self.images.lock();
        let SharedImages { images, shared } = &mut *guard;
        Arc::clone(shared.get_or_insert_with(|| Arc::new(images.clone())))
    }

    fn is_ours(&self, pod: &PodInfo) -> bool {
        pod.spec
            .scheduler_name
            .is_some_and(|name| self.scheduler_names.contains(&name))
    }
}

impl PodLister for Cluster {
    fn on_node(&self, node: NodeIdx) -> Vec<Arc<PodInfo>> {
        self.ledger
            .charges(node)
            .iter()
            .filter_map(|charge| self.pod(charge.uid))
            .collect()
    }

    fn below(&self, node: NodeIdx, priority: i32, into: &mut Vec<Arc<PodInfo>>) {
        into.clear();
        let uids = self.ledger.pods_below(node, priority);
        into.extend(uids.into_iter().filter_map(|uid| self.pod(uid)));
    }

    fn nominated_node(&self, pod: PodUid) -> Option<NodeIdx> {
        self.ledger.nominated_node(pod)
    }

    fn awaited_node(&self, pod: PodUid) -> Option<NodeIdx> {
        self.ledger.awaited_node(pod)
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        self.budgets.lock().values().map(Arc::clone).collect()
    }

    fn nominated_to(&self, node: NodeIdx) -> Vec<Arc<PodInfo>> {
        self.ledger
            .nominations(node)
            .iter()
            .filter_map(|nomination| self.pod(nomination.charge.uid))
            .collect()
    }
}
