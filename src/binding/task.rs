//! A pod with its reserved node, on its way to being bound.

use std::time::Duration;

use tracing::Span;

use crate::clock::Nanos;
use crate::framework::CycleState;
use crate::ids::{Incarnation, NodeIdx, Symbol};
use crate::queue::QueuedPodInfo;

/// What a worker hands over.
#[derive(Debug)]
pub struct BindTask {
    /// The pod, with its profile.
    pub queued: QueuedPodInfo,
    /// What the plugins remember.
    pub state: CycleState,
    /// The node's name.
    pub node: Symbol,
    /// Its slot.
    pub node_idx: NodeIdx,
    /// Which tenant of the slot was chosen: a bind to any other would be to another node.
    pub incarnation: Incarnation,
    /// When the cycle began.
    pub started: Nanos,
    /// Plugins that hold the pod back, and for how long at most.
    pub waits: Vec<(Symbol, Duration)>,
    /// The cycle's trace span; disabled when it is not sampled.
    pub span: Span,
}
