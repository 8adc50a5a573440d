//! A small cluster that stands still: what a cycle needs to be run on, without watches, ledger or queue.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::{
    Budget, ClusterView, Images, Namespaces, Network, NetworkLevels, NetworkView, NodeInfo, NodeSpec, NodeTable,
    Owners, Placed, PodClass, PodInfo, PodLister, VolumeCatalogue, VolumeObject,
};
use crate::ids::{Incarnation, NodeIdx, Symbol};
use crate::ledger::{Change, ChangeSink, Ledger, NodeUse};
use crate::testing::CLASSES;

/// Nodes, the pods on them, nominated pods, budgets and volume objects. A clone shares the volume objects
/// and the network.
#[derive(Clone, Debug)]
pub struct World {
    nodes: NodeTable,
    images: Images,
    pods: Pods,
    placed: Placed,
    namespaces: Arc<Namespaces>,
    owners: Arc<Owners>,
    volumes: VolumeCatalogue,
    ledger: Arc<Ledger>,
    network: Arc<Network>,
    network_view: NetworkView,
}

/// A log that nobody reads.
#[derive(Debug)]
struct NoLog;

impl ChangeSink for NoLog {
    fn append(&self, _: Change) -> u64 {
        0
    }
}

impl Default for World {
    fn default() -> Self {
        let sink: Arc<dyn ChangeSink> = Arc::new(NoLog);
        let network = Network::new(NetworkLevels::default(), Arc::clone(&sink));
        Self {
            nodes: NodeTable::default(),
            images: Images::default(),
            pods: Pods::default(),
            placed: Placed::default(),
            namespaces: Arc::default(),
            owners: Arc::default(),
            volumes: VolumeCatalogue::default(),
            ledger: Arc::new(Ledger::new(sink)),
            network: Arc::new(network),
            network_view: NetworkView::default(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Pods {
    on_node: FxHashMap<NodeIdx, Vec<Arc<PodInfo>>>,
    nominated: FxHashMap<NodeIdx, Vec<Arc<PodInfo>>>,
    budgets: Vec<Arc<Budget>>,
}

impl PodLister for Pods {
    fn on_node(&self, node: NodeIdx) -> Vec<Arc<PodInfo>> {
        self.on_node.get(&node).cloned().unwrap_or_default()
    }

    fn nominated_to(&self, node: NodeIdx) -> Vec<Arc<PodInfo>> {
        self.nominated.get(&node).cloned().unwrap_or_default()
    }

    fn budgets(&self) -> Vec<Arc<Budget>> {
        self.budgets.clone()
    }
}

impl World {
    /// Adds a node. A node of the same name is replaced and loses its pods.
    ///
    /// # Panics
    /// The node has no name, or there are 2^32 of them.
    pub fn add_node(&mut self, spec: Arc<NodeSpec>) -> NodeIdx {
        let Some(name) = spec.name else {
            panic!("a node without a name")
        };
        let next = || u32::try_from(self.nodes.slot_count()).map(NodeIdx);
        let Ok(idx) = self.nodes.find(name).map_or_else(next, Ok) else {
            panic!("too many nodes")
        };
        if let Some(before) = self.nodes.remove(idx) {
            self.images.remove_node(&before.spec);
            for pod in self.pods.on_node.remove(&idx).unwrap_or_default() {
                self.placed.add(pod.class, idx, -1, || None);
            }
        }
        self.images.add_node(&spec);
        let incarnation = Incarnation(u64::from(idx.0) + 1);
        self.nodes.insert(NodeInfo {
            idx,
            name,
            incarnation,
            place: self.network.place_of(&spec),
            spec,
            used: NodeUse {
                incarnation,
                live: true,
                ..Default::default()
            },
        });
        self.network_view.refresh(&self.network);
        idx
    }

    /// Adds a pod: to the node it is bound to, else to those nominated to its node. A pod that has ended, that is
    /// neither, or whose node is not there, changes nothing; false says so.
    pub fn add_pod(&mut self, pod: &Arc<PodInfo>) -> bool {
        match (pod.terminal, pod.bound_to, pod.nominated_node) {
            (true, ..) | (_, None, None) => false,
            (_, Some(node), _) => self.assume(pod, node),
            (_, None, Some(node)) => self.nominate(pod, node),
        }
    }

    /// Counts a pod on a node.
    pub fn assume(&mut self, pod: &Arc<PodInfo>, node: Symbol) -> bool {
        let Some(idx) = self.nodes.find(node) else { return false };
        let Some(info) = self.nodes.get_mut(idx) else {
            return false;
        };
        info.used.add(&pod.charge);
        info.used.version += 1;
        self.placed.add(pod.class, idx, 1, || Some(class_of(pod)));
        self.pods.on_node.entry(idx).or_default().push(Arc::clone(pod));
        true
    }

    /// Takes a pod off a node.
    pub fn remove(&mut self, pod: &Arc<PodInfo>, node: Symbol) -> bool {
        let Some(idx) = self.nodes.find(node) else { return false };
        let pods = self.pods.on_node.entry(idx).or_default();
        let (Some(at), Some(info)) = (pods.iter().position(|p| p.uid == pod.uid), self.nodes.get_mut(idx)) else {
            return false;
        };
        pods.remove(at);
        info.used.remove(&pod.charge);
        info.used.version += 1;
        self.placed.add(pod.class, idx, -1, || None);
        true
    }

    /// Nominates a pod to a node.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Symbol) -> bool {
        let Some(idx) = self.nodes.find(node) else { return false };
        let Some(info) = self.nodes.get_mut(idx) else {
            return false;
        };
        info.used.nominated += 1;
        self.pods.nominated.entry(idx).or_default().push(Arc::clone(pod));
        true
    }

    /// Adds a budget.
    pub fn add_budget(&mut self, budget: Budget) {
        self.pods.budgets.push(Arc::new(budget));
    }

    /// The namespaces, to be filled.
    #[must_use]
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Services and controllers, to be filled.
    #[must_use]
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Adds or changes a volume object.
    pub fn add_volume_object(&self, object: VolumeObject) {
        self.volumes.apply(object);
    }

    /// The volume objects.
    #[must_use]
    pub const fn volumes(&self) -> &VolumeCatalogue {
        &self.volumes
    }

    /// Links and pools, to be filled; [`Self::refresh_network`] shows what has changed.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The tree, latencies and AppGroups, to be filled; [`Self::refresh_network`] shows what has changed.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Takes in what has become of the network.
    pub fn refresh_network(&mut self) {
        self.network_view.refresh(&self.network);
        self.network_view.refresh_links(&self.ledger);
    }

    /// The nodes.
    #[must_use]
    pub const fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The slot of a node.
    #[must_use]
    pub fn idx(&self, name: &str) -> Option<NodeIdx> {
        self.nodes.find(Symbol::find(name)?)
    }

    /// What plugins see.
    #[must_use]
    pub fn view(&self) -> ClusterView<'_> {
        ClusterView {
            nodes: &self.nodes,
            images: &self.images,
            pods: &self.pods,
            placed: &self.placed,
            classes: &CLASSES,
            namespaces: &self.namespaces,
            owners: &self.owners,
            volumes: &self.volumes,
            network: &self.network_view,
            apps: &self.network,
            ledger: &self.ledger,
        }
    }
}

/// A pod's class; all of its labels count as visible.
fn class_of(pod: &PodInfo) -> Arc<PodClass> {
    Arc::new(PodClass {
        id: pod.class,
        namespace: pod.namespace,
        labels: pod.labels.clone(),
        spec: Arc::clone(&pod.spec),
        terminating: pod.terminating,
    })
}
