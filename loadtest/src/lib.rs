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
//! | [`schedulers`] | Supercargo's binary and kube-scheduler as processes |
//! | [`target`] | the API server of a run: embedded or real |
//! | [`workload`], [`populate`] | objects of a workload, and creating them over many connections |
//! | [`podwatch`], [`events`] | who got a node and when; what Events were written |
//! | [`bare`] | bindings as fast as the server takes them |
//! | [`preemption`], [`scrape`] | evictions: the same writes bare, and how fast they were decided |
//! | [`endstate`] | lost pods and overcommitted nodes, from the API server's own state |
//! | [`measure`], [`compare`], [`report`] | one run; three in turn; figures |
//! | [`differential`] | random decisions of a running kube-scheduler against ours |
//! | [`parity`] | recorded decisions of kube-scheduler against ours |
//! | [`cli`] | the command line |
//! | [`tools`] | helm and kubectl |
//! | [`e2e`] | scheduling behaviour end to end, on both API servers |
//!
//! Does not: decide anything about scheduling.

pub mod bare;
pub mod cli;
pub mod client;
pub mod compare;
pub mod controlplane;
pub mod differential;
pub mod e2e;
pub mod endstate;
pub mod events;
pub mod measure;
pub mod parity;
pub mod podwatch;
pub mod populate;
pub mod preemption;
pub mod process;
pub mod report;
pub mod schedulers;
pub mod scrape;
pub mod target;
pub mod tools;
pub mod workload;
