//! The scheduler's configuration: `KubeSchedulerConfiguration` v1, plugin args, Supercargo's own settings, feature
//! gates.
//!
//! Text goes in ([`Loader`]), plain Rust types come out ([`Configuration`], [`Settings`]), or every error of the file
//! at once ([`ConfigErrors`]), each with its field path and line. The way inside: **text → tree → wire types → checked
//! and defaulted types → (merge, expand) → plugin lists by extension point**.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`types`], [`profile`], [`plugin_args`], [`extender`], [`selectors`] | the effective configuration |
//! | [`settings`] | `SupercargoConfiguration` |
//! | [`gates`] | feature gates: names, stages, what may be changed |
//! | [`plugins`] | extension points, the in-tree catalogue, the default list, merge and expansion |
//! | [`load`] | from text or file to types |
//! | [`mod@print`] | from types back to YAML and JSON |
//! | [`duration`] | durations as Go writes them |
//! | [`error`] | what was wrong, where |
//!
//! Sources: kube-scheduler 1.36 `staging/src/k8s.io/kube-scheduler/config/v1`, `pkg/scheduler/apis/config`.
//!
//! Does not: watch files, know the scheduler's registry (a [`PluginLookup`] is passed in) or open connections.

pub mod duration;
pub mod error;
pub mod extender;
pub mod gates;
pub mod load;
pub mod plugin_args;
pub mod plugins;
pub mod print;
pub mod profile;
pub mod selectors;
pub mod settings;
pub mod types;

mod base64;
mod decode;
mod names;
mod tree;
mod wire;

pub use error::{ConfigErrors, FieldError};
pub use extender::Extender;
pub use gates::FeatureGates;
pub use load::{Checked, Loaded, Loader, Overrides};
pub use plugin_args::PluginArgs;
pub use plugins::{ExtensionPoint, PluginCatalogue, PluginLookup};
pub use profile::Profile;
pub use settings::Settings;
pub use types::Configuration;
