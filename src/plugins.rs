//! The in-tree plugins, one file each, named as in the configuration.
//!
//! Behaviour, reasons and scores are those of kube-scheduler 1.36 (`pkg/scheduler/framework/plugins`). A rejection is
//! put together from texts that are interned once, and a success allocates nothing.
//!
//! Does not: run anything by itself; see [`crate::framework`].
//!
//! Threads: plugins hold no mutable state but the counter behind preemption's offsets, which is atomic.
//!
//! Children in reading order: `args`, `normalize`, `hints` (shared pieces); `node_name` and its like (one check each);
//! `node_affinity`, `node_ports`, `node_resources_fit`, `node_resources_balanced_allocation`, `image_locality`;
//! `inter_pod_affinity`, `pod_topology_spread` (pods count); `volume_restrictions`, `node_volume_limits`, `volume_zone`,
//! `volume_binding`; `default_preemption`; `dynamic_resources`; `network` (latency).

mod args;
#[cfg(test)]
mod check;
mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod hints;
mod image_locality;
mod inter_pod_affinity;
mod network;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod normalize;
mod pod_topology_spread;
mod priority_sort;
mod scheduling_gates;
mod taint_toleration;
mod volume_binding;
#[cfg(test)]
mod volume_check;
mod volume_restrictions;
mod volume_use;
mod volume_zone;

use std::sync::Arc;

use crate::framework::{Plugin, PluginContext, Registry};

type Make = fn(&PluginContext<'_>) -> Result<Arc<dyn Plugin>, String>;

const AVAILABLE: [(&str, Make); 21] = [
    ("SchedulingGates", |_| Ok(Arc::new(scheduling_gates::SchedulingGates))),
    ("PrioritySort", |_| Ok(Arc::new(priority_sort::PrioritySort))),
    ("NodeUnschedulable", |_| {
        Ok(Arc::new(node_unschedulable::NodeUnschedulable))
    }),
    ("NodeName", |_| Ok(Arc::new(node_name::NodeName))),
    ("TaintToleration", |_| Ok(Arc::new(taint_toleration::TaintToleration))),
    ("NodeAffinity", node_affinity::make),
    ("NodePorts", |_| Ok(Arc::new(node_ports::NodePorts))),
    ("NodeResourcesFit", node_resources_fit::make),
    ("VolumeRestrictions", |_| {
        Ok(Arc::new(volume_restrictions::VolumeRestrictions))
    }),
    ("NodeVolumeLimits", |_| {
        Ok(Arc::new(node_volume_limits::NodeVolumeLimits))
    }),
    ("VolumeZone", |_| Ok(Arc::new(volume_zone::VolumeZone))),
    ("PodTopologySpread", pod_topology_spread::make),
    ("DynamicResources", |_| {
        Ok(Arc::new(dynamic_resources::DynamicResources))
    }),
    ("VolumeBinding", volume_binding::make),
    ("DefaultPreemption", default_preemption::make),
    (
        "NodeResourcesBalancedAllocation",
        node_resources_balanced_allocation::make,
    ),
    ("InterPodAffinity", inter_pod_affinity::make),
    ("ImageLocality", |_| Ok(Arc::new(image_locality::ImageLocality))),
    ("DefaultBinder", |_| Ok(Arc::new(default_binder::DefaultBinder))),
    ("TopologyAware", network::topology_aware::make),
    ("NodeDeclaredFeatures", |_| {
        Ok(Arc::new(node_declared_features::NodeDeclaredFeatures))
    }),
];

/// All in-tree plugins by name.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    for (name, make) in AVAILABLE {
        let added = registry.register(name, make);
        debug_assert!(added.is_ok(), "two in-tree plugins are called {name}");
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use supercargo_config::PluginCatalogue;
    use supercargo_config::plugins::PluginLookup;

    #[test]
    fn every_plugin_of_the_catalogue_is_registered() {
        let registry = registry();
        for name in PluginCatalogue::in_tree().names() {
            assert!(registry.contains(&name), "{name}");
        }
    }
}
