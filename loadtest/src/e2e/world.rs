//! The surroundings of a scenario: an API server with nothing in it, a client, schedulers to start, and waiting.
//!
//! The embedded server is fresh for every scenario. A real control plane is started once for all tests of a process and
//! swept between them, so these scenarios take turns.
//!
//! Does not: contain scenarios.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::server::{ServerConfig, ServerHandle};

use super::objects::{NodeBuilder, PodBuilder};
use super::wait::{LOOK, PATIENCE, eventually, health};
use crate::controlplane::credentials::User;
use crate::controlplane::{ControlPlane, Options};
use crate::process::write_private;
use crate::schedulers::{self, Scheduler, SchedulerLaunch};

/// The environment variable that names the scheduler under test.
const SCHEDULER_VARIABLE: &str = "SUPERCARGO_E2E_SCHEDULER";
/// The environment variable that names Supercargo's binary; without it, it is built.
const BINARY_VARIABLE: &str = "SUPERCARGO_E2E_BINARY";

/// Which API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The embedded server, in this process.
    Embedded,
    /// etcd and kube-apiserver.
    Real,
}

#[derive(Debug)]
pub(super) enum Server {
    Embedded(ServerHandle),
    Real(Box<ControlPlane>),
}

/// What a scenario works with.
pub struct World {
    /// The API server as its administrator.
    pub client: kube::Client,
    /// A folder for files and logs, removed at the end.
    pub dir: PathBuf,
    /// Whether the scheduler under test is kube-scheduler: scenarios about our own promises then return at once.
    pub upstream: bool,
    /// Whether kube-controller-manager is at work.
    pub has_controllers: bool,
    pub(super) server: Server,
    admin: PathBuf,
    kubeconfig: PathBuf,
    _temporary: tempfile::TempDir,
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            dir,
            upstream,
            server,
            kubeconfig,
            ..
        } = self;
        let mut shown = formatter.debug_struct("World");
        shown
            .field("dir", dir)
            .field("upstream", upstream)
            .field("server", server)
            .field("kubeconfig", kubeconfig);
        shown.finish_non_exhaustive()
    }
}

/// How a scenario starts a scheduler.
#[derive(Debug, Clone, Default)]
pub struct Start<'a> {
    /// Names its files; different for each scheduler of a scenario.
    pub name: &'a str,
    /// The text of a KubeSchedulerConfiguration.
    pub config: Option<&'a str>,
    /// Take part in leader election.
    pub leader_elect: bool,
    /// Use another kubeconfig than the world's.
    pub kubeconfig: Option<&'a Path>,
}

impl World {
    pub(super) async fn create(backend: Backend, plane: Option<ControlPlane>) -> Result<Self> {
        let temporary = tempfile::tempdir().context("cannot create a temporary folder")?;
        let dir = temporary.path().to_owned();
        let upstream = match std::env::var(SCHEDULER_VARIABLE) {
            Ok(name) if name == "kube-scheduler" => true,
            Ok(name) if !name.is_empty() && name != "supercargo" => bail!("{SCHEDULER_VARIABLE}={name} is not known"),
            _ => false,
        };
        let (server, admin, kubeconfig) = match backend {
            Backend::Embedded => {
                let server = embedded_server().await?;
                let file = dir.join("embedded.kubeconfig");
                write_private(&file, &server.kubeconfig())?;
                (Server::Embedded(server), file.clone(), file)
            }
            Backend::Real => {
                let plane = match plane {
                    Some(plane) => plane,
                    None => ControlPlane::start(&Options::default()).await?,
                };
                let (admin, scheduler) = (plane.kubeconfig(User::Admin), plane.kubeconfig(User::Scheduler));
                (Server::Real(Box::new(plane)), admin, scheduler)
            }
        };
        let client = client(&admin).await?;
        let world = Self {
            client,
            dir,
            upstream,
            has_controllers: false,
            server,
            admin,
            kubeconfig,
            _temporary: temporary,
        };
        world.sweep().await?;
        Ok(world)
    }

