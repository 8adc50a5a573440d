//! Stage B: from merged lists to one ordered list a point.

use super::{EnabledPlugin, ExtensionPoint, PluginLookup, Plugins};

/// Highest score of one plugin for one node, before its weight.
const MAX_NODE_SCORE: i64 = 100;

/// Why lists cannot be run. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The name is not registered.
    #[error("{}Plugin {plugin:?} does not exist", .point.as_str())]
    Unknown {
        /// Where it was wanted.
        point: ExtensionPoint,
        /// The name.
        plugin: String,
    },
    /// The plugin has nothing to do at the point.
    #[error("plugin {plugin:?} does not extend {}Plugin plugin", .point.as_str())]
    DoesNotExtend {
        /// Where it was wanted.
        point: ExtensionPoint,
        /// The name.
        plugin: String,
    },
    /// The plugin is listed twice.
    #[error("plugin {plugin:?} already registered as \"{}Plugin\"", .point.as_str())]
    AlreadyRegistered {
        /// Where.
        point: ExtensionPoint,
        /// The name.
        plugin: String,
    },
    /// Not exactly one queue sort plugin.
    #[error("only one queue sort plugin required for profile with scheduler name {scheduler_name:?}, but got {count}")]
    QueueSort {
        /// The profile.
        scheduler_name: String,
        /// How many there are.
        count: usize,
    },
    /// Nothing binds.
    #[error("at least one bind plugin is needed for profile with scheduler name {scheduler_name:?}")]
    NoBind {
        /// The profile.
        scheduler_name: String,
    },
    /// More than one placement generator.
    #[error(
        "at most one placement generate plugin is allowed for profile with scheduler name {scheduler_name:?}, but got {count}"
    )]
    PlacementGenerate {
        /// The profile.
        scheduler_name: String,
        /// How many there are.
        count: usize,
    },
    /// The weights are too large.
    #[error("total score of Score plugins could overflow")]
    Overflow,
}

/// The plugins of every point, in the order in which they are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpandedPlugins {
    points: [Vec<EnabledPlugin>; ExtensionPoint::COUNT],
}

impl ExpandedPlugins {
    /// The plugins of a point. Weights are at least 1 at `Score` and `PlacementScore` and 0 elsewhere.
    pub fn at(&self, point: ExtensionPoint) -> &[EnabledPlugin] {
        // The array has one entry for each point.
        &self.points[point.index()]
    }

    /// The names at a point.
    pub fn names(&self, point: ExtensionPoint) -> Vec<&str> {
        self.at(point).iter().map(|plugin| plugin.name.as_str()).collect()
    }

