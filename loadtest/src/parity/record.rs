//! The form of a record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One recorded case: a single decision, or a sequence of them.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) theme: String,
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(default, rename = "quirks")]
    _quirks: Vec<String>,
    /// A configuration file's contents; absent: the defaults.
    pub(super) config: Option<Box<RawValue>>,
    /// The cluster's objects by collection.
    pub(super) objects: BTreeMap<String, Vec<Box<RawValue>>>,
    pub(super) pod: Option<Box<RawValue>>,
    pub(super) expect: Option<Decision>,
    #[serde(default)]
    pub(super) pods: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
}

impl Record {
    /// The objects of one collection.
    pub(super) fn collection(&self, name: &str) -> &[Box<RawValue>] {
        self.objects.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The pods that are to be scheduled.
    pub(super) fn pending(&self) -> impl Iterator<Item = &RawValue> {
        self.pod.iter().chain(&self.pods).map(|raw| &**raw)
    }
}

/// An answer of the framework or of one plugin.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Verdict {
    pub(super) code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<String>,
    /// Sorted.
    #[serde(default)]
    pub(super) reasons: Vec<String>,
}

/// By node.
pub(super) type ByNode<T> = BTreeMap<String, T>;

/// All that is recorded about one decision; what does not apply is absent.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pre_filter: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<ByNode<Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scores: Option<ByNode<BTreeMap<String, i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_scores: Option<ByNode<BTreeMap<String, i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<ByNode<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) winners: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidates: Option<ByNode<Candidate>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dry_run_rejections: Option<ByNode<Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nominated: Option<Vec<String>>,
}

impl Decision {
    /// Puts everything without a meaningful order into one.
    pub(super) fn sort(&mut self) {
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
pub(super) struct Candidate {
    /// `namespace/name`, in order.
    pub(super) victims: Vec<String>,
    #[serde(rename = "numPDBViolations")]
    pub(super) pdb_violations: usize,
}

/// One step of a sequence.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) winners: Option<Vec<String>>,
    /// The first winner.
    pub(super) chosen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<ByNode<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}
