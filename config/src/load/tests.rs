//! Whole files: what is refused and how it is said, what is taken and what comes out.

use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::plugin_args::*;
use crate::plugins::{ExtensionPoint, PluginCatalogue};
use crate::types::ClientConnection;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn load(body: &str) -> Result<Loaded, ConfigErrors> {
    let catalogue = PluginCatalogue::in_tree().with("Custom", &[ExtensionPoint::Filter, ExtensionPoint::Score]);
    Loader::new(&catalogue).load_str("f", &format!("{HEAD}{body}"))
}

fn good(body: &str) -> Configuration {
    load(body).unwrap_or_else(|errors| panic!("{errors}")).configuration
}

/// The errors of a body whose first line is line 3.
fn refused(body: &str, expected: &Expect) {
    match load(body) {
        Ok(_) => panic!("accepted: {body}"),
        Err(errors) => expected.assert_eq(&errors.to_string()),
    }
}

/// The errors of args of one plugin in the only profile.
fn args_refused(plugin: &str, args: &str, expected: &Expect) {
    refused(
        &format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"),
        expected,
    );
}

fn args(plugin: &str, args: &str) -> PluginArgs {
    let configuration = good(&format!(
        "profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"
    ));
    configuration.profiles[0].plugin_config[0].args.clone()
}

#[test]
fn defaults_are_upstreams() {
    let configuration = good("");
    assert_eq!(configuration.parallelism, 16);
    assert_eq!(configuration.leader_election.lease_duration, Duration::from_secs(15));
    assert_eq!(configuration.client_connection, ClientConnection::default());
    assert_eq!(configuration.pod_max_backoff, Duration::from_secs(10));
    assert!(configuration.enable_profiling && configuration.enable_contention_profiling);
    let profile = &configuration.profiles[0];
    assert_eq!(profile.scheduler_name, "default-scheduler");
    assert_eq!(profile.percentage_of_nodes_to_score, None);
    let names: Vec<&str> = profile.plugin_config.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "DefaultPreemption",
            "DynamicResources",
            "InterPodAffinity",
            "NodeAffinity",
            "NodeResourcesBalancedAllocation",
            "NodeResourcesFit",
            "PodTopologySpread",
            "VolumeBinding",
        ]
    );
    let catalogue = PluginCatalogue::in_tree();
    assert_eq!(Loader::new(&catalogue).defaults().unwrap().configuration, configuration);
}

#[test]
fn empty_and_null_values_are_defaults() {
    let body = "profiles: []\nextenders:\nparallelism: null\nleaderElection: {leaseDuration: 0s, resourceLock: ''}\n\
                clientConnection: {qps: 0, burst: 0}\nenableProfiling: no\n";
    let configuration = good(body);
    let expected = Configuration {
        enable_profiling: false,
        enable_contention_profiling: false,
        ..good("")
    };
    assert_eq!(configuration, expected);
}

#[test]
fn unknown_and_duplicate_fields_and_a_wrong_version_come_in_one_list() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nparallelism: 0\npercentageOfNodesToScores: 10\n\
                profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        \
                type: LeastAllocated\n        resources:\n        - name: cpu\n          Weight: 3\nprofiles: []\n\
                podMaxBackoffSeconds: ten\n";
    let catalogue = PluginCatalogue::in_tree();
    let errors = Loader::new(&catalogue).load_str("scheduler.yaml", text).unwrap_err();
    expect![[r#"
        scheduler.yaml: 7 errors
          line 1: kind: Required value: should be "KubeSchedulerConfiguration"
          line 1: apiVersion: Unsupported value: "kubescheduler.config.k8s.io/v1beta3": supported values: "kubescheduler.config.k8s.io/v1"
          line 2: parallelism: Invalid value: 0: should be an integer value greater than zero
          line 3: percentageOfNodesToScores: unknown field; did you mean "percentageOfNodesToScore"?
          line 12: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].Weight: unknown field; did you mean "weight"?
          line 13: profiles: duplicate key, first given on line 4
          line 14: podMaxBackoffSeconds: Invalid type: expected an integer, got string "ten""#]]
    .assert_eq(&errors.to_string());
}

