//! From flags and files to [`Options`].

use std::path::Path;
use std::time::Duration;

use supercargo_config::{ConfigErrors, FeatureGates, Loaded, Loader, Overrides, PluginLookup, Settings};

use super::flags::{DeprecatedFlags, GeneralFlags, LeaderFlags, RunFlags};
use super::values::{Reader, gates, list, text};
use super::{Failure, Options, logging, metrics, serving};

/// Time after which an unschedulable pod is tried again without an event.
const DEFAULT_UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// What kube-scheduler 1.36 takes for `--min-compatibility-version`. No feature gate that concerns it depends on that.
const COMPATIBLE: [&str; 4] = ["1.33", "1.34", "1.35", "1.36"];

/// The options of a run, or everything that is wrong with them.
pub(super) fn options(flags: &RunFlags, lookup: &dyn PluginLookup) -> Result<Options, Failure> {
    let mut reader = Reader::default();
    let gates = feature_gates(&flags.general, &mut reader);
    let overrides = overrides(flags, &mut reader);
    let serving = serving::serving(&flags.serving, &mut reader);
    let authentication = serving::authentication(&flags.authentication, &mut reader);
    let authorization = serving::authorization(&flags.authorization, &mut reader);
    let logging = logging::logging(flags, &mut reader);
    let exposition = metrics::exposition(&flags.metrics, &mut reader);
    let unschedulable = flags.general.pod_max_in_unschedulable_pods_duration.as_ref();
    let pod_max_in_unschedulable = reader.duration(
        "--pod-max-in-unschedulable-pods-duration",
        unschedulable,
        DEFAULT_UNSCHEDULABLE,
    );
    let loader = Loader::new(lookup).gates(gates.clone()).overrides(overrides);
    let files = files(&flags.general, &loader, &mut reader);
    let Some((loaded, settings)) = files.filter(|_| reader.errors.is_empty()) else {
        return Err(Failure::of(&reader.errors));
    };
    reader.warnings.extend(loaded.warnings);
    Ok(Options {
        logging: logging::with_traces(logging, &settings.tracing),
        configuration: loaded.configuration,
        settings,
        gates,
        master: text(flags.general.master.as_ref()),
        pod_max_in_unschedulable,
        serving,
        authentication,
        authorization,
        exposition,
        warnings: reader.warnings,
    })
}

fn feature_gates(flags: &GeneralFlags, reader: &mut Reader) -> FeatureGates {
    if let Some(version) = text(flags.emulated_version.as_ref()) {
        let version = version.strip_prefix("kube=").unwrap_or(&version);
        if !matches!(version, "1.36" | "v1.36") {
            reader.refuse(
                "--emulated-version",
                version,
                "not supported: this scheduler behaves as 1.36",
            );
        }
    }
    for version in list(&flags.min_compatibility_version) {
        let number = version.strip_prefix("kube=").unwrap_or(&version);
        let number = number.strip_prefix('v').unwrap_or(number);
        if !COMPATIBLE.contains(&number) {
            let detail = "must be one of 1.33, 1.34, 1.35 and 1.36, perhaps after kube=";
            reader.refuse("--min-compatibility-version", &version, detail);
        }
    }
    // There is nothing older to be compatible with; the value is still checked.
    let _: Option<bool> = reader.bool(
        "--emulation-forward-compatible",
        flags.emulation_forward_compatible.as_ref(),
    );
    match FeatureGates::parse(&flags.feature_gates.join(",")) {
        Ok(gates) => gates,
        Err(errors) => {
            reader.errors.extend(gates(&errors));
            FeatureGates::default()
        }
    }
}

/// The values that go over a file's, or over the defaults.
fn overrides(flags: &RunFlags, reader: &mut Reader) -> Overrides {
    let overrides = leader_overrides(&flags.leader, reader);
    if text(flags.general.config.as_ref()).is_some() {
        warn_of_ignored(&flags.deprecated, reader);
        return overrides;
    }
    let deprecated = &flags.deprecated;
    let expected = "should be a number of requests";
    Overrides {
        kubeconfig: text(deprecated.kubeconfig.as_ref()),
        content_type: text(deprecated.kube_api_content_type.as_ref()),
        qps: reader.parsed("--kube-api-qps", deprecated.kube_api_qps.as_ref(), expected),
        burst: reader.parsed("--kube-api-burst", deprecated.kube_api_burst.as_ref(), expected),
        profiling: reader.bool("--profiling", deprecated.profiling.as_ref()),
        contention_profiling: reader.bool("--contention-profiling", deprecated.contention_profiling.as_ref()),
        ..overrides
    }
}

fn leader_overrides(flags: &LeaderFlags, reader: &mut Reader) -> Overrides {
    Overrides {
        leader_elect: reader.bool("--leader-elect", flags.leader_elect.as_ref()),
        lease_duration: reader.go_duration(
            "--leader-elect-lease-duration",
            flags.leader_elect_lease_duration.as_ref(),
        ),
        renew_deadline: reader.go_duration(
            "--leader-elect-renew-deadline",
            flags.leader_elect_renew_deadline.as_ref(),
        ),
        retry_period: reader.go_duration("--leader-elect-retry-period", flags.leader_elect_retry_period.as_ref()),
        resource_lock: text(flags.leader_elect_resource_lock.as_ref()),
        resource_name: text(flags.leader_elect_resource_name.as_ref()),
        resource_namespace: text(flags.leader_elect_resource_namespace.as_ref()),
        ..Overrides::default()
    }
}

fn warn_of_ignored(flags: &DeprecatedFlags, reader: &mut Reader) {
    for (flag, given) in [
        ("--kubeconfig", &flags.kubeconfig),
        ("--kube-api-qps", &flags.kube_api_qps),
        ("--kube-api-burst", &flags.kube_api_burst),
        ("--kube-api-content-type", &flags.kube_api_content_type),
        ("--profiling", &flags.profiling),
        ("--contention-profiling", &flags.contention_profiling),
    ] {
        if given.is_some() {
            reader.warn(format!("{flag} is deprecated and ignored, because --config is given"));
        }
    }
}

/// Loads what the flags name. Errors of both files are noted together.
fn files(flags: &GeneralFlags, loader: &Loader<'_>, reader: &mut Reader) -> Option<(Loaded, Settings)> {
    let mut note = |errors: ConfigErrors| reader.errors.push(errors.to_string().replace('\n', "\n  "));
    let loaded = match text(flags.config.as_ref()) {
        Some(path) => loader.load_file(Path::new(&path)),
        None => loader.defaults(),
    };
    let loaded = loaded.map_err(&mut note).ok();
    let own = match text(flags.settings.as_ref()) {
        Some(path) => match Loader::load_settings_file(Path::new(&path)) {
            Ok(settings) => Some(settings),
            Err(errors) => {
                note(errors);
                return None;
            }
        },
        None => None,
    };
    let loaded = loaded?;
    let settings = match (own, loaded.settings.clone()) {
        (Some(_), Some(_)) => {
            let detail =
                "--settings: the file of --config has a SupercargoConfiguration document too; keep one of them";
            reader.errors.push(detail.to_owned());
            return None;
        }
        (own, document) => own.or(document).unwrap_or_default(),
    };
    Some((loaded, settings))
}
