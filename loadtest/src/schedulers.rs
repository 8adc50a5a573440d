//! Starting a scheduler as a process of its own: Supercargo's binary or the real kube-scheduler.
//!
//! Both get the same configuration file with the same kubeconfig and no leader election; kube-scheduler's client limits
//! are raised, as its shipped 50 requests a second would decide every comparison.
//!
//! Does not: judge what the scheduler does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::controlplane::arguments;
use crate::controlplane::build::{self, Component};
use crate::process::{Launch, Managed, OnDrop, free_port, write_private};

/// kube-scheduler's client limit: beyond what any API server here answers.
const PEER_REQUESTS_PER_SECOND: u32 = 10_000;

/// How a scheduler is started.
#[derive(Debug, Clone, Default)]
pub struct SchedulerLaunch {
    /// The binary; else [`own_binary`].
    pub binary: Option<PathBuf>,
    /// A KubeSchedulerConfiguration; kubeconfig and leader election in it are overridden.
    pub config: Option<PathBuf>,
    /// A SupercargoConfiguration.
    pub settings: Option<PathBuf>,
    /// Take part in leader election instead of scheduling at once.
    pub leader_elect: bool,
    /// The API server takes JSON alone: kube-scheduler, which speaks protobuf by default, is told so.
    pub json_only: bool,
    /// Further command line arguments.
    pub extra_args: Vec<String>,
}

/// What kube-scheduler's client is told beyond what ours is.
struct Peer {
    qps: u32,
    json_only: bool,
}

/// A scheduler process and where it serves health and metrics.
#[derive(Debug)]
pub struct Scheduler {
    /// The process.
    pub process: Managed,
    /// Its secure port.
    pub port: u16,
}

/// Starts Supercargo: `supercargo --kubeconfig F --config F --secure-port P --leader-elect=…`.
///
/// # Errors
/// When the binary is not found, a file cannot be read, or it cannot be started.
pub fn supercargo(launch: &SchedulerLaunch, kubeconfig: &Path, dir: &Path, name: &str) -> Result<Scheduler> {
    let binary = match &launch.binary {
        Some(binary) => binary.clone(),
        None => own_binary("supercargo")?,
    };
    let config = dir.join(format!("{name}.yaml"));
    let documents = documents(launch.config.as_deref())?;
    write_config(&config, documents, kubeconfig, launch.leader_elect, None)?;
    let port = free_port()?;
    let mut args = vec![
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--config".to_owned(),
        config.display().to_string(),
        "--secure-port".to_owned(),
        port.to_string(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--leader-elect={}", launch.leader_elect),
    ];
    if let Some(settings) = &launch.settings {
        args.extend(["--settings".to_owned(), settings.display().to_string()]);
    }
    args.extend(launch.extra_args.iter().cloned());
    let launch = Launch {
        name,
        program: &binary,
        args,
        log_dir: dir,
        on_drop: OnDrop::Kill,
    };
    Ok(Scheduler {
        process: Managed::spawn(&launch)?,
        port,
    })
}

/// Starts the real kube-scheduler, building it first if the cache lacks it. Of `launch` it takes the configuration
/// (without our own documents), leader election and further arguments.
///
/// # Errors
/// When it cannot be built or started, or the configuration cannot be read.
pub fn kube_scheduler(launch: &SchedulerLaunch, kubeconfig: &Path, dir: &Path, name: &str) -> Result<Scheduler> {
    let binary = build::ensure(Component::KubeScheduler)?;
    let file = dir.join(format!("{name}.yaml"));
    let ours = |one: &Value| kind(one) == "SupercargoConfiguration";
    let kept = documents(launch.config.as_deref())?
        .into_iter()
        .filter(|one| !ours(one));
    let peer = Peer {
        qps: PEER_REQUESTS_PER_SECOND,
        json_only: launch.json_only,
    };
    write_config(&file, kept.collect(), kubeconfig, launch.leader_elect, Some(&peer))?;
    let port = free_port()?;
    let mut args = arguments::kube_scheduler(&file, port);
    args.extend(launch.extra_args.iter().cloned());
    let launch = Launch {
        name,
        program: &binary,
        args,
        log_dir: dir,
        on_drop: OnDrop::Kill,
    };
    Ok(Scheduler {
        process: Managed::spawn(&launch)?,
        port,
    })
}

/// A binary of this workspace.
///
/// Under cargo (`cargo run`, `cargo test`) it is built first, once for this process, so that it is never an old one;
/// otherwise the one beside this executable is taken and only a missing one is built. Blocks while it builds.
///
/// # Errors
/// When it is missing and cannot be built.
pub fn own_binary(package: &'static str) -> Result<PathBuf> {
    static FRESH: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut fresh = FRESH.lock();
    let found = beside_this_executable(package);
    let cargo = std::env::var_os("CARGO");
    if fresh.contains(&package) || (cargo.is_none() && found.is_ok()) {
        return found;
    }
    if !Path::new(env!("CARGO_MANIFEST_DIR")).is_dir() {
        return found;
    }
    build_binary(package, &cargo.unwrap_or_else(|| "cargo".into()))?;
    fresh.push(package);
    beside_this_executable(package)
}

/// In the folder of this executable or, for test executables, the one above it.
fn beside_this_executable(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this executable is")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        let release = if own.ancestors().any(|folder| folder.ends_with("release")) {
            " --release"
        } else {
            ""
        };
        format!(
            "there is no `{name}` beside {}: build it with `cargo build{release} -p {name}`",
            own.display()
        )
    })
}

