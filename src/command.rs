//! The command line of a scheduler: `run` (the default), `config`, `version`, `demo`.
//!
//! [`Command`] is all of a scheduler's `main`, so that a scheduler with plugins of one's own is one call away:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use supercargo::framework::{Plugin, PluginContext};
//! # struct Mine;
//! # impl Plugin for Mine {
//! #     fn name(&self) -> supercargo::ids::Symbol {
//! #         supercargo::ids::Symbol::new("Mine")
//! #     }
//! # }
//! use supercargo::command::{Command, ExtensionPoint};
//!
//! fn main() -> std::process::ExitCode {
//!     Command::new()
//!         .with_plugin("Mine", &[ExtensionPoint::Filter], |_: &PluginContext<'_>| Ok(Arc::new(Mine)))
//!         .main()
//! }
//! ```
//!
//! It is the edge of a binary: what it is asked for goes to standard output, why it failed to standard error, and the
//! end is an exit code. It wires everything, so no other module imports from it.
//!
//! Does not: decide anything about pods, exit the process, or choose the global allocator (a binary does that).
//!
//! Children in reading order: `options` (from arguments to what is to be done), `run`, `demo`.

#[cfg(feature = "demo")]
mod demo;
mod options;
mod run;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

pub use supercargo_config::{ExtensionPoint, PluginArgs};

use supercargo_config::PluginCatalogue;

use crate::framework::{Plugin, PluginContext, PluginError, Registry};
use crate::telemetry::error_text;
use options::{Action, Failure};

/// A scheduler's command line, with the in-tree plugins and those that are added.
#[derive(Debug, Clone)]
pub struct Command {
    catalogue: PluginCatalogue,
    registry: Registry,
    /// The first plugin that could not be added.
    fault: Option<PluginError>,
}

impl Default for Command {
    fn default() -> Self {
        Self {
            catalogue: PluginCatalogue::in_tree(),
            registry: crate::plugins::registry(),
            fault: None,
        }
    }
}

impl Command {
    /// With the in-tree plugins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more plugin. It takes part once a configuration enables it.
    ///
    /// `points` are the extension points at which configurations may enable it: those whose accessors of [`Plugin`]
    /// return something. `factory` makes an instance for each profile that enables it, from the args of the profile's
    /// `pluginConfig` ([`PluginArgs::Raw`]); its error ends the start with that text.
    ///
    /// A name that is taken, by an in-tree plugin or another one, is an error of [`Self::main`]. Source: `WithPlugin` of
    /// kube-scheduler's `cmd/kube-scheduler/app/server.go`, which refuses it too.
    #[must_use]
    pub fn with_plugin<F>(mut self, name: &str, points: &[ExtensionPoint], factory: F) -> Self
    where
        F: Fn(&PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> + Send + Sync + 'static,
    {
        match self.registry.register(name, factory) {
            Ok(()) => self.catalogue = self.catalogue.with(name, points),
            Err(error) => self.fault = self.fault.or(Some(error)),
        }
        self
    }

    /// All plugins and their points, to read configurations with.
    #[must_use]
    pub fn catalogue(&self) -> &PluginCatalogue {
        &self.catalogue
    }

    /// All plugins and how to make them, for a [`Scheduler`](crate::scheduler::Scheduler) without a command line.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Does what the process's arguments say, and returns how the process should end.
    #[must_use]
    pub fn main(self) -> ExitCode {
        self.main_with(std::env::args_os())
    }

    /// Does what these arguments say, the program's name first, and returns how the process should end.
    ///
    /// `run` sets up logs and TLS for the whole process and listens for its signals, so one runs at a time.
    #[must_use]
    pub fn main_with(self, args: impl IntoIterator<Item = OsString>) -> ExitCode {
        self.follow(args)
            .unwrap_or_else(|failure| fail(&failure.message, failure.code))
    }

    fn follow(self, args: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Failure> {
        let failed = |error: anyhow::Error| Failure::new(error_text(error.as_ref()));
        match self.action(args)? {
            Action::Run(options) => run::run(&options, self.registry).map_err(failed),
            #[cfg(feature = "demo")]
            Action::Demo(args) => match demo::run(&args, self).map_err(failed)? {
                true => Ok(ExitCode::SUCCESS),
                false => Err(Failure::new("not every pod that can be scheduled is bound")),
            },
            Action::Print(text) => match std::io::stdout().write_all(text.as_bytes()) {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(error) => Err(Failure::new(format!("standard output: {error}"))),
            },
        }
    }

    /// What the arguments ask for; refused when the plugins are not as they should be.
    fn action(&self, args: impl IntoIterator<Item = OsString>) -> Result<Action, Failure> {
        match &self.fault {
            Some(fault) => Err(Failure::new(fault.to_string())),
            None => options::parse(args, &self.catalogue),
        }
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    match writeln!(std::io::stderr(), "error: {message}") {
        Ok(()) => ExitCode::from(code),
        // Nobody is left to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests;
