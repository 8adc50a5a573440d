//! The chart as Helm renders it, and what a pod of its Deployment would find.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use supercargo_loadtest::process::write_private;
use supercargo_loadtest::tools::helm;

/// The chart's folder.
pub(crate) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
/// The release's name and namespace.
const RELEASE: &str = "cargo";
pub(crate) const NAMESPACE: &str = "scheduling";
/// Values that set what the defaults leave out.
const ALL_VALUES: &str = include_str!("values.yaml");
/// A whole configuration in place of the chart's own.
const OWN_CONFIG: &str = include_str!("config.yaml");

/// Renders the chart.
pub(crate) fn template(arguments: &[&str]) -> Result<String> {
    let fixed = [
        "template",
        RELEASE,
        CHART,
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.36",
    ];
    helm(&[&fixed, arguments].concat())
}

/// The chart with its defaults, with everything set, with a configuration of one's own, as the only scheduler, and in
/// its smallest form.
pub(crate) fn variants() -> Result<Vec<(&'static str, String)>> {
    let dir = tempfile::tempdir()?;
    let values = dir.path().join("values.yaml");
    std::fs::write(&values, ALL_VALUES)?;
    let values = values.to_str().context("a path is UTF-8")?;
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, OWN_CONFIG)?;
    let config = config.to_str().context("a path is UTF-8")?;
    let only = "schedulerName=default-scheduler,replaceDefaultScheduler=true";
    let small = "replicaCount=1,leaderElection.enabled=false,delegatedAuth.enabled=false,flowSchema.enabled=false";
    Ok(vec![
        ("defaults", template(&[])?),
        ("everything", template(&["--values", values])?),
        ("own configuration", template(&["--values", config])?),
        ("only scheduler", template(&["--set", only])?),
        ("smallest", template(&["--set", small])?),
    ])
}

pub(crate) fn objects(rendered: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(rendered).context("the rendered chart is not YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

pub(crate) fn one<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next().with_context(|| format!("the chart has no {kind}"))?;
    ensure!(found.next().is_none(), "the chart has several of {kind}");
    Ok(first)
}

/// Writes the two files of the ConfigMap into a folder, as the Deployment mounts them.
pub(crate) fn mount(objects: &[Value], dir: &Path) -> Result<()> {
    let data = &one(objects, "ConfigMap")?["data"];
    for file in ["config.yaml", "settings.yaml"] {
        let text = data[file]
            .as_str()
            .with_context(|| format!("the ConfigMap has no {file}"))?;
        write_private(&dir.join(file), text)?;
    }
    Ok(())
}

/// The container's arguments, with the mounted folder at `dir`.
pub(crate) fn arguments(objects: &[Value], dir: &Path) -> Result<Vec<String>> {
    let container = &one(objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().context("the container has no arguments")?;
    let place = |argument: &Value| {
        let text = argument.as_str().context("an argument is no text")?;
        Ok(text.replace("/etc/supercargo", &dir.display().to_string()))
    };
    arguments.iter().map(place).collect()
}
