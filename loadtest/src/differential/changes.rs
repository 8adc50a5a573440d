//! Changes of the cluster between decisions, so that what was decided before is not the answer any more: nodes are
//! relabelled, tainted, cordoned, added and taken away, namespaces relabelled, Services made, pods deleted.
//!
//! Does not: change anything while a pod is being decided.

use anyhow::Result;
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::cluster::{APPS, RACK, SPACES, ZONE, hit, node, pick, word};
use super::state::{Key, NAMESPACES, NODES, SERVICES, State, key};

/// Makes one change. `spare` is the index for a node to be added, `busy` says whether a node holds pods.
pub(super) async fn change(
    state: &mut State,
    random: &mut Pcg64Mcg,
    spare: &mut usize,
    busy: impl Fn(&str) -> bool,
) -> Result<&'static str> {
    let nodes: Vec<Key> = state.all(NODES).map(|(key, _)| key.clone()).collect();
    let index = random.random_range(0..nodes.len().max(1));
    let Some(chosen) = nodes.get(index) else {
        return Ok("nothing");
    };
    Ok(match random.random_range(0..8) {
        0 => {
            let zone = format!("zone-{}", random.random_range(0..super::cluster::ZONES));
            state
                .patch(NODES, chosen, "", &json!({"metadata": {"labels": {ZONE: zone}}}))
                .await?;
            "a node's zone"
        }
        1 => {
            let labels = json!({RACK: word(random, &["rack-0", "rack-5"]), "tier": word(random, &["gold", "silver"])});
            state
                .patch(NODES, chosen, "", &json!({"metadata": {"labels": labels}}))
                .await?;
            "a node's labels"
        }
        2 => {
            let taints = match random.random_range(0..3) {
                0 => json!([{"key": "busy", "value": "yes", "effect": "PreferNoSchedule"}]),
                1 => json!([{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}]),
                _ => Value::Null,
            };
            state
                .patch(NODES, chosen, "", &json!({"spec": {"taints": taints}}))
                .await?;
            "a node's taints"
        }
        3 => {
            let was = state
                .get(NODES, chosen)
                .is_some_and(|node| node["spec"]["unschedulable"] == true);
            state
                .patch(NODES, chosen, "", &json!({"spec": {"unschedulable": !was}}))
                .await?;
            "a node's cordon"
        }
        4 => {
            let mut body = node(random, *spare);
            // kube-scheduler counts an image's nodes anew only for the nodes that are updated themselves, so its answer
            // would depend on the past: nodes that come and go hold no images.
            body["status"]["images"] = json!([]);
            *spare += 1;
            state.create(NODES, &body).await?;
            "a new node"
        }
        5 => {
            let images = |key: &Key| {
                state
                    .get(NODES, key)
                    .map_or(0, |node| node["status"]["images"].as_array().map_or(0, Vec::len))
            };
            let Some(idle) = nodes.iter().rev().find(|key| !busy(&key.1) && images(key) == 0) else {
                return Ok("nothing");
            };
            state.delete(NODES, idle).await?;
            "a node that goes"
        }
        6 => {
            let Some((name, _)) = pick(random, &SPACES) else {
                return Ok("nothing");
            };
            let env = if hit(random, 50) { "prod" } else { "test" };
            let namespace = (String::new(), name.to_owned());
            state
                .patch(
                    NAMESPACES,
                    &namespace,
                    "",
                    &json!({"metadata": {"labels": {"env": env}}}),
                )
                .await?;
            "a namespace's labels"
        }
        _ => {
            let Some((namespace, _)) = pick(random, &SPACES) else {
                return Ok("nothing");
            };
            let app = format!("app-{}", random.random_range(0..APPS));
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("extra-{app}"), "namespace": namespace},
                "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
            });
            if state.get(SERVICES, &key(&service)).is_some() {
                state.delete(SERVICES, &key(&service)).await?;
                "a Service that goes"
            } else {
                state.create(SERVICES, &service).await?;
                "a new Service"
            }
        }
    })
}
