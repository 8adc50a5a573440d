//! Metrics flags to [`Exposition`].
//!
//! Source: `component-base/metrics/options.go` and `component-base/metrics/opts.go`; values of `--allow-metric-labels` as
//! Go's `StringToString` flags read them.

use std::collections::BTreeMap;

use crate::telemetry::{AllowedValues, Exposition};

use super::flags::MetricsFlags;
use super::values::{Reader, list, text};

/// The only release whose hidden metrics may be shown: the one before ours.
const PREVIOUS: &str = "1.35";
const EXPECTED: &str = "should be metric,label=value,value";
/// A manifest names a few metrics; this is room for thousands.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What is shown of the metrics.
pub(super) fn exposition(flags: &MetricsFlags, reader: &mut Reader) -> Exposition {
    if let Some(version) = text(flags.show_hidden_metrics_for_version.as_ref()).filter(|version| version != PREVIOUS) {
        let detail = "must be omitted or have the value '1.35'. Only the previous minor version is allowed";
        reader.refuse("--show-hidden-metrics-for-version", &version, detail);
    }
    let mut allowed = Vec::new();
    for value in &flags.allow_metric_labels {
        for pair in pairs(value) {
            take("--allow-metric-labels", &pair, &mut allowed, reader);
        }
    }
    // The flag goes over the manifest: of two entries for a label the first counts.
    if let Some(path) = text(flags.allow_metric_labels_manifest.as_ref()) {
        manifest(&path, &mut allowed, reader);
    }
    Exposition {
        disabled: list(&flags.disabled_metrics),
        allowed,
    }
}

/// One pair, or several as a line of CSV, whose fields may stand in double quotes.
fn pairs(value: &str) -> Vec<String> {
    if value.matches('=').count() < 2 {
        return vec![value.trim_matches('"').to_owned()];
    }
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    for character in value.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

fn take(flag: &str, pair: &str, allowed: &mut Vec<AllowedValues>, reader: &mut Reader) {
    let parts = pair
        .split_once('=')
        .and_then(|(key, values)| Some((key.split_once(',')?, values)));
    match parts {
        Some(((metric, label), values)) if is_name(metric, ":") && is_name(label, "") => {
            allowed.retain(|rule: &AllowedValues| rule.metric != metric || rule.label != label);
            allowed.push(AllowedValues {
                metric: metric.to_owned(),
                label: label.to_owned(),
                values: values.split(',').map(str::to_owned).collect(),
            });
        }
        _ => reader.refuse(flag, pair, EXPECTED),
    }
}

/// Whether it is a name as Prometheus has them, which may hold the `extra` characters too.
fn is_name(name: &str, extra: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '_' || extra.contains(c);
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.chars().all(right)
}

/// Reads a map from `metric,label` to `value,value`.
fn manifest(path: &str, allowed: &mut Vec<AllowedValues>, reader: &mut Reader) {
    let flag = "--allow-metric-labels-manifest";
    let map = match read(path) {
        Ok(map) => map,
        Err(error) => return reader.refuse(flag, path, &error),
    };
    let mut rules = Vec::new();
    for (key, values) in map {
        take(flag, &format!("{key}={values}"), &mut rules, reader);
    }
    let given = |rule: &AllowedValues| {
        allowed
            .iter()
            .any(|other| other.metric == rule.metric && other.label == rule.label)
    };
    rules.retain(|rule| !given(rule));
    allowed.append(&mut rules);
}

fn read(path: &str) -> Result<BTreeMap<String, String>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_MANIFEST_BYTES {
        return Err(format!("{size} bytes are too many, {MAX_MANIFEST_BYTES} at most"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_saphyr::from_str(&text).map_err(|error| error.to_string())
}
