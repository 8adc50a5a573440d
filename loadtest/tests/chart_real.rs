//! The Helm chart against a real API server: every object is accepted, the configuration is valid, and the scheduler
//! runs with exactly the rights that the chart grants.
//!
//! Does not: run the container image.

#![cfg(feature = "real-control-plane")]

#[path = "chart_real/render.rs"]
mod render;
#[path = "chart_real/rights.rs"]
mod rights;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use supercargo_loadtest::client::{ApiClient, Endpoint};
use supercargo_loadtest::controlplane::credentials::{User, kubeconfig};
use supercargo_loadtest::controlplane::{ControlPlane, Options};
use supercargo_loadtest::e2e::objects::{node, pod};
use supercargo_loadtest::e2e::volume_controller::{PROVISIONER, VolumeController};
use supercargo_loadtest::e2e::wait::{eventually, health};
use supercargo_loadtest::process::{Launch, Managed, OnDrop, free_port, write_private};
use supercargo_loadtest::schedulers::{Scheduler, own_binary};
use supercargo_loadtest::tools::{Kubectl, helm, run};

use render::{CHART, NAMESPACE, arguments, mount, objects, one, template, variants};
use rights::{Granted, Used};

/// What the chart calls everything: release and chart.
const FULL_NAME: &str = "cargo-supercargo";
/// A leader that a busy machine does not make lose its Lease.
const PATIENT: &str = "leaderElection.leaseDuration=120s,leaderElection.renewDeadline=100s";
/// The service account that may read metrics, and the values that allow it.
const SCRAPER: &str = "scraper";
const READER: &str = "metrics.reader.subjects[0].kind=ServiceAccount,metrics.reader.subjects[0].name=scraper,\
                      metrics.reader.subjects[0].namespace=scheduling";

#[test]
fn the_chart_passes_helms_own_check() {
    helm(&["lint", "--strict", CHART]).expect("helm lint");
}

#[test]
fn values_that_would_do_harm_are_refused() {
    let refused = |arguments: &[&str], words: &str| {
        let error = template(arguments).expect_err("the chart takes values that it must not take");
        let text = format!("{error:#}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    };
    let set = |values: &str, words: &str| refused(&["--set", values], words);
    set("leaderElection.enabled=false", "replicaCount");
    set("schedulerName=default-scheduler", "replaceDefaultScheduler");
    set("profiles[0].plugins.multiPoint.enabled[0].name=X", "default-scheduler");
    set("profiles[0].schedulerName=a,pluginConfig[0].name=X", "pluginConfig");
    set("replicas=3", "'replicas' not allowed");
    set("metrics.serviceMonitor.enable=true", "'enable' not allowed");
    set("settings.worker=3", "'worker' not allowed");
    set("percentageOfNodesToScore=101", "/percentageOfNodesToScore");
    let whole = "config.kind=KubeSchedulerConfiguration,config.apiVersion=kubescheduler.config.k8s.io/v1";
    let with_config = |values: &str, words: &str| set(&format!("{whole},{values}"), words);
    set("config.kind=Pod", "config: needs apiVersion");
    with_config("config.profiles[0].schedulerName=a", "kube-scheduler's own Lease");
    with_config(
        "config.leaderElection.leaderElect=false,config.profiles[0].schedulerName=a",
        "replicaCount",
    );
    with_config("config.parallelism=8", "replaceDefaultScheduler");
    for value in [
        "schedulerName=a",
        "profiles[0].schedulerName=a",
        "pluginConfig[0].name=X",
        "extenders[0].urlPrefix=http://a",
        "clientConnection.qps=5",
        "leaderElection.leaseDuration=20s",
        "podInitialBackoffSeconds=2",
        "podMaxBackoffSeconds=20",
        "percentageOfNodesToScore=0",
    ] {
        with_config(value, "cannot be set together with config");
    }
    refused(
        &[
            "--namespace",
            "kube-system",
            "--set",
            "leaderElection.leaseName=kube-scheduler",
        ],
        "kube-scheduler's own Lease",
    );
}

/// The rights for the Lease are where the configuration has it.
#[test]
fn a_lease_of_a_whole_configuration_gets_its_rights() {
    let variants = variants().expect("rendered charts");
    let (_, rendered) = variants
        .iter()
        .find(|(name, _)| *name == "own configuration")
        .expect("the variant");
    let objects = objects(rendered).expect("objects");
    let role = one(&objects, "Role").expect("one Role");
    assert_eq!(role["metadata"]["namespace"], "kube-system");
    assert_eq!(role["rules"][1]["resourceNames"], json!(["own-lease"]));
}

#[test]
fn the_rendered_configuration_and_arguments_are_taken_by_the_binary() {
    let binary = own_binary("supercargo").expect("the scheduler's binary");
    for (name, rendered) in variants().expect("rendered charts") {
        let dir = tempfile::tempdir().expect("a folder");
        let objects = objects(&rendered).expect("objects");
        mount(&objects, dir.path()).expect("the ConfigMap");
        for file in ["config.yaml", "settings.yaml"] {
            let said = run(
                Command::new(&binary)
                    .args(["config", "check"])
                    .arg(dir.path().join(file)),
                None,
            );
            let said = said.unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert!(!said.contains("warning"), "{name}: {said}");
        }
        let effective = dir.path().join("effective.yaml");
        let mut command = Command::new(&binary);
        command.args(arguments(&objects, dir.path()).expect("arguments"));
        command.arg("--write-config-to").arg(&effective);
        run(&mut command, None).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert!(effective.is_file());
    }
}

#[test]
fn an_installed_chart_schedules_with_exactly_its_rights() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = Options {
            audit: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(&options).await.expect("a control plane");
        let outcome = async {
            let kubectl = Kubectl::new(&plane.kubeconfig(User::Admin), plane.dir())?;
            kubectl.run(&["create", "namespace", NAMESPACE])?;
            every_object_is_accepted(&kubectl)?;
            let installed = Installed::new(&plane, kubectl)?;
            let scheduler_log = installed.schedule(&plane).await?;
            let used = Used::from_audit_log(&plane.audit_log(), &installed.user())?;
            ensure!(used.refused.is_empty(), "refused: {:?}\n{scheduler_log}", used.refused);
            installed.granted.check_against(&used)?;
            let client = ApiClient::new(plane.endpoint())?;
            rights::check_nothing_else_is_granted(&client, &installed.granted, NAMESPACE, &installed.user()).await
        };
        outcome.await.unwrap_or_else(|error: anyhow::Error| panic!("{error:#}"));
    });
}

