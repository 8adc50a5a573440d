//! The command line: `cluster`, `run`, `compare`, `parity`, `differential`.
//!
//! Logs and summaries go to standard error; with `--json` the last line of standard output is one JSON object.
//!
//! Does not: measure or start anything itself.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::compare::{ROUNDS, compare};
use crate::controlplane::build::{Component, cached_path, ensure};
use crate::controlplane::{Options, state};
use crate::differential::{self, DifferentialArgs};
use crate::measure::{RunSpec, SchedulerKind, run};
use crate::parity::{self, ParityArgs};
use crate::populate::Pace;
use crate::schedulers::SchedulerLaunch;
use crate::target::TargetKind;
use crate::workload::WorkloadSpec;

/// Load tests, control planes and comparisons for Supercargo.
#[derive(Debug, Parser)]
#[command(name = "supercargo-loadtest", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A real control plane on loopback, built from pinned Go modules.
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// One measured run on a fresh API server.
    Run(RunArgs),
    /// Supercargo, kube-scheduler and a bare client in turn; medians and ratios.
    Compare(CompareArgs),
    /// Recorded decisions of kube-scheduler against ours.
    Parity(ParityArgs),
    /// Random pods, decided by the real kube-scheduler and by ours in turn; any disagreement is a failure.
    Differential(DifferentialCommand),
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Build the programs that the cache lacks.
    Build(BuildArgs),
    /// Start a fresh cluster that outlives this command.
    Up(UpArgs),
    /// Stop the cluster.
    Down(DirArgs),
    /// Show the cluster's processes.
    Status(DirArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Only these (default: all).
    #[arg(value_parser = component)]
    components: Vec<Component>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct UpArgs {
    #[command(flatten)]
    dir: DirArgs,
    /// Also run kube-controller-manager.
    #[arg(long)]
    controller_manager: bool,
    /// Also run kube-scheduler.
    #[arg(long)]
    kube_scheduler: bool,
    /// Also run kwok, which plays nodes annotated kwok.x-k8s.io/node=fake.
    #[arg(long)]
    kwok: bool,
    /// Switch off priority and fairness and the limits on requests in flight.
    #[arg(long)]
    unlimited: bool,
}

#[derive(Debug, Args)]
struct DirArgs {
    /// The cluster's folder [default: the user's state folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// Print one JSON object on the last line of standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Who schedules.
    #[arg(long, value_enum, default_value = "supercargo")]
    scheduler: SchedulerKind,
    #[command(flatten)]
    common: CommonArgs,
    /// Create pods while the scheduler runs, and report latencies from creation to bind.
    #[arg(long)]
    create_during: bool,
    /// With --create-during: pods a second [default: as fast as the server takes them].
    #[arg(long, requires = "create_during", value_parser = positive)]
    rate: Option<f64>,
}

#[derive(Debug, Args)]
struct CompareArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Rounds of one run each.
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
}

#[derive(Debug, Args)]
struct DifferentialCommand {
    #[command(flatten)]
    args: DifferentialArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// The API server.
    #[arg(long, value_enum, default_value = "real")]
    target: TargetKind,
    /// basic, mixed, openb or preemption.
    #[arg(long, default_value = "basic")]
    workload: String,
    /// Nodes [default: the trace's, 5000 for preemption, else 1000].
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods [default: the trace's, 500 for preemption, else 10000].
    #[arg(long)]
    pods: Option<usize>,
    /// The folder with a trace's files.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Seed of random workloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A KubeSchedulerConfiguration for the schedulers.
    #[arg(long)]
    config: Option<PathBuf>,
    /// A SupercargoConfiguration for Supercargo.
    #[arg(long)]
    settings: Option<PathBuf>,
    /// Supercargo's binary [default: the one beside this program].
    #[arg(long)]
    scheduler_bin: Option<PathBuf>,
    /// Bindings that the bare client has in flight.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// The longest that a run may take, in seconds.
    #[arg(long, default_value_t = 3600)]
    limit_seconds: u64,
    /// Keep each run's logs and files in a folder here.
    #[arg(long)]
    keep: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl CommonArgs {
    fn spec(&self, create_during: Option<Pace>) -> RunSpec {
        RunSpec {
            target: self.target,
            workload: WorkloadSpec {
                name: self.workload.clone(),
                nodes: self.nodes,
                pods: self.pods,
                trace: self.trace.clone(),
                seed: self.seed,
            },
            launch: SchedulerLaunch {
                binary: self.scheduler_bin.clone(),
                config: self.config.clone(),
                settings: self.settings.clone(),
                ..SchedulerLaunch::default()
            },
            in_flight: self.in_flight,
            create_during,
            limit: Duration::from_secs(self.limit_seconds),
            keep: self.keep.clone(),
        }
    }
}

/// Parses the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = runtime
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(dispatch(cli.command)));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Cluster { command } => cluster(command).await,
        Command::Run(args) => {
            let pace = args
                .create_during
                .then(|| args.rate.map_or(Pace::Full, Pace::PerSecond));
            let report = run(&args.common.spec(pace), args.scheduler, None).await?.report;
            emit(&report, &report.summary(), &args.common.output)?;
            Ok(code(report.is_sound()))
        }
        Command::Compare(args) => {
            let report = compare(&args.common.spec(None), args.rounds).await?;
            emit(&report, &report.summary(), &args.common.output)?;
            Ok(code(report.is_sound()))
        }
        Command::Parity(args) => parity::run(&args),
        Command::Differential(command) => {
            let report = differential::run(&command.args).await?;
            emit(&report, &report.summary(), &command.output)?;
            Ok(code(report.is_good()))
        }
    }
}

