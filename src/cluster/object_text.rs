//! An object's own text, kept for those who are sent whole objects: extenders.
//!
//! Does not: belong to what scheduling reads. It is kept only where somebody will be sent it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::{RawValue, to_raw_value};

use crate::ids::Symbol;

/// An object as the API server sent it, without `kind`, `apiVersion` and `metadata.managedFields`: what a typed client
/// would send on, less what nobody decides by.
#[derive(Debug)]
pub struct ObjectText {
    json: Box<RawValue>,
    resources: Box<[Symbol]>,
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodShape {
    spec: Option<SpecShape>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SpecShape {
    containers: Option<Vec<ContainerShape>>,
    init_containers: Option<Vec<ContainerShape>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerShape {
    resources: Option<ResourcesShape>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourcesShape {
    requests: Option<BTreeMap<String, IgnoredAny>>,
    limits: Option<BTreeMap<String, IgnoredAny>>,
}

impl ObjectText {
    /// Takes over an object's JSON. `None`: it is not an object.
    #[must_use]
    pub fn from_json(json: &str) -> Option<Self> {
        Some(Self {
            json: without_ballast(json)?,
            resources: resources(json),
        })
    }

    /// The object.
    #[must_use]
    pub const fn json(&self) -> &RawValue {
        &self.json
    }

    /// Names of the resources that any container or init container of a pod requests or is limited in, whatever the
    /// amount; sorted, each once.
    #[must_use]
    pub const fn resources(&self) -> &[Symbol] {
        &self.resources
    }
}

fn without_ballast(json: &str) -> Option<Box<RawValue>> {
    let mut object: Members<'_> = serde_json::from_str(json).ok()?;
    object.remove("kind");
    object.remove("apiVersion");
    let metadata = object.get("metadata").map(|raw| {
        let members = serde_json::from_str::<Members<'_>>(raw.get());
        members.ok().and_then(|mut members| {
            members.remove("managedFields");
            to_raw_value(&members).ok()
        })
    });
    let metadata = metadata.flatten();
    if let Some(metadata) = &metadata {
        object.insert("metadata".to_owned(), metadata);
    }
    to_raw_value(&object).ok()
}

fn resources(json: &str) -> Box<[Symbol]> {
    let shape = serde_json::from_str::<PodShape>(json).unwrap_or_default();
    let spec = shape.spec.unwrap_or_default();
    let containers = spec.containers.into_iter().chain(spec.init_containers).flatten();
    let resources = containers.filter_map(|container| container.resources);
    let amounts = resources.flat_map(|resources| [resources.requests, resources.limits]);
    let mut names: Vec<Symbol> = amounts
        .flatten()
        .flat_map(BTreeMap::into_keys)
        .map(|name| Symbol::new(&name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballast_goes_and_all_else_stays() {
        let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","managedFields":[{"manager":"m"}],"x":null},
            "spec":{"unknownField":[1, 2.50]},"status":{}}"#;
        let text = ObjectText::from_json(json).unwrap();
        assert_eq!(
            text.json().get(),
            r#"{"metadata":{"name":"p","x":null},"spec":{"unknownField":[1, 2.50]},"status":{}}"#
        );
        assert!(ObjectText::from_json("[]").is_none());
    }

    #[test]
    fn every_resource_named_anywhere_counts_whatever_the_amount() {
        let json = r#"{"spec":{"containers":[{"resources":{"requests":{"a/b":"0"}}},{"resources":null},{}],
            "initContainers":[{"resources":{"limits":{"c/d":1,"a/b":"2"}}}]}}"#;
        let text = ObjectText::from_json(json).unwrap();
        let mut names: Vec<&str> = text.resources().iter().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a/b", "c/d"]);
        let none = ObjectText::from_json(r#"{"spec":{"containers":null}}"#).unwrap();
        assert!(none.resources().is_empty());
    }
}
