//! Who has a say about victims beside the trials: extenders.
//!
//! They are asked over the network, which a worker does not wait for. So PostFilter may be run twice: at first the
//! adviser takes down the candidates and says [`Advice::Later`]; once the answers are there the pod is evaluated anew,
//! and the adviser narrows the candidates of the second run by them.
//!
//! Does not: ask anybody; see `extender`.

use std::sync::Arc;

use crate::cluster::{ClusterView, PodInfo};
use crate::framework::{CycleState, Status};
use crate::preemption::Candidate;

/// What becomes of the candidates.
#[derive(Clone, Debug)]
pub enum Advice {
    /// These are left, perhaps with other victims; perhaps none.
    Candidates(Vec<Candidate>),
    /// The answers are not there yet: this run of PostFilter counts for nothing and is repeated.
    Later,
    /// Somebody who must be heard cannot be asked.
    Failed(Status),
}

/// Narrows candidates.
pub trait Advise: Send + Sync {
    /// What is left of `candidates`, which are not empty.
    fn advise(&self, cluster: &ClusterView<'_>, pod: &PodInfo, candidates: Vec<Candidate>) -> Advice;
}

/// The adviser of one cycle, kept in its state before PostFilter runs.
#[derive(Clone)]
pub struct Adviser(pub Arc<dyn Advise>);

impl std::fmt::Debug for Adviser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adviser").finish_non_exhaustive()
    }
}

impl Adviser {
    /// Has the adviser in `state`, if there is one, narrow candidates.
    #[must_use]
    pub fn narrow(state: &CycleState, cluster: &ClusterView<'_>, pod: &PodInfo, candidates: Vec<Candidate>) -> Advice {
        match state.read::<Self>() {
            Some(adviser) if !candidates.is_empty() => adviser.0.advise(cluster, pod, candidates),
            _ => Advice::Candidates(candidates),
        }
    }
}
