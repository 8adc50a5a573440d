//! Action lines: a kubeadm manifest, precedence, every refused flag.

use crate::telemetry::{AllowedValues, LogFormat, LogOutput};
use expect_test::{Expect, expect};
use supercargo_config::PluginCatalogue;

use super::serving::TlsVersion;
use super::*;

fn try_parse(args: &str) -> Result<Action, Failure> {
    let args = args.split_whitespace().map(OsString::from);
    parse(args, &PluginCatalogue::in_tree())
}

/// Options of a run with these arguments after the program's name.
fn run(args: &str) -> Options {
    match try_parse(&format!("supercargo {args}")) {
        Ok(Action::Run(options)) => *options,
        other => panic!("{other:?}"),
    }
}

fn printed(args: &str) -> String {
    match try_parse(&format!("supercargo {args}")) {
        Ok(Action::Print(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn refused(args: &str, expected: &Expect) {
    match try_parse(&format!("supercargo {args}")) {
        Err(failure) => {
            assert_eq!(failure.code, 1);
            expected.assert_eq(&failure.message);
        }
        other => panic!("{other:?}"),
    }
}

/// A file in a folder that goes with the guard.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn kubeadm_manifest_arguments_run_the_scheduler() {
    let args = "kube-scheduler --authentication-kubeconfig=/etc/kubernetes/scheduler.conf \
                --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 \
                --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true";
    for args in [
        args.to_owned(),
        args.replace("kube-scheduler --auth", "/usr/local/bin/supercargo run --auth"),
    ] {
        let Ok(Action::Run(options)) = try_parse(&args) else {
            panic!("{args}")
        };
        assert_eq!(
            options.configuration.client_connection.kubeconfig,
            "/etc/kubernetes/scheduler.conf"
        );
        assert!(options.configuration.leader_election.leader_elect);
        assert_eq!(options.serving.unwrap().address, "127.0.0.1:10259".parse().unwrap());
        let conf = Some("/etc/kubernetes/scheduler.conf".into());
        assert_eq!(
            (options.authentication.kubeconfig, options.authorization.kubeconfig),
            (conf.clone(), conf)
        );
        assert_eq!(options.warnings, Vec::<String>::new());
    }
}

#[test]
fn defaults_are_upstreams() {
    let options = run("");
    let serving = options.serving.unwrap();
    assert_eq!(serving.address, "0.0.0.0:10259".parse().unwrap());
    assert_eq!((serving.min_version, serving.certificate), (TlsVersion::Tls12, None));
    assert_eq!(options.pod_max_in_unschedulable, Duration::from_secs(300));
    assert_eq!(
        options.authorization.always_allow_paths,
        ["/healthz", "/readyz", "/livez"]
    );
    assert!(options.authentication.tolerate_lookup_failure && !options.authentication.skip_lookup);
    assert_eq!(options.authentication.request_header, None);
    assert_eq!(
        (options.logging.format, options.logging.verbosity),
        (LogFormat::Text, 0)
    );
    assert_eq!(options.configuration.client_connection.rate_limit(), None);
    assert_eq!(options.settings, Settings::default());
}

#[test]
fn leader_flags_go_over_the_file_and_deprecated_ones_do_not() {
    let text = format!(
        "{HEAD}leaderElection: {{leaderElect: true, resourceName: file, leaseDuration: 20s}}\nclientConnection: \
         {{kubeconfig: /file}}\n"
    );
    let (_guard, path) = file("config.yaml", &text);
    let options = run(&format!(
        "--config={path} --leader-elect=false --leader-elect-resource-name=flag --leader-elect-lease-duration=1m30s \
         --kubeconfig=/flag --kube-api-qps=7 --profiling=false --pod-max-in-unschedulable-pods-duration=90s"
    ));
    let election = options.configuration.leader_election;
    assert!(!election.leader_elect);
    assert_eq!(
        (election.resource_name.as_str(), election.lease_duration),
        ("flag", Duration::from_secs(90))
    );
    assert_eq!(options.configuration.client_connection.kubeconfig, "/file");
    assert_eq!(options.configuration.client_connection.qps, None);
    assert!(options.configuration.enable_profiling);
    assert_eq!(options.pod_max_in_unschedulable, Duration::from_secs(90));
    expect![[r#"
        --kubeconfig is deprecated and ignored, because --config is given
        --kube-api-qps is deprecated and ignored, because --config is given
        --profiling is deprecated and ignored, because --config is given"#]]
    .assert_eq(&options.warnings.join("\n"));
}

#[test]
fn deprecated_flags_count_without_a_file() {
    let options = run("--kubeconfig=/k --kube-api-qps=-1 --kube-api-burst 5 --profiling=false --master https://m");
    let connection = &options.configuration.client_connection;
    assert_eq!(
        (connection.kubeconfig.as_str(), connection.qps, connection.burst),
        ("/k", Some(-1.0), Some(5))
    );
    assert!(!options.configuration.enable_profiling && !options.configuration.enable_contention_profiling);
    assert_eq!(options.master.as_deref(), Some("https://m"));
}

#[test]
fn go_spellings_of_flags_are_taken() {
    let options = run("--leader_elect=F --v=4 -v=2 --leader-elect-retry-period 1s500ms --permit-port-sharing");
    assert!(!options.configuration.leader_election.leader_elect);
    assert_eq!(options.logging.verbosity, 2);
    assert_eq!(
        options.configuration.leader_election.retry_period,
        Duration::from_millis(1_500)
    );
    assert!(options.serving.unwrap().share_port);
    assert!(run("--leader-elect").configuration.leader_election.leader_elect);
    let gates = run("--feature-gates=NodeDeclaredFeatures=false --feature-gates OpportunisticBatching=false").gates;
    assert!(!gates.enabled("NodeDeclaredFeatures") && !gates.enabled("OpportunisticBatching"));
    assert_eq!(run("--secure-port=0").serving, None);
    assert_eq!(run("-v5 --vmodule=queue=6,cluster::watch=4").logging.modules.len(), 2);
    assert_eq!(run("--logging-format=json").logging.format, LogFormat::Json);
}

#[test]
fn serving_flags_are_read() {
    let options = run(
        "--bind-address=::1 --secure-port=443 --tls-cert-file=/c --tls-private-key-file=/k --tls-min-version=VersionTLS13 \
         --tls-sni-cert-key=/a,/b:x.example.com,*.y --tls-sni-cert-key=/c,/d --authorization-always-allow-paths=/healthz,/metrics* \
         --requestheader-client-ca-file=/ca --requestheader-allowed-names=front-proxy-client,other",
    );
    let serving = options.serving.unwrap();
    assert_eq!(serving.address, "[::1]:443".parse().unwrap());
    assert_eq!(serving.certificate.unwrap().key_file.to_str(), Some("/k"));
    assert_eq!(serving.min_version, TlsVersion::Tls13);
    assert_eq!(serving.sni_certificates[0].names, ["x.example.com", "*.y"]);
    assert_eq!(serving.sni_certificates[1].names, Vec::<String>::new());
    assert_eq!(options.authorization.always_allow_paths, ["/healthz", "/metrics*"]);
    let proxies = options.authentication.request_header.unwrap();
    assert_eq!(proxies.allowed_names, ["front-proxy-client", "other"]);
    assert_eq!(proxies.extra_headers_prefix, ["x-remote-extra-"]);
}

#[test]
fn suites_without_forward_secrecy_are_left_out_with_a_warning() {
    let options = run(
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256 \
         --tls-min-version=VersionTLS10",
    );
    assert_eq!(
        options.serving.unwrap().cipher_suites,
        ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    );
    expect![[r#"
        --tls-min-version=VersionTLS10 is taken as VersionTLS12: older versions are not offered
        --tls-cipher-suites: left out, because they are not offered: TLS_RSA_WITH_AES_128_GCM_SHA256"#]]
    .assert_eq(&options.warnings.join("\n"));
    let refusal = try_parse("s --tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA").unwrap_err();
    assert!(
        refusal
            .message
            .starts_with("--tls-cipher-suites: none of the suites is offered; offered are TLS_ECDHE")
    );
}

#[test]
fn curves_that_are_not_offered_are_left_out_with_a_warning() {
    let options =
        run("--tls-curve-preferences=4588,29 --tls-curve-preferences=23 --min-compatibility-version=kube=1.33");
    assert_eq!(options.serving.unwrap().curves, [29, 23]);
    assert_eq!(
        options.warnings,
        ["--tls-curve-preferences: left out, because they are not offered: 4588"]
    );
    assert!(run("").serving.unwrap().curves.is_empty());
    refused(
        "--tls-curve-preferences=23,23,99,X25519 --min-compatibility-version=1.32",
        &expect![[r#"
            4 errors
              --min-compatibility-version: invalid value "1.32": must be one of 1.33, 1.34, 1.35 and 1.36, perhaps after kube=
              --tls-curve-preferences: invalid value "23": duplicate curve preference
              --tls-curve-preferences: invalid value "99": no curve that is known; 23, 24 and 29 are offered
              --tls-curve-preferences: invalid value "X25519": should be the number of a curve, from 1 to 65535"#]],
    );
    let refusal = try_parse("s --tls-curve-preferences=25").unwrap_err();
    let expected = "--tls-curve-preferences: none of the curves is offered (25); offered are 23, 24 and 29";
    assert_eq!(refusal.message, expected);
}

#[test]
fn certificate_folder_counts_when_the_pair_is_there() {
    let (guard, _) = file("kube-scheduler.crt", "");
    let args = format!("--cert-dir={}", guard.path().display());
    assert_eq!(run(&args).serving.unwrap().certificate, None);
    std::fs::write(guard.path().join("kube-scheduler.key"), "").unwrap();
    assert!(run(&args).serving.unwrap().certificate.is_some());
}

#[test]
fn wrong_values_are_named_together() {
    refused(
        "--secure-port=70000 --bind-address=localhost --tls-cert-file=/c --tls-min-version=SSL3 --tls-cipher-suites=X \
         --tls-sni-cert-key=a --leader-elect=maybe --leader-elect-lease-duration=15 --kube-api-qps=fast \
         --authorization-always-allow-paths=/a*b --authentication-token-webhook-cache-ttl=-1s --logging-format=xml -v=-1 \
         --vmodule=queue --feature-gates=GangScheduling=true,Foo=true --emulated-version=1.35 \
         --allow-metric-labels=a=c --allow-metric-labels-manifest=/nonexistent/m --show-hidden-metrics-for-version=1.36 \
         --log-text-split-stream=x --log-json-info-buffer-size=1Mx --http2-max-streams-per-connection=-5 \
         --pod-max-in-unschedulable-pods-duration=5x",
        &expect![[r#"
            24 errors
              --emulated-version: invalid value "1.35": not supported: this scheduler behaves as 1.36
              --feature-gates: cannot set feature gate GangScheduling to true: this scheduler has only the behaviour of GangScheduling=false
              --feature-gates: unrecognized feature gate: Foo
              --leader-elect: invalid value "maybe": should be true or false
              --leader-elect-lease-duration: invalid value "15": missing unit in duration "15"; write for example 15s
              --kube-api-qps: invalid value "fast": should be a number of requests
              --secure-port: invalid value "70000": must be between 0 and 65535, inclusive. 0 for turning off secure port
              --bind-address: invalid value "localhost": should be an IP address
              --tls-cert-file: --tls-private-key-file has to be given too
              --tls-sni-cert-key: invalid value "a": expected comma separated certificate and key file paths
              --tls-min-version: invalid value "SSL3": unknown tls version; VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13
              --tls-cipher-suites: invalid value "X": cipher suite is not supported or does not exist
              --http2-max-streams-per-connection: invalid value "-5": should be a number of streams
              --authentication-token-webhook-cache-ttl: invalid value "-1s": must not be negative
              --authorization-always-allow-paths: invalid value "/a*b": a * may stand at the end only
              --logging-format: invalid value "xml": unsupported log format; text or json
              -v: invalid value "-1": should be a number from 0
              --vmodule: invalid value "queue": should be a module and a level, as queue=5
              --log-text-split-stream: invalid value "x": should be true or false
              --log-json-info-buffer-size: invalid value "1Mx": "1Mx" is no quantity: a number with an optional suffix such as m, k, Ki, Mi, G or e3 is
              --show-hidden-metrics-for-version: invalid value "1.36": must be omitted or have the value '1.35'. Only the previous minor version is allowed
              --allow-metric-labels: invalid value "a=c": should be metric,label=value,value
              --allow-metric-labels-manifest: invalid value "/nonexistent/m": No such file or directory (os error 2)
              --pod-max-in-unschedulable-pods-duration: invalid value "5x": unknown unit "x" in duration "5x"; units are ns, us, ms, s, m, h"#]],
    );
}

#[test]
fn values_of_flags_are_checked_like_those_of_a_file() {
    refused(
        "--leader-elect-resource-lock=endpoints --leader-elect-renew-deadline=20s --kube-api-burst=-1",
        &expect![[r#"
        command line: 3 errors
            leaderElection.leaseDuration: Invalid value: "15s": LeaseDuration must be greater than RenewDeadline
            leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"
            clientConnection.burst: Invalid value: -1: must be non-negative"#]],
    );
}

#[test]
fn metrics_flags_say_what_is_shown() {
    let rule = |metric: &str, label: &str, values: &[&str]| AllowedValues {
        metric: metric.to_owned(),
        label: label.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let (_guard, manifest) = file("allow.yaml", "m,l: 'x,y'\nn,k: z\n");
    let options = run(&format!(
        "--disabled-metrics=a,b --disabled-metrics=c --show-hidden-metrics-for-version=1.35 --allow-metric-labels=m,l=v,w \
         --allow-metric-labels=\"o:p,k=1,2\",\"q,k=3\" --allow-metric-labels-manifest={manifest}"
    ));
    assert_eq!(options.exposition.disabled, ["a", "b", "c"]);
    assert_eq!(
        options.exposition.allowed,
        [
            rule("m", "l", &["v", "w"]),
            rule("o:p", "k", &["1", "2"]),
            rule("q", "k", &["3"]),
            rule("n", "k", &["z"]),
        ]
    );
    for wrong in ["m", "m,l", "m=v", "1m,l=v", "m,l:=v", ",l=v", "a,b=c,d=e"] {
        let failure = try_parse(&format!("s --allow-metric-labels={wrong}")).unwrap_err();
        assert!(
            failure.message.contains("--allow-metric-labels: invalid value"),
            "{wrong}"
        );
    }
}

#[test]
fn log_streams_are_those_of_the_format() {
    assert_eq!(run("").logging.output, LogOutput::Single);
    let flags = "--log-text-split-stream --log-json-info-buffer-size=1Mi --log-flush-frequency=2s";
    let split = |buffer_bytes, seconds| LogOutput::Split {
        buffer_bytes,
        flush_every: Duration::from_secs(seconds),
    };
    assert_eq!(run(flags).logging.output, split(0, 2));
    assert_eq!(
        run(&format!("{flags} --logging-format=json")).logging.output,
        LogOutput::Single
    );
    let json = "--logging-format=json --log-json-split-stream --log-json-info-buffer-size=64Ki";
    assert_eq!(run(json).logging.output, split(65_536, 5));
}

#[test]
fn unknown_flags_and_words_are_refused() {
    for args in [
        "--port=1",
        "--kubeconfg=x",
        "schedule",
        "config",
        "config check",
        "--leader-elect false",
    ] {
        let failure = try_parse(&format!("supercargo {args}")).unwrap_err();
        assert_eq!(failure.code, 1, "{args}");
        assert!(!failure.message.is_empty(), "{args}");
    }
}

#[test]
fn broken_files_are_refused_together() {
    let (_one, config) = file("config.yaml", &format!("{HEAD}parallelism: 0\n"));
    let (_two, settings) = file(
        "settings.yaml",
        "apiVersion: supercargo.io/v1alpha1\nkind: SupercargoConfiguration\nworkers: 0\n",
    );
    let failure = try_parse(&format!("s --config={config} --settings={settings} -v=x")).unwrap_err();
    let message = failure
        .message
        .replace(&config, "CONFIG")
        .replace(&settings, "SETTINGS");
    expect![[r#"
        3 errors
          -v: invalid value "x": should be a number from 0
          CONFIG: 1 error
            line 3: parallelism: Invalid value: 0: should be an integer value greater than zero
          SETTINGS: 1 error
            line 3: workers: Invalid value: 0: not in valid range [1, 1024]"#]]
    .assert_eq(&message);
}

#[test]
fn settings_come_from_one_place() {
    let document = "apiVersion: supercargo.io/v1alpha1\nkind: SupercargoConfiguration\nworkers: 3\ntracing: {otlpEndpoint: \
                    'http://o:4317'}\n";
    let (_one, both) = file("config.yaml", &format!("{HEAD}---\n{document}"));
    let (_two, own) = file("settings.yaml", document);
    let options = run(&format!("--config={both}"));
    assert_eq!((options.settings.workers, options.logging.trace.is_some()), (3, true));
    assert_eq!(run(&format!("--settings={own}")).settings.workers, 3);
    refused(
        &format!("--config={both} --settings={own}"),
        &expect![[r#"
        --settings: the file of --config has a SupercargoConfiguration document too; keep one of them"#]],
    );
}

#[test]
fn effective_configuration_is_written_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.yaml");
    let text = printed(&format!("--leader-elect=false --write-config-to={}", path.display()));
    assert!(text.starts_with("wrote the effective configuration"));
    let options = run(&format!("--config={}", path.display()));
    assert_eq!(options.configuration, run("--leader-elect=false").configuration);
    refused(
        "--write-config-to=/nonexistent/x",
        &expect![[r#"
        --write-config-to: /nonexistent/x cannot be written: No such file or directory (os error 2)"#]],
    );
}

#[test]
fn config_check_and_print_work_on_files() {
    let (_one, good) = file("good.yaml", &format!("{HEAD}percentageOfNodesToScore: 5\n"));
    let checked = printed(&format!("config check {good}")).replace(&good, "FILE");
    expect![[r#"
        warning: percentageOfNodesToScore is accepted but every node is scored
        FILE: OK
    "#]]
    .assert_eq(&checked);
    let (_two, copy) = file("copy.yaml", &printed(&format!("config print {good}")));
    assert_eq!(
        printed(&format!("config print {copy}")),
        printed(&format!("config print {good}"))
    );
    let (_three, bad) = file("bad.yaml", "kind: x\n");
    let failure = try_parse(&format!("supercargo config check {bad}")).unwrap_err();
    assert_eq!(failure.code, 1);
    expect![[r#"
        BAD: 2 errors
          line 1: kind: Unsupported value: "x": supported values: "KubeSchedulerConfiguration"
          line 1: apiVersion: Required value: should be "kubescheduler.config.k8s.io/v1""#]]
    .assert_eq(&failure.message.replace(&bad, "BAD"));
    refused(
        &format!("config print {good} --feature-gates=X"),
        &expect![[r#"
        --feature-gates: feature gate setting "X" is not of the form Name=true or Name=false"#]],
    );
}

#[test]
fn version_and_help_are_printed() {
    for args in ["version", "--version", "--version=true", "--version=raw"] {
        assert!(printed(args).starts_with("supercargo 0."), "{args}");
    }
    let help = printed("--help");
    for flag in [
        "--authorization-always-allow-paths",
        "-v, --v",
        "--tls-cipher-suites",
        "config",
        "--write-config-to",
    ] {
        assert!(help.contains(flag), "{flag} in {help}");
    }
    assert!(printed("run --help").contains("--leader-elect"));
}

#[cfg(feature = "demo")]
#[test]
fn demo_has_defaults_and_bounds() {
    let Ok(Action::Demo(args)) = try_parse("supercargo demo --nodes 5 --json") else {
        panic!()
    };
    assert_eq!((args.nodes, args.pods, args.json), (5, 10_000, true));
    assert_eq!(try_parse("supercargo demo --nodes 0").unwrap_err().code, 1);
}
