//! The file format, field by field: what `config/v1` types hold, everything optional.
//!
//! Does not: default or check (see [`crate::load`]).

use crate::decode::wire;
use crate::duration::GoDuration;
use crate::tree::Node;

wire!(WireConfiguration {
    api_version: String = "apiVersion",
    kind: String = "kind",
    parallelism: i32 = "parallelism",
    leader_election: WireLeaderElection = "leaderElection",
    client_connection: WireClientConnection = "clientConnection",
    enable_profiling: bool = "enableProfiling",
    enable_contention_profiling: bool = "enableContentionProfiling",
    percentage_of_nodes_to_score: i32 = "percentageOfNodesToScore",
    pod_initial_backoff_seconds: i64 = "podInitialBackoffSeconds",
    pod_max_backoff_seconds: i64 = "podMaxBackoffSeconds",
    profiles: Vec<WireProfile> = "profiles",
    extenders: Vec<WireExtender> = "extenders",
    delay_cache_until_active: bool = "delayCacheUntilActive",
});

wire!(WireLeaderElection {
    leader_elect: bool = "leaderElect",
    lease_duration: GoDuration = "leaseDuration",
    renew_deadline: GoDuration = "renewDeadline",
    retry_period: GoDuration = "retryPeriod",
    resource_lock: String = "resourceLock",
    resource_name: String = "resourceName",
    resource_namespace: String = "resourceNamespace",
});

wire!(WireClientConnection {
    kubeconfig: String = "kubeconfig",
    accept_content_types: String = "acceptContentTypes",
    content_type: String = "contentType",
    qps: f64 = "qps",
    burst: i32 = "burst",
});

wire!(WireProfile {
    scheduler_name: String = "schedulerName",
    percentage_of_nodes_to_score: i32 = "percentageOfNodesToScore",
    plugins: WirePlugins = "plugins",
    plugin_config: Vec<WirePluginConfig> = "pluginConfig",
});

wire!(WirePlugins {
    pre_enqueue: WirePluginSet = "preEnqueue",
    queue_sort: WirePluginSet = "queueSort",
    pre_filter: WirePluginSet = "preFilter",
    filter: WirePluginSet = "filter",
    post_filter: WirePluginSet = "postFilter",
    pre_score: WirePluginSet = "preScore",
    score: WirePluginSet = "score",
    reserve: WirePluginSet = "reserve",
    permit: WirePluginSet = "permit",
    pre_bind: WirePluginSet = "preBind",
    bind: WirePluginSet = "bind",
    post_bind: WirePluginSet = "postBind",
    multi_point: WirePluginSet = "multiPoint",
    placement_generate: WirePluginSet = "placementGenerate",
    placement_score: WirePluginSet = "placementScore",
});

wire!(WirePluginSet {
    enabled: Vec<WirePlugin> = "enabled",
    disabled: Vec<WirePlugin> = "disabled",
});

wire!(WirePlugin {
    name: String = "name",
    weight: i32 = "weight",
});

wire!(WirePluginConfig {
    name: String = "name",
    args: Node = "args",
});

wire!(WireExtender {
    url_prefix: String = "urlPrefix",
    filter_verb: String = "filterVerb",
    preempt_verb: String = "preemptVerb",
    prioritize_verb: String = "prioritizeVerb",
    weight: i64 = "weight",
    bind_verb: String = "bindVerb",
    enable_https: bool = "enableHTTPS",
    tls_config: WireExtenderTls = "tlsConfig",
    http_timeout: GoDuration = "httpTimeout",
    node_cache_capable: bool = "nodeCacheCapable",
    managed_resources: Vec<WireManagedResource> = "managedResources",
    ignorable: bool = "ignorable",
});

wire!(WireExtenderTls {
    insecure: bool = "insecure",
    server_name: String = "serverName",
    cert_file: String = "certFile",
    key_file: String = "keyFile",
    ca_file: String = "caFile",
    cert_data: String = "certData",
    key_data: String = "keyData",
    ca_data: String = "caData",
});

wire!(WireManagedResource {
    name: String = "name",
    ignored_by_scheduler: bool = "ignoredByScheduler",
});

wire!(WireDefaultPreemptionArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    min_candidate_nodes_percentage: i32 = "minCandidateNodesPercentage",
    min_candidate_nodes_absolute: i32 = "minCandidateNodesAbsolute",
});

wire!(WireDynamicResourcesArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    filter_timeout: GoDuration = "filterTimeout",
    binding_timeout: GoDuration = "bindingTimeout",
});

