//! The locks of this crate, under one name, so that a model checker can take their place.
//!
//! Does not: add behaviour. Locks do not poison: a panic in a plugin is caught per cycle and must not stop others.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
