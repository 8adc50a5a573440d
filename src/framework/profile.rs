//! A profile: the plugins of one `schedulerName`, in the order in which they are called.

use std::sync::{Arc, LazyLock};

use rustc_hash::{FxHashMap, FxHashSet};
use supercargo_config::plugins::{ExpandError, ExpandedPlugins};
use supercargo_config::{Configuration, ExtensionPoint, PluginCatalogue, PluginLookup};

use crate::cluster::LabelVisibility;
use crate::framework::events::{ActionType, EventResource};
use crate::framework::observe::{Observer, Probe};
use crate::framework::wide::Wide;
use crate::framework::{EventHint, Handle, LabelsRead, Plugin, PluginContext, PluginError, RegisteredEvent, Registry};
use crate::ids::Symbol;

/// Who is behind a rejection by an extender, as if it were a plugin: any event is a reason to try the pod again.
///
/// Source: `pkg/scheduler/framework/interface.go` (`ExtenderName`), Kubernetes 1.36.
pub static EXTENDER: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("Extender"));

/// At most so many plugins at one extension point: positions are bits of a 64-bit word.
const MAX_AT_A_POINT: usize = 64;

/// Why a profile could not be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("initializing profiles: creating profile for scheduler name {scheduler_name}: {}", join(.errors))]
pub struct ProfileError {
    /// Which one.
    pub scheduler_name: String,
    /// All that is wrong.
    pub errors: Vec<ProfileFault>,
}

fn join(errors: &[ProfileFault]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// One thing that is wrong with a profile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileFault {
    /// A plugin could not be made.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The lists of plugins do not work out.
    #[error(transparent)]
    Lists(#[from] ExpandError),
    /// Too many plugins at one point.
    #[error("{count} plugins at {point}: at most {MAX_AT_A_POINT} are possible")]
    TooMany {
        /// The extension point.
        point: &'static str,
        /// How many there are.
        count: usize,
    },
}

/// A plugin that scores, and how much its score counts.
#[derive(Clone)]
pub struct ScorePlugin {
    /// The plugin.
    pub plugin: Arc<dyn Plugin>,
    /// At least 1.
    pub weight: i64,
}

/// A plugin and its position among those of a later point that it can make skip.
#[derive(Clone)]
pub(super) struct Preparing {
    pub(super) plugin: Arc<dyn Plugin>,
    pub(super) follows: Option<usize>,
}

/// The plugins of one `schedulerName`.
pub struct Profile {
    /// The `schedulerName`.
    pub name: Symbol,
    /// Its position among the profiles.
    pub index: usize,
    pub(super) pre_enqueue: Vec<Arc<dyn Plugin>>,
    pub(super) queue_sort: Option<Arc<dyn Plugin>>,
    pub(super) pre_filter: Vec<Preparing>,
    pub(super) filter: Vec<Arc<dyn Plugin>>,
    /// Positions of the filters whose answers pods on the node can change: bits.
    pub(super) filters_of_pods: u64,
    pub(super) post_filter: Vec<Arc<dyn Plugin>>,
    pub(super) pre_score: Vec<Preparing>,
    pub(super) score: Vec<ScorePlugin>,
    pub(super) reserve: Vec<Arc<dyn Plugin>>,
    pub(super) permit: Vec<Arc<dyn Plugin>>,
    pub(super) pre_bind: Vec<Arc<dyn Plugin>>,
    pub(super) bind: Vec<Arc<dyn Plugin>>,
    pub(super) post_bind: Vec<Arc<dyn Plugin>>,
    all: Vec<Arc<dyn Plugin>>,
    events: Vec<RegisteredEvent>,
    pub(super) wide: Wide,
    pub(super) probe: Option<Probe>,
}

impl std::fmt::Debug for ScorePlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScorePlugin")
            .field("plugin", &self.plugin.name())
            .field("weight", &self.weight)
            .finish()
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("name", &self.name)
            .field("plugins", &self.plugin_names())
            .finish()
    }
}

/// Knows of a plugin's points from the in-tree catalogue or from an instance.
struct Instances {
    in_tree: PluginCatalogue,
    by_name: FxHashMap<String, Arc<dyn Plugin>>,
}

