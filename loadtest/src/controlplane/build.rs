//! From pinned Go modules to cached executables.
//!
//! The module files stand in `loadtest/controlplane/NAME/` and are compiled into this crate, so that an installed
//! binary can build too. Executables go to `$XDG_CACHE_HOME/supercargo/bin/NAME-VERSION/NAME` (`~/.cache` without the
//! variable); a lock file lets one process build while others wait for it. Builds use the modules' own `go.sum` and
//! change nothing.
//!
//! Does not: install Go.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// The release of etcd.
pub const ETCD_VERSION: &str = "v3.6.16";
/// The release of all Kubernetes components.
pub const KUBERNETES_VERSION: &str = "v1.36.3";
/// The release of kwok.
pub const KWOK_VERSION: &str = "v0.8.0";
/// The release of Helm.
pub const HELM_VERSION: &str = "v3.22.0";

/// A program that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers.
    KubeControllerManager,
    /// The peer that the load tests compare with.
    KubeScheduler,
    /// Hollow nodes.
    Kwok,
    /// Used by the tests of what a user sees.
    Kubectl,
    /// Used by the chart's tests.
    Helm,
}

/// A Go module of ours that pins the releases of the programs built from it.
#[derive(Debug)]
struct Module {
    name: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

macro_rules! module {
    ($name:literal) => {
        Module {
            name: $name,
            go_mod: include_str!(concat!("../../controlplane/", $name, "/go.mod")),
            go_sum: include_str!(concat!("../../controlplane/", $name, "/go.sum")),
        }
    };
}

static ETCD: Module = module!("etcd");
static KUBERNETES: Module = module!("kubernetes");
static KWOK: Module = module!("kwok");
static HELM: Module = module!("helm");

impl Component {
    /// Every program.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Kubectl,
        Self::Helm,
    ];

    /// The executable's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
        }
    }

    /// The release that is built.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Etcd => ETCD_VERSION,
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kubectl => {
                KUBERNETES_VERSION
            }
            Self::Kwok => KWOK_VERSION,
            Self::Helm => HELM_VERSION,
        }
    }

    fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kubectl => &KUBERNETES,
            Self::Kwok => &KWOK,
            Self::Helm => &HELM,
        }
    }

    /// The Go import path of its main package.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Helm => "helm.sh/helm/v3/cmd/helm",
        }
    }

    /// Linker flags: no symbol tables, and for Kubernetes the release that it reports as its own.
    fn linker_flags(self) -> String {
        match self {
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kubectl => {
                let variable = "k8s.io/component-base/version";
                format!(
                    "-s -w -X {variable}.gitVersion={KUBERNETES_VERSION} -X {variable}.gitMajor=1 -X {variable}.gitMinor=36"
                )
            }
            Self::Etcd | Self::Kwok | Self::Helm => "-s -w".to_owned(),
        }
    }
}

/// Where a program's executable is or will be.
///
/// # Errors
/// When neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cached_path(component: Component) -> Result<PathBuf> {
    let folder = format!("{}-{}", component.name(), component.version());
    Ok(cache_root()?.join("bin").join(folder).join(component.name()))
}

/// The executable of a program, built first if the cache lacks it. Blocks: a cold build takes minutes.
///
/// # Errors
/// When Go is missing or the build fails (Go's own messages are in the error).
pub fn ensure(component: Component) -> Result<PathBuf> {
    let target = cached_path(component)?;
    if target.is_file() {
        return Ok(target);
    }
    let folder = target.parent().context("the cache path has no parent")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = File::create(folder.join(".lock")).context("cannot create the build lock")?;
    lock.lock().context("cannot take the build lock")?;
    if !target.is_file() {
        build(component, &target)?;
    }
    Ok(target)
}

fn build(component: Component, target: &Path) -> Result<()> {
    let (name, version) = (component.name(), component.version());
    if Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        bail!(
            "{name} {version} is not in the cache and there is no `go` command to build it with: the real control plane \
             needs Go 1.26 or newer on the PATH (the embedded API server does not)"
        );
    }
    let source = unpack(component.module())?;
    let partial = target.with_extension("part");
    let started = Instant::now();
    tracing::info!(name, version, "building from Go modules; the first time takes minutes");
    let output = Command::new("go")
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(component.linker_flags())
        .arg("-o")
        .arg(&partial)
        .arg(component.package())
        .current_dir(&source)
        .env("CGO_ENABLED", "0")
        .env_remove("GOFLAGS")
        .output()
        .context("cannot run go build")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "go build of {name} {version} failed ({}):\n{}",
            output.status,
            last_lines(&text, 20)
        );
    }
    fs::rename(&partial, target).with_context(|| format!("cannot move {} into place", partial.display()))?;
    tracing::info!(name, version, seconds = started.elapsed().as_secs(), "built");
    Ok(())
}

/// Writes a module's files into the cache and gives the folder.
fn unpack(module: &Module) -> Result<PathBuf> {
    let folder = cache_root()?.join("modules").join(module.name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (file, text) in [("go.mod", module.go_mod), ("go.sum", module.go_sum)] {
        let path = folder.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(folder)
}

fn cache_root() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(base
        .context("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep built programs")?
        .join("supercargo"))
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(count)..)
        .unwrap_or_default()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_pin_the_releases_that_are_named_here() {
        for component in Component::ALL {
            let module = component.module();
            let root = component.package().split("/cmd/").next().unwrap();
            let pin = format!("{root} {}", component.version());
            assert!(module.go_mod.contains(&pin), "{} does not pin {pin}", module.name);
            assert!(module.go_sum.contains(&pin), "go.sum of {} lacks {pin}", module.name);
            assert!(
                module.go_mod.contains(component.package()),
                "{} is no tool of {}",
                component.name(),
                module.name
            );
        }
    }

    #[test]
    fn cache_path_is_named_by_version() {
        let path = cached_path(Component::Etcd).unwrap();
        assert!(
            path.ends_with(format!("supercargo/bin/etcd-{ETCD_VERSION}/etcd")),
            "{}",
            path.display()
        );
    }
}
