//! Args of plugins: what is refused and how it is said.

use super::*;

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
fn latencies_that_are_none_are_refused_all_at_once() {
    args_refused(
        "TopologyAware",
        "{latencyThresholdMs: -1, scoreDivisor: 0, aggregation: Sum, missingFigures: Old, sources: [\
         {level: 'a b', matrix: {figures: [{from: a, to: b, ms: -3}, {from: a, to: b, ms: .nan}, {to: b, ms: 4}]}}, \
         {name: matrix-0, matrix: {figures: [{from: a, to: b, ms: 3}, {from: a, to: b, ms: 4}]}}, {name: x}]}",
        &expect![[r#"
            f: 11 errors
              line 3: profiles[0].pluginConfig[0].args.sources[0].matrix.figures[1].ms: Invalid type: expected a number, got string ".nan"
              line 3: profiles[0].pluginConfig[0].args.latencyThresholdMs: Invalid value: -1: must be from 0 to 3600000
              line 3: profiles[0].pluginConfig[0].args.scoreDivisor: Invalid value: 0: must be from 1 to 1000000
              line 3: profiles[0].pluginConfig[0].args.aggregation: Unsupported value: "Sum": supported values: "Mean", "Max"
              line 3: profiles[0].pluginConfig[0].args.missingFigures: Unsupported value: "Old": supported values: "Unreachable", "Neutral"
              line 3: profiles[0].pluginConfig[0].args.sources[0].level: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
              line 3: profiles[0].pluginConfig[0].args.sources[0].matrix.figures[0].ms: Invalid value: "-3": must be a number of milliseconds from 0 to 3600000
              line 3: profiles[0].pluginConfig[0].args.sources[0].matrix.figures[2].from: Required value: the name of a place
              line 3: profiles[0].pluginConfig[0].args.sources[1].matrix.figures[1]: Duplicate value: "from a to b": with another figure
              line 3: profiles[0].pluginConfig[0].args.sources[1].name: Duplicate value: "matrix-0"
              line 3: profiles[0].pluginConfig[0].args.sources[2].matrix: Required value: figures"#]],
    );
}

#[test]
fn latencies_have_defaults() {
    let PluginArgs::TopologyAware(args) = args(
        "TopologyAware",
        "{sources: [{matrix: {figures: [{from: a, to: b, ms: 3}]}}]}",
    ) else {
        panic!("args of another plugin")
    };
    assert_eq!(
        (args.latency_threshold_ms, args.score_divisor, args.count_callers),
        (50, 10, true)
    );
    let [source] = &*args.sources else { panic!("{args:?}") };
    assert_eq!(
        (&*source.name, &*source.level, source.mirrored),
        ("matrix-0", "topology.kubernetes.io/region", false)
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