/// Builds a binary into the target folder and profile that this executable stands in: `TARGET/PROFILE[/deps]/NAME`.
fn build_binary(package: &str, cargo: &OsStr) -> Result<()> {
    let own = std::env::current_exe().context("cannot tell where this executable is")?;
    let parent = own.parent().context("this executable is in no folder")?;
    let profile = if parent.ends_with("deps") {
        parent.parent()
    } else {
        Some(parent)
    };
    let profile = profile.context("this executable is not in a target folder")?;
    let target = profile.parent().context("this executable is not in a target folder")?;
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "-p", package, "--bin", package])
        .env("CARGO_TARGET_DIR", target);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::null());
    if profile.ends_with("release") {
        command.arg("--release");
    }
    tracing::info!(package, "building");
    let status = command
        .status()
        .with_context(|| format!("cannot run cargo to build {package}"))?;
    if !status.success() {
        bail!("cargo build -p {package} failed ({status})");
    }
    Ok(())
}

/// The documents of a configuration file; without one, an empty KubeSchedulerConfiguration.
fn documents(config: Option<&Path>) -> Result<Vec<Value>> {
    let Some(path) = config else {
        return Ok(vec![json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        })]);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", path.display()))
}

fn kind(document: &Value) -> &str {
    document.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// Writes documents with the run's kubeconfig and leader election set, as JSON documents (which are YAML).
fn write_config(file: &Path, documents: Vec<Value>, kubeconfig: &Path, elect: bool, peer: Option<&Peer>) -> Result<()> {
    let mut text = String::new();
    for mut document in documents {
        if kind(&document) == "KubeSchedulerConfiguration" {
            let client = section(&mut document, "clientConnection")?;
            client.insert("kubeconfig".to_owned(), json!(kubeconfig.display().to_string()));
            if let Some(Peer { qps, json_only }) = peer {
                client.insert("qps".to_owned(), json!(qps));
                client.insert("burst".to_owned(), json!(qps));
                if *json_only {
                    client.insert("contentType".to_owned(), json!("application/json"));
                }
            }
            section(&mut document, "leaderElection")?.insert("leaderElect".to_owned(), json!(elect));
        }
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&serde_json::to_string_pretty(&document)?);
        text.push('\n');
    }
    write_private(file, &text)
}

fn section<'a>(document: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>> {
    let object = document
        .as_object_mut()
        .context("a configuration document is not a mapping")?;
    let section = object.entry(name).or_insert_with(|| json!({}));
    section
        .as_object_mut()
        .with_context(|| format!("{name} is not a mapping"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_config_keeps_its_profiles_and_gets_the_runs_kubeconfig() {
        let dir = tempfile::tempdir().unwrap();
        let given = dir.path().join("given.yaml");
        std::fs::write(
            &given,
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             leaderElection: {leaseDuration: 15s}\nprofiles: [{schedulerName: a}]\n\
             ---\napiVersion: supercargo.io/v1alpha1\nkind: SupercargoConfiguration\nworkers: 1\n",
        )
        .unwrap();
        let file = dir.path().join("out.yaml");
        write_config(
            &file,
            documents(Some(&given)).unwrap(),
            Path::new("/k"),
            false,
            Some(&Peer {
                qps: 10,
                json_only: false,
            }),
        )
        .unwrap();
        let written = documents(Some(&file)).unwrap();
        assert_eq!(written.len(), 2);
        assert_eq!(
            written[0]["clientConnection"],
            json!({"kubeconfig": "/k", "qps": 10, "burst": 10})
        );
        assert_eq!(
            written[0]["leaderElection"],
            json!({"leaseDuration": "15s", "leaderElect": false})
        );
        assert_eq!(written[0]["profiles"], json!([{"schedulerName": "a"}]));
        assert_eq!(
            written[1],
            json!({"apiVersion": "supercargo.io/v1alpha1", "kind": "SupercargoConfiguration", "workers": 1})
        );
    }

    #[test]
    fn a_missing_binary_is_named() {
        let error = beside_this_executable("no-such-program").unwrap_err();
        assert!(error.to_string().contains("no-such-program"));
    }
}
