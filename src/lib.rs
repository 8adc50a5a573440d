//! Supercargo: a Kubernetes scheduler that decides as kube-scheduler decides, much faster.
//!
//! A pod's way: **watch → queue → cycle → ledger (reserve) → binding → API server → watch**. A node's way: **watch →
//! cluster (node objects) and ledger (use) → change log → snapshot → cycle**. Each module imports only from those
//! listed above it:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`ids`], [`resources`], [`clock`], [`sync`], [`invariants`] | small foundations without knowledge of scheduling |
//! | [`telemetry`] | metric names and recorders, traces, latency histograms |
//! | [`client`] | connections to the API server, credentials that change on disk |
//! | [`ledger`] | what is used and promised on every node: the truth of use |
//! | [`topology`] | the network as one tree: domains, links, latencies |
//! | [`cluster`] | what we know of the API server's objects: `NodeInfo`, `PodInfo`, `Snapshot`, `ChangeLog`, watches |
//! | [`framework`] | extension points, `Status`, `CycleState`, registry, profiles: what a plugin author reads |
//! | [`preemption`] | candidates and victims: computes, does not evict |
//! | [`plugins`] | the in-tree plugins, one file each, named as in the configuration |
//! | [`queue`] | active, backoff, unschedulable and gated pods; queueing hints |
//! | [`cycle`] | the scheduling cycle and the incremental engine |
//! | [`extender`] | HTTP extenders: webhooks that filter, score, preempt and bind |
//! | [`binding`] | the async pool that binds, writes conditions and events, and unreserves |
//! | [`server`] | health, metrics, configz |
//! | [`scheduler`] | all of it put together, and the workers |
//! | [`command`] | the command line: `main` of a scheduler, with plugins of one's own where wanted |

pub mod binding;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod cycle;
pub mod extender;
pub mod framework;
pub mod ids;
pub mod invariants;
pub mod ledger;
pub mod plugins;
pub mod preemption;
pub mod queue;
pub mod resources;
pub mod scheduler;
pub mod server;
pub mod sync;
pub mod telemetry;
pub mod testing;
pub mod topology;
