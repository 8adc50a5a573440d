//! AppGroups: applications of several workloads, and which of them calls which.
//!
//! Source of the shape: `appgroup.diktyo.x-k8s.io/v1alpha1` of scheduler-plugins.

use std::sync::Arc;

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use super::demand::Bandwidth;
use crate::ids::Symbol;

/// A pod's part in an AppGroup, by its labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AppMember {
    /// The AppGroup's name.
    pub group: Symbol,
    /// The workload, by its selector value; empty when the pod does not say.
    pub workload: Symbol,
}

/// A workload that another one calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The callee's selector value.
    pub callee: Symbol,
    /// `minBandwidth`, both ways.
    pub bandwidth: Bandwidth,
    /// `maxNetworkCost`; 0 when it does not say.
    pub max_cost: i64,
}

/// An AppGroup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AppGroup {
    /// The namespace.
    pub namespace: Option<Symbol>,
    /// The name.
    pub name: Option<Symbol>,
    /// Selector values of workloads and what each calls, in the object's order.
    pub workloads: Box<[(Symbol, Box<[Dependency]>)]>,
    /// `status.topologyOrder`: selector values and their index.
    pub order: Box<[(Symbol, i32)]>,
}

impl AppGroup {
    /// What a workload calls; nothing when it is not listed.
    #[must_use]
    pub fn dependencies(&self, workload: Symbol) -> &[Dependency] {
        let found = self.workloads.iter().find(|(selector, _)| *selector == workload);
        found.map_or(&[], |(_, dependencies)| dependencies)
    }

    /// A workload's place in the order, from 1.
    #[must_use]
    pub fn order_of(&self, workload: Symbol) -> Option<i32> {
        let found = self.order.iter().find(|(selector, _)| *selector == workload);
        found.map(|(_, index)| *index)
    }
}

/// All AppGroups. Threads: any; readers see each as of now.
#[derive(Debug, Default)]
pub(super) struct Apps {
    by_key: DashMap<(Symbol, Symbol), Arc<AppGroup>, FxBuildHasher>,
}

impl Apps {
    pub(super) fn get(&self, namespace: Symbol, name: Symbol) -> Option<Arc<AppGroup>> {
        self.by_key.get(&(namespace, name)).map(|group| Arc::clone(&group))
    }

    /// False: nothing changed.
    pub(super) fn put(&self, namespace: Symbol, name: Symbol, group: AppGroup) -> bool {
        let group = Arc::new(group);
        let before = self.by_key.insert((namespace, name), Arc::clone(&group));
        before.is_none_or(|before| before != group)
    }

    /// False: it was not known.
    pub(super) fn remove(&self, namespace: Symbol, name: Symbol) -> bool {
        self.by_key.remove(&(namespace, name)).is_some()
    }

    pub(super) fn keys(&self) -> Vec<(Symbol, Symbol)> {
        self.by_key.iter().map(|entry| *entry.key()).collect()
    }
}
