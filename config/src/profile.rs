//! A profile: one named way to schedule, with its plugins and their args.
//!
//! Does not: decide which plugins run at which point (see [`crate::plugins::expand`]).

use crate::plugin_args::PluginArgs;
use crate::plugins::{ExpandError, ExpandedPlugins, PluginLookup, Plugins, expand};

/// An effective profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `spec.schedulerName` of its pods; not empty, unique among profiles.
    pub scheduler_name: String,
    /// Percentage for this profile, 0..=100; `None` takes the global one. Never changes a decision.
    pub percentage_of_nodes_to_score: Option<u32>,
    /// Plugin lists after the merge with the default list, before expansion by extension point.
    pub plugins: Plugins,
    /// Args: the file's entries in order, then those of the other enabled plugins by name.
    pub plugin_config: Vec<PluginConfig>,
}

/// Args of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConfig {
    /// Name of the plugin, unique within the profile.
    pub name: String,
    /// Its args, defaulted and checked when the plugin is in-tree.
    pub args: PluginArgs,
}

impl Profile {
    /// The args of a plugin, if it has any. O(entries).
    pub fn args(&self, plugin: &str) -> Option<&PluginArgs> {
        self.plugin_config
            .iter()
            .find(|entry| entry.name == plugin)
            .map(|entry| &entry.args)
    }

    /// The plugins of every extension point, in order.
    ///
    /// # Errors
    /// Every reason why the lists cannot be run: unknown plugins, a plugin at a point that it does not implement,
    /// doubles, not exactly one queue sort plugin, no bind plugin.
    pub fn expand(&self, lookup: &dyn PluginLookup) -> Result<ExpandedPlugins, Vec<ExpandError>> {
        expand(&self.scheduler_name, &self.plugins, lookup)
    }
}