/// Server-side dry runs: admission, validation and defaults of the real thing, with unknown fields refused.
fn every_object_is_accepted(kubectl: &Kubectl) -> Result<()> {
    for (name, rendered) in variants()? {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let said = kubectl.run_with(&apply, &rendered).with_context(|| name.to_owned())?;
        let (accepted, expected) = (said.matches("(server dry run)").count(), objects(&rendered)?.len());
        ensure!(accepted == expected, "{name}: {accepted} of {expected} objects: {said}");
    }
    Ok(())
}

/// The chart's objects on the server, and the files of a pod of its Deployment.
struct Installed {
    kubectl: Kubectl,
    objects: Vec<Value>,
    granted: Granted,
    dir: PathBuf,
    account: PathBuf,
}

impl Installed {
    /// Applies the chart and makes a kubeconfig with a token of its service account, which stands for the token that the
    /// kubelet would mount.
    fn new(plane: &ControlPlane, kubectl: Kubectl) -> Result<Self> {
        let dir = plane.dir().join("etc-supercargo");
        std::fs::create_dir_all(&dir)?;
        let account = dir.join("account.kubeconfig");
        let port = format!("metrics.port={}", free_port()?);
        let client = format!("clientConnection.kubeconfig={}", account.display());
        let rendered = template(&["--set", &port, "--set", &client, "--set", PATIENT, "--set", READER])?;
        kubectl.run_with(&["apply", "-f", "-"], &rendered)?;
        let objects = objects(&rendered)?;
        mount(&objects, &dir)?;
        let name = one(&objects, "ServiceAccount")?["metadata"]["name"]
            .as_str()
            .context("a service account without a name")?;
        ensure!(name == FULL_NAME, "the service account is called {name}");
        let token = kubectl.run(&["create", "token", name, "-n", NAMESPACE, "--duration=1h"])?;
        let text = kubeconfig(
            &plane.endpoint().url,
            Some(&plane.dir().join("ca.crt")),
            Some((name, token.trim())),
        );
        write_private(&account, &text)?;
        Ok(Self {
            granted: Granted::from_objects(&objects)?,
            kubectl,
            objects,
            dir,
            account,
        })
    }

    /// A token of the service account that the chart lets read metrics.
    fn scraper(&self) -> Result<String> {
        self.kubectl
            .run(&["create", "serviceaccount", SCRAPER, "-n", NAMESPACE])?;
        let token = self
            .kubectl
            .run(&["create", "token", SCRAPER, "-n", NAMESPACE, "--duration=1h"])?;
        Ok(token.trim().to_owned())
    }

