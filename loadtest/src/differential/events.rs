//! Events about refusals: both schedulers must have written the same text.
//!
//! Does not: compare Events of any other reason; nodes differ where several are best.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::report::Disagreement;
use super::{Run, SETTLE};
use crate::client::ApiClient;

/// How long schedulers may take to write their last Events.
const EVENTS_LIMIT: Duration = Duration::from_secs(20);
/// The longest text of an Event, and how a longer one ends (`truncateMessage` in `schedule_one.go`).
const LONGEST: usize = 1_024;
const ELLIPSIS: &str = " ...";

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
        for refusal in &self.refusals {
            self.report.events += 1;
            let pod = &refusal.pod;
            let texts = |uid: &String| events.get(uid).cloned().unwrap_or_default();
            let (theirs, own) = (texts(&refusal.peer), texts(&refusal.ours));
            let expected = shortened(&refusal.message);
            let has_both = theirs.contains(&expected) && own.contains(&expected);
            if !has_both || (theirs != own && !refusal.is_room_made) {
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

/// A text as it fits into an Event.
fn shortened(message: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let end = (0..=LONGEST - ELLIPSIS.len())
        .rev()
        .find(|at| message.is_char_boundary(*at));
    let (kept, _) = message.split_at(end.unwrap_or(0));
    format!("{kept}{ELLIPSIS}")
}

/// The texts of FailedScheduling Events by the pod's UID.
async fn refusals(client: &ApiClient) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let list: Value = client
        .get("/api/v1/events?fieldSelector=reason%3DFailedScheduling")
        .await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
    for event in list["items"].as_array().into_iter().flatten() {
        let of_pod = texts.entry(text(&event["involvedObject"]["uid"])).or_default();
        of_pod.insert(text(&event["message"]));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shortened_as_kube_scheduler_does() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"x".repeat(2_000));
        assert!(long.len() == LONGEST && long.ends_with("x ..."));
    }
}