impl PluginLookup for Instances {
    fn exists(&self, plugin: &str) -> bool {
        self.by_name.contains_key(plugin)
    }

    fn implements(&self, plugin: &str, point: ExtensionPoint) -> bool {
        self.in_tree.implements(plugin, point) || self.by_name.get(plugin).is_some_and(|p| has_point(&**p, point))
    }

    fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }
}

fn has_point(plugin: &dyn Plugin, point: ExtensionPoint) -> bool {
    match point {
        ExtensionPoint::PreEnqueue => plugin.pre_enqueue().is_some(),
        ExtensionPoint::QueueSort => plugin.queue_sort().is_some(),
        ExtensionPoint::PreFilter => plugin.pre_filter().is_some(),
        ExtensionPoint::Filter => plugin.filter().is_some(),
        ExtensionPoint::PostFilter => plugin.post_filter().is_some(),
        ExtensionPoint::PreScore => plugin.pre_score().is_some(),
        ExtensionPoint::Score => plugin.score().is_some(),
        ExtensionPoint::Reserve => plugin.reserve().is_some(),
        ExtensionPoint::Permit => plugin.permit().is_some(),
        ExtensionPoint::PreBind => plugin.pre_bind().is_some(),
        ExtensionPoint::Bind => plugin.bind().is_some(),
        ExtensionPoint::PostBind => plugin.post_bind().is_some(),
        ExtensionPoint::PlacementGenerate | ExtensionPoint::PlacementScore => false,
    }
}

impl Profile {
    /// Makes the plugins of `config` and puts them in order.
    ///
    /// # Errors
    /// All that is wrong: unknown plugins, args that do not suit, lists that do not work out.
    pub fn build(
        config: &supercargo_config::Profile,
        index: usize,
        registry: &Registry,
        handle: &Arc<Handle>,
    ) -> Result<Self, ProfileError> {
        let mut errors = Vec::new();
        let instances = make_instances(config, registry, handle, &mut errors);
        let expanded = config.expand(&instances).unwrap_or_else(|faults| {
            errors.extend(faults.into_iter().map(ProfileFault::from));
            ExpandedPlugins::default()
        });
        for point in ExtensionPoint::ALL {
            let count = expanded.at(point).len();
            if count > MAX_AT_A_POINT {
                errors.push(ProfileFault::TooMany {
                    point: point.field(),
                    count,
                });
            }
        }
        if !errors.is_empty() {
            return Err(ProfileError {
                scheduler_name: config.scheduler_name.clone(),
                errors,
            });
        }
        Ok(Self::assemble(
            Symbol::new(&config.scheduler_name),
            index,
            &instances,
            &expanded,
        ))
    }

    fn assemble(name: Symbol, index: usize, instances: &Instances, expanded: &ExpandedPlugins) -> Self {
        let at = |point: ExtensionPoint| -> Vec<Arc<dyn Plugin>> {
            let found = expanded
                .at(point)
                .iter()
                .filter_map(|enabled| instances.by_name.get(&enabled.name));
            found
                .filter(|plugin| has_point(&***plugin, point))
                .map(Arc::clone)
                .collect()
        };
        let position = |of: &[Arc<dyn Plugin>], plugin: &dyn Plugin| of.iter().position(|p| p.name() == plugin.name());
        let filter = at(ExtensionPoint::Filter);
        let scorers = at(ExtensionPoint::Score);
        let preparing = |point: ExtensionPoint, later: &[Arc<dyn Plugin>]| -> Vec<Preparing> {
            let plugins = at(point).into_iter();
            plugins
                .map(|plugin| Preparing {
                    follows: position(later, &*plugin),
                    plugin,
                })
                .collect()
        };
        let weight = |plugin: &dyn Plugin| {
            let enabled = expanded
                .at(ExtensionPoint::Score)
                .iter()
                .find(|e| e.name == plugin.name().as_str());
            enabled.map_or(1, |e| i64::from(e.weight))
        };
        let mut all: Vec<Arc<dyn Plugin>> = Vec::new();
        for name in expanded.all_names() {
            all.extend(instances.by_name.get(name).map(Arc::clone));
        }
        let mut profile = Self {
            name,
            index,
            pre_enqueue: at(ExtensionPoint::PreEnqueue),
            queue_sort: at(ExtensionPoint::QueueSort).into_iter().next(),
            pre_filter: preparing(ExtensionPoint::PreFilter, &filter),
            pre_score: preparing(ExtensionPoint::PreScore, &scorers),
            score: scorers
                .into_iter()
                .map(|plugin| ScorePlugin {
                    weight: weight(&*plugin),
                    plugin,
                })
                .collect(),
            filters_of_pods: filters_of_pods(&filter),
            filter,
            post_filter: at(ExtensionPoint::PostFilter),
            reserve: at(ExtensionPoint::Reserve),
            permit: at(ExtensionPoint::Permit),
            pre_bind: at(ExtensionPoint::PreBind),
            bind: at(ExtensionPoint::Bind),
            post_bind: at(ExtensionPoint::PostBind),
            events: registered_events(&all),
            all,
            wide: Wide::default(),
            probe: None,
        };
        profile.wide = profile.find_wide();
        profile
    }

