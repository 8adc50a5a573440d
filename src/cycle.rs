//! The scheduling cycle: from a popped pod to a reserved node.
//!
//! Workers, which `scheduler` runs, share the queue and the ledger; each has a view and an engine of its own, brought up
//! to date from the change log before every decision. A decision comes from the incremental engine where all plugins of the profile declare node-local
//! reads, and from a full evaluation otherwise; both call the same plugins.
//!
//! Does not: perform I/O, reserve or loop; a clock is read for metrics alone.
//!
//! Threads: a view and an engine belong to one worker. Cost a pod: of a class seen before, a
//! few microseconds plus one evaluation a changed node; of a new class, one evaluation a node.
//!
//! Children in reading order: `recent`, `view` (nodes as of now), `full` (evaluation from scratch), `engine` (incremental),
//! `decide` (one decision).

mod decide;
mod engine;
pub mod full;
mod recent;
mod view;

pub use decide::{Decision, decide};
pub use engine::{Engine, EngineStats};
pub use recent::Recent;
pub use view::{Epochs, Move, View};
