//! The kinds that the server knows from the start, and what is particular about each.
//!
//! Does not: hold objects.

use std::borrow::Cow;

type Text = Cow<'static, str>;

/// Describes one resource: names, scope, and the few rules that depend on the kind.
#[derive(Debug, Clone)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: Text,
    /// Served versions; the first is the storage version.
    pub versions: Vec<Text>,
    /// Plural name, as in paths.
    pub plural: Text,
    /// Singular name.
    pub singular: Text,
    /// Kind name.
    pub kind: Text,
    /// Short names for `kubectl`.
    pub short_names: Vec<Text>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether there is a status subresource that owns `status`.
    pub has_status: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub has_generation: bool,
    /// Whether a custom resource definition brought it.
    pub custom: bool,
}

impl Kind {
    /// The storage version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.versions.first().map_or("v1", |version| version.as_ref())
    }

    /// `v1` or `group/v1`, for the storage version.
    #[must_use]
    pub fn api_version(&self) -> String {
        group_version(&self.group, self.version())
    }

    /// The storage form of a field that selectors may name, or `None`.
    ///
    /// Source: the conversion functions of the API groups (`pkg/apis/*/v1/conversion.go`).
    #[must_use]
    pub fn selectable_field<'a>(&self, path: &'a str) -> Option<&'a str> {
        if path == "metadata.name" || (path == "metadata.namespace" && self.namespaced) {
            return Some(path);
        }
        let known = match self.kind.as_ref() {
            "Pod" => matches!(
                path,
                "spec.nodeName"
                    | "spec.restartPolicy"
                    | "spec.schedulerName"
                    | "spec.serviceAccountName"
                    | "spec.hostNetwork"
                    | "status.phase"
                    | "status.podIP"
                    | "status.nominatedNodeName"
            ),
            "Node" => path == "spec.unschedulable",
            "Namespace" => path == "status.phase",
            "Secret" => path == "type",
            "ReplicaSet" | "ReplicationController" => path == "status.replicas",
            "Job" => path == "status.successful",
            "ResourceSlice" => matches!(path, "spec.nodeName" | "spec.driver"),
            "Event" => return event_field(path),
            _ => false,
        };
        known.then_some(path)
    }
}

/// Events may be selected by the names of either group; the core form is stored.
fn event_field(path: &str) -> Option<&str> {
    const FIELDS: [&str; 13] = [
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
        "reportingController",
        "source.component",
    ];
    if let Some(field) = path.strip_prefix("regarding.") {
        return FIELDS
            .into_iter()
            .find(|known| known.strip_prefix("involvedObject.") == Some(field));
    }
    match path {
        "reportingController" => Some("reportingComponent"),
        "source" => Some("source.component"),
        _ => FIELDS.contains(&path).then_some(path),
    }
}

/// `v1` or `group/v1`.
#[must_use]
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

const NAMESPACED: u8 = 1;
const STATUS: u8 = 2;
const GENERATION: u8 = 4;

/// (group, version, plural, kind, short names, flags)
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    u8,
);

const ROWS: &[Row] = &[
    ("", "v1", "pods", "Pod", &["po"], NAMESPACED | STATUS | GENERATION),
    ("", "v1", "nodes", "Node", &["no"], STATUS),
    ("", "v1", "namespaces", "Namespace", &["ns"], STATUS),
    ("", "v1", "services", "Service", &["svc"], NAMESPACED | STATUS),
    ("", "v1", "endpoints", "Endpoints", &["ep"], NAMESPACED),
    (
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        &["rc"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        &["pvc"],
        NAMESPACED | STATUS,
    ),
    ("", "v1", "persistentvolumes", "PersistentVolume", &["pv"], STATUS),
    ("", "v1", "events", "Event", &["ev"], NAMESPACED),
    ("", "v1", "configmaps", "ConfigMap", &["cm"], NAMESPACED),
    ("", "v1", "secrets", "Secret", &[], NAMESPACED),
    ("", "v1", "serviceaccounts", "ServiceAccount", &["sa"], NAMESPACED),
    (
        "",
        "v1",
        "resourcequotas",
        "ResourceQuota",
        &["quota"],
        NAMESPACED | STATUS,
    ),
    ("", "v1", "limitranges", "LimitRange", &["limits"], NAMESPACED),
    ("", "v1", "podtemplates", "PodTemplate", &[], NAMESPACED),
    (
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        &["rs"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        &["sts"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "apps",
        "v1",
        "deployments",
        "Deployment",
        &["deploy"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "apps",
        "v1",
        "daemonsets",
        "DaemonSet",
        &["ds"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "apps",
        "v1",
        "controllerrevisions",
        "ControllerRevision",
        &[],
        NAMESPACED,
    ),
    ("batch", "v1", "jobs", "Job", &[], NAMESPACED | STATUS | GENERATION),
    (
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        &["cj"],
        NAMESPACED | STATUS | GENERATION,
    ),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        NAMESPACED | STATUS | GENERATION,
    ),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", &["sc"], 0),
    ("storage.k8s.io", "v1", "csinodes", "CSINode", &[], 0),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver", &[], 0),
    (
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        &[],
        NAMESPACED,
    ),
    (
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        &[],
        STATUS,
    ),
    (
        "storage.k8s.io",
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        &["vac"],
        0,
    ),
    (
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        &[],
        NAMESPACED | STATUS,
    ),
    (
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        &[],
        NAMESPACED,
    ),
    (
        "resource.k8s.io",
        "v1",
        "resourceslices",
        "ResourceSlice",
        &[],
        GENERATION,
    ),
    ("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", &[], GENERATION),
    ("coordination.k8s.io", "v1", "leases", "Lease", &[], NAMESPACED),
    (
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        &["pc"],
        GENERATION,
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", &[], NAMESPACED),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "rolebindings",
        "RoleBinding",
        &[],
        NAMESPACED,
    ),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", &[], 0),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        &[],
        0,
    ),
    (
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        &[],
        NAMESPACED,
    ),
    (
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        &["netpol"],
        NAMESPACED | GENERATION,
    ),
    (
        "networking.k8s.io",
        "v1",
        "ingresses",
        "Ingress",
        &["ing"],
        NAMESPACED | STATUS | GENERATION,
    ),
    ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", &[], 0),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "flowschemas",
        "FlowSchema",
        &[],
        STATUS | GENERATION,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        &[],
        STATUS | GENERATION,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        STATUS | GENERATION,
    ),
];

/// The group in which events are shown a second time.
pub const EVENTS_GROUP: &str = "events.k8s.io";

/// All built-in kinds.
#[must_use]
pub fn built_in() -> Vec<Kind> {
    ROWS.iter()
        .map(|&(group, version, plural, kind, short_names, flags)| Kind {
            group: group.into(),
            versions: vec![version.into()],
            plural: plural.into(),
            singular: kind.to_ascii_lowercase().into(),
            kind: kind.into(),
            short_names: short_names.iter().map(|name| (*name).into()).collect(),
            namespaced: flags & NAMESPACED != 0,
            has_status: flags & STATUS != 0,
            has_generation: flags & GENERATION != 0,
            custom: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_fields_have_two_spellings() {
        assert_eq!(event_field("regarding.name"), Some("involvedObject.name"));
        assert_eq!(event_field("involvedObject.uid"), Some("involvedObject.uid"));
        assert_eq!(event_field("source"), Some("source.component"));
        assert_eq!(event_field("note"), None);
    }
}
