//! The bare client: posts bindings as fast as the API server takes them, with the bound on calls in flight that a
//! scheduler has, and decides nothing.
//!
//! Its rate is what the server allows; a scheduler's rate over it says how much of that the scheduler uses.
//!
//! Does not: write Events, check capacities, or watch (the harness's own watch is open, as it is for schedulers).

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use supercargo_apiserver::check::quantity;
use supercargo_apiserver::workload::Plan;

use crate::client::ApiClient;
use crate::populate::{Item, Pace, create_all};

/// A binding to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The pod's namespace.
    pub namespace: Box<str>,
    /// The pod's name.
    pub pod: Box<str>,
    /// The node.
    pub node: Box<str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

/// Posts all bindings, `in_flight` at a time.
///
/// # Errors
/// When the server refuses one.
pub async fn post_bindings(client: &ApiClient, placements: &[Placement], in_flight: usize) -> Result<()> {
    if placements.is_empty() {
        bail!("there is no binding to post");
    }
    let items = placements.iter().map(binding).collect::<Result<Vec<_>>>()?;
    create_all(client, items, in_flight, Pace::Full).await.map(drop)
}

/// The request that binds a pod.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn binding(placement: &Placement) -> Result<Item> {
    let Placement { namespace, pod, node } = placement;
    let body = Binding {
        api_version: "v1",
        kind: "Binding",
        metadata: Metadata { name: pod, namespace },
        target: Target {
            api_version: "v1",
            kind: "Node",
            name: node,
        },
    };
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/pods/{pod}/binding").into();
    Ok(Item {
        path,
        body: Bytes::from(serde_json::to_vec(&body)?),
    })
}

/// Pods in order of submission on nodes in turn, passing over nodes without room; pods without any node are left out.
///
/// Rules other than room are not looked at: the API server does not either.
#[must_use]
pub fn round_robin(plan: &Plan) -> Vec<Placement> {
    let mut nodes: Vec<(Box<str>, Amounts)> = plan.nodes().map(|node| (name(&node), room(&node))).collect();
    let mut placed = Vec::with_capacity(plan.pod_count());
    let mut next = 0;
    for pod in plan.pods() {
        let wanted = wants(&pod);
        let turn = (next..nodes.len()).chain(0..next);
        let fits = |index: &usize| nodes.get(*index).is_some_and(|(_, left)| holds(left, &wanted));
        let Some(index) = turn.into_iter().find(fits) else {
            continue;
        };
        if let Some((node, left)) = nodes.get_mut(index) {
            for (resource, amount) in &wanted {
                *left.entry(resource.clone()).or_default() -= amount;
            }
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().into();
            placed.push(Placement {
                namespace,
                pod: name(&pod),
                node: node.clone(),
            });
        }
        next = (index + 1) % nodes.len().max(1);
    }
    placed
}

/// Resource names to billionths.
type Amounts = BTreeMap<String, i128>;

fn name(object: &Value) -> Box<str> {
    object["metadata"]["name"].as_str().unwrap_or_default().into()
}

fn holds(left: &Amounts, wanted: &Amounts) -> bool {
    wanted
        .iter()
        .all(|(resource, amount)| left.get(resource).is_some_and(|left| left >= amount))
}

fn room(node: &Value) -> Amounts {
    amounts(&node["status"]["allocatable"])
}

/// The requests of a workload's pod (its containers alone) and its place among the pods.
fn wants(pod: &Value) -> Amounts {
    let mut sum = Amounts::from([("pods".to_owned(), quantity::NANOS)]);
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (resource, amount) in amounts(&container["resources"]["requests"]) {
            *sum.entry(resource).or_default() += amount;
        }
    }
    sum
}

fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(resource, amount)| Some((resource.clone(), quantity::parse_json(amount)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use supercargo_apiserver::workload::{WorkloadParams, generate};

    use super::*;

    #[test]
    fn round_robin_fills_nodes_evenly_and_stops_when_they_are_full() {
        let params = WorkloadParams {
            nodes: Some(2),
            pods: Some(90),
            ..WorkloadParams::default()
        };
        let placed = round_robin(&generate(params).unwrap());
        // 4 CPUs hold 40 pods of 100m.
        assert_eq!(placed.len(), 80);
        let first = placed[0].node.clone();
        assert_eq!(placed.iter().filter(|one| one.node == first).count(), 40);
        assert_ne!(placed[0].node, placed[1].node);
    }

    #[test]
    fn binding_is_what_the_api_takes() {
        let item = binding(&Placement {
            namespace: "a".into(),
            pod: "p".into(),
            node: "n".into(),
        })
        .unwrap();
        assert_eq!(item.path.as_ref(), "/api/v1/namespaces/a/pods/p/binding");
        let body = String::from_utf8(item.body.to_vec()).unwrap();
        assert_eq!(
            body,
            r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","namespace":"a"},"target":{"apiVersion":"v1","kind":"Node","name":"n"}}"#
        );
    }
}