    /// The service account as a user.
    fn user(&self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{FULL_NAME}")
    }

    fn start(&self) -> Result<Scheduler> {
        let mut args = arguments(&self.objects, &self.dir)?;
        let port = args.iter().find_map(|argument| argument.strip_prefix("--secure-port="));
        let port = port.context("no --secure-port")?.parse()?;
        let account = self.account.display();
        // In a pod these find the service account by themselves.
        args.extend([
            "--bind-address=127.0.0.1".to_owned(),
            format!("--authentication-kubeconfig={account}"),
            format!("--authorization-kubeconfig={account}"),
        ]);
        let launch = Launch {
            name: "supercargo",
            program: &own_binary("supercargo")?,
            args,
            log_dir: &self.dir,
            on_drop: OnDrop::Kill,
        };
        Ok(Scheduler {
            process: Managed::spawn(&launch)?,
            port,
        })
    }

    /// Runs the scheduler through all that it writes to the API server, ends it, and gives its log.
    async fn schedule(&self, plane: &ControlPlane) -> Result<String> {
        let mut scheduler = self.start()?;
        let outcome = async {
            self.pods_are_bound_and_explained().await?;
            self.volumes_are_bound(plane).await?;
            let lease = [
                "get",
                "lease",
                FULL_NAME,
                "-n",
                NAMESPACE,
                "-o",
                "jsonpath={.spec.holderIdentity}",
            ];
            let holder = self.kubectl.run(&lease)?;
            ensure!(!holder.is_empty(), "nobody holds the Lease");
            self.requests_are_in_the_charts_flow().await?;
            who_may_read_metrics(plane.endpoint(), &self.account, self.scraper()?, &scheduler).await?;
            let (ready, text) = health(&scheduler, "/readyz").await?;
            ensure!(ready.is_success(), "/readyz: {ready} {text}");
            let status = scheduler.process.terminate(std::time::Duration::from_secs(30)).await?;
            ensure!(status.success(), "the scheduler ended with {status}");
            let holder = self.kubectl.run(&lease)?;
            ensure!(holder.is_empty(), "{holder} still holds the Lease");
            Ok(())
        };
        let outcome = outcome.await;
        let log = std::fs::read_to_string(scheduler.process.log()).unwrap_or_default();
        outcome.map_err(|error: anyhow::Error| error.context(log.clone()))?;
        let complaints: Vec<&str> = log
            .lines()
            .filter(|line| line.to_lowercase().contains("forbidden"))
            .collect();
        ensure!(
            complaints.is_empty(),
            "the scheduler was refused something: {complaints:?}"
        );
        Ok(log)
    }

    /// The API server counts the scheduler's requests to the chart's FlowSchema.
    async fn requests_are_in_the_charts_flow(&self) -> Result<()> {
        let uid = self
            .kubectl
            .run(&["get", "flowschema", FULL_NAME, "-o", "jsonpath={.metadata.uid}"])?;
        let file = kube::config::Kubeconfig::read_from(&self.account)?;
        let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        let request = http::Request::get("/api/v1/nodes?limit=1").body(kube::client::Body::empty())?;
        let answer = kube::Client::try_from(config)?.send(request).await?;
        let flow = answer.headers().get("x-kubernetes-pf-flowschema-uid");
        let flow = flow.and_then(|value| value.to_str().ok()).unwrap_or_default();
        ensure!(
            flow == uid.trim(),
            "the flow schema is {flow:?}, the chart's is {uid:?}"
        );
        Ok(())
    }

