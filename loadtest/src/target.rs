//! The API server that a run is made on: a fresh embedded server or a fresh real control plane, always a process of its
//! own.
//!
//! Does not: put anything into it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::ValueEnum;
use serde::Serialize;

use crate::client::{ApiClient, Endpoint};
use crate::controlplane::credentials::{User, kubeconfig};
use crate::controlplane::{ControlPlane, Options};
use crate::process::{Launch, Managed, OnDrop, free_port, write_private};
use crate::schedulers::own_binary;

/// How long the embedded server may take to answer.
const EMBEDDED_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Which API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// The embedded server: plain HTTP, in memory.
    Embedded,
    /// etcd and kube-apiserver.
    Real,
}

/// A running target; dropping it ends it.
#[derive(Debug)]
pub enum Target {
    /// The embedded server's process.
    Embedded(Embedded),
    /// A control plane, its limits on requests switched off.
    Real(Box<ControlPlane>),
}

/// The embedded server as a process.
#[derive(Debug)]
pub struct Embedded {
    _process: Managed,
    endpoint: Endpoint,
    kubeconfig: PathBuf,
}

impl Target {
    /// Starts a fresh target; its files go to `dir`.
    ///
    /// # Errors
    /// When it cannot be started or does not get ready.
    pub async fn start(kind: TargetKind, dir: &Path) -> Result<Self> {
        match kind {
            TargetKind::Embedded => embedded(dir).await.map(Self::Embedded),
            TargetKind::Real => {
                let options = Options {
                    unlimited: true,
                    dir: Some(dir.to_owned()),
                    ..Options::default()
                };
                Ok(Self::Real(Box::new(ControlPlane::start(&options).await?)))
            }
        }
    }

    /// How the load generator reaches it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Embedded(server) => &server.endpoint,
            Self::Real(plane) => plane.endpoint(),
        }
    }

    /// The kubeconfig for a scheduler.
    #[must_use]
    pub fn scheduler_kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded(server) => server.kubeconfig.clone(),
            Self::Real(plane) => plane.kubeconfig(User::Scheduler),
        }
    }
}

async fn embedded(dir: &Path) -> Result<Embedded> {
    let port = free_port()?;
    let endpoint = Endpoint {
        url: format!("http://127.0.0.1:{port}"),
        token: None,
        ca_pem: None,
    };
    let file = dir.join("embedded.kubeconfig");
    write_private(&file, &kubeconfig(&endpoint.url, None, None))?;
    let binary = tokio::task::spawn_blocking(|| own_binary("supercargo-apiserver"))
        .await
        .context("the build task failed")??;
    let args = vec!["--port".to_owned(), port.to_string()];
    let launch = Launch {
        name: "supercargo-apiserver",
        program: &binary,
        args,
        log_dir: dir,
        on_drop: OnDrop::Kill,
    };
    let mut process = Managed::spawn(&launch)?;
    let client = ApiClient::new(&endpoint)?;
    let deadline = Instant::now() + EMBEDDED_LIMIT;
    loop {
        process.ensure_running()?;
        match client
            .send(http::Method::GET, "/readyz", "application/json", Bytes::new())
            .await
        {
            Ok((status, _)) if status.is_success() => break,
            _ if Instant::now() < deadline => tokio::time::sleep(POLL).await,
            Ok((status, _)) => bail!("the embedded API server is not ready after {EMBEDDED_LIMIT:?}: {status}"),
            Err(error) => return Err(error).context("the embedded API server does not answer"),
        }
    }
    Ok(Embedded {
        _process: process,
        endpoint,
        kubeconfig: file,
    })
}
