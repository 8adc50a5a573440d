//! Child processes that never outlive the harness, and what `/proc` says of them.
//!
//! [`Managed`] owns one child: its output goes to a log file, dropping it kills it. Should the harness itself be killed
//! outright, so that no destructor runs, a small shell (the reaper) notices that its input closed and kills what is
//! left.
//!
//! Does not: know what the processes are, or restart them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;

/// Linux reports process times to user space in hundredths of a second on every architecture that this builds for.
const TICKS_PER_SECOND: f64 = 100.0;
/// How often a waiting loop looks whether a child is gone.
const EXIT_POLL: Duration = Duration::from_millis(10);
/// Ports are taken from below Linux's ephemeral range (32768 and up): a restarted server must find its port free, and a
/// client socket of the load generator could otherwise have taken it.
const PORT_RANGE: std::ops::Range<u16> = 20_000..32_000;
/// Tries to find a free port before giving up; the range has 12,000.
const PORT_TRIES: usize = 200;

/// The shell that outlives a killed harness for a moment: it reads `+PID` and `-PID` lines and, at end of input, kills
/// what was added and not taken away.
const REAPER: &str = r#"trap '' INT TERM HUP; p=
while read -r l; do case $l in
+*) p="$p ${l#+}";;
-*) n=; for x in $p; do [ "$x" = "${l#-}" ] || n="$n $x"; done; p=$n;;
esac; done
[ -z "$p" ] || kill -KILL $p 2>/dev/null"#;

/// What becomes of a child when its owner goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDrop {
    /// The child is killed with the harness.
    Kill,
    /// The child lives on in a process group of its own (`cluster up`).
    Leave,
}

/// What to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Short name: the log file is `NAME.log`.
    pub name: &'a str,
    /// The executable.
    pub program: &'a Path,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where the log file goes.
    pub log_dir: &'a Path,
    /// What becomes of it when the handle is dropped.
    pub on_drop: OnDrop,
}

/// A child process with a log file; dropping it kills it unless it was launched to be left.
#[derive(Debug)]
pub struct Managed {
    name: String,
    child: Child,
    log: PathBuf,
    on_drop: OnDrop,
    started: Instant,
    status: Option<ExitStatus>,
}

impl Managed {
    /// Starts a process, its standard output and error appended to the log file.
    ///
    /// # Errors
    /// When the log file cannot be opened or the program cannot be started.
    pub fn spawn(launch: &Launch<'_>) -> Result<Self> {
        let log = launch.log_dir.join(format!("{}.log", launch.name));
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot open the log file {}", log.display()))?;
        let err = out.try_clone().context("cannot duplicate a log file handle")?;
        let mut command = Command::new(launch.program);
        command.args(&launch.args).stdin(Stdio::null()).stdout(out).stderr(err);
        if launch.on_drop == OnDrop::Leave {
            command.process_group(0);
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        if launch.on_drop == OnDrop::Kill {
            reaper_tell('+', child.id());
        }
        Ok(Self {
            name: launch.name.to_owned(),
            child,
            log,
            on_drop: launch.on_drop,
            started: Instant::now(),
            status: None,
        })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name it was launched under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that its output goes to.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// When it was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Fails, with the end of the log, when the process is gone.
    ///
    /// # Errors
    /// When it exited or its state cannot be read.
    pub fn ensure_running(&mut self) -> Result<()> {
        if let Some(status) = self.try_status()? {
            bail!(
                "{} ended early ({status}); the end of {}:\n{}",
                self.name,
                self.log.display(),
                self.log_tail(15)
            );
        }
        Ok(())
    }

    /// The exit status if it ended.
    ///
    /// # Errors
    /// When its state cannot be read.
    pub fn try_status(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self
                .child
                .try_wait()
                .with_context(|| format!("cannot read the state of {}", self.name))?;
            if self.status.is_some() {
                reaper_tell('-', self.child.id());
            }
        }
        Ok(self.status)
    }

    /// Sends SIGTERM and waits; after `grace` sends SIGKILL. Gives the exit status.
    ///
    /// # Errors
    /// When the process cannot be signalled or waited for.
    ///
    /// # Cancel safety
    /// Safe: a dropped call leaves the handle usable.
    pub async fn terminate(&mut self, grace: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.try_status()? {
            return Ok(status);
        }
        signal(self.pid(), "TERM")?;
        match self.wait(grace).await? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Waits for the process to end by itself, `limit` at most.
    ///
    /// # Errors
    /// When its state cannot be read.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.try_status()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::time::sleep(EXIT_POLL).await;
        }
    }

    /// Sends SIGKILL and reaps. Gives the exit status.
    ///
    /// # Errors
    /// When it cannot be killed or waited for.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.try_status()? {
            return Ok(status);
        }
        self.child
            .kill()
            .with_context(|| format!("cannot kill {}", self.name))?;
        let status = self
            .child
            .wait()
            .with_context(|| format!("cannot wait for {}", self.name))?;
        self.status = Some(status);
        reaper_tell('-', self.child.id());
        Ok(status)
    }

    /// The last lines of the log, for error messages.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("(no log: {error})"));
        let all: Vec<&str> = text.lines().collect();
        all.get(all.len().saturating_sub(lines)..)
            .unwrap_or_default()
            .join("\n")
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Kill
            && let Err(error) = self.kill()
        {
            tracing::warn!(name = %self.name, %error, "a child process could not be stopped");
        }
    }
}

