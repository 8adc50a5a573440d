//! The scheduling framework: what a plugin author reads.
//!
//! A plugin implements [`Plugin`] and, for each extension point it takes part in, that point's trait; it hands them out
//! through the accessors of [`Plugin`]. A [`Registry`] makes plugins by name from a profile's configuration; a
//! [`Profile`] holds the plugins of one `schedulerName` in order and runs them. One definition of a plugin serves the
//! full evaluation and the incremental engine alike: what a plugin [reads](Reads) says when its answers for a node stay
//! valid.
//!
//! Does not: read the API server or other modules' locks, nor a clock but for metrics. Outcomes are values
//! ([`Status`]), what is to be written is returned as a request that `binding` performs.
//!
//! Threads: every method may be called from several workers at once. A plugin owns its state and its locking.
//!
//! Children in reading order: `status`, `state`, `events`, `plugin` (the traits), `handle`, `registry`, `profile`,
//! `observe` (metrics), `runner`.

mod events;
mod handle;
mod observe;
mod plugin;
mod pre_bind;
mod profile;
mod registry;
mod runner;
mod state;
mod status;
mod wide;

pub use events::{
    ActionType, ClusterEvent, EventHint, EventObject, EventResource, HintFn, QueueingHint, RegisteredEvent,
};
pub use handle::{Activate, Evict, Eviction, Handle, WaitingPods};
pub use observe::Observer;
pub(crate) use observe::Reached;
pub(crate) use observe::Stopwatch;
pub use plugin::{
    ApiRequest, Bind, BindOutcome, DomainCounts, DomainKey, Filter, LabelsRead, NodeStatuses, NominatedNode,
    NormalizeScore, Permit, Plugin, PostBind, PostFilter, PostFilterResult, PreBind, PreEnqueue, PreFilter,
    PreFilterExtensions, PreFilterOutcome, PreScore, Preemption, QueueSort, Reads, Reserve, Score, SortKey,
};
pub use pre_bind::{PreBindAction, PreBindFailure, PreBindWork, VolumeRequest};
pub use profile::{EXTENDER, Profile, ProfileError, ProfileFault, Profiles, ScorePlugin};
pub use registry::{Factory, PluginContext, PluginError, Registry};
pub use runner::{Diagnosis, FitError, MAX_PERMIT_WAIT, Narrowed, PermitRun, PluginScores, PreFilterRun, ScoreRun};
pub(crate) use runner::{check_range, score_error};
pub use state::{CycleState, StateData};
pub use status::{Code, Reason, Status};
