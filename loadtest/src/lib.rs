//! The load tester of Supercargo: real and embedded control planes, workloads over the wire, rates, comparison with
//! kube-scheduler, and the end-to-end suites.
//!
//! Scheduler, API server and load generator are separate processes; this library is the load generator and starts the
//! others. Reading order:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`process`] | child processes that never outlive the harness, ports, `/proc` |
//! | [`client`] | a small HTTP/1.1 client: bytes in, bytes out |
//! | [`controlplane`] | etcd, kube-apiserver and the rest, built from pinned Go modules |
//!
//! Does not: decide anything about scheduling.

pub mod client;
pub mod controlplane;
pub mod process;
