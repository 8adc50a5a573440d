//! What `cluster up` leaves behind so that `cluster down` and `cluster status` find it.
//!
//! The state file names each process with its id *and* its start time since boot: a process id alone may since have
//! become somebody else's, and `down` must end only what `up` started.
//!
//! Does not: keep more than one cluster a folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::credentials::User;
use super::{ControlPlane, Options};
use crate::process::{signal, write_private};

const FILE: &str = "cluster.json";
/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A cluster that was started by `up`.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// The API server's address.
    pub url: String,
    /// The administrator's kubeconfig file.
    pub kubeconfig: PathBuf,
    /// The scheduler's kubeconfig file (`system:kube-scheduler`).
    pub scheduler_kubeconfig: PathBuf,
    /// All processes, the servers first.
    pub processes: Vec<Process>,
}

/// One process of a cluster.
#[derive(Debug, Serialize, Deserialize)]
pub struct Process {
    /// The component.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Its start in clock ticks since boot, as `/proc` tells it.
    pub start_ticks: u64,
    /// Its log file.
    pub log: PathBuf,
    /// Whether it still runs; not stored.
    #[serde(skip_deserializing)]
    pub running: bool,
}

impl Process {
    fn is_running(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// The folder used when none is named: `$XDG_STATE_HOME/supercargo/cluster` (`~/.local/state` without the variable).
///
/// # Errors
/// When neither `XDG_STATE_HOME` nor `HOME` is set.
pub fn default_dir() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Ok(base
        .context("neither XDG_STATE_HOME nor HOME is set: name a folder with --dir")?
        .join("supercargo/cluster"))
}

/// Starts a cluster that outlives this process.
///
/// # Errors
/// When one already runs from this folder, or it does not start.
pub async fn up(dir: &Path, mut options: Options) -> Result<State> {
    if let Some(state) = read(dir)?
        && state.processes.iter().any(|process| process.running)
    {
        bail!("a cluster already runs from {}: stop it first", dir.display());
    }
    // A new cluster is an empty one.
    let data = dir.join("etcd");
    if data.exists() {
        std::fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    }
    options.dir = Some(dir.to_owned());
    options.detached = true;
    let plane = ControlPlane::start(&options).await?;
    let processes = plane.processes().map(|process| Process {
        name: process.name().to_owned(),
        pid: process.pid(),
        start_ticks: start_ticks(process.pid()).unwrap_or(0),
        log: process.log().to_owned(),
        running: true,
    });
    let state = State {
        url: plane.endpoint().url.clone(),
        kubeconfig: plane.kubeconfig(User::Admin),
        scheduler_kubeconfig: plane.kubeconfig(User::Scheduler),
        processes: processes.collect(),
    };
    write_private(&dir.join(FILE), &serde_json::to_string_pretty(&state)?)?;
    Ok(state)
}

/// Stops the cluster of a folder and gives how many processes were ended. Logs and kubeconfigs stay.
///
/// # Errors
/// When no cluster was started from the folder or a process cannot be ended.
pub async fn down(dir: &Path) -> Result<usize> {
    let state = read(dir)?.with_context(|| format!("no cluster was started from {}", dir.display()))?;
    let mut ended = 0;
    // The servers stand first: clients go before what they depend on.
    for process in state.processes.iter().rev().filter(|process| process.is_running()) {
        end(process).await?;
        ended += 1;
    }
    std::fs::remove_file(dir.join(FILE)).context("cannot remove the state file")?;
    Ok(ended)
}

/// Reads a folder's state, with `running` filled in; `None` when no cluster was started from it.
///
/// # Errors
/// When the state file cannot be read.
pub fn read(dir: &Path) -> Result<Option<State>> {
    let path = dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut state: State = serde_json::from_str(&text).with_context(|| format!("{} does not read", path.display()))?;
    for process in &mut state.processes {
        process.running = process.is_running();
    }
    Ok(Some(state))
}

async fn end(process: &Process) -> Result<()> {
    signal(process.pid, "TERM")?;
    let deadline = Instant::now() + GRACE;
    while process.is_running() && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    if process.is_running() {
        signal(process.pid, "KILL")?;
    }
    Ok(())
}

/// A running process's start time; `None` when it is gone or only waits to be reaped.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_start_time_is_known_and_a_dead_pid_has_none() {
        assert!(start_ticks(std::process::id()).is_some());
        assert!(start_ticks(u32::MAX).is_none());
    }

    #[tokio::test]
    async fn down_without_up_says_so() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap().is_none());
        assert!(
            down(dir.path())
                .await
                .unwrap_err()
                .to_string()
                .contains("no cluster was started")
        );
    }

    #[tokio::test]
    async fn down_leaves_a_process_that_only_has_the_same_id() {
        let dir = tempfile::tempdir().unwrap();
        let stranger = Process {
            name: "etcd".to_owned(),
            pid: std::process::id(),
            start_ticks: 1,
            log: PathBuf::new(),
            running: false,
        };
        let state = State {
            url: String::new(),
            kubeconfig: PathBuf::new(),
            scheduler_kubeconfig: PathBuf::new(),
            processes: vec![stranger],
        };
        write_private(&dir.path().join(FILE), &serde_json::to_string(&state).unwrap()).unwrap();
        assert_eq!(down(dir.path()).await.unwrap(), 0);
    }
}
