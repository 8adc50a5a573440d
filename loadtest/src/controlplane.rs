//! A real control plane on loopback: etcd and kube-apiserver, and on request the controller manager, kube-scheduler and
//! kwok, built from pinned Go modules.
//!
//! [`ControlPlane::start`] gives a fresh one in a folder of its own; dropping it kills its processes and, unless it was
//! given a folder, removes the files. RBAC is on and every component is a user of its own. etcd does not sync to disk.
//!
//! Reading order: [`build`] (sources to executables), [`credentials`] (keys, tokens, kubeconfigs), [`arguments`]
//! (command lines), [`state`] (what `cluster up` leaves for `cluster down`).
//!
//! Does not: run kubelets, survive a reboot, or listen anywhere but on 127.0.0.1.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;

use crate::client::{ApiClient, Endpoint};
use crate::process::{Launch, Managed, OnDrop, free_port};

pub mod arguments;
pub mod build;
pub mod credentials;
pub mod state;

use build::Component;
use credentials::{Credentials, User};

/// kube-apiserver is ready in about 4 s on an idle machine of two cores; a loaded one needs patience.
const READY_LIMIT: Duration = Duration::from_secs(180);
/// Pause between two looks at a server that is not ready yet.
const READY_POLL: Duration = Duration::from_millis(50);
/// How long a component may take to end after SIGTERM before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// A priority level and flow schema of the scheduler's own.
const FLOW_CONTROL: [(&str, &str); 2] = [
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        include_str!("../controlplane/scheduler-priority-level.json"),
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        include_str!("../controlplane/scheduler-flow-schema.json"),
    ),
];

/// What to start beside etcd and kube-apiserver, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Also kube-controller-manager.
    pub controller_manager: bool,
    /// Also kube-scheduler.
    pub scheduler: bool,
    /// Also kwok, which plays the nodes that carry the annotation `kwok.x-k8s.io/node: fake`.
    pub kwok: bool,
    /// Switch off priority and fairness and the limits on requests in flight, for measurements. Otherwise they are as
    /// shipped and the scheduler has a flow schema of its own.
    pub unlimited: bool,
    /// Keep everything in this folder, and keep the folder; else a temporary one.
    pub dir: Option<PathBuf>,
    /// Log every request's user, verb, resource and status to `audit.log` ([`ControlPlane::audit_log`]).
    pub audit: bool,
    /// Let the processes outlive this one (`cluster up`).
    pub detached: bool,
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    // Declared first so that the processes are gone before the folder is.
    components: Vec<Managed>,
    apiserver: Managed,
    etcd: Managed,
    endpoint: Endpoint,
    credentials: Credentials,
    apiserver_args: Vec<String>,
    dir: PathBuf,
    detached: bool,
    _temporary: Option<tempfile::TempDir>,
}

