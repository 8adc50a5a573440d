//! The form of a record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One recorded case: a single decision, or a sequence of them.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) theme: String,
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(default, rename = "quirks")]
    _quirks: Vec<String>,
    /// A configuration file's contents; absent: the defaults.
    pub(crate) config: Option<Box<RawValue>>,
    /// The cluster's objects by collection.
    pub(crate) objects: BTreeMap<String, Vec<Box<RawValue>>>,
    pub(crate) pod: Option<Box<RawValue>>,
    pub(crate) expect: Option<Decision>,
    #[serde(default)]
    pub(crate) pods: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
}

impl Record {
    /// A single decision to be made, without an expectation.
    pub(crate) fn of_one(theme: &str, objects: BTreeMap<String, Vec<Box<RawValue>>>, pod: Box<RawValue>) -> Self {
        Self {
            name: String::new(),
            theme: theme.to_owned(),
            _note: String::new(),
            _quirks: Vec::new(),
            config: None,
            objects,
            pod: Some(pod),
            expect: None,
            pods: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The objects of one collection.
    pub(crate) fn collection(&self, name: &str) -> &[Box<RawValue>] {
        self.objects.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The pods that are to be scheduled.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &RawValue> {
        self.pod.iter().chain(&self.pods).map(|raw| &**raw)
    }
}

/// An answer of the framework or of one plugin.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verdict {
    pub(crate) code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// Sorted.
    #[serde(default)]
    pub(crate) reasons: Vec<String>,
}

/// By node.
pub(crate) type ByNode<T> = BTreeMap<String, T>;

/// All that is recorded about one decision; what does not apply is absent.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pre_filter: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<ByNode<Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scores: Option<ByNode<BTreeMap<String, i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_scores: Option<ByNode<BTreeMap<String, i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) totals: Option<ByNode<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) winners: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) candidates: Option<ByNode<Candidate>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dry_run_rejections: Option<ByNode<Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nominated: Option<Vec<String>>,
}

impl Decision {
    /// Leaves out what `other` does not tell.
    pub(crate) fn only_what_is_in(&mut self, other: &Self) {
        fn keep<T>(slot: &mut Option<T>, other: &Option<T>) {
            if other.is_none() {
                *slot = None;
            }
        }
        keep(&mut self.pre_filter, &other.pre_filter);
        keep(&mut self.filter, &other.filter);
        keep(&mut self.scores, &other.scores);
        keep(&mut self.raw_scores, &other.raw_scores);
        keep(&mut self.totals, &other.totals);
        keep(&mut self.winners, &other.winners);
        keep(&mut self.message, &other.message);
        keep(&mut self.candidates, &other.candidates);
        keep(&mut self.dry_run_rejections, &other.dry_run_rejections);
        keep(&mut self.nominated, &other.nominated);
    }

    /// Puts everything without a meaningful order into one.
    pub(crate) fn sort(&mut self) {
        let by_node = [&mut self.filter, &mut self.dry_run_rejections];
        let verdicts = by_node.into_iter().flatten().flat_map(BTreeMap::values_mut);
        for verdict in verdicts.chain(&mut self.pre_filter) {
            verdict.reasons.sort_unstable();
        }
        for list in [&mut self.winners, &mut self.nominated].into_iter().flatten() {
            list.sort_unstable();
        }
    }
}

/// A node that preemption could empty enough.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    /// `namespace/name`, in order.
    pub(crate) victims: Vec<String>,
    #[serde(rename = "numPDBViolations")]
    pub(crate) pdb_violations: usize,
}

/// One step of a sequence.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) winners: Option<Vec<String>>,
    /// The first winner.
    pub(crate) chosen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) totals: Option<ByNode<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}
