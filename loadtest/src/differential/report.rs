//! What a differential run found, as JSON and for people.
//!
//! Does not: decide what a disagreement is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pods::Feature;

/// Differences of one pod that are shown, and characters of a line.
const SHOWN: usize = 8;
const WIDTH: usize = 400;

/// Decisions of pods with one feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Coverage {
    /// Bound.
    pub bound: usize,
    /// Refused.
    pub refused: usize,
}

/// One pod about which the schedulers disagree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// `namespace/name`.
    pub pod: String,
    /// What differs.
    pub differences: Vec<String>,
    /// The record with all objects; `parity FILE` replays it.
    pub file: String,
}

/// The whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DifferentialReport {
    /// Makes the run repeatable.
    pub seed: u64,
    /// Nodes at the start.
    pub nodes: usize,
    /// Pods that were decided by both.
    pub pods: usize,
    /// Of these, those that both bound.
    pub bound: usize,
    /// Of these, those that both refused.
    pub refused: usize,
    /// Of these, those that made room for themselves.
    pub preemptors: usize,
    /// Pods that were evicted for them, in each scheduler's turn.
    pub victims: usize,
    /// Different texts of refusals.
    pub texts: usize,
    /// Decisions with more than one best node.
    pub ties: usize,
    /// Node and plugin scores that were compared.
    pub scores: usize,
    /// Events about refusals that were compared.
    pub events: usize,
    /// Changes of nodes, namespaces and Services between decisions.
    pub changes: usize,
    /// Pods whose turns were taken again because the first differed and the second did not: somebody had decided before
    /// all events of the change before had reached it.
    pub retaken: usize,
    /// By feature of the pods.
    pub features: BTreeMap<Feature, Coverage>,
    /// Every pod about which they disagree.
    pub disagreements: Vec<Disagreement>,
    /// How long it took.
    pub seconds: f64,
}

/// Differences for people: the first few, each line cut to what a screen holds; the record has all.
pub(super) fn readable(differences: &[String]) -> String {
    let mut text = String::new();
    for line in differences.iter().take(SHOWN).flat_map(|difference| difference.lines()) {
        let shown: String = line.chars().take(WIDTH).collect();
        let more = if shown.len() < line.len() { " ..." } else { "" };
        text.push_str(&format!("    {shown}{more}\n"));
    }
    let more = differences.len().saturating_sub(SHOWN);
    if more > 0 {
        text.push_str(&format!("    and {more} more\n"));
    }
    text
}

impl DifferentialReport {
    pub(super) fn count(&mut self, features: &[Feature], is_bound: bool) {
        self.pods += 1;
        self.bound += usize::from(is_bound);
        self.refused += usize::from(!is_bound);
        for feature in features {
            let coverage = self.features.entry(*feature).or_default();
            coverage.bound += usize::from(is_bound);
            coverage.refused += usize::from(!is_bound);
        }
    }

    /// A few lines for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!(
            "seed {}, {} nodes: {} pods decided by both in {:.0} s: {} bound, {} refused ({} texts), {} with several best \
             nodes, {} scores compared, {} events compared, {} changes between them\n",
            self.seed,
            self.nodes,
            self.pods,
            self.seconds,
            self.bound,
            self.refused,
            self.texts,
            self.ties,
            self.scores,
            self.events,
            self.changes
        );
        text.push_str(&format!(
            "{} preemptors, {} victims; {} taken again\n",
            self.preemptors, self.victims, self.retaken
        ));
        for (feature, Coverage { bound, refused }) in &self.features {
            text.push_str(&format!(
                "  {:<14} {bound:>5} bound {refused:>5} refused\n",
                format!("{feature:?}")
            ));
        }
        for Disagreement { pod, differences, file } in &self.disagreements {
            text.push_str(&format!("DISAGREE {pod} ({file})\n"));
            text.push_str(&readable(differences));
        }
        let word = if self.disagreements.is_empty() {
            "no disagreement"
        } else {
            "disagreements"
        };
        text.push_str(&format!("{}: {word}\n", self.disagreements.len()));
        text
    }
}