#[test]
fn values_out_of_range_are_refused_with_their_path() {
    refused(
        "parallelism: -1\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 10\npodMaxBackoffSeconds: 5\n\
         clientConnection: {burst: -1, qps: 1e39}\nleaderElection: {leaseDuration: 5s, retryPeriod: -1s, resourceLock: \
         endpoints}\nprofiles: [{percentageOfNodesToScore: -1}]\n",
        &expect![[r#"
            f: 9 errors
              line 3: parallelism: Invalid value: -1: should be an integer value greater than zero
              line 4: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]
              line 6: podMaxBackoffSeconds: Invalid value: 5: must be greater than or equal to PodInitialBackoffSeconds
              line 7: clientConnection.burst: Invalid value: -1: must be non-negative
              line 7: clientConnection.qps: Invalid value: 1000000000000000000000000000000000000000: does not fit into a 32-bit float
              line 8: leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero
              line 8: leaderElection.leaseDuration: Invalid value: "5s": LeaseDuration must be greater than RenewDeadline
              line 8: leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"
              line 9: profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"#]],
    );
    refused(
        "podInitialBackoffSeconds: 0",
        &expect![[r#"
        f: 1 error
          line 3: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"#]],
    );
    refused(
        "leaderElection: {renewDeadline: 2s}",
        &expect![[r#"
        f: 1 error
          line 3: leaderElection.renewDeadline: Invalid value: "2s": must be greater than retryPeriod*1.2 (retryPeriod is 2s)"#]],
    );
    refused(
        "leaderElection: {leaderElect: false, resourceLock: endpoints}",
        &expect![[r#"
        f: 1 error
          line 3: leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases""#]],
    );
    assert!(
        !good("leaderElection: {leaderElect: false, leaseDuration: 1s}")
            .leader_election
            .leader_elect
    );
}

#[test]
fn wrong_types_are_named() {
    refused(
        "parallelism: '16'\nenableProfiling: 1\nprofiles: {}\nleaderElection: {leaseDuration: 15, resourceName: 7}\n\
         extenders: [5]\npodMaxBackoffSeconds: 99999999999999999999\nclientConnection: {qps: fast}\n",
        &expect![[r#"
            f: 8 errors
              line 3: parallelism: Invalid type: expected an integer, got string "16"
              line 4: enableProfiling: Invalid type: expected a boolean (true or false), got number 1
              line 5: profiles: Invalid type: expected a list, got a mapping
              line 6: leaderElection.leaseDuration: Invalid type: expected a duration string such as 15s or 1m30s, got number 15
              line 6: leaderElection.resourceName: Invalid type: expected a string (put it in quotes), got number 7
              line 7: extenders[0]: Invalid type: expected a mapping, got number 5
              line 8: podMaxBackoffSeconds: Invalid value: 99999999999999999999: does not fit into 64 bits
              line 9: clientConnection.qps: Invalid type: expected a number, got string "fast""#]],
    );
}

#[test]
fn texts_that_are_no_configuration_are_refused() {
    let catalogue = PluginCatalogue::in_tree();
    let check = |text: &str, expected: &Expect| {
        let errors = Loader::new(&catalogue).load_str("f", text).unwrap_err();
        expected.assert_eq(&errors.to_string());
    };
    check(
        "",
        &expect![[r#"
        f: 1 error
          holds no KubeSchedulerConfiguration document"#]],
    );
    check(
        "just text",
        &expect![[r#"
        f: 3 errors
          line 1: kind: Required value: should be "KubeSchedulerConfiguration"
          line 1: apiVersion: Required value: should be "kubescheduler.config.k8s.io/v1"
          line 1: Invalid type: expected a mapping, got string "just text""#]],
    );
    check(
        &format!("{HEAD}profiles: [\n"),
        &expect![[r#"
        f: 1 error
          line 3: not valid YAML: unclosed bracket '[' (column 11)"#]],
    );
    check(
        &format!("{HEAD}---\n{HEAD}"),
        &expect![[r#"
        f: 1 error
          line 5: kind: Forbidden: a file holds one KubeSchedulerConfiguration at most"#]],
    );
    check(
        &format!("{HEAD}---\nkind: Pod\napiVersion: v1\n"),
        &expect![[r#"
        f: 1 error
          line 4: kind: Forbidden: a file holds one KubeSchedulerConfiguration at most"#]],
    );
    let missing = Loader::new(&catalogue)
        .load_file(Path::new("/nonexistent/config.yaml"))
        .unwrap_err();
    expect![[r#"
        /nonexistent/config.yaml: 1 error
          cannot be opened: No such file or directory (os error 2)"#]]
    .assert_eq(&missing.to_string());
}

#[test]
fn profiles_need_unique_names() {
    refused(
        "profiles: [{schedulerName: a}, {}]",
        &expect![[r#"
        f: 1 error
          line 3: profiles[1].schedulerName: Required value: the name that pods give in spec.schedulerName"#]],
    );
    refused(
        "profiles: [{schedulerName: ''}]",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].schedulerName: Required value: the name that pods give in spec.schedulerName"#]],
    );
    refused(
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        &expect![[r#"
        f: 1 error
          line 3: profiles[1].schedulerName: Duplicate value: "a": every profile needs its own name"#]],
    );
    let zero = good("percentageOfNodesToScore: 50\nprofiles: [{percentageOfNodesToScore: 0}]");
    assert_eq!(zero.profiles[0].percentage_of_nodes_to_score, Some(0));
}

#[test]
fn plugin_lists_are_checked_name_by_name() {
    refused(
        "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: NodeFit\n      - name: NodeNam\n      - name: \
         ImageLocality\n      - name: NodePorts\n      - name: NodePorts\n      - weight: 3\n    score:\n      \
         enabled:\n      - {name: EBSLimits}\n      - {name: NodeAffinity, weight: -2}\n      - {name: ImageLocality, \
         weight: 3000000000}\n    multiPoint:\n      enabled: [{name: Custom}, {name: Custom}]\n      disabled: [{}]\n",
        &expect![[r#"
            f: 10 errors
              line 7: profiles[0].plugins.filter.enabled[0].name: Invalid value: "NodeFit": FilterPlugin "NodeFit" does not exist
              line 8: profiles[0].plugins.filter.enabled[1].name: Invalid value: "NodeNam": FilterPlugin "NodeNam" does not exist; did you mean "NodeName"?
              line 9: profiles[0].plugins.filter.enabled[2].name: Invalid value: "ImageLocality": plugin "ImageLocality" does not extend FilterPlugin plugin
              line 11: profiles[0].plugins.filter.enabled[4].name: Duplicate value: "NodePorts": plugin "NodePorts" already registered as "FilterPlugin"
              line 12: profiles[0].plugins.filter.enabled[5].name: Required value: the name of a plugin
              line 15: profiles[0].plugins.score.enabled[0].name: Invalid value: "EBSLimits": was invalid in version "kubescheduler.config.k8s.io/v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")
              line 16: profiles[0].plugins.score.enabled[1].weight: Invalid value: -2: must not be negative; 0 means 1
              line 17: profiles[0].plugins.score.enabled[2].weight: Invalid value: 3000000000: does not fit into 32 bits
              line 19: profiles[0].plugins.multiPoint.enabled[1].name: Duplicate value: "Custom": plugin "Custom" already registered in multiPoint
              line 20: profiles[0].plugins.multiPoint.disabled[0].name: Required value: the name of a plugin, or "*" for all"#]],
    );
}

#[test]
fn profiles_that_cannot_run_are_refused() {
    refused(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].plugins.queueSort: Invalid value: "0": only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0
          line 3: profiles[0].plugins.bind: Invalid value: "none": at least one bind plugin is needed for profile with scheduler name "default-scheduler""#]],
    );
    let catalogue = PluginCatalogue::in_tree().with("OtherSort", &[ExtensionPoint::QueueSort]);
    let text = format!(
        "{HEAD}profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins:\n    queueSort:\n      enabled: [{{name: \
         OtherSort}}]\n      disabled: [{{name: '*'}}]\n"
    );
    expect![[r#"
        f: 1 error
          line 7: profiles[1].plugins.queueSort: Invalid value: "OtherSort": must be the same for all profiles; the first has "PrioritySort""#]]
    .assert_eq(&Loader::new(&catalogue).load_str("f", &text).unwrap_err().to_string());
}

#[test]
fn multi_point_disable_and_enable_of_one_name_enables() {
    let body =
        "profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}], disabled: [{name: ImageLocality}]}}}]";
    let configuration = good(body);
    let expanded = configuration.profiles[0].expand(&PluginCatalogue::in_tree()).unwrap();
    assert_eq!(expanded.names(ExtensionPoint::Score).last(), Some(&"ImageLocality"));
}

#[test]
fn extenders_are_checked() {
    refused(
        "extenders:\n- urlPrefix: http://a\n  bindVerb: b\n  prioritizeVerb: p\n  managedResources: [{name: \
         example.com/a}, {name: example.com/a}, {name: cpu}]\n- bindVerb: b\n  httpTimeout: -1s\n  tlsConfig: {caData: \
         '%%'}\n- urlPrefix: ftp://x\n  weight: 9223372036854775807\n",
        &expect![[r#"
            f: 9 errors
              line 3: extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind
              line 4: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it
              line 7: extenders[0].managedResources[1].name: Invalid value: "example.com/a": duplicate extender managed resource name
              line 7: extenders[0].managedResources[2].name: Invalid value: "cpu": is an invalid extended resource name; write domain/name outside kubernetes.io
              line 8: extenders[1].urlPrefix: Required value: the extender's address, http:// or https://
              line 9: extenders[1].httpTimeout: Invalid value: "-1s": must not be negative
              line 10: extenders[1].tlsConfig.caData: Invalid value: "…": is not base64
              line 11: extenders[2].urlPrefix: Invalid value: "ftp://x": must start with http:// or https://
              line 12: extenders[2].weight: Invalid value: 9223372036854775807: total score could overflow; at most 922337203685477"#]],
    );
    let extender = &good("extenders: [{urlPrefix: 'https://a', tlsConfig: {caData: Zm9v}}]").extenders[0];
    assert_eq!(extender.http_timeout, Duration::from_secs(5));
    assert_eq!(extender.tls.as_ref().unwrap().ca_data, b"foo");
}

#[test]
fn args_of_the_wrong_plugin_and_of_unknown_plugins_are_refused() {
    args_refused(
        "NodeAffinity",
        "{kind: NodeResourcesFitArgs, apiVersion: v2}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.apiVersion: Invalid value: "v2": args have to be of version "kubescheduler.config.k8s.io/v1"
          line 3: profiles[0].pluginConfig[0].args.kind: Invalid value: "NodeResourcesFitArgs": args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, got NodeResourcesFitArgs.kubescheduler.config.k8s.io"#]],
    );
    args_refused(
        "NodeAffinty",
        "{}",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].pluginConfig[0].name: Invalid value: "NodeAffinty": plugin "NodeAffinty" does not exist; did you mean "NodeAffinity"?"#]],
    );
    args_refused(
        "NodeAffinity",
        "[1]",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].pluginConfig[0].args: Invalid type: expected a mapping, got a list"#]],
    );
    refused(
        "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}, {name: EBSLimits}]}]",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[1].name: Duplicate value: "NodeAffinity": every plugin has one entry at most
          line 3: profiles[0].pluginConfig[2].name: Invalid value: "EBSLimits": was invalid in version "kubescheduler.config.k8s.io/v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")"#]],
    );
}

#[test]
fn args_of_unknown_types_are_kept_as_they_stand() {
    assert_eq!(
        args("Custom", "{a: [1, yes, 1.5], b: {c: x}}"),
        PluginArgs::Raw(serde_json::json!({
            "a": [1, true, 1.5],
            "b": {"c": "x"},
        }))
    );
    args_refused(
        "Custom",
        "{a: {b: 1, b: 2}}",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].pluginConfig[0].args.a.b: duplicate key, first given on line 3"#]],
    );
}

#[test]
fn preemption_and_affinity_args_are_checked() {
    args_refused(
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute
          line 3: profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage"#]],
    );
    args_refused(
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]
          line 3: profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"#]],
    );
    args_refused(
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"#]],
    );
    let only_one_zero = args("DefaultPreemption", "{minCandidateNodesPercentage: 0}");
    let expected = DefaultPreemptionArgs {
        min_candidate_nodes_percentage: 0,
        min_candidate_nodes_absolute: 100,
    };
    assert_eq!(only_one_zero, PluginArgs::DefaultPreemption(expected));
    args_refused(
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
         [{key: a, operator: In}, {key: 'b c', operator: Exists}, {key: d, operator: Gt, values: [x]}, {key: e, \
         operator: Near}, {key: f, operator: Exists, values: [z]}, {key: g, operator: In, values: ['-']}], matchFields: \
         [{key: metadata.namespace, operator: Exists}]}]}}}",
        &expect![[r#"
            f: 9 errors
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: "[]": for 'in', 'notin' operators, values set can't be empty
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].key: Invalid value: "b c": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[3].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[4].values: Invalid value: "[\"z\"]": values set must be empty for exists and does not exist
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[5].values[0]: Invalid value: "-": a label value must be empty or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Unsupported value: "metadata.namespace": supported values: "metadata.name"
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: Invalid value: "[]": must have one element
              line 3: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn""#]],
    );
}

#[test]
fn resource_args_are_checked() {
    args_refused(
        "NodeResourcesFit",
        "{ignoredResources: ['a b'], ignoredResourceGroups: [a/b], scoringStrategy: {resources: [{name: cpu, weight: \
         101}, {name: memory, weight: 0}, {weight: -1}], requestedToCapacityRatio: {}}}",
        &expect![[r#"
            f: 7 errors
              line 3: profiles[0].pluginConfig[0].args.ignoredResources[0]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
              line 3: profiles[0].pluginConfig[0].args.ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Invalid value: "": must be nil when type is not RequestedToCapacityRatio
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.resources[2].name: Required value: the name of a resource
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.resources[2].weight: Invalid value: -1: resource weight of  not in valid range (0, 100]"#]],
    );
    args_refused(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: \
         11}, {utilization: 50, score: 1}, {utilization: 101, score: -1}]}}}",
        &expect![[r#"
            f: 4 errors
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 101: not in valid range [0, 100]
              line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[2].score: Invalid value: -1: not in valid range [0, 10]"#]],
    );
    args_refused(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        &expect![[r#"
        f: 1 error
          line 3: profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio"#]],
    );
    args_refused(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1
          line 3: profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu""#]],
    );
    let fit = args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 0}]}}",
    );
    let PluginArgs::NodeResourcesFit(fit) = fit else {
        panic!("{fit:?}")
    };
    assert_eq!(
        fit.scoring_strategy.resources,
        [ResourceSpec {
            name: "cpu".to_owned(),
            weight: 1
        }]
    );
}

#[test]
fn spread_volume_and_device_args_are_checked() {
    args_refused(
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: Never, labelSelector: {}}, {maxSkew: 1, \
         topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: \
         DoNotSchedule, minDomains: 0, nodeTaintsPolicy: x}]}",
        &expect![[r#"
            f: 8 errors
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Required value: can not be empty
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[2].minDomains: Invalid value: 0: not in valid range (0, inf)
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[2].nodeTaintsPolicy: Unsupported value: "x": supported values: "Ignore", "Honor"
              line 3: profiles[0].pluginConfig[0].args.defaultConstraints[2].{topologyKey, whenUnsatisfiable}: Duplicate value: "{a, DoNotSchedule}": topologyKey and whenUnsatisfiable stand together once
              line 3: profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty; use List"#]],
    );
    args_refused(
        "VolumeBinding",
        "{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 1}]}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value
          line 3: profiles[0].pluginConfig[0].args.shape: Invalid value: "1 points": unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"#]],
    );
    args_refused(
        "DynamicResources",
        "{filterTimeout: -1s, bindingTimeout: 500ms}",
        &expect![[r#"
        f: 2 errors
          line 3: profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: "-1s": must be zero or positive
          line 3: profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: "500ms": must be at least 1 second"#]],
    );
}

#[test]
fn rates_are_remembered_only_when_given() {
    let connection = good("clientConnection: {qps: -1, burst: 7}").client_connection;
    assert_eq!((connection.qps, connection.burst), (Some(-1.0), Some(7)));
    assert_eq!(
        good("clientConnection: {qps: 50.1}")
            .client_connection
            .rate_limit()
            .map(|limit| limit.burst),
        Some(100)
    );
}

#[test]
fn overrides_go_over_the_file() {
    let catalogue = PluginCatalogue::in_tree();
    let overrides = Overrides {
        leader_elect: Some(false),
        resource_name: Some("mine".to_owned()),
        qps: Some(7.0),
        ..Overrides::default()
    };
    let text = format!("{HEAD}leaderElection: {{resourceName: file, resourceNamespace: ns}}\n");
    let loader = Loader::new(&catalogue).overrides(overrides);
    let election = loader.load_str("f", &text).unwrap().configuration.leader_election;
    assert!(!election.leader_elect);
    assert_eq!(
        (election.resource_name.as_str(), election.resource_namespace.as_str()),
        ("mine", "ns")
    );
    let bad = Overrides {
        lease_duration: Some(crate::duration::GoDuration(-1)),
        ..Overrides::default()
    };
    expect![[r#"
        command line: 2 errors
          leaderElection.leaseDuration: Invalid value: "-1ns": must be greater than zero
          leaderElection.leaseDuration: Invalid value: "-1ns": LeaseDuration must be greater than RenewDeadline"#]]
    .assert_eq(
        &Loader::new(&catalogue)
            .overrides(bad)
            .defaults()
            .unwrap_err()
            .to_string(),
    );
}

#[test]
fn surprises_are_warned_of() {
    let loaded =
        load("percentageOfNodesToScore: 50\nprofiles: [{plugins: {filter: {disabled: [{name: Gone}]}}}]").unwrap();
    expect![[r#"
        percentageOfNodesToScore is accepted but every node is scored
        profiles[0].plugins.filter.disabled[0].name: plugin "Gone" does not exist, disabling it has no effect"#]]
    .assert_eq(&loaded.warnings.join("\n"));
}

#[test]
fn settings_are_checked() {
    let head = "apiVersion: supercargo.io/v1alpha1\nkind: SupercargoConfiguration\n";
    let check = |body: &str| Loader::load_settings_str("s", &format!("{head}{body}"));
    let small = check("workers: 3\nbindingConcurrency: 2\ntracing: {otlpEndpoint: 'http://a:4317'}").unwrap();
    assert_eq!(
        (
            small.workers,
            small.max_assumed_pods,
            small.tracing.sample_ratio.to_bits()
        ),
        (3, 8, 0.01_f64.to_bits())
    );
    let errors = check(
        "workers: 0\nbindingConcurrency: 100\nmaxAssumedPods: 50\nbindDeadline: 1ms\neventQueueLength: -1\n\
         eventConcurrency: 5000\ntracing: {sampleRatio: 2, otlpEndpoint: 'localhost'}\ncolour: red\ntieBreakSeed: -1\n",
    )
    .unwrap_err();
    expect![[r#"
        s: 9 errors
          line 3: workers: Invalid value: 0: not in valid range [1, 1024]
          line 5: maxAssumedPods: Invalid value: 50: not in valid range [100, 1000000]
          line 6: bindDeadline: Invalid value: "1ms": not in valid range [100ms, 1h0m0s]
          line 7: eventQueueLength: Invalid value: -1: not in valid range [1, 10000000]
          line 8: eventConcurrency: Invalid value: 5000: not in valid range [1, 1000]
          line 9: tracing.otlpEndpoint: Invalid value: "localhost": must start with http:// or https://
          line 9: tracing.sampleRatio: Invalid value: 2: not in valid range [0, 1]
          line 10: colour: unknown field; known here: apiVersion, kind, workers, bindingConcurrency, maxAssumedPods, tieBreakSeed, bindDeadline, eventQueueLength, eventConcurrency, statusConcurrency, extenderConcurrency, tracing
          line 11: tieBreakSeed: Invalid value: -1: does not fit into 64 bits without sign"#]]
    .assert_eq(&errors.to_string());
    expect![[r#"
        s: 1 error
          line 3: tracing.otlpEndpoint: Required value: sampleRatio is above 0, so traces need an endpoint such as http://localhost:4317"#]]
    .assert_eq(&check("tracing: {sampleRatio: 0.5}").unwrap_err().to_string());
    expect![[r#"
        s: 1 error
          line 2: kind: Forbidden: a settings file holds a SupercargoConfiguration only"#]]
    .assert_eq(&Loader::load_settings_str("s", HEAD).unwrap_err().to_string());
}

/// A body of a random valid configuration.
fn any_body() -> impl Strategy<Value = String> {
    let profile = (any::<[bool; 4]>(), 0_u32..=100, 1_u32..=100).prop_map(|(flags, percentage, weight)| {
        let mut profile = String::new();
        if flags[0] {
            profile.push_str(&format!("  percentageOfNodesToScore: {percentage}\n"));
        }
        if flags[1] {
            profile.push_str(&format!(
                "  plugins:\n    multiPoint:\n      enabled: [{{name: Custom, weight: {weight}}}, {{name: NodeAffinity}}]\n      \
                 disabled: [{{name: ImageLocality}}]\n    score: {{disabled: [{{name: '*'}}]}}\n"
            ));
        }
        let strategy = if flags[3] { "LeastAllocated" } else { "MostAllocated" };
        if flags[2] {
            profile.push_str(&format!(
                "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {{scoringStrategy: {{type: {strategy}, resources: \
                 [{{name: example.com/x, weight: {weight}}}]}}}}\n  - name: Custom\n    args: {{a: 'yes', b: {percentage}, \
                 c: [1.5, null, '', '0x10', 'a: b', \"x\\ny\"]}}\n"
            ));
        }
        profile
    });
    (
        proptest::collection::vec(profile, 0..4),
        proptest::option::of(-1000.0_f64..1000.0),
        proptest::option::of(0_i32..1000),
        (any::<bool>(), 11_000_u64..100_000, 1_i64..20),
    )
        .prop_map(|(profiles, qps, burst, (elect, lease, backoff))| {
            let mut body = format!(
                "leaderElection: {{leaderElect: {elect}, leaseDuration: {lease}ms}}\npodInitialBackoffSeconds: \
                 {backoff}\npodMaxBackoffSeconds: 20\n"
            );
            let qps = qps.map_or_else(String::new, |qps| format!("  qps: {qps}\n"));
            let burst = burst.map_or_else(String::new, |burst| format!("  burst: {burst}\n"));
            if !(qps.is_empty() && burst.is_empty()) {
                body.push_str(&format!("clientConnection:\n{qps}{burst}"));
            }
            body.push_str("profiles:\n");
            for (index, profile) in profiles.iter().enumerate() {
                body.push_str(&format!("- schedulerName: s{index}\n{profile}"));
            }
            body
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn printed_configurations_load_to_the_same(body in any_body()) {
        let first = good(&body);
        let catalogue = PluginCatalogue::in_tree().with("Custom", &[ExtensionPoint::Filter, ExtensionPoint::Score]);
        let loader = Loader::new(&catalogue);
        let yaml = first.to_yaml().unwrap();
        let again = loader.load_str("yaml", &yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
        prop_assert_eq!(&again.configuration, &first);
        let json = loader.load_str("json", &first.to_json().to_string()).unwrap();
        prop_assert_eq!(&json.configuration, &first);
    }

    #[test]
    fn no_text_panics_the_loader(text in "[ -~\n]{0,200}") {
        let catalogue = PluginCatalogue::in_tree();
        let loader = Loader::new(&catalogue);
        let alone = loader.load_str("f", &text).is_ok();
        let after_head = loader.load_str("f", &format!("{HEAD}{text}")).is_ok();
        prop_assert!(!alone || !text.is_empty() || after_head);
    }
}

#[test]
fn resources_of_extenders_take_the_place_of_the_ignored_ones_in_every_profile() {
    let body = "extenders:\n\
                - {urlPrefix: 'http://a', managedResources: [{name: a/b, ignoredByScheduler: true}, {name: a/c}]}\n\
                - {urlPrefix: 'http://b', managedResources: [{name: b/d, ignoredByScheduler: true}]}\n\
                profiles:\n\
                - schedulerName: one\n\
                \x20 pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x/y]}}]\n\
                - schedulerName: two\n";
    let mut loaded = good(body);
    let ignored = |loaded: &Configuration, profile: usize| match loaded.profiles[profile].args("NodeResourcesFit") {
        Some(PluginArgs::NodeResourcesFit(args)) => args.ignored_resources.clone(),
        other => panic!("{other:?}"),
    };
    loaded.leave_resources_to_extenders();
    for profile in 0..2 {
        assert_eq!(ignored(&loaded, profile), ["a/b", "b/d"]);
    }
    loaded.extenders.clear();
    loaded.profiles[1].plugin_config.clear();
    loaded.leave_resources_to_extenders();
    assert_eq!(ignored(&loaded, 0), ["a/b", "b/d"], "without extenders nothing changes");
    assert!(loaded.profiles[1].args("NodeResourcesFit").is_none());
}
