//! What is measured where pods make room for themselves: how fast evictions were decided, and the bare client that makes
//! the same writes.
//!
//! For each pod of the workload a scheduler writes a nomination into its status, for each of three victims a condition
//! and a deletion, and in the end a binding: eight calls. The bare client makes these calls, pod by pod in order, with
//! as many in flight as it is told, and decides nothing.
//!
//! How fast a scheduler decides is taken from its own histogram of PostFilter: runs that nominated a node, over the
//! seconds that they took. How fast pods get their nodes is counted from the first decision that the harness's watch
//! sees (a nomination) to the last binding: a scheduler may well nominate for all pods before it binds the first, and
//! from the first binding on would show a fraction of its work.
//!
//! Does not: choose victims better than a scheduler would; the first three of a node go.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use supercargo_apiserver::workload::{FILLED_NAMESPACE, Plan, VICTIMS_PER_POD};
use tokio::task::JoinSet;

use crate::bare::{Placement, binding};
use crate::client::ApiClient;
use crate::events::total;
use crate::podwatch::Counts;
use crate::populate::persist;
use crate::report::Preemption;
use crate::schedulers::Scheduler;
use crate::scrape::{Observations, observations, page};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";

/// One pod's room: who goes, and where it is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Eviction {
    placement: Placement,
    victims: Vec<Box<str>>,
}

/// The scheduler's PostFilter runs that nominated a node.
///
/// # Errors
/// When its metrics cannot be read.
pub async fn nominations(scheduler: &Scheduler) -> Result<Observations> {
    let page = page(scheduler).await?;
    let labels = [("extension_point", "PostFilter"), ("status", "Success")];
    let family = "scheduler_framework_extension_point_duration_seconds";
    Ok(observations(&page, family, &labels))
}

/// Puts a run's figures together: `placed` pods were there before it.
///
/// # Errors
/// When the remaining pods cannot be counted.
pub async fn measured(
    client: &ApiClient,
    placed: usize,
    counts: &Counts,
    nominations: Option<Observations>,
) -> Result<Preemption> {
    let left = total(client, &format!("/api/v1/namespaces/{FILLED_NAMESPACE}/pods")).await?;
    let engine = nominations.unwrap_or_default();
    let victims = placed.saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
    Ok(Preemption {
        victims,
        victims_in_vain: victims.saturating_sub(counts.bound * VICTIMS_PER_POD),
        nominations: engine.count,
        nominations_per_second: if engine.sum > 0.0 {
            engine.count / engine.sum
        } else {
            0.0
        },
        preemptors_per_second: counts.since_first_decision(),
    })
}

/// Makes all writes for these placements, or for each pod on a node of its own where there are none.
///
/// # Errors
/// When the server refuses one.
pub async fn evict_and_bind(
    client: &ApiClient,
    plan: &Plan,
    placements: Option<&[Placement]>,
    in_flight: usize,
) -> Result<()> {
    let evictions: Arc<[Eviction]> = evictions(plan, placements)?.into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..in_flight.clamp(1, 1_024) {
        let (client, evictions, next) = (client.clone(), Arc::clone(&evictions), Arc::clone(&next));
        workers.spawn(async move {
            while let Some(eviction) = evictions.get(next.fetch_add(1, Ordering::Relaxed)) {
                write(&client, eviction).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done.context("an evicting task failed")??;
    }
    Ok(())
}

fn evictions(plan: &Plan, placements: Option<&[Placement]>) -> Result<Vec<Eviction>> {
    let mut fillers: HashMap<String, Vec<Box<str>>> = HashMap::new();
    for pod in plan.placed() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let on_node = fillers.entry(text(&pod["spec"]["nodeName"])).or_default();
        on_node.push(text(&pod["metadata"]["name"]).into());
    }
    let own = || -> Vec<Placement> {
        let pairs = plan.pods().zip(plan.nodes());
        let text = |value: &Value| -> Box<str> { value.as_str().unwrap_or_default().into() };
        pairs
            .map(|(pod, node)| Placement {
                namespace: text(&pod["metadata"]["namespace"]),
                pod: text(&pod["metadata"]["name"]),
                node: text(&node["metadata"]["name"]),
            })
            .collect()
    };
    let placements = placements.map_or_else(own, <[_]>::to_vec);
    ensure!(!placements.is_empty(), "there is no pod to make room for");
    let eviction = |placement: Placement| {
        let victims = fillers
            .remove(placement.node.as_ref())
            .with_context(|| format!("{} would be the second pod on {}", placement.pod, placement.node))?;
        Ok(Eviction {
            victims: victims.into_iter().take(VICTIMS_PER_POD).collect(),
            placement,
        })
    };
    placements.into_iter().map(eviction).collect()
}

/// The calls for one pod, one after the other.
async fn write(client: &ApiClient, eviction: &Eviction) -> Result<()> {
    let Placement { namespace, pod, node } = &eviction.placement;
    let refused = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    });
    let nominated = json!({"status": {"nominatedNodeName": node, "conditions": [refused]}});
    patch_status(
        client,
        &format!("/api/v1/namespaces/{namespace}/pods/{pod}"),
        &nominated,
    )
    .await?;
    let going = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "bare-client: preempting to accommodate a higher priority pod",
    });
    let going = json!({"status": {"conditions": [going]}});
    for victim in &eviction.victims {
        let path = format!("/api/v1/namespaces/{FILLED_NAMESPACE}/pods/{victim}");
        patch_status(client, &path, &going).await?;
        persist(client, (Method::DELETE, &path, JSON), Bytes::new()).await?;
    }
    let bind = binding(&eviction.placement)?;
    persist(client, (Method::POST, &bind.path, JSON), bind.body)
        .await
        .map(drop)
}

async fn patch_status(client: &ApiClient, pod: &str, patch: &Value) -> Result<()> {
    let path = format!("{pod}/status");
    let body = Bytes::from(patch.to_string());
    persist(client, (Method::PATCH, &path, STRATEGIC), body).await.map(drop)
}

#[cfg(test)]
mod tests {
    use supercargo_apiserver::workload::{Workload, WorkloadParams, generate};

    use super::*;

    #[test]
    fn every_pod_gets_the_room_of_three_on_a_node_of_its_own() {
        let plan = generate(WorkloadParams {
            workload: Workload::Preemption,
            nodes: Some(5),
            pods: Some(2),
            ..WorkloadParams::default()
        })
        .unwrap();
        let found = evictions(&plan, None).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].placement.node.as_ref(), "node-000001");
        let names: Vec<&str> = found[1].victims.iter().map(AsRef::as_ref).collect();
        assert_eq!(names, ["filler-000001-0", "filler-000001-1", "filler-000001-2"]);
        let twice = [found[0].placement.clone(), found[0].placement.clone()];
        assert!(evictions(&plan, Some(&twice)).is_err());
        assert!(evictions(&plan, Some(&[])).is_err());
    }
}
