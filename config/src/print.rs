//! From effective types back to the file format.
//!
//! What is printed loads again to an equal value. Rates that were not given stay out, because absence means something.
//!
//! Does not: keep comments or the order of a file.

mod args;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base64;
use crate::duration::GoDuration;
use crate::extender::{Extender, ExtenderTls};
use crate::plugins::{EnabledPlugin, PluginSet, Plugins};
use crate::profile::Profile;
use crate::settings::{self, Settings};
use crate::types::{self, ClientConnection, Configuration, LeaderElection};

/// A value that cannot be written as YAML; none of ours is.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the configuration as YAML")]
pub struct PrintError {
    #[source]
    source: serde_saphyr::SerializeError,
}

/// Writes a value as a YAML document, without its `---`.
///
/// # Errors
/// The serializer refuses the value.
pub fn to_yaml(value: &Value) -> Result<String, PrintError> {
    serde_saphyr::to_string(value).map_err(|source| PrintError { source })
}

impl Configuration {
    /// As the JSON form of `KubeSchedulerConfiguration` v1, everything spelled out.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": types::API_VERSION,
            "kind": types::KIND,
            "parallelism": self.parallelism,
            "leaderElection": leader_election(&self.leader_election),
            "clientConnection": client_connection(&self.client_connection),
            "enableProfiling": self.enable_profiling,
            "enableContentionProfiling": self.enable_contention_profiling,
            "percentageOfNodesToScore": self.percentage_of_nodes_to_score,
            "podInitialBackoffSeconds": self.pod_initial_backoff.as_secs(),
            "podMaxBackoffSeconds": self.pod_max_backoff.as_secs(),
            "profiles": self.profiles.iter().map(profile).collect::<Vec<_>>(),
            "extenders": self.extenders.iter().map(extender).collect::<Vec<_>>(),
            "delayCacheUntilActive": self.delay_cache_until_active,
        })
    }

    /// As YAML.
    ///
    /// # Errors
    /// As [`to_yaml`].
    pub fn to_yaml(&self) -> Result<String, PrintError> {
        to_yaml(&self.to_json())
    }
}

/// What `/configz` shows: the configuration under `componentconfig`, keys of extenders left out.
pub fn configz(configuration: &Configuration) -> Value {
    let mut shown = configuration.clone();
    for tls in shown.extenders.iter_mut().filter_map(|extender| extender.tls.as_mut()) {
        tls.key_data.clear();
    }
    json!({"componentconfig": shown.to_json()})
}

impl Settings {
    /// As the JSON form of `SupercargoConfiguration`, everything spelled out.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "apiVersion": settings::API_VERSION,
            "kind": settings::KIND,
            "workers": self.workers,
            "bindingConcurrency": self.binding_concurrency,
            "maxAssumedPods": self.max_assumed_pods,
            "bindDeadline": duration(self.bind_deadline),
            "eventQueueLength": self.event_queue_length,
            "eventConcurrency": self.event_concurrency,
            "statusConcurrency": self.status_concurrency,
            "extenderConcurrency": self.extender_concurrency,
            "tracing": {
                "otlpEndpoint": self.tracing.otlp_endpoint,
                "sampleRatio": self.tracing.sample_ratio,
            },
        });
        if let (Some(seed), Some(object)) = (self.tie_break_seed, object.as_object_mut()) {
            object.insert("tieBreakSeed".to_owned(), seed.into());
        }
        object
    }

    /// As YAML.
    ///
    /// # Errors
    /// As [`to_yaml`].
    pub fn to_yaml(&self) -> Result<String, PrintError> {
        to_yaml(&self.to_json())
    }
}

fn duration(duration: Duration) -> String {
    GoDuration::from(duration).to_string()
}

fn leader_election(election: &LeaderElection) -> Value {
    json!({
        "leaderElect": election.leader_elect,
        "leaseDuration": duration(election.lease_duration),
        "renewDeadline": duration(election.renew_deadline),
        "retryPeriod": duration(election.retry_period),
        "resourceLock": election.resource_lock,
        "resourceName": election.resource_name,
        "resourceNamespace": election.resource_namespace,
    })
}

