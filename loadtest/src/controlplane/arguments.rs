//! Command lines and configuration files of the components.
//!
//! Does not: start anything.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::credentials::{Credentials, User};
use crate::process::write_private;

/// Stages that kwok plays: nodes turn ready and renew leases, pods run, deletions finish.
const KWOK_STAGES: &str = include_str!("../../controlplane/kwok-stages.yaml");
/// What the audit log holds of a request.
const AUDIT_POLICY: &str = include_str!("../../controlplane/audit-policy.yaml");
/// Name of the audit log in the control plane's folder.
pub(super) const AUDIT_LOG: &str = "audit.log";
/// etcd's limit on its data: 200,000 small pods and their events stay below it.
const ETCD_QUOTA_BYTES: u64 = 8 << 30;

/// etcd on two loopback ports, without syncing to disk: a test's data need not survive a power cut.
#[must_use]
pub fn etcd(dir: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (
        format!("http://127.0.0.1:{client_port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        format!("--quota-backend-bytes={ETCD_QUOTA_BYTES}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// kube-apiserver with tokens and RBAC. Two admission plugins are off because the controllers that they wait for may
/// not run: ServiceAccount (pods would be refused) and TaintNodesByCondition (nodes would stay tainted).
#[must_use]
pub fn apiserver(dir: &Path, credentials: &Credentials, etcd_port: u16, unlimited: bool) -> Vec<String> {
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={}", credentials.port()),
        format!("--cert-dir={}", dir.join("certs").display()),
        format!("--tls-cert-file={}", credentials.certificate_file().display()),
        format!("--tls-private-key-file={}", credentials.key_file().display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            credentials.service_account_public_key_file().display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            credentials.service_account_key_file().display()
        ),
        format!("--token-auth-file={}", credentials.tokens_file().display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        "--shutdown-delay-duration=0s".to_owned(),
        // Events are counted and compared at the end of a run, and their hour as shipped may be over by then.
        "--event-ttl=24h".to_owned(),
    ];
    if unlimited {
        args.extend(
            [
                "--enable-priority-and-fairness=false",
                "--max-requests-inflight=0",
                "--max-mutating-requests-inflight=0",
            ]
            .map(str::to_owned),
        );
    }
    args
}

/// kube-apiserver's further arguments to log who asked for what.
///
/// # Errors
/// When the policy cannot be written.
pub fn audit(dir: &Path) -> Result<Vec<String>> {
    let policy = dir.join("audit-policy.yaml");
    write_private(&policy, AUDIT_POLICY)?;
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", dir.join(AUDIT_LOG).display()),
    ])
}

/// kube-controller-manager. Without kwok nobody renews node leases, so the controller that taints silent nodes is off.
#[must_use]
pub fn controller_manager(dir: &Path, credentials: &Credentials, kwok: bool, port: u16) -> Vec<String> {
    let kubeconfig = credentials.kubeconfig(User::ControllerManager).display().to_string();
    let controllers = if kwok { "*" } else { "*,-node-lifecycle-controller" };
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!(
            "--service-account-private-key-file={}",
            credentials.service_account_key_file().display()
        ),
        format!("--root-ca-file={}", credentials.ca_file().display()),
        format!("--controllers={controllers}"),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", dir.join("certs").display()),
    ]
}

/// kwok, playing the nodes that carry its annotation, by the stages that stand beside this crate.
///
/// # Errors
/// When the stages cannot be written.
pub fn kwok(dir: &Path, credentials: &Credentials, port: u16) -> Result<Vec<String>> {
    let stages = dir.join("kwok-stages.yaml");
    write_private(&stages, KWOK_STAGES)?;
    Ok(vec![
        format!("--config={}", stages.display()),
        format!("--kubeconfig={}", credentials.kubeconfig(User::Kwok).display()),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
        format!("--server-address=127.0.0.1:{port}"),
    ])
}

/// kube-scheduler on a configuration file.
#[must_use]
pub fn kube_scheduler(config: &Path, port: u16) -> Vec<String> {
    vec![
        format!("--config={}", config.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "-v=1".to_owned(),
    ]
}

/// Writes kube-scheduler's configuration for a fair comparison and gives the file: its client is not throttled (the
/// shipped limit of 50 requests a second would decide the result), and there is no election to win first.
///
/// # Errors
/// When the file cannot be written.
pub fn kube_scheduler_config(dir: &Path, kubeconfig: &Path) -> Result<PathBuf> {
    let file = dir.join("kube-scheduler.yaml");
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         clientConnection: {{kubeconfig: {:?}, qps: 10000, burst: 10000}}\n\
         leaderElection: {{leaderElect: false}}\n",
        kubeconfig.display().to_string()
    );
    write_private(&file, &text)?;
    Ok(file)
}