wire!(WireInterPodAffinityArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    hard_pod_affinity_weight: i32 = "hardPodAffinityWeight",
    ignore_preferred_terms_of_existing_pods: bool = "ignorePreferredTermsOfExistingPods",
});

wire!(WireNodeAffinityArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    added_affinity: WireNodeAffinity = "addedAffinity",
});

wire!(WireNodeAffinity {
    required: WireNodeSelector = "requiredDuringSchedulingIgnoredDuringExecution",
    preferred: Vec<WirePreferredTerm> = "preferredDuringSchedulingIgnoredDuringExecution",
});

wire!(WireNodeSelector {
    terms: Vec<WireNodeSelectorTerm> = "nodeSelectorTerms",
});

wire!(WirePreferredTerm {
    weight: i32 = "weight",
    preference: WireNodeSelectorTerm = "preference",
});

wire!(WireNodeSelectorTerm {
    match_expressions: Vec<WireRequirement> = "matchExpressions",
    match_fields: Vec<WireRequirement> = "matchFields",
});

wire!(WireRequirement {
    key: String = "key",
    operator: String = "operator",
    values: Vec<String> = "values",
});

wire!(WireBalancedAllocationArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    resources: Vec<WireResource> = "resources",
});

wire!(WireResource {
    name: String = "name",
    weight: i64 = "weight",
});

wire!(WireFitArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    ignored_resources: Vec<String> = "ignoredResources",
    ignored_resource_groups: Vec<String> = "ignoredResourceGroups",
    scoring_strategy: WireScoringStrategy = "scoringStrategy",
});

wire!(WireScoringStrategy {
    kind: String = "type",
    resources: Vec<WireResource> = "resources",
    requested_to_capacity_ratio: WireRatio = "requestedToCapacityRatio",
});

wire!(WireRatio {
    shape: Vec<WireShapePoint> = "shape",
});

wire!(WireShapePoint {
    utilization: i32 = "utilization",
    score: i32 = "score",
});

wire!(WireSpreadArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    default_constraints: Vec<WireSpreadConstraint> = "defaultConstraints",
    defaulting_type: String = "defaultingType",
});

wire!(WireSpreadConstraint {
    max_skew: i32 = "maxSkew",
    topology_key: String = "topologyKey",
    when_unsatisfiable: String = "whenUnsatisfiable",
    label_selector: Node = "labelSelector",
    min_domains: i32 = "minDomains",
    node_affinity_policy: String = "nodeAffinityPolicy",
    node_taints_policy: String = "nodeTaintsPolicy",
    match_label_keys: Vec<String> = "matchLabelKeys",
});

wire!(WireVolumeBindingArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    bind_timeout_seconds: i64 = "bindTimeoutSeconds",
    shape: Vec<WireShapePoint> = "shape",
});

wire!(WireTopologyAwareArgs {
    api_version: String = "apiVersion",
    kind: String = "kind",
    latency_threshold_ms: i64 = "latencyThresholdMs",
    score_divisor: i64 = "scoreDivisor",
    aggregation: String = "aggregation",
    missing_figures: String = "missingFigures",
    stretch_scores: bool = "stretchScores",
    count_callers: bool = "countCallers",
    sources: Vec<WireLatencySource> = "sources",
});

wire!(WireLatencySource {
    name: String = "name",
    level: String = "level",
    mirrored: bool = "mirrored",
    matrix: WireMatrix = "matrix",
});

wire!(WireMatrix {
    figures: Vec<WireLatency> = "figures",
});

wire!(WireLatency {
    from: String = "from",
    to: String = "to",
    ms: f64 = "ms",
});

wire!(WireSettings {
    api_version: String = "apiVersion",
    kind: String = "kind",
    workers: i64 = "workers",
    binding_concurrency: i64 = "bindingConcurrency",
    max_assumed_pods: i64 = "maxAssumedPods",
    tie_break_seed: u64 = "tieBreakSeed",
    bind_deadline: GoDuration = "bindDeadline",
    event_queue_length: i64 = "eventQueueLength",
    event_concurrency: i64 = "eventConcurrency",
    status_concurrency: i64 = "statusConcurrency",
    extender_concurrency: i64 = "extenderConcurrency",
    tracing: WireTracing = "tracing",
});

wire!(WireTracing {
    otlp_endpoint: String = "otlpEndpoint",
    sample_ratio: f64 = "sampleRatio",
});
