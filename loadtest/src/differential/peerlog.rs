//! What kube-scheduler says of its decisions in its log: each plugin's score for each node, and the totals.
//!
//! The lines come from `schedule_one.go` (`prioritizeNodes`, Kubernetes 1.36) at verbosity 10 and are written before the
//! pod is bound; a plugin's score is the normalised and weighted one. With fewer than two feasible nodes nothing is
//! scored and nothing is logged.
//!
//! Does not: follow the file on its own; it is read up to its end whenever a decision is in.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A log longer than this is emptied between two decisions, in bytes: each decision adds a line for each node and plugin.
const LONGEST: u64 = 64 << 20;
/// Scores 0 everywhere for pods without claims, and ours does not keep it.
const NOT_COMPARED: &str = "DynamicResources";

/// The scores of one decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scores {
    /// By node and plugin.
    pub(super) by_plugin: BTreeMap<String, BTreeMap<String, i64>>,
    /// By node.
    pub(super) totals: BTreeMap<String, i64>,
}

impl Scores {
    /// The nodes of the highest total, in order of their names.
    pub(super) fn winners(&self) -> Vec<String> {
        let best = self.totals.values().max();
        let of_best = self.totals.iter().filter(|(_, total)| Some(*total) == best);
        of_best.map(|(node, _)| node.clone()).collect()
    }
}

/// A place in the log.
#[derive(Debug)]
pub(super) struct PeerLog {
    path: PathBuf,
    offset: u64,
}

impl PeerLog {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            offset: 0,
        }
    }

    /// Goes to the end of the log, before a decision is asked for.
    pub(super) fn skip(&mut self) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .context("kube-scheduler's log")?;
        self.offset = file.metadata().context("kube-scheduler's log")?.len();
        if self.offset > LONGEST {
            // The writer appends, so it goes on at the new end.
            file.set_len(0).context("cannot empty kube-scheduler's log")?;
            self.offset = 0;
        }
        Ok(())
    }

    /// The scores that were logged since for a pod, `namespace/name`.
    pub(super) fn scores(&self, pod: &str) -> Result<Scores> {
        Ok(parse(&self.text()?, pod))
    }

    /// The text with which a pod was refused first since then.
    pub(super) fn refusal(&self, pod: &str) -> Result<Option<String>> {
        Ok(refusal(&self.text()?, pod))
    }

    fn text(&self) -> Result<String> {
        let mut file = File::open(&self.path).context("kube-scheduler's log")?;
        file.seek(SeekFrom::Start(self.offset))
            .context("kube-scheduler's log")?;
        let mut bytes = Vec::new();
        file.take(4 * LONGEST)
            .read_to_end(&mut bytes)
            .context("kube-scheduler's log")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn refusal(text: &str, pod: &str) -> Option<String> {
    let about = format!("\"Unable to schedule pod; no fit; waiting\" pod=\"{pod}\" err=");
    let quoted = text.lines().find_map(|line| Some(line.split_once(&about)?.1))?;
    // Go quotes printable text as JSON does.
    serde_json::from_str(quoted).ok()
}

fn parse(text: &str, pod: &str) -> Scores {
    let mut scores = Scores::default();
    let about = format!(" pod=\"{pod}\" ");
    for line in text.lines().filter(|line| line.contains(&about)) {
        let value = |key: &str| {
            let (_, rest) = line.split_once(&format!(" {key}="))?;
            rest.split([' ', '"']).find(|part| !part.is_empty())
        };
        let (Some(node), Some(score)) = (value("node"), value("score").and_then(|score| score.parse().ok())) else {
            continue;
        };
        if line.contains("\"Plugin scored node for pod\"") {
            let Some(plugin) = value("plugin").filter(|plugin| *plugin != NOT_COMPARED) else {
                continue;
            };
            let by_plugin = scores.by_plugin.entry(node.to_owned()).or_default();
            by_plugin.insert(plugin.to_owned(), score);
        } else if line.contains("\"Calculated node's final score for pod\"") {
            scores.totals.insert(node.to_owned(), score);
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_was_written() {
        let text = "\
I1130 23:00:00.000001    7 schedule_one.go:1213] \"Unable to schedule pod; no fit; waiting\" pod=\"a/p\" err=\"claim \\\"c\\\" not found\"
I1130 23:00:00.000002    7 schedule_one.go:1213] \"Unable to schedule pod; no fit; waiting\" pod=\"a/p\" err=\"later\"
";
        assert_eq!(refusal(text, "a/p").as_deref(), Some("claim \"c\" not found"));
        assert_eq!(refusal(text, "a/q"), None);
    }

    #[test]
    fn scores_of_one_pod_are_read_from_its_lines() {
        let text = "\
I1130 23:00:00.000001    7 schedule_one.go:982] \"Plugin scored node for pod\" pod=\"a/p\" plugin=\"NodeResourcesFit\" node=\"n1\" score=87
I1130 23:00:00.000002    7 schedule_one.go:982] \"Plugin scored node for pod\" pod=\"a/p\" plugin=\"DynamicResources\" node=\"n1\" score=0
I1130 23:00:00.000003    7 schedule_one.go:982] \"Plugin scored node for pod\" pod=\"a/p2\" plugin=\"NodeResourcesFit\" node=\"n1\" score=1
I1130 23:00:00.000004    7 schedule_one.go:1050] \"Calculated node's final score for pod\" pod=\"a/p\" node=\"n1\" score=87
I1130 23:00:00.000005    7 schedule_one.go:1050] \"Calculated node's final score for pod\" pod=\"a/p\" node=\"n2\" score=-3
I1130 23:00:00.000006    7 schedule_one.go:1050] \"Calculated node's final score for pod\" pod=\"a/p\" node=\"n3\" score=87
";
        let scores = parse(text, "a/p");
        assert_eq!(scores.winners(), ["n1", "n3"]);
        assert_eq!(scores.totals["n2"], -3);
        let by_plugin = BTreeMap::from([("NodeResourcesFit".to_owned(), 87)]);
        assert_eq!(scores.by_plugin, BTreeMap::from([("n1".to_owned(), by_plugin)]));
    }
}
