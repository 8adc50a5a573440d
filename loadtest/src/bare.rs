//! The bare client: posts bindings as fast as the API server takes them, with the bound on calls in flight that a
//! scheduler has, and decides nothing.
//!
//! Its rate is what the server allows; a scheduler's rate over it says how much of that the scheduler uses.
//!
//! Does not: write Events, check capacities, or watch (the harness's own watch is open, as it is for schedulers).

use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use serde::Serialize;

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
    let items = placements.iter().map(item).collect::<Result<Vec<_>>>()?;
    create_all(client, items, in_flight, Pace::Full).await.map(drop)
}

fn item(placement: &Placement) -> Result<Item> {
    let Placement { namespace, pod, node } = placement;
    let binding = Binding {
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
        body: Bytes::from(serde_json::to_vec(&binding)?),
    })
}

/// Nodes in turn, each until it holds `per_node` pods; pods that then find no room are left out.
#[must_use]
pub fn round_robin(pods: &[(Box<str>, Box<str>)], nodes: &[Box<str>], per_node: usize) -> Vec<Placement> {
    let slots = nodes.iter().cycle().take(nodes.len().saturating_mul(per_node));
    let place = |((namespace, pod), node): (&(Box<str>, Box<str>), &Box<str>)| Placement {
        namespace: namespace.clone(),
        pod: pod.clone(),
        node: node.clone(),
    };
    pods.iter().zip(slots).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_stops_when_nodes_are_full() {
        let pods: Vec<(Box<str>, Box<str>)> = (0..5).map(|index| ("a".into(), format!("p{index}").into())).collect();
        let placed = round_robin(&pods, &["n0".into(), "n1".into()], 2);
        let nodes: Vec<&str> = placed.iter().map(|one| one.node.as_ref()).collect();
        assert_eq!(nodes, ["n0", "n1", "n0", "n1"]);
    }

    #[test]
    fn binding_is_what_the_api_takes() {
        let item = item(&Placement {
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
