//! Replays recorded decisions of kube-scheduler and compares.
//!
//! A record holds a small cluster, a configuration, pods and what kube-scheduler decided about them. The cluster is
//! decoded as from a watch, the profiles are built as in the running scheduler, and every pod is evaluated from
//! scratch on all nodes; everything that was recorded must come out again.
//!
//! Does not: start a scheduler or an API server.
//!
//! Children in reading order: `files` (records from folders and files), `record` (their form), `support` (what this
//! release cannot replay, and why), `replay` (the decisions), `diff` (the comparison), `report` (counts and text).

mod diff;
mod files;
mod record;
mod replay;
mod report;
mod support;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

pub(crate) use diff::differences;
#[cfg(test)]
pub(crate) use record::Candidate;
pub(crate) use record::{Decision, Record};
pub(crate) use replay::evaluate;
pub use report::{Failure, Report};

/// The theme of records that the differential test writes; they hold what kube-scheduler's log tells, which is not all.
pub(crate) const DIFFERENTIAL: &str = "differential";

/// What to replay.
#[derive(Debug, Args)]
pub struct ParityArgs {
    /// Files of records (JSON Lines, plain or gzip) and folders of such files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Only records of this theme.
    #[arg(long)]
    theme: Option<String>,
    /// Only the record of this name.
    #[arg(long)]
    name: Option<String>,
    /// How many failed records to show.
    #[arg(long, default_value_t = 10)]
    show: usize,
    /// Print one JSON object on the last line of standard output.
    #[arg(long)]
    json: bool,
}

/// Replays records and prints what came of it; a failure if any record failed.
///
/// # Errors
/// A file cannot be read, or no record was found.
pub fn run(args: &ParityArgs) -> Result<ExitCode> {
    let report = replay_all(args)?;
    let mut out = io::stdout().lock();
    out.write_all(report.text(args.show).as_bytes())
        .context("cannot write to standard output")?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report.summary())?).context("cannot write to standard output")?;
    }
    Ok(if report.failures().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn replay_all(args: &ParityArgs) -> Result<Report> {
    let mut report = Report::default();
    for path in files::collect(&args.paths)? {
        files::each_line(&path, |line| {
            let record: Record = serde_json::from_str(line).context("no record")?;
            let wanted = args.theme.as_ref().is_none_or(|theme| *theme == record.theme)
                && args.name.as_ref().is_none_or(|name| *name == record.name);
            if wanted {
                let outcome = replay::replay(&record);
                report.add(&record, outcome);
            }
            Ok(())
        })?;
    }
    if report.is_empty() {
        bail!("no record matches");
    }
    Ok(report)
}

/// Replays every record under `paths`, of one theme or of all.
///
/// # Errors
/// A file cannot be read, or no record was found.
pub fn check(paths: &[PathBuf], theme: Option<&str>) -> Result<Report> {
    replay_all(&ParityArgs {
        paths: paths.to_vec(),
        theme: theme.map(str::to_owned),
        name: None,
        show: 0,
        json: false,
    })
}
