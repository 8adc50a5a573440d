//! The secure server of a run: what it listens on and what it shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{ClientSet, Source};
use crate::resources::Resource;
use crate::scheduler::Scheduler;
use crate::server::{
    AuthenticationOptions, AuthorizationOptions, CertificateSource, Content, HealthCheck, HealthChecks, PodResource,
    RequestHeaderOptions, ResourceMetricsSource, Server, ServingOptions, SniCertificate, TlsOptions,
};
use crate::telemetry::TelemetryGuard;
use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::election::Election;
use crate::command::options::{Certificate, Options, Serving, TlsVersion};

/// Starts the server if one is wanted; it ends with `end`.
pub(super) async fn start(
    options: &Options,
    guard: &Arc<TelemetryGuard>,
    scheduler: &Arc<Scheduler>,
    election: &Election,
    stopping: &Arc<AtomicBool>,
    end: &CancellationToken,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(serving) = &options.serving else {
        return Ok(None);
    };
    let content = Content {
        health: health(scheduler, election, stopping),
        metrics: Arc::clone(scheduler.metrics()),
        resources: Some(Arc::new(PodRows {
            scheduler: Arc::clone(scheduler),
            leading: Box::new(election.leading()),
        })),
        config: {
            let shown = options.configuration.to_json();
            Arc::new(move || shown.clone())
        },
        flags: given_flags(std::env::args().skip(1)),
        logging: Some(Arc::clone(guard)),
        component: "kube-scheduler".to_owned(),
    };
    let server = Server::bind(
        &listen(serving),
        &authentication(options)?,
        &authorization(options)?,
        content,
    )
    .await
    .context("the secure server")?;
    tracing::info!(address = %server.local_addr(), "serving");
    Ok(Some(tokio::spawn(server.run(end.clone()))))
}

/// Flags of the command line with their values, as `/flagz` shows them. A flag without a value is a boolean that is on.
fn given_flags(arguments: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = arguments.next_if(|next| !next.starts_with("--"));
                (flag, value.unwrap_or_else(|| "true".to_owned()))
            }
        };
        flags.push((name.to_owned(), value));
    }
    flags
}

fn health(scheduler: &Arc<Scheduler>, election: &Election, stopping: &Arc<AtomicBool>) -> HealthChecks {
    let mut checks = Vec::new();
    checks.extend(election.health().map(HealthCheck::leader_election));
    let stopping = Arc::clone(stopping);
    checks.push(HealthCheck::shutdown(move || {
        if stopping.load(Ordering::Acquire) {
            Err("process is shutting down".to_owned())
        } else {
            Ok(String::new())
        }
    }));
    let scheduler = Arc::clone(scheduler);
    checks.push(HealthCheck::handler_sync(move || match scheduler.missing() {
        missing if missing.is_empty() => Ok(String::new()),
        missing => Err(format!("caches are not complete: {}", missing.join("; "))),
    }));
    HealthChecks::new(checks)
}

fn listen(serving: &Serving) -> ServingOptions {
    let certificate = match &serving.certificate {
        Some(Certificate {
            cert_file, key_file, ..
        }) => CertificateSource::Files {
            certificate: cert_file.clone(),
            key: key_file.clone(),
        },
        None => CertificateSource::SelfSigned { hosts: Vec::new() },
    };
    let sni = serving.sni_certificates.iter().map(|certificate| SniCertificate {
        certificate: certificate.cert_file.clone(),
        key: certificate.key_file.clone(),
        names: certificate.names.clone(),
    });
    ServingOptions {
        bind_address: serving.address.ip(),
        port: serving.address.port(),
        certificate,
        sni: sni.collect(),
        tls: TlsOptions {
            min_version: match serving.min_version {
                TlsVersion::Tls12 => "VersionTLS12".to_owned(),
                TlsVersion::Tls13 => "VersionTLS13".to_owned(),
            },
            cipher_suites: serving.cipher_suites.clone(),
            curves: serving.curves.clone(),
        },
        http2: serving.http2,
        share_port: serving.share_port,
    }
}