fn code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn cluster(command: ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Build(args) => build(args).await?,
        ClusterCommand::Up(args) => {
            let options = Options {
                controller_manager: args.controller_manager,
                scheduler: args.kube_scheduler,
                kwok: args.kwok,
                unlimited: args.unlimited,
                ..Options::default()
            };
            let state = state::up(&args.dir.folder()?, options).await?;
            let text = format!("{} is up\nexport KUBECONFIG={}", state.url, state.kubeconfig.display());
            emit(&state, &text, &args.dir.output)?;
        }
        ClusterCommand::Down(args) => {
            let ended = state::down(&args.folder()?).await?;
            emit(
                &serde_json::json!({"ended": ended}),
                &format!("{ended} processes ended"),
                &args.output,
            )?;
        }
        ClusterCommand::Status(args) => {
            let folder = args.folder()?;
            let state =
                state::read(&folder)?.with_context(|| format!("no cluster was started from {}", folder.display()))?;
            let mut text = format!("{}\nKUBECONFIG={}", state.url, state.kubeconfig.display());
            for process in &state.processes {
                let word = if process.running { "running" } else { "gone" };
                text.push_str(&format!("\n{:<24} {:>8} {word}", process.name, process.pid));
            }
            let all = state.processes.iter().all(|process| process.running);
            emit(&state, &text, &args.output)?;
            return Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn build(args: BuildArgs) -> Result<()> {
    let components = if args.components.is_empty() {
        Component::ALL.to_vec()
    } else {
        args.components
    };
    let mut paths = serde_json::Map::new();
    for component in components {
        tokio::task::spawn_blocking(move || ensure(component))
            .await
            .context("the build task failed")??;
        paths.insert(
            component.name().to_owned(),
            cached_path(component)?.display().to_string().into(),
        );
    }
    let text: Vec<String> = paths
        .values()
        .filter_map(|path| path.as_str().map(str::to_owned))
        .collect();
    emit(&paths, &text.join("\n"), &args.output)
}

impl DirArgs {
    fn folder(&self) -> Result<PathBuf> {
        self.dir.clone().map_or_else(state::default_dir, Ok)
    }
}

fn component(name: &str) -> Result<Component, String> {
    let names = || Component::ALL.map(Component::name).join(", ");
    Component::ALL
        .into_iter()
        .find(|one| one.name() == name)
        .ok_or_else(|| format!("not one of {}", names()))
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err("must be above zero".to_owned())
    }
}

/// With `--json` the object on standard output, else the text on standard error.
fn emit<T: Serialize>(value: &T, text: &str, output: &Output) -> Result<()> {
    if output.json {
        let line = serde_json::to_string(value)?;
        return writeln!(io::stdout(), "{line}").context("cannot write to standard output");
    }
    say(text);
    Ok(())
}

fn say(text: &str) {
    if writeln!(io::stderr(), "{}", text.trim_end()).is_err() {
        // Nobody reads standard error: there is nowhere left to say so.
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_rate_needs_arrival_during_the_run() {
        assert!(Cli::try_parse_from(["x", "run", "--rate", "5"]).is_err());
        assert!(Cli::try_parse_from(["x", "run", "--create-during", "--rate", "0"]).is_err());
        assert!(Cli::try_parse_from(["x", "run", "--create-during", "--rate", "5"]).is_ok());
    }
}
