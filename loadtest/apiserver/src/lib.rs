//! An embedded Kubernetes API server, with the things a load test needs around it.
//!
//! Reading order: [`store`] (objects, versions, rules), [`server`] (HTTP), [`faults`] (what goes wrong on demand),
//! [`hollow`] (nodes that run bound pods), [`workload`] (nodes and pods by name and seed), [`check`] (what must hold at
//! the end of a run), [`contract`] (API semantics as tests for any server).
//!
//! Does not: depend on the scheduler; persist anything; enforce RBAC.

pub mod check;
pub mod contract;
pub mod error;
pub mod faults;
pub mod hollow;
mod meta;
pub mod server;
pub mod store;
pub mod workload;

pub use error::ApiError;
pub use server::{Server, ServerConfig, ServerHandle};
