//! Counts by theme, and the first differences as text.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Record;
use super::replay::Replayed;
use super::support::NotSupported;

/// Differences shown of one record.
const SHOWN_DIFFERENCES: usize = 4;

/// How many records came out how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Everything as recorded.
    pub passed: usize,
    /// Something differs.
    pub failed: usize,
    /// It needs a plugin that is missing.
    pub not_supported: usize,
}

/// The figures as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// Over all themes.
    #[serde(flatten)]
    pub all: Counts,
    /// By theme.
    pub themes: BTreeMap<String, Counts>,
}

/// A record that did not come out as recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its theme.
    pub theme: String,
    /// Its name.
    pub name: String,
    /// What differs.
    pub differences: Vec<String>,
}

/// All that came of the records.
#[derive(Clone, Debug, Default)]
pub struct Report {
    themes: BTreeMap<String, Counts>,
    failures: Vec<Failure>,
    reasons: BTreeMap<NotSupported, usize>,
}

impl Report {
    pub(super) fn add(&mut self, record: &Record, outcome: Replayed) {
        let counts = self.themes.entry(record.theme.clone()).or_default();
        match outcome {
            Replayed::NotSupported(reason) => {
                counts.not_supported += 1;
                *self.reasons.entry(reason).or_default() += 1;
            }
            Replayed::Compared(differences) if differences.is_empty() => counts.passed += 1,
            Replayed::Compared(differences) => {
                counts.failed += 1;
                self.failures.push(Failure {
                    theme: record.theme.clone(),
                    name: record.name.clone(),
                    differences,
                });
            }
        }
    }

    /// Whether there was no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.themes.is_empty()
    }

    /// The records that failed.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The figures.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut all = Counts::default();
        for counts in self.themes.values() {
            all.passed += counts.passed;
            all.failed += counts.failed;
            all.not_supported += counts.not_supported;
        }
        Summary {
            all,
            themes: self.themes.clone(),
        }
    }

    /// A table, the reasons why records are not supported, and the first `show` failures.
    #[must_use]
    pub fn text(&self, show: usize) -> String {
        let mut text = String::new();
        for failure in self.failures.iter().take(show) {
            text.push_str(&format!("FAILED {}/{}\n", failure.theme, failure.name));
            for difference in failure.differences.iter().take(SHOWN_DIFFERENCES) {
                text.push_str(&format!("    {difference}\n"));
            }
            let more = failure.differences.len().saturating_sub(SHOWN_DIFFERENCES);
            if more > 0 {
                text.push_str(&format!("    and {more} more\n"));
            }
        }
        let more = self.failures.len().saturating_sub(show);
        if more > 0 {
            text.push_str(&format!("and {more} more records failed\n"));
        }
        let themes = self.themes.iter().map(|(theme, counts)| (theme.as_str(), *counts));
        text.push_str(&line("theme", &["passed", "failed", "not supported"]));
        for (name, counts) in themes.chain([("all", self.summary().all)]) {
            let figures = [counts.passed, counts.failed, counts.not_supported];
            text.push_str(&line(name, &figures.map(|n| n.to_string())));
        }
        let reasons: Vec<_> = self
            .reasons
            .iter()
            .map(|(reason, n)| format!("{} {n}", reason.reason()))
            .collect();
        if !reasons.is_empty() {
            text.push_str(&format!("not supported for want of: {}\n", reasons.join(", ")));
        }
        text
    }
}

fn line<S: AsRef<str>>(name: &str, cells: &[S; 3]) -> String {
    let [passed, failed, not_supported] = cells.each_ref().map(AsRef::as_ref);
    format!("{name:<26} {passed:>7} {failed:>7} {not_supported:>14}\n")
}
