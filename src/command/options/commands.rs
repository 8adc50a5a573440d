//! The subcommands.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use supercargo_config::{Checked, FeatureGates, Loader, PluginLookup};

use super::flags::RunFlags;
use super::values::gates;
use super::{Action, Failure, resolve};

/// Release of kube-scheduler whose decisions, flags and file format these are.
const FOLLOWS: &str = "1.36";

/// A Kubernetes scheduler that decides as kube-scheduler decides, much faster.
///
/// Without a subcommand it runs with the flags given.
#[derive(Debug, Parser)]
#[command(
    name = "supercargo",
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    disable_help_subcommand = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Schedule (the default)
    #[command(args_override_self = true)]
    Run(Box<RunFlags>),
    /// Check or show configuration files
    #[command(subcommand)]
    Config(ConfigSub),
    /// Print the version
    Version,
    /// Start an API server and hollow nodes in this process and schedule on them
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
}

#[derive(Debug, Subcommand)]
enum ConfigSub {
    /// Print every error of a file, or OK
    Check(FileArgs),
    /// Print the effective configuration of a file as YAML
    Print(FileArgs),
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The file
    file: PathBuf,
    /// Feature gates, as Name=true,Other=false; may be repeated
    #[arg(long, value_name = "A,B", action = clap::ArgAction::Append)]
    feature_gates: Vec<String>,
}

/// Arguments of `demo`.
#[cfg(feature = "demo")]
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DemoArgs {
    /// Number of nodes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: u32,
    /// Number of pods
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) pods: u32,
    /// Configuration file; who leads and how to connect do not count here
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the summary as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Does what can be done without a scheduler, and resolves the rest.
pub(super) fn follow(cli: Cli, lookup: &dyn PluginLookup) -> Result<Action, Failure> {
    match cli.command {
        None => run(&cli.run, lookup),
        Some(Sub::Run(flags)) => run(&flags, lookup),
        Some(Sub::Version) => Ok(Action::Print(version())),
        Some(Sub::Config(ConfigSub::Check(args))) => check(&args, lookup),
        Some(Sub::Config(ConfigSub::Print(args))) => print(&args, lookup),
        #[cfg(feature = "demo")]
        Some(Sub::Demo(args)) => Ok(Action::Demo(args)),
    }
}

fn run(flags: &RunFlags, lookup: &dyn PluginLookup) -> Result<Action, Failure> {
    match flags.version.as_deref().map(super::values::go_bool) {
        Some(Some(true)) => return Ok(Action::Print(version())),
        Some(None) if flags.version.as_deref() == Some("raw") => return Ok(Action::Print(version())),
        Some(None) => return Err(Failure::new("--version: neither a boolean nor raw")),
        Some(Some(false)) | None => {}
    }
    let options = resolve::options(flags, lookup)?;
    match flags.general.write_config_to.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => write_config(&options, Path::new(path)),
        None => Ok(Action::Run(Box::new(options))),
    }
}

fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("supercargo {version}, follows kube-scheduler {FOLLOWS}\n")
}

fn write_config(options: &super::Options, path: &Path) -> Result<Action, Failure> {
    let mut yaml = options
        .configuration
        .to_yaml()
        .map_err(|error| Failure::new(error.to_string()))?;
    // kube-scheduler reads the file too while nothing of ours has to be said in it.
    if options.settings != supercargo_config::Settings::default() {
        let settings = options
            .settings
            .to_yaml()
            .map_err(|error| Failure::new(error.to_string()))?;
        yaml = format!("{yaml}---\n{settings}");
    }
    std::fs::write(path, yaml).map_err(|error| {
        Failure::new(format!(
            "--write-config-to: {} cannot be written: {error}",
            path.display()
        ))
    })?;
    Ok(Action::Print(format!(
        "wrote the effective configuration to {}\n",
        path.display()
    )))
}

fn load(args: &FileArgs, lookup: &dyn PluginLookup) -> Result<Checked, Failure> {
    let gates = FeatureGates::parse(&args.feature_gates.join(",")).map_err(|errors| Failure::of(&gates(&errors)))?;
    let loader = Loader::new(lookup).gates(gates);
    loader
        .check_file(&args.file)
        .map_err(|errors| Failure::new(errors.to_string()))
}

fn check(args: &FileArgs, lookup: &dyn PluginLookup) -> Result<Action, Failure> {
    let mut text = String::new();
    if let Checked::Configuration(loaded) = load(args, lookup)? {
        for warning in &loaded.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
    }
    text.push_str(&format!("{}: OK\n", args.file.display()));
    Ok(Action::Print(text))
}

fn print(args: &FileArgs, lookup: &dyn PluginLookup) -> Result<Action, Failure> {
    let text = match load(args, lookup)? {
        Checked::Settings(settings) => settings.to_yaml(),
        Checked::Configuration(loaded) => loaded.configuration.to_yaml().and_then(|yaml| match &loaded.settings {
            None => Ok(yaml),
            Some(settings) => Ok(format!("{yaml}---\n{}", settings.to_yaml()?)),
        }),
    };
    text.map(Action::Print).map_err(|error| Failure::new(error.to_string()))
}
