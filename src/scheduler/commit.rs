//! How a decision becomes a reserve.
//!
//! A pod that no rule across nodes is about reserves next to others, if the set of live rules is still that of its
//! evaluation. Any other pod commits alone: it takes in all commits before its own, looks at the chosen node again, and
//! keeps what its plugins reserve before anybody else commits.
//!
//! Does not: choose a node, or try again.
//!
//! Threads: the worker's. Locks: the commit lock, around ledger and Reserve plugins; it is never held over I/O.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::worker::Worker;
use crate::cluster::PodInfo;
use crate::framework::{CycleState, PreFilterRun, Status};
use crate::ids::{ClassId, NodeIdx};
use crate::ledger::ReserveError;
use crate::queue::QueuedPodInfo;

/// What a commit came to.
pub(super) enum Committed {
    /// The room is reserved; what the Reserve plugins say.
    Reserved(Result<(), Status>),
    /// Another worker took the room, or a rule speaks against the node by now.
    Conflict,
    /// The set of live rules changed since the evaluation.
    Stale,
    /// Deleted, bound by somebody else or promised already: nothing is left to do.
    Settled,
}

/// Which classes live rules are about, as of one set of rules.
#[derive(Debug, Default)]
pub(super) struct Ruled {
    as_of: (u64, u64),
    classes: FxHashMap<ClassId, bool>,
}

impl Worker {
    /// Reserves a node for a pod. `epoch` is the commit lock's before the evaluation; `alone`: its lock is held for
    /// writing already.
    pub(super) fn commit(
        &mut self,
        queued: &QueuedPodInfo,
        node: NodeIdx,
        state: &mut CycleState,
        epoch: u64,
        alone: bool,
    ) -> Committed {
        if alone {
            return self.reserve(queued, node, state);
        }
        let commit = Arc::clone(&self.parts.cluster.commit);
        if !queued.profile.spans_nodes(state) && !self.is_ruled(&queued.pod, epoch) {
            let reading = commit.read();
            if reading.epoch() != epoch {
                return Committed::Stale;
            }
            return self.reserve(queued, node, state);
        }
        let writing = commit.write();
        if writing.epoch() != epoch {
            return Committed::Stale;
        }
        if !self.still_fits(queued, node, state) {
            return Committed::Conflict;
        }
        self.reserve(queued, node, state)
    }

    /// Whether a live rule is about the pod.
    fn is_ruled(&mut self, pod: &PodInfo, epoch: u64) -> bool {
        let cluster = &self.parts.cluster;
        let as_of = (epoch, self.view.epochs().domains);
        if self.ruled.as_of != as_of {
            self.ruled.as_of = as_of;
            self.ruled.classes.clear();
        }
        *self
            .ruled
            .classes
            .entry(pod.class)
            .or_insert_with(|| cluster.rules.concern(pod, &cluster.namespaces))
    }

    /// Whether the pod fits on the node with all commits so far. What plugins found out anew goes into `state`.
    fn still_fits(&mut self, queued: &QueuedPodInfo, node: NodeIdx, state: &mut CycleState) -> bool {
        let (cluster, profile, pod) = (&self.parts.cluster, &queued.profile, &queued.pod);
        let before = self.view.position();
        self.view.replay(cluster);
        if self.view.position() == before {
            return true;
        }
        if let Some(fits) = self.engine.fits(&self.view, cluster, profile, pod, node) {
            return fits;
        }
        let view = self.view.cluster_view(cluster);
        let Some(info) = view.nodes.get(node) else { return false };
        *state = CycleState::default();
        let open = match profile.run_pre_filter(&view, state, pod) {
            PreFilterRun::Proceed(None) => true,
            PreFilterRun::Proceed(Some(narrowed)) => narrowed.nodes.contains(&info.name),
            PreFilterRun::Rejected { .. } | PreFilterRun::Failed(_) => false,
        };
        open && profile.run_filter_with_nominated(&view, state, pod, info).is_success()
    }

    fn reserve(&self, queued: &QueuedPodInfo, node: NodeIdx, state: &mut CycleState) -> Committed {
        let Some(info) = self.view.nodes().get(node) else {
            return Committed::Conflict;
        };
        let checks = queued.profile.reserve_checks(&queued.pod);
        let ledger = &self.parts.cluster.ledger;
        match ledger.reserve(&queued.pod.charge, &checks, node, info.incarnation) {
            Ok(_) => {
                let view = self.view.cluster_view(&self.parts.cluster);
                Committed::Reserved(queued.profile.run_reserve(&view, state, &queued.pod, info))
            }
            Err(ReserveError::Conflict(_) | ReserveError::NodeGone) => Committed::Conflict,
            Err(ReserveError::AlreadyPromised | ReserveError::Overtaken) => Committed::Settled,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "demo")]
mod tests;
