//! Stage A: a profile's lists over the default ones.

use super::{ExtensionPoint, PluginSet, Plugins};

/// Puts a profile's lists over the defaults, point by point and for `multiPoint`.
///
/// Defaults keep their place unless disabled; one that the profile also enables takes the profile's weight; the rest
/// of the profile's plugins follow in order, doubles included (an error of [`super::expand`]).
///
/// Source: `apis/config/v1/default_plugins.go`, `mergePluginSet`.
pub fn merge(defaults: &Plugins, custom: &Plugins) -> Plugins {
    let mut merged = Plugins::new();
    merged.multi_point = merge_set(&defaults.multi_point, &custom.multi_point);
    for point in ExtensionPoint::ALL {
        *merged.at_mut(point) = merge_set(defaults.at(point), custom.at(point));
    }
    merged
}

fn merge_set(defaults: &PluginSet, custom: &PluginSet) -> PluginSet {
    let mut merged = PluginSet::default();
    for name in custom.disabled.iter().chain(&defaults.disabled) {
        if !merged.disabled.contains(name) {
            merged.disabled.push(name.clone());
        }
    }
    let mut replaced = vec![false; custom.enabled.len()];
    let all_off = custom.disabled.iter().any(|name| name == "*");
    if !all_off {
        for default in &defaults.enabled {
            if merged.disabled.contains(&default.name) {
                continue;
            }
            // Of doubles the last one replaces, as upstream's map of custom plugins keeps the last.
            match custom.enabled.iter().rposition(|plugin| plugin.name == default.name) {
                Some(index) => {
                    if let (Some(flag), Some(plugin)) = (replaced.get_mut(index), custom.enabled.get(index)) {
                        *flag = true;
                        merged.enabled.push(plugin.clone());
                    }
                }
                None => merged.enabled.push(default.clone()),
            }
        }
    }
    let rest = custom
        .enabled
        .iter()
        .zip(&replaced)
        .filter(|(_, replaced)| !**replaced)
        .map(|(plugin, _)| plugin);
    merged.enabled.extend(rest.cloned());
    merged
}
