//! From text to checked, defaulted types; every error of a file at once.
//!
//! Order: YAML or JSON to a tree, documents told apart, each decoded strictly to wire types, command-line overrides put
//! over them, then defaults and checks together. Errors of all stages come back in one list.
//!
//! Does not: watch the file or apply a change.

mod affinity;
mod args;
mod check;
mod configuration;
mod documents;
mod extenders;
mod overrides;
mod plugin_lists;
mod profiles;
mod settings;

use std::io::Read;
use std::path::Path;

pub use overrides::Overrides;

use crate::decode::Decode;
use crate::error::{ConfigErrors, FieldError, FieldErrorKind};
use crate::gates::FeatureGates;
use crate::plugins::PluginLookup;
use crate::settings::Settings;
use crate::tree::{MAX_TEXT_BYTES, Node};
use crate::types::Configuration;
use crate::wire::{WireConfiguration, WireSettings};
use check::Cx;
use documents::{Documents, Kind};

/// Reads configurations.
#[derive(Clone)]
pub struct Loader<'a> {
    lookup: &'a dyn PluginLookup,
    gates: FeatureGates,
    overrides: Overrides,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("gates", &self.gates)
            .field("overrides", &self.overrides)
            .finish()
    }
}

/// What a configuration file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The effective configuration.
    pub configuration: Configuration,
    /// Settings, if the file has a document of them.
    pub settings: Option<Settings>,
    /// Things that are accepted but may surprise.
    pub warnings: Vec<String>,
}

/// What a file of either kind holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// A configuration, perhaps with settings.
    Configuration(Box<Loaded>),
    /// Settings alone.
    Settings(Settings),
}

impl<'a> Loader<'a> {
    /// A loader with default gates and no overrides.
    pub fn new(lookup: &'a dyn PluginLookup) -> Self {
        Self {
            lookup,
            gates: FeatureGates::default(),
            overrides: Overrides::default(),
        }
    }

    /// With these gates.
    #[must_use]
    pub fn gates(mut self, gates: FeatureGates) -> Self {
        self.gates = gates;
        self
    }

    /// With these values from the command line, which go over the file's.
    #[must_use]
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Reads a configuration file: one `KubeSchedulerConfiguration` and at most one `SupercargoConfiguration`.
    ///
    /// # Errors
    /// The file cannot be read, or everything that is wrong in it.
    pub fn load_file(&self, path: &Path) -> Result<Loaded, ConfigErrors> {
        let text = read_text(path)?;
        self.load_str(&path.display().to_string(), &text)
    }

    /// As [`Self::load_file`], from a text; `source` names it in errors.
    ///
    /// # Errors
    /// Everything that is wrong in the text.
    pub fn load_str(&self, source: &str, text: &str) -> Result<Loaded, ConfigErrors> {
        let (documents, mut errors) = Documents::read(text, Kind::Configuration);
        let mut cx = self.cx();
        let configuration = documents.configuration.as_ref().map(|node| {
            with_lines(node, &mut cx, |cx| {
                let wire = WireConfiguration::decode(node, "", &mut cx.errors).unwrap_or_default();
                configuration::check(self.overrides.apply(wire), cx)
            })
        });
        let settings = documents.settings.as_ref().map(|node| checked_settings(node, &mut cx));
        errors.append(&mut cx.errors.list);
        match configuration {
            Some(configuration) if errors.is_empty() => Ok(Loaded {
                configuration,
                settings,
                warnings: cx.warnings,
            }),
            _ => Err(ConfigErrors::new(source, errors)),
        }
    }

    /// Reads a file of either kind, for those who only want to know whether it is right.
    ///
    /// # Errors
    /// The file cannot be read, or everything that is wrong in it.
    pub fn check_file(&self, path: &Path) -> Result<Checked, ConfigErrors> {
        let text = read_text(path)?;
        self.check_str(&path.display().to_string(), &text)
    }

