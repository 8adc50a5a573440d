//! PostFilter with extenders: candidates are taken down, asked about, and narrowed by what was said.

use rustc_hash::FxHashSet;

use super::victims::VictimsAnswer;
use crate::cluster::{ClusterView, PodInfo};
use crate::framework::Status;
use crate::ids::{PodUid, Symbol};
use crate::preemption::{Advice, Advise, Candidate};
use crate::sync::Mutex;

/// Questions about victims in one attempt; candidates that turn up after the last are not taken.
const MAX_QUESTIONS: u32 = 3;

/// The adviser of one attempt.
#[derive(Debug, Default)]
pub(super) struct Preempting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What is to be asked.
    open: Option<Vec<Candidate>>,
    asked: FxHashSet<Symbol>,
    questions: u32,
    answer: Option<VictimsAnswer>,
}

impl Preempting {
    /// The candidates that are to be asked about, if the last run came to a question.
    pub(super) fn take_open(&self) -> Option<Vec<Candidate>> {
        self.0.lock().open.take()
    }

    /// Takes in what was said.
    pub(super) fn answered(&self, answer: VictimsAnswer) {
        let mut state = self.0.lock();
        state.questions += 1;
        state.answer = Some(answer);
    }
}

impl State {
    fn ask(&mut self, candidates: Vec<Candidate>) -> Advice {
        self.asked = candidates.iter().map(|candidate| candidate.name).collect();
        self.open = Some(candidates);
        Advice::Later
    }

    /// Candidates as of now with the victims that were left to them; and whether one was not asked about.
    fn narrow(&self, cluster: &ClusterView<'_>, candidates: &[Candidate]) -> Result<(Vec<Candidate>, bool), Status> {
        let answers = match &self.answer {
            Some(VictimsAnswer(Ok(answers))) => answers,
            Some(VictimsAnswer(Err(status))) => return Err(status.clone()),
            None => return Ok((Vec::new(), true)),
        };
        let mut left = Vec::new();
        for candidate in candidates {
            let Some(chosen) = answers.get(&candidate.name) else {
                continue;
            };
            let on_node = cluster.pods.on_node(candidate.node);
            let there = |uid: &PodUid| on_node.iter().find(|pod| pod.uid == *uid).cloned();
            let victims: Vec<_> = chosen.pods.iter().filter_map(there).collect();
            if !victims.is_empty() {
                left.push(Candidate {
                    victims,
                    pdb_violations: chosen.pdb_violations,
                    ..candidate.clone()
                });
            }
        }
        let is_new = |candidate: &Candidate| !self.asked.contains(&candidate.name);
        Ok((left, candidates.iter().any(is_new)))
    }
}

impl Advise for Preempting {
    fn advise(&self, cluster: &ClusterView<'_>, _pod: &PodInfo, candidates: Vec<Candidate>) -> Advice {
        let mut state = self.0.lock();
        match state.narrow(cluster, &candidates) {
            Err(status) => Advice::Failed(status),
            Ok((left, true)) if left.is_empty() && state.questions < MAX_QUESTIONS => state.ask(candidates),
            Ok((left, _)) => Advice::Candidates(left),
        }
    }
}
