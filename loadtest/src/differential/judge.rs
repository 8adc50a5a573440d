//! Whether three answers to the same question agree: kube-scheduler's, Supercargo's as a process, and that of an
//! evaluation from scratch in this process.
//!
//! Supercargo must choose one of the nodes of the highest total that kube-scheduler logged, or refuse the pod with the
//! same reason and text. The evaluation must give the same totals, the same score of every plugin for every node, the
//! same winners and the same text.
//!
//! Does not: know anything about schedulers beyond their answers.

use std::collections::BTreeMap;

use anyhow::Result;

use super::peerlog::Scores;
use super::podview::Standing;
use crate::parity::{Decision, differences};

/// What a scheduler did with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is bound there.
    Node(String),
    /// It is refused, for a reason and with a text.
    Refused { reason: String, message: String },
    /// Nothing in time.
    None,
}

impl Answer {
    pub(super) fn of(standing: Option<&Standing>) -> Self {
        match standing {
            Some(Standing { node: Some(node), .. }) => Self::Node(node.clone()),
            Some(Standing {
                refused: Some((reason, message)),
                ..
            }) => Self::Refused {
                reason: reason.clone(),
                message: message.clone(),
            },
            _ => Self::None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Node(node) => format!("chose {node}"),
            Self::Refused { reason, message } => format!("refused ({reason}): {message}"),
            Self::None => "decided nothing in time".to_owned(),
        }
    }
}

/// What kube-scheduler's answer says, in the form of a recorded decision.
pub(super) fn recorded(answer: &Answer, scores: &Scores) -> Decision {
    let mut decision = Decision::default();
    match answer {
        Answer::Node(node) if scores.totals.is_empty() => decision.winners = Some(vec![node.clone()]),
        Answer::Node(_) => {
            decision.winners = Some(scores.winners());
            decision.totals = Some(scores.totals.clone());
            // Without any plugin that scores there is no line for a node.
            let of = |node: &String| scores.by_plugin.get(node).cloned().unwrap_or_default();
            let by_plugin = scores.totals.keys().map(|node| (node.clone(), of(node)));
            decision.scores = Some(by_plugin.collect());
        }
        Answer::Refused { message, .. } => decision.message = Some(message.clone()),
        Answer::None => {}
    }
    decision
}

/// Every difference, a line or a few each.
pub(super) fn disagreements(
    peer: &Answer,
    expected: &Decision,
    ours: &Answer,
    evaluated: Result<Decision>,
) -> Vec<String> {
    let mut found = Vec::new();
    let winners = expected.winners.as_deref().unwrap_or_default();
    match (peer, ours) {
        (Answer::Node(node), _) if !winners.contains(node) => {
            found.push(format!(
                "kube-scheduler chose {node}, which is not among its own winners {winners:?}"
            ));
        }
        (Answer::Node(_), Answer::Node(node)) if winners.contains(node) => {}
        (Answer::Node(_), _) => {
            found.push(format!(
                "process\n      kube-scheduler one of {winners:?}\n      supercargo     {}",
                ours.text()
            ));
        }
        _ if peer == ours && *peer != Answer::None => {}
        _ => found.push(format!(
            "process\n      kube-scheduler {}\n      supercargo     {}",
            peer.text(),
            ours.text()
        )),
    }
    match evaluated {
        Ok(mut actual) => {
            let scored = actual.totals.as_ref().map_or(0, BTreeMap::len);
            if matches!(peer, Answer::Node(_)) && expected.totals.is_none() && scored > 1 {
                found.push(format!(
                    "kube-scheduler logged no score, and {scored} nodes have one here"
                ));
            }
            actual.sort();
            actual.only_what_is_in(expected);
            found.extend(differences("evaluation", expected, &actual));
        }
        // A failed cycle has no decision; both say so in their condition.
        Err(_) if matches!(peer, Answer::Refused { reason, .. } if reason == "SchedulerError") => {}
        Err(error) => found.push(format!("evaluation: {error:#}")),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores() -> Scores {
        let totals = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 5), ("c".to_owned(), 1)]);
        Scores {
            totals,
            ..Scores::default()
        }
    }

    #[test]
    fn any_winner_agrees_and_another_node_does_not() {
        let peer = Answer::Node("a".to_owned());
        let expected = recorded(&peer, &scores());
        let evaluated = || Ok(expected.clone());
        let verdict = |node: &str| disagreements(&peer, &expected, &Answer::Node(node.to_owned()), evaluated());
        assert!(verdict("b").is_empty());
        assert_eq!(verdict("c").len(), 1);
        assert_eq!(disagreements(&peer, &expected, &Answer::None, evaluated()).len(), 1);
        let odd = Answer::Node("c".to_owned());
        assert_eq!(disagreements(&odd, &expected, &peer, evaluated()).len(), 1);
    }

    #[test]
    fn scores_that_are_missing_from_the_log_are_a_difference() {
        let peer = Answer::Node("a".to_owned());
        let unread = recorded(&peer, &Scores::default());
        let evaluated = |totals: &[(&str, i64)]| Decision {
            winners: Some(vec!["a".to_owned()]),
            totals: Some(
                totals
                    .iter()
                    .map(|(node, total)| ((*node).to_owned(), *total))
                    .collect(),
            ),
            ..Decision::default()
        };
        assert!(disagreements(&peer, &unread, &peer, Ok(evaluated(&[("a", 5)]))).is_empty());
        let found = disagreements(&peer, &unread, &peer, Ok(evaluated(&[("a", 5), ("b", 4)])));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn texts_of_refusals_must_be_equal() {
        let refused = |message: &str| Answer::Refused {
            reason: "Unschedulable".to_owned(),
            message: message.to_owned(),
        };
        let peer = refused("0/1 nodes are available: 1 Too many pods.");
        let expected = recorded(&peer, &Scores::default());
        assert!(disagreements(&peer, &expected, &peer, Ok(expected.clone())).is_empty());
        assert_eq!(
            disagreements(&peer, &expected, &refused("x"), Ok(expected.clone())).len(),
            1
        );
        assert_eq!(disagreements(&peer, &expected, &peer, Ok(Decision::default())).len(), 1);
        assert_eq!(
            disagreements(
                &Answer::None,
                &Decision::default(),
                &Answer::None,
                Ok(Decision::default())
            )
            .len(),
            1
        );
    }
}
