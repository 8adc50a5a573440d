//! Services and controllers: whose pods belong together, for default spread constraints.
//!
//! Threads: any; readers see each object as of now. Writers log `OwnerSelectors` after a change.
//!
//! Source: `pkg/scheduler/framework/plugins/helper/spread.go`, Kubernetes 1.36.

use std::sync::Arc;

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use crate::cluster::{LabelSelector, Labels, OwnerKind, OwnerRef};
use crate::ids::Symbol;

/// A Service's selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSelector {
    /// The namespace.
    pub namespace: Symbol,
    /// The Service's name.
    pub name: Box<str>,
    /// `spec.selector`; absent and empty differ: absent selects nothing, empty every pod of the namespace.
    pub selector: Option<Labels>,
}

impl ServiceSelector {
    /// Whether a pod of the namespace with these labels belongs to it.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        let of_selector = |selector: &Labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        self.selector.as_ref().is_some_and(of_selector)
    }
}

/// A controller's selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerSelector {
    /// The namespace.
    pub namespace: Symbol,
    /// Kind and name.
    pub owner: OwnerRef,
    /// Its selector; one that is absent or wrong: [`LabelSelector::Nothing`].
    pub selector: LabelSelector,
}

/// Selectors of all Services and controllers.
#[derive(Debug, Default)]
pub struct Owners {
    services: DashMap<Symbol, Arc<[Arc<ServiceSelector>]>, FxBuildHasher>,
    controllers: DashMap<(Symbol, OwnerRef), Arc<OwnerSelector>, FxBuildHasher>,
}

impl Owners {
    /// The Services of a namespace, sorted by name.
    #[must_use]
    pub fn services(&self, namespace: Symbol) -> Arc<[Arc<ServiceSelector>]> {
        self.services
            .get(&namespace)
            .map(|found| Arc::clone(&found))
            .unwrap_or_default()
    }

    /// A controller's selector.
    #[must_use]
    pub fn controller(&self, namespace: Symbol, owner: OwnerRef) -> Option<Arc<OwnerSelector>> {
        self.controllers
            .get(&(namespace, owner))
            .map(|found| Arc::clone(&found))
    }

    /// Namespace and name of every Service.
    #[must_use]
    pub fn service_keys(&self) -> Vec<(Symbol, Box<str>)> {
        let lists = self.services.iter();
        lists
            .flat_map(|list| {
                let keys = list.iter().map(|service| (service.namespace, service.name.clone()));
                keys.collect::<Vec<_>>()
            })
            .collect()
    }

    /// Namespace and name of every controller of a kind.
    #[must_use]
    pub fn controller_keys(&self, kind: OwnerKind) -> Vec<(Symbol, Box<str>)> {
        let of_kind = self.controllers.iter().filter(|owner| owner.key().1.kind == kind);
        of_kind
            .map(|owner| (owner.key().0, owner.key().1.name.as_str().into()))
            .collect()
    }

    /// Takes in a Service; false: nothing changed.
    pub fn put_service(&self, service: ServiceSelector) -> bool {
        let mut list = self.services.entry(service.namespace).or_default();
        let mut next = list.to_vec();
        match next.binary_search_by(|have| have.name.cmp(&service.name)) {
            Ok(at) if *next[at] == service => return false,
            Ok(at) => next[at] = Arc::new(service),
            Err(at) => next.insert(at, Arc::new(service)),
        }
        *list = next.into();
        true
    }

    /// Forgets a Service; false: it was not there.
    pub fn remove_service(&self, namespace: Symbol, name: &str) -> bool {
        let Some(mut list) = self.services.get_mut(&namespace) else {
            return false;
        };
        let mut next = list.to_vec();
        next.retain(|have| &*have.name != name);
        let found = next.len() != list.len();
        *list = next.into();
        drop(list);
        self.services.remove_if(&namespace, |_, list| list.is_empty());
        found
    }

    /// Takes in a controller; false: nothing changed.
    pub fn put_controller(&self, owner: OwnerSelector) -> bool {
        let key = (owner.namespace, owner.owner);
        let owner = Arc::new(owner);
        let before = self.controllers.insert(key, Arc::clone(&owner));
        before.is_none_or(|before| before != owner)
    }

    /// Forgets a controller; false: it was not there.
    pub fn remove_controller(&self, namespace: Symbol, owner: OwnerRef) -> bool {
        self.controllers.remove(&(namespace, owner)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, selector: Option<&[(&str, &str)]>) -> ServiceSelector {
        ServiceSelector {
            namespace: Symbol::new("ns"),
            name: name.into(),
            selector: selector.map(|pairs| pairs.iter().copied().collect()),
        }
    }

    #[test]
    fn services_are_kept_by_namespace_and_name() {
        let owners = Owners::default();
        assert!(owners.put_service(service("b", Some(&[("app", "b")]))));
        assert!(owners.put_service(service("a", None)));
        assert!(!owners.put_service(service("a", None)));
        let names = |owners: &Owners| -> Vec<String> {
            let list = owners.services(Symbol::new("ns"));
            list.iter().map(|service| service.name.to_string()).collect()
        };
        assert_eq!(names(&owners), ["a", "b"]);
        assert!(owners.remove_service(Symbol::new("ns"), "a"));
        assert!(!owners.remove_service(Symbol::new("ns"), "a"));
        assert_eq!(names(&owners), ["b"]);
    }

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        let labels: Labels = [("app", "a")].into_iter().collect();
        assert!(!service("s", None).selects(&labels));
        assert!(service("s", Some(&[])).selects(&labels));
        assert!(service("s", Some(&[("app", "a")])).selects(&labels));
        assert!(!service("s", Some(&[("app", "b")])).selects(&labels));
    }
}