    /// All plugins that run anywhere, sorted, each once.
    pub fn all_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .points
            .iter()
            .flatten()
            .map(|plugin| plugin.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Expands merged lists. Pure; O(points × plugins²) in list lengths.
///
/// # Errors
/// All reasons why the lists cannot be run.
pub fn expand(
    scheduler_name: &str,
    plugins: &Plugins,
    lookup: &dyn PluginLookup,
) -> Result<ExpandedPlugins, Vec<ExpandError>> {
    let mut errors = Vec::new();
    let mut expanded = ExpandedPlugins::default();
    for point in ExtensionPoint::ALL {
        expanded.points[point.index()] = expand_point(point, plugins, lookup, &mut errors);
    }
    for point in [ExtensionPoint::Score, ExtensionPoint::PlacementScore] {
        set_weights(
            &mut expanded.points[point.index()],
            &plugins.at(point).enabled,
            plugins,
            &mut errors,
        );
    }
    let count = |point: ExtensionPoint| expanded.at(point).len();
    let name = || scheduler_name.to_owned();
    if count(ExtensionPoint::QueueSort) != 1 {
        errors.push(ExpandError::QueueSort {
            scheduler_name: name(),
            count: count(ExtensionPoint::QueueSort),
        });
    }
    if count(ExtensionPoint::Bind) == 0 {
        errors.push(ExpandError::NoBind { scheduler_name: name() });
    }
    if count(ExtensionPoint::PlacementGenerate) > 1 {
        let count = count(ExtensionPoint::PlacementGenerate);
        errors.push(ExpandError::PlacementGenerate {
            scheduler_name: name(),
            count,
        });
    }
    let mut unique = Vec::with_capacity(errors.len());
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    if unique.is_empty() { Ok(expanded) } else { Err(unique) }
}

fn expand_point(
    point: ExtensionPoint,
    plugins: &Plugins,
    lookup: &dyn PluginLookup,
    errors: &mut Vec<ExpandError>,
) -> Vec<EnabledPlugin> {
    let set = plugins.at(point);
    let explicit: Vec<&str> = checked_explicit(point, plugins, lookup, errors);
    let mut multi: Vec<&str> = Vec::new();
    if !set.disabled.iter().any(|name| name == "*") {
        for plugin in &plugins.multi_point.enabled {
            let name = plugin.name.as_str();
            if !lookup.exists(name) {
                unknown_in_multi_point(name, errors);
            } else if lookup.implements(name, point) && !set.disables(name) {
                // A plugin that is also given at the point may stand here as often as it likes, as upstream has it.
                if multi.contains(&name) && explicit.contains(&name) {
                    continue;
                }
                if multi.contains(&name) {
                    errors.push(ExpandError::AlreadyRegistered {
                        point,
                        plugin: name.to_owned(),
                    });
                } else {
                    multi.push(name);
                }
            }
        }
    }
    // A plugin given at the point overrides the one from multiPoint; those come first, in their own order.
    let (overriding, remaining): (Vec<&str>, Vec<&str>) = explicit.iter().partition(|name| multi.contains(name));
    let expanded = multi.into_iter().filter(|name| !explicit.contains(name));
    overriding
        .into_iter()
        .chain(expanded)
        .chain(remaining)
        .map(|name| EnabledPlugin::new(name, 0))
        .collect()
}

/// Notes an unknown `multiPoint` plugin once, not once a point.
fn unknown_in_multi_point(name: &str, errors: &mut Vec<ExpandError>) {
    let noted = |error: &ExpandError| matches!(error, ExpandError::Unknown { plugin, .. } if plugin == name);
    if !errors.iter().any(noted) {
        errors.push(ExpandError::Unknown {
            point: ExtensionPoint::PreEnqueue,
            plugin: name.to_owned(),
        });
    }
}

/// The explicit names of a point that can run, each once.
fn checked_explicit<'a>(
    point: ExtensionPoint,
    plugins: &'a Plugins,
    lookup: &dyn PluginLookup,
    errors: &mut Vec<ExpandError>,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for plugin in &plugins.at(point).enabled {
        let name = plugin.name.as_str();
        let plugin = || name.to_owned();
        if !lookup.exists(name) {
            errors.push(ExpandError::Unknown {
                point,
                plugin: plugin(),
            });
        } else if !lookup.implements(name, point) {
            errors.push(ExpandError::DoesNotExtend {
                point,
                plugin: plugin(),
            });
        } else if names.contains(&name) {
            errors.push(ExpandError::AlreadyRegistered {
                point,
                plugin: plugin(),
            });
        } else {
            names.push(name);
        }
    }
    names
}

/// Weights: the explicit list first, then `multiPoint`; the first entry of a name counts; 0 means 1.
fn set_weights(
    scorers: &mut [EnabledPlugin],
    explicit: &[EnabledPlugin],
    plugins: &Plugins,
    errors: &mut Vec<ExpandError>,
) {
    let mut total: i64 = 0;
    for scorer in scorers {
        let given = explicit
            .iter()
            .chain(&plugins.multi_point.enabled)
            .find(|plugin| plugin.name == scorer.name);
        scorer.weight = given.map_or(1, |plugin| plugin.weight.max(1));
        match i64::from(scorer.weight)
            .checked_mul(MAX_NODE_SCORE)
            .and_then(|score| total.checked_add(score))
        {
            Some(sum) => total = sum,
            None => errors.push(ExpandError::Overflow),
        }
    }
}
