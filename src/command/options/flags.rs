//! The flags of `run` as texts; `resolve` gives them meaning, so that all wrong ones can be named at once.
//!
//! Names and defaults are kube-scheduler's; `--settings` is ours. A flag given twice takes its last value.

use clap::Args;

/// A flag that takes Go's booleans: alone it means true, a value follows `=`.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident $heading:literal { $($body:tt)* }) => {
        flags!(@fields [$(#[$meta])*] $name $heading [] $($body)*);
    };
    (@fields [$($meta:tt)*] $name:ident $heading:literal [$($done:tt)*]) => {
        $($meta)*
        #[derive(Debug, Clone, Default, Args)]
        #[command(next_help_heading = $heading)]
        pub(crate) struct $name { $($done)* }
    };
    (@fields $meta:tt $name:ident $heading:literal [$($done:tt)*] bool $field:ident $help:literal; $($rest:tt)*) => {
        flags!(@fields $meta $name $heading [$($done)*
            #[doc = $help]
            #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
            pub(crate) $field: Option<String>,
        ] $($rest)*);
    };
    (@fields $meta:tt $name:ident $heading:literal [$($done:tt)*] list $field:ident $help:literal; $($rest:tt)*) => {
        flags!(@fields $meta $name $heading [$($done)*
            #[doc = $help]
            #[arg(long, value_name = "A,B", action = clap::ArgAction::Append, allow_hyphen_values = true)]
            pub(crate) $field: Vec<String>,
        ] $($rest)*);
    };
    (@fields $meta:tt $name:ident $heading:literal [$($done:tt)*] $kind:ident $field:ident $help:literal; $($rest:tt)*) => {
        flags!(@fields $meta $name $heading [$($done)*
            #[doc = $help]
            #[arg(long, value_name = stringify!($kind), allow_hyphen_values = true)]
            pub(crate) $field: Option<String>,
        ] $($rest)*);
    };
}

flags! {
    /// Files and the API server.
    GeneralFlags "Configuration" {
        FILE config "Configuration file: KubeSchedulerConfiguration v1, perhaps with a SupercargoConfiguration document";
        FILE settings "File with Supercargo's own settings: SupercargoConfiguration v1alpha1";
        FILE write_config_to "Write the effective configuration to this file and end";
        URL master "Address of the API server, in place of the kubeconfig's";
        list feature_gates "Feature gates, as Name=true,Other=false; may be repeated";
        VERSION emulated_version "Version to emulate; this scheduler behaves as 1.36";
        list min_compatibility_version "Oldest version to be compatible with, 1.33 to 1.36; checked, and changes nothing";
        bool emulation_forward_compatible "Accepted for compatibility";
        DURATION pod_max_in_unschedulable_pods_duration "Time after which an unschedulable pod is tried again (deprecated) [default: 5m]";
    }
}

flags! {
    /// Leader election; these go over the file.
    LeaderFlags "Leader election" {
        bool leader_elect "Whether replicas elect one that schedules [default: true]";
        DURATION leader_elect_lease_duration "Time after the last renewal until others may take over [default: 15s]";
        DURATION leader_elect_renew_deadline "Time that the leader tries to renew before it gives up [default: 10s]";
        DURATION leader_elect_retry_period "Pause between attempts [default: 2s]";
        KIND leader_elect_resource_lock "Kind of lock; leases [default: leases]";
        NAME leader_elect_resource_name "Name of the Lease [default: kube-scheduler]";
        NAME leader_elect_resource_namespace "Namespace of the Lease [default: kube-system]";
    }
}

flags! {
    /// The secure port.
    ServingFlags "Secure serving" {
        PORT secure_port "Port for HTTPS; 0 serves nothing [default: 10259]";
        IP bind_address "Address to listen on [default: 0.0.0.0]";
        DIR cert_dir "Folder with kube-scheduler.crt and kube-scheduler.key, used when no certificate is given";
        FILE tls_cert_file "Certificate chain; without one a self-signed certificate is made";
        FILE tls_private_key_file "Key of the certificate";
        VERSION tls_min_version "Lowest TLS version: VersionTLS12 or VersionTLS13 [default: VersionTLS12]";
        list tls_cipher_suites "Cipher suites of TLS 1.2 by Go's names [default: all that are offered]";
        list tls_curve_preferences "Groups of key exchange by Go's numbers: 23, 24 and 29 are offered [default: all of them]";
        list tls_sni_cert_key "Certificate for some names: cert,key or cert,key:name,name; may be repeated";
        COUNT http2_max_streams_per_connection "Streams of one HTTP/2 connection; 0: 250";
        bool disable_http2_serving "Serve HTTP/1.1 alone";
        bool permit_address_sharing "Set SO_REUSEADDR on the port";
        bool permit_port_sharing "Set SO_REUSEPORT on the port";
    }
}

flags! {
    /// Who a client of the secure port is.
    AuthenticationFlags "Authentication" {
        FILE authentication_kubeconfig "Kubeconfig of the API server that reviews tokens; without it clients are anonymous";
        bool authentication_skip_lookup "Do not read the authentication ConfigMap of the cluster";
        bool authentication_tolerate_lookup_failure "Go on when that ConfigMap cannot be read [default: true]";
        DURATION authentication_token_webhook_cache_ttl "Time that an answer about a token is kept [default: 10s]";
        FILE client_ca_file "CA of client certificates";
        FILE requestheader_client_ca_file "CA of proxies that name the user in headers";
        list requestheader_allowed_names "Common names of such proxies; none: any that the CA signed";
        list requestheader_username_headers "Headers with the user's name [default: x-remote-user]";
        list requestheader_uid_headers "Headers with the user's UID";
        list requestheader_group_headers "Headers with the user's groups [default: x-remote-group]";
        list requestheader_extra_headers_prefix "Prefixes of headers with more about the user [default: x-remote-extra-]";
    }
}

flags! {
    /// What a client of the secure port may read.
    AuthorizationFlags "Authorization" {
        FILE authorization_kubeconfig "Kubeconfig of the API server that reviews access";
        list authorization_always_allow_paths "Paths that need no review [default: /healthz,/readyz,/livez]";
        DURATION authorization_webhook_cache_authorized_ttl "Time that a yes is kept [default: 10s]";
        DURATION authorization_webhook_cache_unauthorized_ttl "Time that a no is kept [default: 10s]";
    }
}

flags! {
    /// Metrics.
    MetricsFlags "Metrics" {
        VERSION show_hidden_metrics_for_version "Show metrics that are hidden since this release, 1.35; there are none";
        list disabled_metrics "Metrics to leave out, by the names that /metrics shows";
        list allow_metric_labels "Allowed values of a label, as metric,label=value,value; others are shown as unexpected; may be repeated";
        FILE allow_metric_labels_manifest "YAML file with such allowed values; the flag goes over it";
    }
}

flags! {
    /// Flags that a configuration file replaces.
    DeprecatedFlags "Deprecated (ignored with --config)" {
        FILE kubeconfig "Kubeconfig of the API server; without it the pod's service account is used";
        NUMBER kube_api_qps "Requests a second to the API server; without it and --kube-api-burst there is no limit";
        NUMBER kube_api_burst "Requests at once to the API server";
        TYPE kube_api_content_type "Content type of requests";
        bool profiling "Serve profiles [default: true]";
        bool contention_profiling "Profile lock contention [default: true]";
    }
}

flags! {
    /// Logs, without `-v`, which has a short form.
    LogFlags "Logs" {
        LIST vmodule "Verbosity of single modules, as queue=5,binding=6";
        FORMAT logging_format "text or json [default: text]";
        DURATION log_flush_frequency "Longest time that buffered log lines wait [default: 5s]";
        bool log_text_split_stream "Text: write warnings and errors to standard error and the rest to standard output, not all to standard error";
        QUANTITY log_text_info_buffer_size "Text: bytes of standard output that may be buffered, with split streams [default: 0]";
        bool log_json_split_stream "JSON: write errors to standard error and the rest to standard output, not all to standard error";
        QUANTITY log_json_info_buffer_size "JSON: bytes of standard output that may be buffered, with split streams [default: 0]";
    }
}

/// All flags of `run`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) general: GeneralFlags,
    #[command(flatten)]
    pub(crate) leader: LeaderFlags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    #[command(flatten)]
    pub(crate) authentication: AuthenticationFlags,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationFlags,
    #[command(flatten)]
    pub(crate) metrics: MetricsFlags,
    #[command(flatten)]
    pub(crate) deprecated: DeprecatedFlags,
    #[command(flatten)]
    pub(crate) logs: LogFlags,
    /// Verbosity of logs: 0 to 3 state changes, 4 and 5 each pod, 6 and above everything [default: 0]
    #[arg(
        short = 'v',
        long = "v",
        value_name = "LEVEL",
        help_heading = "Logs",
        allow_hyphen_values = true
    )]
    pub(crate) verbosity: Option<String>,
    /// Print the version and end
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) version: Option<String>,
}