/// Sends a signal by name (`TERM`, `KILL`, `0`) to one process.
///
/// # Errors
/// When there is no such process or it may not be signalled.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\" 2>/dev/null", "sh", name, &pid.to_string()])
        .status()
        .context("cannot run sh to send a signal")?;
    if !status.success() {
        bail!("process {pid} cannot be sent {name}: it is gone or not ours");
    }
    Ok(())
}

/// Processor time and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProcessUse {
    /// User and system time since its start, in seconds (10 ms steps).
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub rss_bytes: u64,
    /// The most resident memory that it ever had.
    pub peak_rss_bytes: u64,
}

/// Reads a process's processor time and memory from `/proc`.
///
/// # Errors
/// When the process is gone or its files do not read as Linux writes them.
pub fn usage(pid: u32) -> Result<ProcessUse> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("no process {pid}"))?;
    Ok(ProcessUse {
        cpu_seconds: cpu_seconds(&stat).with_context(|| format!("/proc/{pid}/stat does not read"))?,
        rss_bytes: status_bytes(&status, "VmRSS:").unwrap_or(0),
        peak_rss_bytes: status_bytes(&status, "VmHWM:").unwrap_or(0),
    })
}

/// User plus system time from a `/proc/PID/stat` line; the command name before the last `)` may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some((f64::from(user) + f64::from(system)) / TICKS_PER_SECOND)
}

/// A `kB` figure of `/proc/PID/status`, in bytes.
fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace()
        .next()?
        .parse::<u64>()
        .ok()
        .map(|kib| kib.saturating_mul(1024))
}

/// A TCP port on loopback that nobody listens on at the moment, outside of the ephemeral range.
///
/// # Errors
/// When none was found.
pub fn free_port() -> Result<u16> {
    for _ in 0..PORT_TRIES {
        let [low, high, ..] = random_bytes()?;
        let port = PORT_RANGE.start + u16::from_le_bytes([low, high]) % (PORT_RANGE.end - PORT_RANGE.start);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free loopback port found in {PORT_RANGE:?}")
}

/// Sixteen random bytes from the operating system.
///
/// # Errors
/// When `/dev/urandom` cannot be read.
pub fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file: File = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Tells the reaper of a child's start (`+`) or end (`-`). Without a shell there is no reaper, and only destructors
/// clean up.
fn reaper_tell(sign: char, pid: u32) {
    static INPUT: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
    let input = INPUT.get_or_init(|| match start_reaper() {
        Ok(stdin) => Some(Mutex::new(stdin)),
        Err(error) => {
            tracing::warn!(%error, "no reaper: children of a killed harness will stay");
            None
        }
    });
    if let Some(stdin) = input
        && let Err(error) = writeln!(stdin.lock(), "{sign}{pid}")
    {
        tracing::debug!(%error, "the reaper is gone");
    }
}

fn start_reaper() -> io::Result<ChildStdin> {
    let mut child = Command::new("sh")
        .args(["-c", REAPER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    child
        .stdin
        .take()
        .ok_or_else(|| io::Error::other("the reaper has no standard input"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path, on_drop: OnDrop) -> Managed {
        Managed::spawn(&Launch {
            name: "sleeper",
            program: Path::new("sleep"),
            args: vec!["600".to_owned()],
            log_dir: dir,
            on_drop,
        })
        .unwrap()
    }

    #[test]
    fn dropped_child_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let child = sleeper(dir.path(), OnDrop::Kill);
        let pid = child.pid();
        assert!(usage(pid).unwrap().peak_rss_bytes > 0);
        drop(child);
        assert!(signal(pid, "0").is_err());
    }

    #[tokio::test]
    async fn terminated_child_reports_its_status() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = sleeper(dir.path(), OnDrop::Kill);
        child.ensure_running().unwrap();
        let status = child.terminate(Duration::from_secs(10)).await.unwrap();
        assert!(!status.success());
        assert!(child.ensure_running().is_err());
    }

    #[test]
    fn reaper_script_kills_what_was_not_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let (mut kept, mut reaped) = (sleeper(dir.path(), OnDrop::Leave), sleeper(dir.path(), OnDrop::Leave));
        let mut shell = Command::new("sh")
            .args(["-c", REAPER])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        writeln!(input, "+{}\n+{}\n-{}", kept.pid(), reaped.pid(), kept.pid()).unwrap();
        drop(input);
        shell.wait().unwrap();
        reaped.child.wait().unwrap();
        assert!(kept.try_status().unwrap().is_none());
        kept.kill().unwrap();
    }

    #[test]
    fn stat_line_with_a_strange_command_name_is_read() {
        let stat = "7 (a) b (c) S 1 1 1 0 -1 4194560 9 0 0 0 150 50 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(status_bytes("VmHWM:\t  12 kB\nVmRSS:\t 8 kB\n", "VmRSS:"), Some(8192));
    }
}