    /// As [`Self::check_file`], from a text; `source` names it in errors.
    ///
    /// # Errors
    /// Everything that is wrong in the text.
    pub fn check_str(&self, source: &str, text: &str) -> Result<Checked, ConfigErrors> {
        if documents::holds_settings_only(text) {
            return Self::load_settings_str(source, text).map(Checked::Settings);
        }
        self.load_str(source, text)
            .map(|loaded| Checked::Configuration(Box::new(loaded)))
    }

    /// The configuration without a file: defaults under the overrides.
    ///
    /// # Errors
    /// An override has a value that is not allowed.
    pub fn defaults(&self) -> Result<Loaded, ConfigErrors> {
        let mut cx = self.cx();
        let configuration = configuration::check(self.overrides.apply(WireConfiguration::default()), &mut cx);
        if cx.errors.list.is_empty() {
            return Ok(Loaded {
                configuration,
                settings: None,
                warnings: cx.warnings,
            });
        }
        Err(ConfigErrors::new("command line", cx.errors.list))
    }

    /// Reads a settings file: one `SupercargoConfiguration`.
    ///
    /// # Errors
    /// The file cannot be read, or everything that is wrong in it.
    pub fn load_settings_file(path: &Path) -> Result<Settings, ConfigErrors> {
        let text = read_text(path)?;
        Self::load_settings_str(&path.display().to_string(), &text)
    }

    /// As [`Self::load_settings_file`], from a text; `source` names it in errors.
    ///
    /// # Errors
    /// Everything that is wrong in the text.
    pub fn load_settings_str(source: &str, text: &str) -> Result<Settings, ConfigErrors> {
        let (documents, mut errors) = Documents::read(text, Kind::Settings);
        let nothing = crate::plugins::PluginCatalogue::empty();
        let mut cx = Cx::new(&nothing, FeatureGates::default());
        let settings = documents.settings.as_ref().map(|node| checked_settings(node, &mut cx));
        errors.append(&mut cx.errors.list);
        match settings {
            Some(settings) if errors.is_empty() => Ok(settings),
            _ => Err(ConfigErrors::new(source, errors)),
        }
    }

    fn cx(&self) -> Cx<'a> {
        Cx::new(self.lookup, self.gates.clone())
    }
}

fn checked_settings(node: &Node, cx: &mut Cx<'_>) -> Settings {
    with_lines(node, cx, |cx| {
        let wire = WireSettings::decode(node, "", &mut cx.errors).unwrap_or_default();
        settings::check(wire, cx)
    })
}

/// Runs a stage and gives its errors the lines of their fields.
fn with_lines<T>(node: &Node, cx: &mut Cx<'_>, stage: impl FnOnce(&mut Cx<'_>) -> T) -> T {
    let earlier = std::mem::take(&mut cx.errors);
    let result = stage(cx);
    let found = std::mem::replace(&mut cx.errors, earlier);
    for mut error in without_consequences(found.list) {
        if error.line.is_none() {
            error.line = Some(node.line_of(&error.path)).filter(|line| *line > 0);
        }
        cx.errors.push(error);
    }
    result
}

/// Leaves out errors about values that could not be read: where a type is wrong, the default is nobody's mistake.
fn without_consequences(errors: Vec<FieldError>) -> Vec<FieldError> {
    let is_type = |error: &FieldError| matches!(error.kind, FieldErrorKind::Type { .. });
    let unread: Vec<String> = errors
        .iter()
        .filter(|error| is_type(error))
        .map(|error| error.path.clone())
        .collect();
    let below = |path: &str, parent: &str| {
        path.strip_prefix(parent)
            .is_some_and(|rest| rest.is_empty() || parent.is_empty() || rest.starts_with(['.', '[']))
    };
    errors
        .into_iter()
        .filter(|error| is_type(error) || !unread.iter().any(|path| below(&error.path, path)))
        .collect()
}

/// Reads a file of bounded size.
fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let fail = |message: String| {
        let error = FieldError {
            path: String::new(),
            line: None,
            kind: FieldErrorKind::Syntax(message),
        };
        ConfigErrors::new(path.display().to_string(), vec![error])
    };
    let file = std::fs::File::open(path).map_err(|error| fail(format!("cannot be opened: {error}")))?;
    let limit = u64::try_from(MAX_TEXT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| fail(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| fail("is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests;
