//! Whole files: what is refused and how it is said, what is taken and what comes out.

mod plugin_args;
mod random;

use std::time::Duration;

use expect_test::{Expect, expect};

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
