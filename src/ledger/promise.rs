//! Promises: where each pod is counted and whether that is a plan or a fact. One record a UID; it is the point where
//! calls about one pod are put in order.
//!
//! A call that must touch node entries marks the record *busy*, lets go of it, does its work entry by entry and comes
//! back to settle. A deletion or a sighting on the watch that finds the record busy leaves a *wish* in it and goes on;
//! the busy call fulfils the newest wish before it settles. So nobody waits, and no two calls about one pod touch
//! entries at the same time.
//!
//! Does not: touch entries.

use std::sync::Arc;

use super::charge::Charge;
use super::network::NetworkCharge;
use crate::ids::{Incarnation, NodeIdx};

/// How firm a promise is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PromiseState {
    /// A worker is about to charge the node.
    Reserving,
    /// Charged by us; not seen bound yet.
    Assumed,
    /// Seen bound on the watch.
    Bound,
}

/// Where a pod is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Promise {
    /// How firm it is.
    pub state: PromiseState,
    /// The node.
    pub node: NodeIdx,
    /// The node's incarnation when it was charged; no bind may be sent to any other.
    pub incarnation: Incarnation,
}

#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) promise: Promise,
    pub(super) charge: Arc<Charge>,
    /// What of the network is charged beside the node; `None`: nothing.
    pub(super) network: Option<Arc<NetworkCharge>>,
}

/// What must become of a pod when the call that is at work on it is done.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// It was deleted or has ended.
    Remove,
    /// It was seen bound.
    Confirm { charge: Arc<Charge>, node: NodeIdx },
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) placed: Option<Placed>,
    pub(super) busy: bool,
    pub(super) wish: Option<Box<Wish>>,
}

impl Record {
    /// Of a pod that is counted nowhere; only ever seen under the lock that makes it.
    pub(super) const fn nowhere() -> Self {
        Self {
            placed: None,
            busy: false,
            wish: None,
        }
    }

    pub(super) fn is_assumed(&self) -> bool {
        self.placed
            .as_ref()
            .is_some_and(|placed| placed.promise.state == PromiseState::Assumed)
    }
}