    /// Removes what an earlier scenario left.
    async fn sweep(&self) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default()).await?.items {
            let (namespace, name) = (
                pod.metadata.namespace.unwrap_or_default(),
                pod.metadata.name.unwrap_or_default(),
            );
            if pod.metadata.finalizers.is_some_and(|held_by| !held_by.is_empty()) {
                let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                Api::<Pod>::namespaced(self.client.clone(), &namespace)
                    .patch(&name, &PatchParams::default(), &release)
                    .await?;
                if pod.metadata.deletion_timestamp.is_some() {
                    continue;
                }
            }
            Api::<Pod>::namespaced(self.client.clone(), &namespace)
                .delete(&name, &now)
                .await?;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.list(&ListParams::default()).await?.items {
            nodes.delete(&node.metadata.name.unwrap_or_default(), &now).await?;
        }
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        for lease in leases.list(&ListParams::default()).await?.items {
            leases.delete(&lease.metadata.name.unwrap_or_default(), &now).await?;
        }
        Ok(())
    }

    /// Starts a scheduler of the default profile and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn scheduler(&self) -> Result<Scheduler> {
        let mut scheduler = self
            .start(&Start {
                name: "scheduler",
                ..Start::default()
            })
            .await?;
        self.ready(&mut scheduler).await?;
        Ok(scheduler)
    }

    /// Starts a scheduler without waiting.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(&self, start: &Start<'_>) -> Result<Scheduler> {
        let config = match start.config {
            Some(text) => {
                let file = self.dir.join(format!("{}-given.yaml", start.name));
                write_private(&file, text)?;
                Some(file)
            }
            None => None,
        };
        let kubeconfig = start.kubeconfig.unwrap_or(&self.kubeconfig).to_owned();
        let (dir, name, upstream) = (self.dir.clone(), start.name.to_owned(), self.upstream);
        let mut launch = SchedulerLaunch {
            config,
            leader_elect: start.leader_elect,
            json_only: self.embedded().is_some(),
            ..SchedulerLaunch::default()
        };
        let task = move || {
            if upstream {
                return schedulers::kube_scheduler(&launch, &kubeconfig, &dir, &name);
            }
            launch.binary = std::env::var_os(BINARY_VARIABLE).map(PathBuf::from);
            schedulers::supercargo(&launch, &kubeconfig, &dir, &name)
        };
        tokio::task::spawn_blocking(task)
            .await
            .context("the start task failed")?
    }

    /// Waits until a scheduler answers 200 on `/readyz`.
    ///
    /// # Errors
    /// When it ends or does not get ready.
    pub async fn ready(&self, scheduler: &mut Scheduler) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            scheduler.process.ensure_running()?;
            let answer = health(scheduler, "/readyz").await;
            match answer {
                Ok((StatusCode::OK, _)) => return Ok(()),
                _ if Instant::now() < deadline => tokio::time::sleep(LOOK).await,
                other => bail!("the scheduler is not ready after {PATIENCE:?}: {other:?}"),
            }
        }
    }

    /// Creates a node.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn add_node(&self, node: NodeBuilder) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .create(&PostParams::default(), &node.build())
            .await
            .context("creating a node")
    }

    /// Creates a pod in the default namespace.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn add_pod(&self, pod: PodBuilder) -> Result<Pod> {
        self.pods()
            .create(&PostParams::default(), &pod.build())
            .await
            .context("creating a pod")
    }

    /// Creates a priority class unless it exists.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn add_priority_class(&self, name: &str, value: i32) -> Result<()> {
        self.create_priority_class(&json!({"metadata": {"name": name}, "value": value}))
            .await
    }

    /// The same for pods that evict nobody.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn add_patient_priority_class(&self, name: &str, value: i32) -> Result<()> {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"});
        self.create_priority_class(&class).await
    }

    async fn create_priority_class(&self, class: &Value) -> Result<()> {
        let classes: Api<PriorityClass> = Api::all(self.client.clone());
        let class: PriorityClass = serde_json::from_value(class.clone())?;
        match classes.create(&PostParams::default(), &class).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop).context("creating a priority class"),
        }
    }

    /// The pods of the default namespace.
    #[must_use]
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Deletes a pod at once.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods()
            .delete(name, &now)
            .await
            .map(drop)
            .with_context(|| format!("deleting pod {name}"))
    }

    /// Merges a patch into a node.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        self.nodes()
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .map(drop)
            .with_context(|| format!("patching {name}"))
    }

    /// Waits until a pod has a node and gives its name.
    ///
    /// # Errors
    /// When it gets none in time.
    pub async fn bound(&self, pod: &str) -> Result<String> {
        let pods = self.pods();
        let found = eventually(async || Ok(pods.get(pod).await?.spec.and_then(|spec| spec.node_name))).await;
        found.with_context(|| format!("pod {pod} gets no node"))
    }

    /// Waits until a pod has PodScheduled=False with this reason and gives the message.
    ///
    /// # Errors
    /// When the condition does not come in time.
    pub async fn refused(&self, pod: &str, reason: &str) -> Result<String> {
        let pods = self.pods();
        let found = eventually(async || {
            let status = pods.get(pod).await?.status.unwrap_or_default();
            let condition = status.conditions.unwrap_or_default().into_iter().find(|one| {
                one.type_ == "PodScheduled" && one.status == "False" && one.reason.as_deref() == Some(reason)
            });
            Ok(condition.map(|one| one.message.unwrap_or_default()))
        });
        found
            .await
            .with_context(|| format!("pod {pod} does not get PodScheduled=False, {reason}"))
    }

    /// Waits for an Event of this reason about this very pod.
    ///
    /// # Errors
    /// When none comes in time.
    pub async fn event(&self, pod: &Pod, reason: &str) -> Result<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let found = eventually(async || {
            let all = events.list(&ListParams::default()).await?.items;
            Ok(all
                .into_iter()
                .find(|event| event.involved_object.uid == pod.metadata.uid && event.reason.as_deref() == Some(reason)))
        });
        found.await.with_context(|| format!("no {reason} event comes"))
    }

    /// The node of a pod now.
    ///
    /// # Errors
    /// When the pod cannot be read.
    pub async fn node_of(&self, pod: &str) -> Result<Option<String>> {
        Ok(self.pods().get(pod).await?.spec.and_then(|spec| spec.node_name))
    }

    /// The scheduler's Lease.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn lease_holder(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("kube-scheduler").await?;
        let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The embedded server, for faults that a real one cannot be asked for.
    #[must_use]
    pub fn embedded(&self) -> Option<&ServerHandle> {
        match &self.server {
            Server::Embedded(server) => Some(server),
            Server::Real(_) => None,
        }
    }

    /// Takes the API server away: a real one is killed, the embedded one breaks all connections and answers none.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn outage_begin(&mut self) -> Result<()> {
        match &mut self.server {
            Server::Embedded(server) => {
                server
                    .faults()
                    .add(FaultRule::default().with(FaultAction::ResetBefore))?;
                server.faults().drop_watches("");
                Ok(())
            }
            Server::Real(plane) => plane.kill_apiserver(),
        }
    }

    /// Gives the API server back and waits until it answers.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn outage_end(&mut self) -> Result<()> {
        match &mut self.server {
            Server::Embedded(server) => {
                server.faults().clear();
                Ok(())
            }
            Server::Real(plane) => plane.restart_apiserver().await,
        }
    }

    /// The ends of all logs in the world's folder.
    pub(super) fn logs(&self) -> String {
        let mut text = String::new();
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for path in entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
        {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines
                .get(lines.len().saturating_sub(30)..)
                .unwrap_or_default()
                .join("\n");
            text.push_str(&format!("the end of {}:\n{tail}\n", path.display()));
        }
        text
    }
}

/// A fresh embedded server on threads of its own, so that a busy scenario does not slow it.
async fn embedded_server() -> Result<ServerHandle> {
    let config = ServerConfig {
        threads: 1,
        ..ServerConfig::default()
    };
    supercargo_apiserver::Server::start(config)
        .await
        .context("starting the embedded API server")
}

async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig).context("reading a kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    kube::Client::try_from(config).context("making a client")
}
