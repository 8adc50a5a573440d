//! Pods that make room for themselves, apart from the rest: nominations and victims must agree.
//!
//! The evaluation in this process tries every node and gives the nodes that may be nominated and each one's victims.
//! Each scheduler in turn must nominate one of them and evict exactly its victims, with the same text; the evicted are
//! put back in between. Supercargo's pod must then be bound where it was nominated, and stays.
//!
//! Does not: judge which of equally good nodes is taken.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use serde_json::{Value, json};

use super::judge::{Answer, disagreements, recorded};
use super::peerlog::Scores;
use super::podview::Standing;
use super::state::{Key, PODS};
use super::turn::{self, Candidate};
use super::volumes::Attached;
use super::{LONG_SETTLE, OURS, PEER, Run, SETTLE, TAKES, Take, full_name};
use crate::parity::Decision;

/// How long evictions may take: a few writes each.
const EVICTION_LIMIT: Duration = Duration::from_secs(15);
/// How long a pod may take from its nomination to its node: a second of backoff, and what evictions take.
const BIND_LIMIT: Duration = Duration::from_secs(20);

/// What came of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Evictions {
    nominated: Option<String>,
    /// `namespace/name`.
    victims: BTreeSet<String>,
}

impl Run {
    /// Gives every pod a start of its own and lets so many pods make room for themselves.
    pub(super) async fn preemptors(&mut self, count: usize) -> Result<()> {
        let keys: Vec<Key> = self.kept.keys().cloned().collect();
        for key in keys {
            self.begin(&key).await?;
        }
        tokio::time::sleep(LONG_SETTLE).await;
        for index in 0..count {
            self.preemptor(index).await?;
            if self.args.fail_fast && !self.report.disagreements.is_empty() {
                break;
            }
        }
        tracing::info!(count, victims = self.report.victims, "preemptors compared");
        Ok(())
    }

    /// Writes when a pod began to run; there is no kubelet that would.
    async fn begin(&mut self, key: &Key) -> Result<()> {
        let (hour, minute, second) = (
            self.random.random_range(0..24),
            self.random.random_range(0..60),
            self.random.random_range(0..60),
        );
        let time = format!("2026-01-01T{hour:02}:{minute:02}:{second:02}Z");
        let status = json!({"status": {"phase": "Running", "startTime": time}});
        self.state.patch(PODS, key, "status", &status).await.map(drop)
    }

