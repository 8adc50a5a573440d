//! The registry: plugins by name.
//!
//! In-tree plugins are registered by [`crate::plugins::registry`]; a library user adds plugins of their own before
//! profiles are built (see `examples/`).

use std::sync::Arc;

use hashbrown::HashMap;
use supercargo_config::PluginArgs;

use crate::framework::{Handle, Plugin};

/// Why a plugin could not be made or registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PluginError {
    /// The name is taken.
    #[error("a plugin named {0:?} is already registered")]
    NameTaken(String),
    /// The plugin's args do not suit it.
    #[error("initializing plugin {plugin:?}: {message}")]
    Args {
        /// Which plugin.
        plugin: String,
        /// What is wrong with its args.
        message: String,
    },
}

/// What a plugin is made from.
#[derive(Clone, Debug)]
pub struct PluginContext<'a> {
    /// The profile's `schedulerName`.
    pub scheduler_name: &'a str,
    /// Its args, if the profile has any.
    pub args: Option<&'a PluginArgs>,
    /// The running scheduler.
    pub handle: Arc<Handle>,
}

/// Makes an instance for one profile; the error says what is wrong with the args.
pub type Factory = Arc<dyn Fn(&PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> + Send + Sync>;

/// Plugins by name.
#[derive(Clone, Default)]
pub struct Registry {
    factories: HashMap<String, Factory>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.factories.keys()).finish()
    }
}

impl Registry {
    /// Adds a plugin.
    ///
    /// # Errors
    /// The name is taken, by an in-tree plugin or another one.
    pub fn register<F>(&mut self, name: &str, factory: F) -> Result<(), PluginError>
    where
        F: Fn(&PluginContext<'_>) -> Result<Arc<dyn Plugin>, String> + Send + Sync + 'static,
    {
        if self.factories.contains_key(name) {
            return Err(PluginError::NameTaken(name.to_owned()));
        }
        self.factories.insert(name.to_owned(), Arc::new(factory));
        Ok(())
    }

    /// Whether a plugin of this name is registered.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.factories.contains_key(name)
    }

    /// An instance of the plugin called `name`; `None`: there is none.
    ///
    /// # Errors
    /// The args do not suit it.
    pub fn make(&self, name: &str, context: &PluginContext<'_>) -> Option<Result<Arc<dyn Plugin>, PluginError>> {
        let factory = self.factories.get(name)?;
        Some(factory(context).map_err(|message| PluginError::Args {
            plugin: name.to_owned(),
            message,
        }))
    }
}