    /// Has pods that extenders rejected tried again on any event.
    #[must_use]
    pub fn with_extenders(mut self) -> Self {
        let plugin = *EXTENDER;
        let events = all_events().into_iter();
        self.events.extend(events.map(|hint| RegisteredEvent { plugin, hint }));
        self
    }

    /// All plugins that run anywhere.
    pub(super) fn plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.all
    }

    /// Names of all plugins that run anywhere.
    #[must_use]
    pub fn plugin_names(&self) -> Vec<Symbol> {
        self.all.iter().map(|plugin| plugin.name()).collect()
    }

    /// What its plugins want rejected pods retried on.
    #[must_use]
    pub fn events(&self) -> &[RegisteredEvent] {
        &self.events
    }

    /// The plugins that gate the queue.
    #[must_use]
    pub fn pre_enqueue_plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.pre_enqueue
    }

    /// The plugin that orders the queue.
    #[must_use]
    pub fn queue_sort_plugin(&self) -> Option<&Arc<dyn Plugin>> {
        self.queue_sort.as_ref()
    }

    /// Filters in order.
    #[must_use]
    pub fn filter_plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.filter
    }

    /// Scorers in order.
    #[must_use]
    pub fn score_plugins(&self) -> &[ScorePlugin] {
        &self.score
    }
}

fn filters_of_pods(filters: &[Arc<dyn Plugin>]) -> u64 {
    let standing = |plugin: &Arc<dyn Plugin>| {
        let reads = plugin.filter().map(|filter| filter.filter_reads());
        reads.is_none_or(crate::framework::Reads::is_of_objects)
    };
    let looking = filters.iter().enumerate().filter(|(_, plugin)| !standing(plugin));
    looking.fold(0, |bits, (position, _)| bits | 1 << position)
}

fn make_instances(
    config: &supercargo_config::Profile,
    registry: &Registry,
    handle: &Arc<Handle>,
    errors: &mut Vec<ProfileFault>,
) -> Instances {
    let mut by_name = FxHashMap::default();
    for name in config.plugins.enabled_names() {
        let context = PluginContext {
            scheduler_name: &config.scheduler_name,
            args: config.args(name),
            handle: Arc::clone(handle),
        };
        match registry.make(name, &context) {
            Some(Ok(plugin)) => {
                by_name.insert(name.to_owned(), plugin);
            }
            Some(Err(error)) => errors.push(error.into()),
            // The expansion names every unknown plugin where it is listed.
            None => {}
        }
    }
    Instances {
        in_tree: PluginCatalogue::in_tree(),
        by_name,
    }
}

