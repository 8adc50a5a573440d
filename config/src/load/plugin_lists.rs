//! Checks of a profile's own plugin lists, so that errors carry the place in the file.
//!
//! The rules are those of [`crate::plugins::expand`], which knows no paths.

use super::check::Cx;
use crate::decode::{hint, item};
use crate::error::FieldError;
use crate::plugins::{EnabledPlugin, ExpandError, ExtensionPoint, PluginSet, Plugins};
use crate::wire::{WirePlugin, WirePluginSet, WirePlugins};

/// Plugins that earlier releases had; their names are refused by name.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Whether the plugin belongs to an earlier release.
pub(super) fn is_removed(plugin: &str) -> bool {
    REMOVED.contains(&plugin)
}

/// What is said about such a plugin.
pub(super) fn removed_detail() -> String {
    let version = crate::types::API_VERSION;
    format!("was invalid in version {version:?} (KubeSchedulerConfiguration is version {version:?})")
}

/// The lists of a profile, checked name by name.
pub(super) fn check(wire: WirePlugins, path: &str, cx: &mut Cx<'_>) -> Plugins {
    let mut plugins = Plugins::new();
    for (point, set) in by_point(wire) {
        let Some(set) = set else { continue };
        match point {
            Some(point) => {
                *plugins.at_mut(point) = check_set(set, Some(point), &format!("{path}.{}", point.field()), cx)
            }
            None => plugins.multi_point = check_set(set, None, &format!("{path}.multiPoint"), cx),
        }
    }
    plugins
}

fn by_point(wire: WirePlugins) -> [(Option<ExtensionPoint>, Option<WirePluginSet>); ExtensionPoint::COUNT + 1] {
    use ExtensionPoint as P;
    [
        (None, wire.multi_point),
        (Some(P::PreEnqueue), wire.pre_enqueue),
        (Some(P::QueueSort), wire.queue_sort),
        (Some(P::PreFilter), wire.pre_filter),
        (Some(P::Filter), wire.filter),
        (Some(P::PostFilter), wire.post_filter),
        (Some(P::PreScore), wire.pre_score),
        (Some(P::Score), wire.score),
        (Some(P::Reserve), wire.reserve),
        (Some(P::Permit), wire.permit),
        (Some(P::PreBind), wire.pre_bind),
        (Some(P::Bind), wire.bind),
        (Some(P::PostBind), wire.post_bind),
        (Some(P::PlacementGenerate), wire.placement_generate),
        (Some(P::PlacementScore), wire.placement_score),
    ]
}

fn check_set(wire: WirePluginSet, point: Option<ExtensionPoint>, path: &str, cx: &mut Cx<'_>) -> PluginSet {
    let mut set = PluginSet::default();
    for (index, plugin) in wire.enabled.unwrap_or_default().into_iter().enumerate() {
        let path = item(&format!("{path}.enabled"), index);
        let WirePlugin { name, weight } = plugin;
        let name = name.unwrap_or_default();
        check_enabled(&name, &set, point, &format!("{path}.name"), cx);
        let weight = weight.unwrap_or(0);
        let weight = cx.ranged(
            &format!("{path}.weight"),
            weight,
            (0, u32::MAX),
            "must not be negative; 0 means 1",
        );
        set.enabled.push(EnabledPlugin { name, weight });
    }
    for (index, plugin) in wire.disabled.unwrap_or_default().into_iter().enumerate() {
        let path = item(&format!("{path}.disabled"), index);
        let name = plugin.name.unwrap_or_default();
        if name.is_empty() {
            cx.push(FieldError::required(
                format!("{path}.name"),
                "the name of a plugin, or \"*\" for all",
            ));
        } else if name != "*" && !cx.lookup.exists(&name) && !is_removed(&name) {
            cx.warnings.push(format!(
                "{path}.name: plugin {name:?} does not exist, disabling it has no effect"
            ));
        }
        set.disabled.push(name);
    }
    set
}

/// Checks one enabled name against those before it.
fn check_enabled(name: &str, before: &PluginSet, point: Option<ExtensionPoint>, path: &str, cx: &mut Cx<'_>) {
    let lookup = cx.lookup;
    if name.is_empty() {
        cx.push(FieldError::required(path, "the name of a plugin"));
    } else if is_removed(name) {
        cx.invalid(path, name, removed_detail());
    } else if !lookup.exists(name) {
        cx.invalid(path, name, unknown_plugin(name, point, &lookup.names()));
    } else if let Some(point) = point.filter(|point| !lookup.implements(name, *point)) {
        let error = ExpandError::DoesNotExtend {
            point,
            plugin: name.to_owned(),
        };
        cx.invalid(path, name, error.to_string());
    } else if before.enabled.iter().any(|plugin| plugin.name == name) {
        let detail = match point {
            Some(point) => ExpandError::AlreadyRegistered {
                point,
                plugin: name.to_owned(),
            }
            .to_string(),
            None => format!("plugin {name:?} already registered in multiPoint"),
        };
        cx.push(FieldError::duplicate(path, name, detail));
    }
}

/// The text for an unknown plugin, with a likely name if there is one.
pub(super) fn unknown_plugin(name: &str, point: Option<ExtensionPoint>, names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let likely = Some(hint(name, &names))
        .filter(|hint| hint.contains("did you mean"))
        .unwrap_or_default();
    let kind = point.map_or("", ExtensionPoint::as_str);
    let kind = if kind.is_empty() {
        "plugin".to_owned()
    } else {
        format!("{kind}Plugin")
    };
    format!("{kind} {name:?} does not exist{likely}")
}
