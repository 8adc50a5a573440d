//! HTTP extenders as configured.
//!
//! Does not: call them.

use std::time::Duration;

use crate::plugin_args::{NodeResourcesFitArgs, PluginArgs};
use crate::profile::PluginConfig;
use crate::types::Configuration;

/// The plugin whose resources can be left to extenders.
const FIT: &str = "NodeResourcesFit";

/// One HTTP extender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extender {
    /// Base of the extender's address, `http://` or `https://`.
    pub url_prefix: String,
    /// Path below the prefix for filtering; empty when unused.
    pub filter_verb: String,
    /// Path for preemption; empty when unused.
    pub preempt_verb: String,
    /// Path for prioritising; empty when unused.
    pub prioritize_verb: String,
    /// Factor of its scores, above 0 when it prioritises.
    pub weight: i64,
    /// Path for binding; empty when unused. At most one extender has one.
    pub bind_verb: String,
    /// Whether TLS is used even if the prefix says `http`.
    pub enable_https: bool,
    /// TLS material.
    pub tls: Option<ExtenderTls>,
    /// Deadline of one call.
    pub http_timeout: Duration,
    /// Whether it knows the nodes and wants names only.
    pub node_cache_capable: bool,
    /// Resources that decide which pods it sees; empty means all pods.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether its failure leaves the pod schedulable.
    pub ignorable: bool,
}

impl Extender {
    /// Deadline of a call when none is given.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
}

impl Configuration {
    /// Has `NodeResourcesFit` leave what extenders manage alone to them, in every profile; its args' own list of
    /// ignored resources goes then.
    ///
    /// Source: `pkg/scheduler/scheduler.go` (`buildExtenders`), Kubernetes 1.36.
    pub fn leave_resources_to_extenders(&mut self) {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        let ignored: Vec<String> = managed
            .filter(|resource| resource.ignored_by_scheduler)
            .map(|resource| resource.name.clone())
            .collect();
        if ignored.is_empty() {
            return;
        }
        for profile in &mut self.profiles {
            let fits = profile.plugin_config.iter_mut().find(|entry| entry.name == FIT);
            match fits.map(|entry| &mut entry.args) {
                Some(PluginArgs::NodeResourcesFit(args)) => args.ignored_resources.clone_from(&ignored),
                Some(_) => {}
                None => profile.plugin_config.push(PluginConfig {
                    name: FIT.to_owned(),
                    args: PluginArgs::NodeResourcesFit(NodeResourcesFitArgs {
                        ignored_resources: ignored.clone(),
                        ..NodeResourcesFitArgs::default()
                    }),
                }),
            }
        }
    }
}

/// TLS material of an extender. `*_data` takes precedence over the file of the same name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExtenderTls {
    /// Whether the server's certificate goes unchecked.
    pub insecure: bool,
    /// Server name to send and to check, empty for the host of the prefix.
    pub server_name: String,
    /// Path of the client certificate.
    pub cert_file: String,
    /// Path of the client key.
    pub key_file: String,
    /// Path of the CA bundle.
    pub ca_file: String,
    /// PEM bytes of the client certificate.
    pub cert_data: Vec<u8>,
    /// PEM bytes of the client key.
    pub key_data: Vec<u8>,
    /// PEM bytes of the CA bundle.
    pub ca_data: Vec<u8>,
}

impl std::fmt::Debug for ExtenderTls {
    /// Leaves the key out, so that it cannot reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtenderTls")
            .field("insecure", &self.insecure)
            .field("server_name", &self.server_name)
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

/// A resource that an extender manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedResource {
    /// Extended resource name.
    pub name: String,
    /// Whether the fit plugin leaves the resource to the extender.
    pub ignored_by_scheduler: bool,
}