/// Every plugin's events; a plugin that can reject and does not say gets all, and one that waits for new nodes is also
/// woken by taints that go, because a node is often added tainted.
///
/// Source: `pkg/scheduler/scheduler.go` (`buildQueueingHintMap`), Kubernetes 1.36.
fn registered_events(plugins: &[Arc<dyn Plugin>]) -> Vec<RegisteredEvent> {
    let mut registered = Vec::new();
    for plugin in plugins {
        let rejects = plugin.pre_enqueue().is_some()
            || plugin.pre_filter().is_some()
            || plugin.filter().is_some()
            || plugin.reserve().is_some()
            || plugin.permit().is_some();
        let declared = plugin.events();
        let hints = match declared {
            Some(hints) => hints,
            None if rejects => all_events(),
            None => Vec::new(),
        };
        let on_node = |action: ActionType| {
            hints
                .iter()
                .any(|h| h.event.resource == EventResource::Node && h.event.action.0 & action.0 != 0)
        };
        let taint_too = on_node(ActionType::ADD) && !on_node(ActionType::UPDATE_NODE_TAINT);
        let extra = taint_too.then(|| EventHint::always(EventResource::Node, ActionType::UPDATE_NODE_TAINT));
        registered.extend(hints.into_iter().chain(extra).map(|hint| RegisteredEvent {
            plugin: plugin.name(),
            hint,
        }));
    }
    registered
}

/// Everything that may help a pod for reasons that nobody told: what kube-scheduler takes (`UnrollWildCardResource`), and
/// namespaces, whose labels say which pods a term with a namespace selector means.
fn all_events() -> Vec<EventHint> {
    use EventResource as R;
    let resources = [
        R::Pod,
        R::Node,
        R::PersistentVolume,
        R::PersistentVolumeClaim,
        R::CsiNode,
        R::CsiDriver,
        R::CsiStorageCapacity,
        R::StorageClass,
        R::ResourceClaim,
        R::DeviceClass,
        R::Namespace,
    ];
    resources
        .into_iter()
        .map(|resource| EventHint::always(resource, ActionType::ALL))
        .collect()
}

/// All profiles of the process.
#[derive(Debug)]
pub struct Profiles {
    list: Vec<Arc<Profile>>,
    by_name: FxHashMap<Symbol, usize>,
}

impl Profiles {
    /// Builds every profile of `config`.
    ///
    /// # Errors
    /// The first profile that cannot be built, with all that is wrong with it.
    pub fn build(config: &Configuration, registry: &Registry, handle: &Arc<Handle>) -> Result<Self, ProfileError> {
        Self::build_with(config, registry, handle, |profile| profile)
    }

    /// The same, with what they take recorded.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_observed(
        config: &Configuration,
        registry: &Registry,
        handle: &Arc<Handle>,
        observer: &Observer,
    ) -> Result<Self, ProfileError> {
        Self::build_with(config, registry, handle, |profile| profile.observed_by(observer))
    }

    fn build_with(
        config: &Configuration,
        registry: &Registry,
        handle: &Arc<Handle>,
        finish: impl Fn(Profile) -> Profile,
    ) -> Result<Self, ProfileError> {
        let profiles = config.profiles.iter().enumerate();
        let built = profiles.map(|(index, profile)| {
            let built = Profile::build(profile, index, registry, handle)?;
            Ok(if config.extenders.is_empty() {
                built
            } else {
                built.with_extenders()
            })
        });
        let built =
            built.map(|profile: Result<Profile, ProfileError>| profile.map(|profile| Arc::new(finish(profile))));
        Ok(Self::new(built.collect::<Result<Vec<_>, _>>()?))
    }

    /// Profiles that are built already, each at its own index.
    #[must_use]
    pub fn new(list: Vec<Arc<Profile>>) -> Self {
        let by_name = list
            .iter()
            .enumerate()
            .map(|(index, profile)| (profile.name, index))
            .collect();
        Self { list, by_name }
    }

    /// The profile of a `schedulerName`.
    #[must_use]
    pub fn get(&self, scheduler_name: Symbol) -> Option<&Arc<Profile>> {
        self.list.get(*self.by_name.get(&scheduler_name)?)
    }

    /// All of them, in the configuration's order.
    #[must_use]
    pub fn all(&self) -> &[Arc<Profile>] {
        &self.list
    }

    /// The labels of pods that any plugin of any profile looks at.
    #[must_use]
    pub fn label_visibility(&self) -> LabelVisibility {
        let mut keys = FxHashSet::default();
        for plugin in self.list.iter().flat_map(|profile| &profile.all) {
            match plugin.labels_read() {
                LabelsRead::All => return LabelVisibility::All,
                LabelsRead::Keys(these) => keys.extend(these),
            }
        }
        LabelVisibility::Keys(keys)
    }
}
