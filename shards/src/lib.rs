//! Who schedules what: which of several processes may act.
//!
//! [`leader`] is the simple mode: one process leads, the others keep warm caches and wait.
//!
//! Does not: know pods or nodes. A process asks its [`leader::Fence`] before it writes; nothing else of this crate
//! reaches the scheduling path.

pub mod leader;
