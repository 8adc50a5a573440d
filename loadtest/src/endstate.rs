//! The end-state check: what the API server itself holds when a run is over.
//!
//! Does not: trust the harness's watch or the scheduler, or judge by itself ([`supercargo_apiserver::check`] does).

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use supercargo_apiserver::check::{CheckOptions, EndState, check};

use crate::client::ApiClient;

/// Objects a page.
const PAGE: usize = 1_000;

/// Reads all nodes and pods and checks them, counting the pods of one namespace or of all. Pods that were created and no
/// longer exist are in no list: the caller compares the numbers.
///
/// # Errors
/// When they cannot be read.
pub async fn read(client: &ApiClient, namespace: Option<&str>) -> Result<EndState> {
    let nodes = list(client, "/api/v1/nodes").await?;
    let pods = list(client, "/api/v1/pods").await?;
    let options = CheckOptions {
        namespace: namespace.map(str::to_owned),
        ..CheckOptions::default()
    };
    let state = tokio::task::spawn_blocking(move || check(&nodes, &pods, &options));
    let state = state.await.context("the check failed")?;
    if !state.is_sound() {
        tracing::error!(lost = ?state.lost_names, overcommitted = ?state.overcommitted, "the end state is not sound");
    }
    Ok(state)
}

async fn list(client: &ApiClient, path: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let page: Page = client.get(&format!("{path}?limit={PAGE}&continue={token}")).await?;
        all.extend(page.items.into_iter().map(prune));
        if page.metadata.token.is_empty() {
            return Ok(all);
        }
        token = page.metadata.token;
    }
}

/// Takes away what is large and of no use to the check.
fn prune(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Vec<Value>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    token: String,
}
