//! The locks of this crate, under one name, so that a model checker can take their place.
//!
//! Most modules use the locks re-exported here. The few structures whose races are proved by a model checker (ledger,
//! change log, commit lock) are generic over [`primitives::Primitives`] instead, so that the checker runs the very
//! code that ships, in a plain `cargo test`, with no special build.
//!
//! Does not: add behaviour. Locks do not poison: a panic in a plugin is caught per cycle and must not stop others.

#[cfg(test)]
pub(crate) mod model;
mod native;
pub mod primitives;

pub use native::Native;
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