impl ControlPlane {
    /// Builds what is missing, starts everything and waits until it is ready.
    ///
    /// # Errors
    /// When Go is missing and nothing is cached, or a component does not start; the end of its log is in the message.
    pub async fn start(options: &Options) -> Result<Self> {
        let binaries = tokio::task::spawn_blocking({
            let wanted = options.components();
            move || {
                wanted
                    .into_iter()
                    .map(|one| Ok((one, build::ensure(one)?)))
                    .collect::<Result<Vec<_>>>()
            }
        })
        .await
        .context("the build task failed")??;
        let binary = |component: Component| -> Result<&Path> {
            let found = binaries.iter().find(|(one, _)| *one == component);
            Ok(&found.context("a component was not built")?.1)
        };
        let (dir, temporary) = folder(options)?;
        let credentials = Credentials::create(&dir, free_port()?)?;
        let on_drop = if options.detached { OnDrop::Leave } else { OnDrop::Kill };
        let launch = |name: &'static str, program: &Path, args: Vec<String>| {
            Managed::spawn(&Launch {
                name,
                program,
                args,
                log_dir: &dir,
                on_drop,
            })
        };
        let etcd_port = free_port()?;
        let etcd = launch(
            "etcd",
            binary(Component::Etcd)?,
            arguments::etcd(&dir, etcd_port, free_port()?),
        )?;
        let mut apiserver_args = arguments::apiserver(&dir, &credentials, etcd_port, options.unlimited);
        if options.audit {
            apiserver_args.extend(arguments::audit(&dir)?);
        }
        let apiserver = launch(
            "kube-apiserver",
            binary(Component::KubeApiserver)?,
            apiserver_args.clone(),
        )?;
        let mut plane = Self {
            components: Vec::new(),
            apiserver,
            etcd,
            endpoint: credentials.endpoint(User::Admin),
            apiserver_args,
            credentials,
            dir: dir.clone(),
            detached: options.detached,
            _temporary: temporary,
        };
        if let Err(error) = plane.finish_start(options, &binary, &launch).await {
            plane.kill_all();
            return Err(error);
        }
        Ok(plane)
    }

    async fn finish_start<'a>(
        &mut self,
        options: &Options,
        binary: &impl Fn(Component) -> Result<&'a Path>,
        launch: &impl Fn(&'static str, &Path, Vec<String>) -> Result<Managed>,
    ) -> Result<()> {
        self.wait_ready().await?;
        if !options.unlimited {
            self.create_flow_control().await?;
        }
        if options.controller_manager {
            let args = arguments::controller_manager(&self.dir, &self.credentials, options.kwok, free_port()?);
            let name = "kube-controller-manager";
            self.components
                .push(launch(name, binary(Component::KubeControllerManager)?, args)?);
        }
        if options.kwok {
            let args = arguments::kwok(&self.dir, &self.credentials, free_port()?)?;
            self.components.push(launch("kwok", binary(Component::Kwok)?, args)?);
        }
        if options.scheduler {
            let config = arguments::kube_scheduler_config(&self.dir, &self.credentials.kubeconfig(User::Scheduler))?;
            let args = arguments::kube_scheduler(&config, free_port()?);
            self.components
                .push(launch("kube-scheduler", binary(Component::KubeScheduler)?, args)?);
        }
        Ok(())
    }

    /// The server as the administrator (`system:masters`) sees it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The kubeconfig file of a user.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.credentials.kubeconfig(user)
    }

    /// The folder with logs, kubeconfigs and etcd's data.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log of requests, one JSON object a line, when it was asked for.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join(arguments::AUDIT_LOG)
    }

    /// All processes, the servers first.
    pub fn processes(&self) -> impl Iterator<Item = &Managed> {
        [&self.etcd, &self.apiserver].into_iter().chain(&self.components)
    }

    /// Kills kube-apiserver; etcd keeps what it holds.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_apiserver(&mut self) -> Result<()> {
        self.apiserver.kill().map(drop)
    }

    /// Starts kube-apiserver again on the same port and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        self.kill_apiserver()?;
        self.apiserver = Managed::spawn(&Launch {
            name: "kube-apiserver",
            program: &build::ensure(Component::KubeApiserver)?,
            args: self.apiserver_args.clone(),
            log_dir: &self.dir,
            on_drop: if self.detached { OnDrop::Leave } else { OnDrop::Kill },
        })?;
        self.wait_ready().await
    }

    /// Ends all processes in order, servers last.
    ///
    /// # Errors
    /// When one cannot be ended.
    pub async fn stop(mut self) -> Result<()> {
        for component in &mut self.components {
            component.terminate(STOP_GRACE).await?;
        }
        // A graceful end of kube-apiserver waits for open watches; nothing of a test's etcd needs saving.
        self.apiserver.kill()?;
        self.etcd.kill()?;
        Ok(())
    }

    fn kill_all(&mut self) {
        for process in self.components.iter_mut().chain([&mut self.apiserver, &mut self.etcd]) {
            if let Err(error) = process.kill() {
                tracing::warn!(name = process.name(), %error, "a component could not be stopped");
            }
        }
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let client = ApiClient::new(&self.endpoint)?;
        let deadline = Instant::now() + READY_LIMIT;
        // The default namespace is made by a controller that readiness does not wait for.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            loop {
                self.etcd.ensure_running()?;
                self.apiserver.ensure_running()?;
                let answer = client
                    .send(http::Method::GET, path, "application/json", Bytes::new())
                    .await;
                if matches!(&answer, Ok((status, _)) if status.is_success()) {
                    break;
                }
                if Instant::now() > deadline {
                    bail!(
                        "kube-apiserver is not ready after {READY_LIMIT:?}; its log:\n{}",
                        self.apiserver.log_tail(15)
                    );
                }
                tokio::time::sleep(READY_POLL).await;
            }
        }
        Ok(())
    }

    async fn create_flow_control(&self) -> Result<()> {
        let client = ApiClient::new(&self.endpoint)?;
        for (path, object) in FLOW_CONTROL {
            let (status, body) = client.post(path, Bytes::from_static(object.as_bytes())).await?;
            if !status.is_success() && status != http::StatusCode::CONFLICT {
                bail!(
                    "cannot create the scheduler's flow control: {status}: {}",
                    crate::client::excerpt(&body)
                );
            }
        }
        Ok(())
    }
}

impl Options {
    /// The executables that these options need.
    #[must_use]
    pub fn components(&self) -> Vec<Component> {
        let optional = [
            (self.controller_manager, Component::KubeControllerManager),
            (self.scheduler, Component::KubeScheduler),
            (self.kwok, Component::Kwok),
        ];
        let chosen = optional
            .into_iter()
            .filter_map(|(wanted, component)| wanted.then_some(component));
        [Component::Etcd, Component::KubeApiserver]
            .into_iter()
            .chain(chosen)
            .collect()
    }
}

fn folder(options: &Options) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            let dir = dir
                .canonicalize()
                .with_context(|| format!("cannot resolve {}", dir.display()))?;
            Ok((dir, None))
        }
        None => {
            let temporary = tempfile::Builder::new().prefix("supercargo-cluster-").tempdir();
            let temporary = temporary.context("cannot create a temporary folder")?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}
