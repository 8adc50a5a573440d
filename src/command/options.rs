//! The command line: from arguments to what is to be done.
//!
//! With no subcommand the scheduler runs, so that the arguments of a kube-scheduler manifest work unchanged; every flag
//! of kube-scheduler 1.36 is known. All errors that can be found together are reported together.
//!
//! Precedence: leader election flags go over the file; deprecated flags count only without `--config` (a warning says
//! so otherwise), except `--pod-max-in-unschedulable-pods-duration`, which always counts.
//!
//! Does not: open connections, install the log subscriber or run anything.
//!
//! Children: `flags` (clap's view of `run`), `commands` (the subcommands), `values` (Go's spelling of values),
//! `serving`, `metrics` and `logging` (groups of flags), `resolve` (flags and files to [`Options`]).

mod commands;
mod flags;
mod logging;
mod metrics;
mod resolve;
pub(crate) mod serving;
mod values;

use std::ffi::OsString;
use std::time::Duration;

use crate::telemetry::{Exposition, LogOptions};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use supercargo_config::{Configuration, FeatureGates, PluginLookup, Settings};

#[cfg(feature = "demo")]
pub(crate) use commands::DemoArgs;
use serving::{Authentication, Authorization};
pub(crate) use serving::{Certificate, Serving, TlsVersion};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Action {
    /// Schedule.
    Run(Box<Options>),
    /// Show the scheduler at work on an embedded API server.
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Print this to standard output and end.
    Print(String),
}

/// Everything that a run needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The effective configuration: file, flags and defaults.
    pub(crate) configuration: Configuration,
    /// The effective settings.
    pub(crate) settings: Settings,
    /// Feature gates.
    pub(crate) gates: FeatureGates,
    /// Replaces the API server's address of the kubeconfig.
    pub(crate) master: Option<String>,
    /// How long a pod may stay unschedulable before it is tried again without an event.
    pub(crate) pod_max_in_unschedulable: Duration,
    /// The secure port; `None`: nothing is served.
    pub(crate) serving: Option<Serving>,
    /// Who a client of the secure port is.
    pub(crate) authentication: Authentication,
    /// What it may read.
    pub(crate) authorization: Authorization,
    /// What `/metrics` leaves out.
    pub(crate) exposition: Exposition,
    /// Logs and traces.
    pub(crate) logging: LogOptions,
    /// To be logged once logging is set up.
    pub(crate) warnings: Vec<String>,
}

/// Why the command line cannot be followed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// For standard error.
    pub(crate) message: String,
    /// Exit code.
    pub(crate) code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 1,
        }
    }

    /// One error a line, under a heading when there are several.
    fn of(errors: &[String]) -> Self {
        match errors {
            [only] => Self::new(only.clone()),
            _ => Self::new(format!("{} errors\n  {}", errors.len(), errors.join("\n  "))),
        }
    }
}

/// Parses the arguments of the process, the program's name first. `lookup` says which plugins there are.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>, lookup: &dyn PluginLookup) -> Result<Action, Failure> {
    let args = args.into_iter().enumerate().map(|(index, arg)| match index {
        0 => arg,
        _ => with_dashes(arg),
    });
    let matches = commands::Cli::command().try_get_matches_from(args);
    let cli = match matches.and_then(|matches| commands::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(Action::Print(error.render().to_string()));
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let help = error.render().to_string();
            return Err(Failure::new(format!("a command is missing\n\n{}", help.trim_end())));
        }
        Err(error) => {
            let text = error.render().to_string();
            return Err(Failure::new(text.strip_prefix("error: ").unwrap_or(&text).trim_end()));
        }
    };
    commands::follow(cli, lookup)
}

/// Kubernetes components take `--leader_elect` for `--leader-elect`.
fn with_dashes(arg: OsString) -> OsString {
    let Some(flag) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    match flag.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")).into(),
        None => format!("--{}", flag.replace('_', "-")).into(),
    }
}

#[cfg(test)]
mod tests;