fn client_connection(connection: &ClientConnection) -> Value {
    let mut object = Map::new();
    object.insert("kubeconfig".to_owned(), connection.kubeconfig.as_str().into());
    object.insert(
        "acceptContentTypes".to_owned(),
        connection.accept_content_types.as_str().into(),
    );
    object.insert("contentType".to_owned(), connection.content_type.as_str().into());
    // Through text, because the direct way to 64 bits would print 50.1 as 50.099998474121094.
    if let Some(qps) = connection.qps.and_then(|qps| qps.to_string().parse::<f64>().ok()) {
        object.insert("qps".to_owned(), qps.into());
    }
    if let Some(burst) = connection.burst {
        object.insert("burst".to_owned(), burst.into());
    }
    Value::Object(object)
}

fn profile(profile: &Profile) -> Value {
    let mut object = Map::new();
    object.insert("schedulerName".to_owned(), profile.scheduler_name.as_str().into());
    if let Some(percentage) = profile.percentage_of_nodes_to_score {
        object.insert("percentageOfNodesToScore".to_owned(), percentage.into());
    }
    object.insert("plugins".to_owned(), plugins(&profile.plugins));
    let entries = profile.plugin_config.iter();
    let entries = entries.map(|entry| json!({"name": entry.name, "args": args::print(&entry.name, &entry.args)}));
    object.insert("pluginConfig".to_owned(), entries.collect());
    Value::Object(object)
}

fn plugins(plugins: &Plugins) -> Value {
    let mut object = Map::new();
    object.insert("multiPoint".to_owned(), plugin_set(&plugins.multi_point));
    for (point, set) in plugins.given_points() {
        object.insert(point.field().to_owned(), plugin_set(set));
    }
    Value::Object(object)
}

fn plugin_set(set: &PluginSet) -> Value {
    let mut object = Map::new();
    if !set.enabled.is_empty() {
        let plugin = |plugin: &EnabledPlugin| match plugin.weight {
            0 => json!({"name": plugin.name}),
            weight => json!({"name": plugin.name, "weight": weight}),
        };
        object.insert("enabled".to_owned(), set.enabled.iter().map(plugin).collect());
    }
    if !set.disabled.is_empty() {
        object.insert(
            "disabled".to_owned(),
            set.disabled.iter().map(|name| json!({"name": name})).collect(),
        );
    }
    Value::Object(object)
}

fn extender(extender: &Extender) -> Value {
    let mut object = json!({
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "httpTimeout": duration(extender.http_timeout),
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": extender.managed_resources.iter().map(|resource| json!({
            "name": resource.name,
            "ignoredByScheduler": resource.ignored_by_scheduler,
        })).collect::<Vec<_>>(),
        "ignorable": extender.ignorable,
    });
    if let (Some(tls), Some(object)) = (&extender.tls, object.as_object_mut()) {
        object.insert("tlsConfig".to_owned(), extender_tls(tls));
    }
    object
}

fn extender_tls(tls: &ExtenderTls) -> Value {
    json!({
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "caFile": tls.ca_file,
        "certData": base64::encode(&tls.cert_data),
        "keyData": base64::encode(&tls.key_data),
        "caData": base64::encode(&tls.ca_data),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loader, PluginCatalogue};

    #[test]
    fn configz_shows_everything_but_keys() {
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n\
                    - {urlPrefix: 'https://a', tlsConfig: {keyData: c2VjcmV0, certData: Zm9v}}\n";
        let catalogue = PluginCatalogue::in_tree();
        let configuration = Loader::new(&catalogue).load_str("f", text).unwrap().configuration;
        let shown = configz(&configuration).to_string();
        assert!(shown.starts_with(r#"{"componentconfig":{"#), "{shown}");
        assert!(shown.contains("Zm9v") && !shown.contains("c2VjcmV0"), "{shown}");
        assert!(configuration.to_json().to_string().contains("c2VjcmV0"));
        assert!(!format!("{configuration:?}").contains("115, 101, 99"));
        // Absent rates stay absent: they are not applied.
        assert!(!shown.contains("qps"), "{shown}");
    }
}