    async fn pods_are_bound_and_explained(&self) -> Result<()> {
        let name = "supercargo";
        let create = |object: String| self.kubectl.run_with(&["create", "-f", "-"], &object);
        // In this order: whoever knows n1 knows n2.
        create(serde_json::to_string(&node("n2").cpu("1").taint(TAINT).build())?)?;
        create(serde_json::to_string(&node("n1").cpu("1").build())?)?;
        create(serde_json::to_string(&pod("fits").cpu("100m").scheduler(name).build())?)?;
        let scheduled = eventually(async || {
            let shown = self.kubectl.run(&["describe", "pod", "fits"])?;
            let event = shown.contains("Successfully assigned default/fits to n1");
            Ok((event && shown.contains("n1")).then_some(()))
        });
        scheduled.await.context("the pod that fits gets no node or no event")?;
        create(serde_json::to_string(&pod("huge").cpu("8").scheduler(name).build())?)?;
        let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).";
        let explained = eventually(async || {
            let path = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
            let condition = self.kubectl.run(&["get", "pod", "huge", "-o", path])?;
            let events = self.kubectl.run(&["describe", "pod", "huge"])?;
            Ok((condition.starts_with(expected) && events.contains(expected)).then_some(()))
        });
        explained
            .await
            .context("the pod that fits nowhere has no condition or no event")?;
        // A node without its taint is worth another try, and is too small: the event becomes a series.
        self.kubectl
            .run(&["taint", "node", "n2", &format!("{TAINT}:NoSchedule-")])?;
        let repeated = eventually(async || {
            let path = "jsonpath={.items[?(@.reason==\"FailedScheduling\")].series.count}";
            let counts = self.kubectl.run(&["get", "events", "-o", path])?;
            Ok((!counts.trim().is_empty()).then_some(()))
        });
        repeated
            .await
            .context("a second failure makes no series of the event")?;
        // Evicts the pod that fits.
        let urgent = pod("urgent").cpu("950m").scheduler(name);
        let urgent = urgent
            .selector("kubernetes.io/hostname", "n1")
            .priority_class("system-cluster-critical");
        create(serde_json::to_string(&urgent.build())?)?;
        let placed = eventually(async || {
            let node = self
                .kubectl
                .run(&["get", "pod", "urgent", "-o", "jsonpath={.spec.nodeName}"])?;
            Ok((node == "n1").then_some(()))
        });
        placed.await.context("nobody gives way to a pod of higher priority")
    }

    /// A pod with a claim for a volume that exists, and one for a volume that is made where it goes.
    async fn volumes_are_bound(&self, plane: &ControlPlane) -> Result<()> {
        let admin = kube::config::Kubeconfig::read_from(plane.kubeconfig(User::Admin))?;
        let admin = kube::Config::from_custom_kubeconfig(admin, &Default::default()).await?;
        let _controller = VolumeController::start(&kube::Client::try_from(admin)?);
        let mut volumes = Vec::new();
        for (class, provisioner) in [("kept", "kubernetes.io/no-provisioner"), ("made", PROVISIONER)] {
            let objects = [
                json!({
                    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
                    "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
                }),
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": class},
                    "spec": {
                        "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }),
            ];
            for object in objects {
                self.kubectl.run_with(&["create", "-f", "-"], &object.to_string())?;
            }
            volumes.push(json!({"name": class, "persistentVolumeClaim": {"claimName": class}}));
        }
        let on_n2 = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]});
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "kept"},
            "spec": {
                "storageClassName": "kept", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "local": {"path": "/kept"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_n2]}]}},
            },
        });
        self.kubectl.run_with(&["create", "-f", "-"], &volume.to_string())?;
        let keeper = pod("keeper").scheduler("supercargo").volumes(volumes).build();
        let keeper = serde_json::to_string(&keeper)?;
        self.kubectl.run_with(&["create", "-f", "-"], &keeper)?;
        let placed = eventually(async || {
            let node = self
                .kubectl
                .run(&["get", "pod", "keeper", "-o", "jsonpath={.spec.nodeName}"])?;
            Ok((node == "n2").then_some(()))
        });
        placed.await.context("the pod with volumes is not bound")
    }
}

/// Keeps every pod away from a node.
const TAINT: &str = "example.com/away";

/// Metrics ask the API server who somebody is and what they may read.
async fn who_may_read_metrics(admin: &Endpoint, account: &Path, scraper: String, scheduler: &Scheduler) -> Result<()> {
    let text = std::fs::read_to_string(account)?;
    let own: Value = serde_saphyr::from_str(&text).context("the kubeconfig is not YAML")?;
    let own = own["users"][0]["user"]["token"].as_str().map(str::to_owned);
    let mut seen = Vec::new();
    for token in [admin.token.clone(), Some(scraper), own, None] {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{}", scheduler.port).parse()?);
        config.accept_invalid_certs = true;
        config.auth_info.token = token.map(Into::into);
        let client = kube::Client::try_from(config)?;
        let request = http::Request::get("/metrics").body(kube::client::Body::empty())?;
        seen.push(client.send(request).await?.status().as_u16());
    }
    ensure!(
        seen == [200, 200, 403, 403],
        "/metrics for the administrator, the scraper, the scheduler, nobody: {seen:?}"
    );
    Ok(())
}
