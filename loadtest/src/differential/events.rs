//! Events about refusals: both schedulers must have written the same text.
//!
//! Does not: compare Events of any other reason; nodes differ where several are best.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::report::Disagreement;
use super::{Refusal, Run, SETTLE};
use crate::client::ApiClient;

/// How long schedulers may take to write their last Events.
const EVENTS_LIMIT: Duration = Duration::from_secs(20);

impl Run {
    /// Both must have written an Event of the same text about each pod that both refused.
    pub(super) async fn compare_events(&mut self) -> Result<()> {
        let deadline = Instant::now() + EVENTS_LIMIT;
        let events = loop {
            let events = refusals(&self.state.client).await?;
            let all = self
                .refusals
                .iter()
                .all(|one| events.contains_key(&one.peer) && events.contains_key(&one.ours));
            if all || Instant::now() > deadline {
                break events;
            }
            tokio::time::sleep(SETTLE).await;
        };
        for Refusal { pod, peer, ours } in &self.refusals {
            self.report.events += 1;
            let (theirs, own) = (events.get(peer), events.get(ours));
            if theirs.is_none() || theirs != own {
                let difference = format!("event\n      kube-scheduler {theirs:?}\n      supercargo     {own:?}");
                tracing::error!(pod, "disagreement\n    {difference}");
                self.report.disagreements.push(Disagreement {
                    pod: pod.clone(),
                    differences: vec![difference],
                    file: String::new(),
                });
            }
        }
        Ok(())
    }
}

/// The texts of FailedScheduling Events by the pod's UID.
async fn refusals(client: &ApiClient) -> Result<BTreeMap<String, String>> {
    let list: Value = client
        .get("/api/v1/events?fieldSelector=reason%3DFailedScheduling")
        .await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = list["items"].as_array().into_iter().flatten();
    Ok(events
        .map(|event| (text(&event["involvedObject"]["uid"]), text(&event["message"])))
        .collect())
}
