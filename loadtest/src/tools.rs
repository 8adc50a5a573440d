//! Helm and kubectl as a user runs them, built from pinned Go modules.
//!
//! Does not: read the user's kubeconfig or caches.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::controlplane::build::{self, Component};

/// Runs helm and gives its standard output.
///
/// # Errors
/// When it cannot be built or fails; what it wrote to standard error is in the message.
pub fn helm(args: &[&str]) -> Result<String> {
    run(Command::new(build::ensure(Component::Helm)?).args(args), None)
}

/// kubectl with one user's kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    /// kubectl for a server; its cache of what the server offers goes to `dir`, as another server may have had the port.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn new(kubeconfig: &Path, dir: &Path) -> Result<Self> {
        Ok(Self {
            program: build::ensure(Component::Kubectl)?,
            kubeconfig: kubeconfig.to_owned(),
            cache: dir.join("kubectl-cache"),
        })
    }

    /// Runs it and gives its standard output. Blocks.
    ///
    /// # Errors
    /// When it fails; what it wrote to standard error is in the message.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        run(&mut self.command(args), None)
    }

    /// Like [`Kubectl::run`], with a text on standard input.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn run_with(&self, args: &[&str], input: &str) -> Result<String> {
        run(&mut self.command(args), Some(input))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache);
        command
    }
}

/// Runs a program to its end and gives its standard output. Blocks.
///
/// # Errors
/// When it cannot be started or fails; what it wrote to standard error is in the message.
pub fn run(command: &mut Command, input: Option<&str>) -> Result<String> {
    let shown = format!("{command:?}");
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {shown}"))?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // The programs here read all of their input before they write.
        stdin
            .write_all(input.as_bytes())
            .with_context(|| format!("writing to {shown}"))?;
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("waiting for {shown}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{shown} failed ({}): {error}{text}", output.status);
    }
    Ok(text)
}