    async fn preemptor(&mut self, index: usize) -> Result<()> {
        let (pod, _) = self.pods.preemptor(&mut self.random, &format!("preemptor-{index:04}"));
        let mut take = self.take_room(&pod).await?;
        for _ in 1..TAKES {
            if take.0.differences.is_empty() {
                break;
            }
            let first = self.written(&take.0, "first-")?;
            self.put_back(&take.0.ours).await?;
            tokio::time::sleep(LONG_SETTLE).await;
            take = self.take_room(&pod).await?;
            self.report.retake(first, &take.0.differences);
        }
        let (mut take, evictions) = take;
        let is_room_made = evictions.nominated.is_some();
        if let Some(node) = &evictions.nominated {
            let has_node = |standing: &Standing| standing.node.is_some();
            let bound = self.view.wait(&take.ours.uid, BIND_LIMIT, has_node).await?;
            let bound = bound.and_then(|standing| standing.node);
            if take.differences.is_empty() && bound.as_ref() != Some(node) {
                take.differences
                    .push(format!("supercargo nominated {node} and bound to {bound:?}"));
            }
        }
        self.report
            .count(&[], is_room_made || matches!(take.answer, Answer::Node(_)));
        self.report.preemptors += usize::from(is_room_made);
        self.report.victims += evictions.victims.len();
        self.settle_account(&take, is_room_made)?;
        let gone: Vec<Key> = self
            .kept
            .keys()
            .filter(|key| evictions.victims.contains(&full_name(key)))
            .cloned()
            .collect();
        for key in gone {
            self.kept.remove(&key);
            self.state.forget(PODS, &key);
        }
        let key = take.ours.key.clone();
        self.keep(take.ours, Attached::default()).await?;
        if self.kept.contains_key(&key) {
            self.begin(&key).await?;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    /// Both turns; what the second has evicted is gone afterwards.
    async fn take_room(&mut self, pod: &Value) -> Result<(Take, Evictions)> {
        self.log.skip()?;
        let peer = turn::create(&mut self.state, pod, PEER).await?;
        let evaluated = self.evaluation(&peer)?.await.context("the evaluation failed")?;
        let allowed = evaluated.as_ref().ok().cloned().unwrap_or_default();
        let (standing, theirs) = self.room(&peer, &allowed).await?;
        self.peer.process.ensure_running()?;
        let name = full_name(&peer.key);
        // Victims without grace go at once, and the binding may overtake the condition.
        let refusal = self.log.refusal(&name)?.map(|message| Answer::Refused {
            reason: "Unschedulable".to_owned(),
            message,
        });
        let answer = refusal.unwrap_or_else(|| Answer::of(Some(&standing)));
        anyhow::ensure!(answer != Answer::None, "kube-scheduler decides nothing about {name}");
        let scores = if theirs.nominated.is_none() {
            self.log.scores(&name)?
        } else {
            Scores::default()
        };
        let mut expected = recorded(&answer, &scores);
        self.put_back(&peer).await?;
        let ours = turn::create(&mut self.state, pod, OURS).await?;
        let (standing, own) = self.room(&ours, &allowed).await?;
        self.ours.process.ensure_running()?;
        let own_answer = match Answer::of(Some(&standing)) {
            // Overtaken too; the text shows in the Event.
            Answer::Node(_) if own.nominated.is_some() => answer.clone(),
            other => other,
        };
        let mut differences = disagreements(&answer, &expected, &own_answer, evaluated);
        differences.extend(judge("kube-scheduler", &theirs, &allowed));
        differences.extend(judge("supercargo", &own, &allowed));
        if let (Some(node), Some(candidates)) = (&theirs.nominated, &allowed.candidates) {
            let of_node = |(name, one): (&String, _)| (name == node).then(|| (name.clone(), one));
            expected.candidates = Some(
                candidates
                    .iter()
                    .filter_map(|(name, one)| of_node((name, one.clone())))
                    .collect(),
            );
        }
        let take = Take {
            peer,
            ours,
            answer,
            scores,
            expected,
            differences,
        };
        Ok((take, own))
    }

    /// One scheduler's decision and evictions.
    async fn room(&mut self, pod: &Candidate, allowed: &Decision) -> Result<(Standing, Evictions)> {
        let none = Attached::default();
        let standing = turn::decision(&mut self.state, &self.view, pod, &none)
            .await?
            .unwrap_or_default();
        let nominated = standing.nominated.clone().filter(|_| standing.refused.is_some());
        let mut evictions = Evictions {
            nominated,
            victims: BTreeSet::new(),
        };
        let candidates = allowed.candidates.as_ref();
        let due = evictions.nominated.as_ref().and_then(|node| candidates?.get(node));
        let uids: Vec<(String, String)> = self
            .kept
            .iter()
            .map(|(key, kept)| (full_name(key), kept.uid.clone()))
            .collect();
        for victim in due.iter().flat_map(|due| &due.victims) {
            if let Some((_, uid)) = uids.iter().find(|(name, _)| name == victim) {
                // One that stays shows in the comparison.
                let _gone = self.view.wait(uid, EVICTION_LIMIT, |standing| standing.gone).await?;
            }
        }
        if evictions.nominated.is_some() || standing.node.is_some() {
            tokio::time::sleep(SETTLE).await;
        }
        let gone = self
            .view
            .gone(uids.iter().map(|(name, uid)| (name.as_str(), uid.as_str())));
        evictions.victims = gone.into_iter().collect();
        if evictions.nominated.is_none() && !evictions.victims.is_empty() {
            evictions.nominated.clone_from(&standing.node);
        }
        Ok((standing, evictions))
    }

    /// Withdraws a pod and makes the pods anew that went for it.
    async fn put_back(&mut self, pod: &Candidate) -> Result<()> {
        turn::withdraw(&mut self.state, &self.view, pod).await?;
        let uids = self.kept.iter().map(|(key, kept)| (key.clone(), kept.uid.clone()));
        let gone = uids.filter(|(_, uid)| self.view.standing(uid).is_some_and(|standing| standing.gone));
        let gone: Vec<Key> = gone.map(|(key, _)| key).collect();
        for key in &gone {
            let before = self.state.get(PODS, key).context("an evicted pod is not known")?;
            let fresh = json!({
                "apiVersion": "v1", "kind": "Pod", "spec": as_written(&before["spec"]),
                "metadata": {
                    "namespace": key.0, "name": key.1, "labels": before["metadata"]["labels"],
                    "ownerReferences": before["metadata"]["ownerReferences"],
                },
            });
            let status = json!({"status": {"phase": "Running", "startTime": before["status"]["startTime"]}});
            let created = self.state.create(PODS, &fresh).await?;
            self.state.patch(PODS, key, "status", &status).await?;
            let uid = created["metadata"]["uid"].as_str().context("a pod without a UID")?;
            if let Some(kept) = self.kept.get_mut(key) {
                uid.clone_into(&mut kept.uid);
            }
        }
        tokio::time::sleep(SETTLE * 2).await;
        Ok(())
    }
}

/// A pod's spec as it can be created again: the API server has put the label keys of terms and constraints into their
/// selectors, and takes no pod that has them in both.
fn as_written(spec: &Value) -> Value {
    let mut spec = spec.clone();
    forget_label_keys(&mut spec);
    spec
}

fn forget_label_keys(part: &mut Value) {
    match part {
        Value::Object(members) => {
            members.retain(|name, _| name != "matchLabelKeys" && name != "mismatchLabelKeys");
            members.values_mut().for_each(forget_label_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_label_keys),
        _ => {}
    }
}

/// Whether a scheduler did what is allowed.
fn judge(who: &str, did: &Evictions, allowed: &Decision) -> Vec<String> {
    let best = allowed.nominated.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    match &did.nominated {
        None if !best.is_empty() => found.push(format!("{who} nominated none of {best:?}")),
        Some(node) if !best.contains(node) => {
            found.push(format!("{who} nominated {node}, which is none of {best:?}"));
        }
        _ => {}
    }
    let due = did
        .nominated
        .as_ref()
        .and_then(|node| allowed.candidates.as_ref()?.get(node));
    let due: BTreeSet<String> = due.map(|due| due.victims.iter().cloned().collect()).unwrap_or_default();
    if due != did.victims {
        found.push(format!(
            "victims\n      {who:<14} {:?}\n      evaluation     {due:?}",
            did.victims
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::parity::Candidate as Room;

    #[test]
    fn a_nomination_must_be_among_the_best_and_its_victims_exact() {
        let room = Room {
            victims: vec!["a/v".to_owned()],
            pdb_violations: 0,
        };
        let allowed = Decision {
            candidates: Some(BTreeMap::from([("n".to_owned(), room)])),
            nominated: Some(vec!["n".to_owned()]),
            ..Decision::default()
        };
        let did = |node: Option<&str>, victims: &[&str]| Evictions {
            nominated: node.map(str::to_owned),
            victims: victims.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(judge("x", &did(Some("n"), &["a/v"]), &allowed).is_empty());
        assert_eq!(judge("x", &did(Some("n"), &[]), &allowed).len(), 1);
        assert_eq!(judge("x", &did(Some("m"), &["a/v"]), &allowed).len(), 2);
        assert_eq!(judge("x", &did(None, &[]), &allowed).len(), 1);
        assert!(judge("x", &did(None, &[]), &Decision::default()).is_empty());
    }
}
