//! Which plugins run where: extension points, plugin lists, the in-tree catalogue, merge and expansion.
//!
//! Two stages, both pure: [`merge`] puts a profile's lists over the default list (done while loading), [`expand`] turns
//! the merged lists into one ordered list a point, with the weights of scorers (done when a profile is built, because
//! it needs to know what each plugin implements: [`PluginLookup`]).
//!
//! Source: kube-scheduler 1.36 `apis/config/v1/default_plugins.go`, `framework/runtime/framework.go`.
//!
//! Does not: know plugins' code.

mod catalogue;
mod expand;
mod merge;

pub use catalogue::{PluginCatalogue, default_plugins};
pub use expand::{ExpandError, ExpandedPlugins, expand};
pub use merge::merge;

/// A point where plugins are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionPoint {
    /// Before a pod may enter the active queue.
    PreEnqueue,
    /// Order of the queue.
    QueueSort,
    /// Once a pod, before filters.
    PreFilter,
    /// Whether a pod fits a node.
    Filter,
    /// When no node fits.
    PostFilter,
    /// Once a pod, before scorers.
    PreScore,
    /// How well a node suits.
    Score,
    /// When a node has been chosen.
    Reserve,
    /// May hold a pod back before it is bound.
    Permit,
    /// Work before binding.
    PreBind,
    /// Binding.
    Bind,
    /// After binding.
    PostBind,
    /// Candidate placements of a pod group.
    PlacementGenerate,
    /// How well a placement suits.
    PlacementScore,
}

impl ExtensionPoint {
    /// Number of points.
    pub const COUNT: usize = 14;

    /// All points, in the order of a pod's way.
    pub const ALL: [Self; Self::COUNT] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// Name in files, such as `preFilter`.
    pub fn field(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }

    /// Name in metrics and messages, such as `PreFilter`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
            Self::PlacementGenerate => "PlacementGenerate",
            Self::PlacementScore => "PlacementScore",
        }
    }

    /// Position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What the scheduler knows about plugins: in-tree ones and those that a library user registered.
pub trait PluginLookup {
    /// Whether a plugin of this name is registered.
    fn exists(&self, plugin: &str) -> bool;
    /// Whether the plugin implements the point.
    fn implements(&self, plugin: &str, point: ExtensionPoint) -> bool;
    /// All names, for hints in errors.
    fn names(&self) -> Vec<String>;
}

/// A plugin in an `enabled` list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EnabledPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Weight of its score; 0 means 1 where it scores.
    pub weight: u32,
}

impl EnabledPlugin {
    /// A plugin with a weight.
    pub fn new(name: impl Into<String>, weight: u32) -> Self {
        Self {
            name: name.into(),
            weight,
        }
    }
}

/// The lists of one point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginSet {
    /// Plugins in order.
    pub enabled: Vec<EnabledPlugin>,
    /// Names switched off; `*` means all.
    pub disabled: Vec<String>,
}

impl PluginSet {
    /// Whether `disabled` says so of this name, or of all.
    pub fn disables(&self, plugin: &str) -> bool {
        self.disabled.iter().any(|name| name == plugin || name == "*")
    }

    fn is_empty(&self) -> bool {
        self.enabled.is_empty() && self.disabled.is_empty()
    }
}

/// The lists of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    /// Plugins for every point that they implement.
    pub multi_point: PluginSet,
    points: [PluginSet; ExtensionPoint::COUNT],
}

impl Plugins {
    /// Lists without any plugin.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lists of a point as given, without what `multiPoint` adds.
    pub fn at(&self, point: ExtensionPoint) -> &PluginSet {
        // The array has one entry for each point.
        &self.points[point.index()]
    }

    /// The lists of a point, to change.
    pub fn at_mut(&mut self, point: ExtensionPoint) -> &mut PluginSet {
        &mut self.points[point.index()]
    }

    /// Names enabled anywhere, sorted, each once.
    pub fn enabled_names(&self) -> Vec<&str> {
        let sets = self.points.iter().chain([&self.multi_point]);
        let mut names: Vec<&str> = sets
            .flat_map(|set| &set.enabled)
            .map(|plugin| plugin.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The points that have lists of their own.
    pub fn given_points(&self) -> impl Iterator<Item = (ExtensionPoint, &PluginSet)> {
        ExtensionPoint::ALL
            .into_iter()
            .zip(&self.points)
            .filter(|(_, set)| !set.is_empty())
    }
}

#[cfg(test)]
mod tests;
