//! Random configurations and random texts.

use proptest::prelude::*;

use super::*;

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
