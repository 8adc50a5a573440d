//! Builders for tests, benches and the replay of recorded decisions: pods, nodes and small clusters.
//!
//! A builder writes the object as the API server would send it and decodes it as a watch does, so that tests run on
//! what the scheduler would see. [`World`] puts such objects together to a cluster that a cycle can be run on.
//!
//! Does not: belong to the running scheduler.

mod node;
mod pod;
mod world;

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use supercargo_config::{Loader, PluginCatalogue};

use crate::cluster::{ClassTable, LabelVisibility};
use crate::framework::{Handle, Profile, Profiles};

pub use node::{NodeBuilder, node};
pub use pod::{PodBuilder, pod};
pub use world::World;

/// The classes of all pods that builders make without a table of their own.
static CLASSES: LazyLock<ClassTable> = LazyLock::new(|| ClassTable::new(LabelVisibility::All));

/// The profile of the default configuration: all default plugins.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn default_profile() -> Arc<Profile> {
    profile_of("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
}

/// The first profile of a configuration.
///
/// # Panics
/// The configuration cannot be loaded.
#[must_use]
pub fn profile_of(configuration: &str) -> Arc<Profile> {
    let loaded = Loader::new(&PluginCatalogue::in_tree())
        .load_str("profile", configuration)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let (registry, handle) = (crate::plugins::registry(), Arc::new(Handle::default()));
    let profiles = Profiles::build(&loaded.configuration, &registry, &handle).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&profiles.all()[0])
}

/// Sets the value under a path of member names; objects on the way are made, what is none is replaced.
fn set(json: &mut Value, path: &[&str], value: Value) {
    let mut at = json;
    for name in path {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[*name];
    }
    *at = value;
}

/// Appends to the list under a path.
fn push(json: &mut Value, path: &[&str], value: Value) {
    let mut at = &mut *json;
    for name in path {
        at = &mut at[*name];
    }
    match at.as_array_mut() {
        Some(list) => list.push(value),
        None => *at = Value::Array(vec![value]),
    }
}

/// A UID that is the same for the same text.
fn uid_of(text: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
    let hex = format!("{hash:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
