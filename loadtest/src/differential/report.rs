//! What a differential run found, as JSON and for people.
//!
//! Does not: decide what a disagreement is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pods::Feature;

/// Differences of one pod that are shown, and characters of a line.
const SHOWN: usize = 8;
const WIDTH: usize = 400;
/// Pods in a hundred whose turns may be taken again for nothing worse than a late event; a few in any run.
const RETAKEN_PERCENT: usize = 1;
const RETAKEN_ALWAYS: usize = 2;

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
    /// Pods whose turns were taken again because the first differed and the second did not, with the first's differences:
    /// somebody had decided before all events of the change before had reached it, or is wrong now and then.
    pub retaken: Vec<Disagreement>,
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

    /// Notes a pod whose turns were taken again, unless they differ again.
    pub(super) fn retake(&mut self, first: Disagreement, second: &[String]) {
        if second.is_empty() {
            self.retaken.push(first);
        }
    }

    /// Whether nothing differs, and few turns had to be taken again.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.disagreements.is_empty() && self.retaken.len() <= RETAKEN_ALWAYS.max(self.pods * RETAKEN_PERCENT / 100)
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
            self.preemptors,
            self.victims,
            self.retaken.len()
        ));
        for (feature, Coverage { bound, refused }) in &self.features {
            text.push_str(&format!(
                "  {:<14} {bound:>5} bound {refused:>5} refused\n",
                format!("{feature:?}")
            ));
        }
        let found = self.retaken.iter().map(|one| ("AT FIRST", one));
        for (word, one) in found.chain(self.disagreements.iter().map(|one| ("DISAGREE", one))) {
            let Disagreement { pod, differences, file } = one;
            text.push_str(&format!("{word} {pod} ({file})\n"));
            text.push_str(&readable(differences));
        }
        let word = match (self.disagreements.is_empty(), self.is_good()) {
            (true, true) => "no disagreement",
            (true, false) => "no disagreement, but too many turns had to be taken again",
            _ => "disagreements",
        };
        text.push_str(&format!("{}: {word}\n", self.disagreements.len()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_wrong_now_and_then_fail_a_run() {
        let first = || Disagreement {
            pod: "a/p".to_owned(),
            differences: vec!["process".to_owned()],
            file: "f".to_owned(),
        };
        let mut report = DifferentialReport {
            pods: 300,
            ..DifferentialReport::default()
        };
        report.retake(first(), &["again".to_owned()]);
        assert!(report.retaken.is_empty(), "a disagreement is no late event");
        for _ in 0..3 {
            report.retake(first(), &[]);
            assert!(report.is_good(), "{}", report.summary());
        }
        report.retake(first(), &[]);
        assert!(!report.is_good() && report.disagreements.is_empty());
        assert!(report.summary().contains("AT FIRST a/p (f)"), "{}", report.summary());
    }
}