/// A client for delegated checks: the given kubeconfig, or the pod's account; none outside of both.
fn delegate(kubeconfig: Option<&std::path::Path>) -> anyhow::Result<Option<kube::Client>> {
    let source = match kubeconfig {
        Some(path) => Source::Kubeconfig {
            path: path.to_path_buf(),
            master: None,
        },
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Source::InCluster,
        None => return Ok(None),
    };
    Ok(Some(ClientSet::single(&source, None)?))
}

fn authentication(options: &Options) -> anyhow::Result<AuthenticationOptions> {
    let given = &options.authentication;
    let request_header = given
        .request_header
        .as_ref()
        .map_or_else(RequestHeaderOptions::default, |header| RequestHeaderOptions {
            ca_file: Some(header.client_ca_file.clone()),
            allowed_names: header.allowed_names.clone(),
            username_headers: header.username_headers.clone(),
            uid_headers: header.uid_headers.clone(),
            group_headers: header.group_headers.clone(),
            extra_prefixes: header.extra_headers_prefix.clone(),
        });
    Ok(AuthenticationOptions {
        client: delegate(given.kubeconfig.as_deref()).context("--authentication-kubeconfig")?,
        client_ca_file: given.client_ca_file.clone(),
        request_header,
        skip_lookup: given.skip_lookup,
        tolerate_lookup_failure: given.tolerate_lookup_failure,
        token_cache_ttl: given.token_cache_ttl,
    })
}

fn authorization(options: &Options) -> anyhow::Result<AuthorizationOptions> {
    let given = &options.authorization;
    Ok(AuthorizationOptions {
        client: delegate(given.kubeconfig.as_deref()).context("--authorization-kubeconfig")?,
        always_allow_paths: given.always_allow_paths.clone(),
        authorized_ttl: given.authorized_ttl,
        unauthorized_ttl: given.unauthorized_ttl,
    })
}

/// `/metrics/resources`: requests and limits of all pods.
struct PodRows {
    scheduler: Arc<Scheduler>,
    leading: Box<dyn Fn() -> bool + Send + Sync>,
}

impl ResourceMetricsSource for PodRows {
    fn active(&self) -> bool {
        (self.leading)()
    }

    fn rows(&self, row: &mut dyn FnMut(&PodResource<'_>) -> bool) {
        for pod in self.scheduler.cluster().pods() {
            let (requests, limits) = (&pod.spec.charged_request, &pod.spec.limits);
            let only_limited = limits.iter().filter(|(resource, _)| requests.get(*resource) == 0);
            for (resource, _) in requests.iter().chain(only_limited) {
                let row_is_wanted = row(&PodResource {
                    namespace: pod.namespace.as_str(),
                    pod: &pod.name,
                    node: pod.bound_to.map_or("", |node| node.as_str()),
                    scheduler: pod.spec.scheduler_name.map_or("", |name| name.as_str()),
                    priority: Some(pod.priority()),
                    resource: resource.name(),
                    request: in_base_unit(resource, requests.get(resource)),
                    limit: in_base_unit(resource, limits.get(resource)),
                });
                if !row_is_wanted {
                    return;
                }
            }
        }
    }
}

/// Cores for CPU, bytes or whole units for everything else.
fn in_base_unit(resource: Resource, amount: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
    let amount = amount as f64;
    if resource == Resource::Cpu {
        amount / 1000.0
    } else {
        amount
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_with_their_values_however_these_are_written() {
        let arguments = ["run", "--secure-port", "0", "--leader-elect", "--config=a=b", "-v=2"];
        let shown = given_flags(arguments.into_iter().map(str::to_owned));
        let expected = [
            ("secure-port", "0"),
            ("leader-elect", "true"),
            ("config", "a=b"),
            ("v", "2"),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
