//! Defaults and checks of profiles: names, plugin lists, plugin args.
//!
//! Source: `apis/config/v1/defaults.go` `setDefaults_KubeSchedulerProfile`, `apis/config/validation/validation.go`.

use super::args;
use super::check::Cx;
use super::plugin_lists::{self, is_removed, removed_detail, unknown_plugin};
use crate::decode::item;
use crate::error::FieldError;
use crate::plugin_args::PluginArgs;
use crate::plugins::{ExpandError, ExpandedPlugins, ExtensionPoint, Plugins, default_plugins, expand, merge};
use crate::profile::{PluginConfig, Profile};
use crate::wire::{WirePluginConfig, WireProfile};

/// Name of the only profile when it has none.
const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// The effective profiles, at least one.
pub(super) fn check(mut wires: Vec<WireProfile>, cx: &mut Cx<'_>) -> Vec<Profile> {
    if wires.is_empty() {
        wires.push(WireProfile::default());
    }
    if let [only] = wires.as_mut_slice() {
        only.scheduler_name
            .get_or_insert_with(|| DEFAULT_SCHEDULER_NAME.to_owned());
    }
    let defaults = default_plugins(&cx.gates);
    let mut profiles: Vec<Profile> = Vec::with_capacity(wires.len());
    let mut queue_sort: Option<QueueSort> = None;
    for (index, wire) in wires.into_iter().enumerate() {
        let path = item("profiles", index);
        let before = cx.errors.list.len();
        let profile = profile(wire, &path, &profiles, &defaults, cx);
        // Expansion repeats what the checks of the lists have said with a path.
        if cx.errors.list.len() == before
            && let Some(expanded) = expanded(&profile, &path, cx)
        {
            let own = QueueSort::of(&profile, &expanded);
            match &queue_sort {
                Some(first) => first.compare(&own, &path, cx),
                None => queue_sort = Some(own),
            }
        }
        profiles.push(profile);
    }
    profiles
}

fn profile(wire: WireProfile, path: &str, earlier: &[Profile], defaults: &Plugins, cx: &mut Cx<'_>) -> Profile {
    let scheduler_name = wire.scheduler_name.unwrap_or_default();
    let name_path = format!("{path}.schedulerName");
    if scheduler_name.is_empty() {
        cx.push(FieldError::required(
            name_path,
            "the name that pods give in spec.schedulerName",
        ));
    } else if earlier.iter().any(|profile| profile.scheduler_name == scheduler_name) {
        cx.push(FieldError::duplicate(
            name_path,
            &scheduler_name,
            "every profile needs its own name",
        ));
    }
    let percentage = wire.percentage_of_nodes_to_score.map(|percentage| {
        let path = format!("{path}.percentageOfNodesToScore");
        cx.ranged(&path, percentage, (0, 100), "not in valid range [0-100]")
    });
    let custom = plugin_lists::check(wire.plugins.unwrap_or_default(), &format!("{path}.plugins"), cx);
    let plugins = merge(defaults, &custom);
    let mut plugin_config = given_args(
        wire.plugin_config.unwrap_or_default(),
        &format!("{path}.pluginConfig"),
        cx,
    );
    for name in plugins.enabled_names() {
        if !plugin_config.iter().any(|entry| entry.name == name)
            && let Some(args) = args::default_for(name, &cx.gates)
        {
            plugin_config.push(PluginConfig {
                name: name.to_owned(),
                args,
            });
        }
    }
    Profile {
        scheduler_name,
        percentage_of_nodes_to_score: percentage,
        plugins,
        plugin_config,
    }
}

/// The entries of the file, checked.
fn given_args(wires: Vec<WirePluginConfig>, path: &str, cx: &mut Cx<'_>) -> Vec<PluginConfig> {
    let mut entries: Vec<PluginConfig> = Vec::with_capacity(wires.len());
    for (index, wire) in wires.into_iter().enumerate() {
        let path = item(path, index);
        let name_path = format!("{path}.name");
        let name = wire.name.unwrap_or_default();
        if name.is_empty() {
            cx.push(FieldError::required(name_path, "the name of a plugin"));
        } else if is_removed(&name) {
            cx.invalid(&name_path, &name, removed_detail());
        } else if entries.iter().any(|entry| entry.name == name) {
            cx.push(FieldError::duplicate(
                name_path,
                &name,
                "every plugin has one entry at most",
            ));
        } else if !cx.lookup.exists(&name) && PluginArgs::default_for(&name).is_none() {
            cx.invalid(&name_path, &name, unknown_plugin(&name, None, &cx.lookup.names()));
        }
        let args = args::check(&name, wire.args.as_ref(), &format!("{path}.args"), cx);
        entries.push(PluginConfig { name, args });
    }
    entries
}

fn expanded(profile: &Profile, path: &str, cx: &mut Cx<'_>) -> Option<ExpandedPlugins> {
    match expand(&profile.scheduler_name, &profile.plugins, cx.lookup) {
        Ok(expanded) => Some(expanded),
        Err(errors) => {
            for error in errors {
                let (field, value) = match &error {
                    ExpandError::QueueSort { count, .. } => ("queueSort", count.to_string()),
                    ExpandError::NoBind { .. } => ("bind", "none".to_owned()),
                    ExpandError::PlacementGenerate { count, .. } => ("placementGenerate", count.to_string()),
                    ExpandError::Overflow => ("score", "weights".to_owned()),
                    ExpandError::Unknown { point, plugin }
                    | ExpandError::DoesNotExtend { point, plugin }
                    | ExpandError::AlreadyRegistered { point, plugin } => (point.field(), plugin.clone()),
                };
                cx.invalid(&format!("{path}.plugins.{field}"), &value, error.to_string());
            }
            None
        }
    }
}

/// What has to be equal in all profiles, because they share one queue.
struct QueueSort {
    plugin: String,
    args: Option<PluginArgs>,
}

impl QueueSort {
    fn of(profile: &Profile, expanded: &ExpandedPlugins) -> Self {
        let plugin = expanded
            .names(ExtensionPoint::QueueSort)
            .first()
            .map(|name| (*name).to_owned());
        let plugin = plugin.unwrap_or_default();
        let args = profile.args(&plugin).cloned();
        Self { plugin, args }
    }

    fn compare(&self, other: &Self, path: &str, cx: &mut Cx<'_>) {
        if self.plugin != other.plugin {
            let detail = format!("must be the same for all profiles; the first has {:?}", self.plugin);
            cx.invalid(&format!("{path}.plugins.queueSort"), &other.plugin, detail);
        } else if self.args != other.args {
            let detail = "args of queueSort must be the same for all profiles";
            cx.invalid(&format!("{path}.pluginConfig"), &other.plugin, detail);
        }
    }
}
