//! What benches of decisions start from: a cluster, the default plugins, and one pod after the other.

use std::sync::Arc;

use supercargo::cluster::{Cluster, LabelVisibility, NodeSpec, PodInfo, Publisher};
use supercargo::cycle::{Decision, Engine, View, decide};
use supercargo::framework::Profile;
use supercargo::ids::{PodUid, Symbol};
use supercargo::ledger::Charge;
use supercargo::testing::{NodeBuilder, PodBuilder, default_profile, node};

/// A cluster with one worker's view of it.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) profile: Arc<Profile>,
    pub(crate) view: View,
    engine: Engine,
    template: Arc<PodInfo>,
    pods: u64,
}

/// Node `number`: 4 CPUs, 32 GiB and room for 110 pods.
pub(crate) fn bench_node(number: usize) -> NodeBuilder {
    node(&format!("bench-{number}")).cpu(4000).memory_gi(32).pods(110)
}

impl Scene {
    /// A cluster that `fill` has filled; pods to come are like `template`.
    pub(crate) fn new(template: &PodBuilder, fill: impl FnOnce(&Cluster)) -> Self {
        let labels = LabelVisibility::Keys(Default::default());
        let cluster = Cluster::new([Symbol::new("default-scheduler")], labels);
        fill(&cluster);
        cluster.publish(&mut Publisher::default());
        let template = template.build_in(&cluster.classes);
        let view = View::new(&cluster);
        Self {
            cluster,
            profile: default_profile(),
            view,
            engine: Engine::default(),
            template,
            pods: 0,
        }
    }

    /// How many pods came so far.
    pub(crate) const fn pods(&self) -> u64 {
        self.pods
    }

    /// The next pod.
    pub(crate) fn next_pod(&mut self) -> Arc<PodInfo> {
        self.pods += 1;
        let uid = PodUid(u128::from(self.pods));
        let charge = Arc::new(Charge {
            uid,
            ..Charge::clone(&self.template.charge)
        });
        Arc::new(PodInfo {
            uid,
            charge,
            ..PodInfo::clone(&self.template)
        })
    }

    /// Decides about a pod on what the log tells by now.
    pub(crate) fn decide(&mut self, pod: &Arc<PodInfo>, random: u64) -> Decision {
        self.view.replay(&self.cluster);
        decide(&self.view, &mut self.engine, &self.cluster, &self.profile, pod, random)
    }
}

/// Adds a node to a cluster.
pub(crate) fn add_node(cluster: &Cluster, node: &NodeBuilder) {
    cluster.apply_node(NodeSpec::clone(&node.build()));
}
