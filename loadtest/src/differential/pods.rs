//! The generated pods: templates with random features, and pods made from them.
//!
//! Pods of one template are alike but for their names and claims, as in real clusters, so that the incremental engine's
//! answers are compared too and not only first sights of a pod.
//!
//! Does not: send anything. Namespaces and names of owners are those of `cluster`.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::cluster::{APPS, HOST, IMAGES, NEVER, PREEMPTING, RACK, SPACES, ZONE, hit, image, node_name, pick, word};
use super::terms;
use super::volumes::Disk;

/// Templates in use at one time; each is used about 2,000 / 80 times in a run of 2,000 pods.
const TEMPLATES: usize = 80;

/// What pods have beside requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Node selectors and affinity.
    NodeAffinity,
    /// Tolerations.
    Tolerations,
    /// Topology spread constraints, hard and soft.
    Spread,
    /// Affinity and anti-affinity between pods, required and preferred.
    PodAffinity,
    /// Host ports.
    Ports,
    /// Claims and disks.
    Volumes,
    /// Priority classes.
    Priorities,
    /// A controller as owner.
    Owners,
    /// Something that no node has.
    Impossible,
}

/// A pod to be decided, before it has a name and claims.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub(super) body: Value,
    pub(super) namespace: &'static str,
    pub(super) disks: Vec<Disk>,
    pub(super) features: Vec<Feature>,
    owned: bool,
}

/// `apiVersion`, kind, name and UID of a controller.
#[derive(Debug, Clone)]
pub(super) struct Owner(pub(super) Value);

/// Makes pods.
#[derive(Debug)]
pub(super) struct Pods {
    templates: Vec<Template>,
    owners: BTreeMap<(String, String), Owner>,
    features: Vec<Feature>,
    nodes: usize,
}

impl Pods {
    /// `owners` by namespace and app.
    pub(super) fn new(
        random: &mut Pcg64Mcg,
        features: &[Feature],
        owners: BTreeMap<(String, String), Owner>,
        nodes: usize,
    ) -> Self {
        let mut this = Self {
            templates: Vec::new(),
            owners,
            features: features.to_vec(),
            nodes,
        };
        this.templates = (0..TEMPLATES).map(|_| this.template(random)).collect();
        this
    }

    /// A template; now and then one is replaced by a new one.
    pub(super) fn next(&mut self, random: &mut Pcg64Mcg) -> Template {
        let index = random.random_range(0..TEMPLATES);
        if hit(random, 15) {
            let fresh = self.template(random);
            if let Some(slot) = self.templates.get_mut(index) {
                *slot = fresh;
            }
        }
        self.templates
            .get(index)
            .cloned()
            .unwrap_or_else(|| self.template(random))
    }

    /// The pod of a template, without claims.
    pub(super) fn instance(&self, template: &Template, name: &str) -> Value {
        let mut pod = template.body.clone();
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["namespace"] = template.namespace.into();
        pod["metadata"]["labels"]["pod-name"] = name.into();
        let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default();
        let owner = self.owners.get(&(template.namespace.to_owned(), app.to_owned()));
        if let Some(Owner(owner)) = owner.filter(|_| template.owned) {
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        pod
    }

    /// A pod that must evict others to fit: large, plain and of a class that preempts.
    pub(super) fn preemptor(&self, random: &mut Pcg64Mcg, name: &str) -> (Value, &'static str) {
        let namespace = pick(random, &SPACES).map_or("default", |(name, _)| name);
        let class = pick(random, &PREEMPTING).map_or("", |(name, _)| name);
        let requests = json!({
            "cpu": word(random, &["1500m", "2500m", "3500m", "7500m"]), "memory": word(random, &["256Mi", "4Gi"]),
        });
        let mut spec = json!({
            "terminationGracePeriodSeconds": 0, "priorityClassName": class,
            "containers": [{"name": "main", "image": image(0), "resources": {"requests": requests}}],
        });
        if hit(random, 30) {
            spec["nodeSelector"] = json!({"disk": word(random, &["ssd", "hdd"])});
        }
        if hit(random, 30) {
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        let labels = json!({"app": format!("app-{}", random.random_range(0..APPS)), "tier": "web"});
        if self.features.contains(&Feature::PodAffinity) && hit(random, 20) {
            spec["affinity"]["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
                [{"labelSelector": {"matchLabels": {"tier": "web"}}, "topologyKey": HOST}]});
        }
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec,
        });
        (pod, namespace)
    }

    fn template(&self, random: &mut Pcg64Mcg) -> Template {
        let namespace = pick(random, &SPACES).map_or("default", |(name, _)| name);
        let labels = json!({
            "app": format!("app-{}", random.random_range(0..APPS)), "tier": word(random, &["web", "db", "cache"]),
            "track": word(random, &["stable", "canary"]), "release": word(random, &["one", "two"]),
        });
        let mut template = Template {
            body: json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": containers(random)},
            }),
            namespace,
            disks: Vec::new(),
            features: Vec::new(),
            owned: false,
        };
        let likely = [
            (Feature::NodeAffinity, 25),
            (Feature::Tolerations, 25),
            (Feature::Spread, 30),
            (Feature::PodAffinity, 30),
            (Feature::Ports, 10),
            (Feature::Volumes, 18),
            (Feature::Priorities, 25),
            (Feature::Owners, 40),
            (Feature::Impossible, 8),
        ];
        for (feature, percent) in likely {
            if self.features.contains(&feature) && hit(random, percent) {
                template.features.push(feature);
                self.add(random, &mut template, feature);
            }
        }
        template
    }

    fn add(&self, random: &mut Pcg64Mcg, template: &mut Template, feature: Feature) {
        let spec = &mut template.body["spec"];
        match feature {
            Feature::NodeAffinity => self.node_affinity(random, spec),
            Feature::Tolerations => spec["tolerations"] = tolerations(random),
            Feature::Spread => spec["topologySpreadConstraints"] = terms::spread(random),
            Feature::PodAffinity => terms::pod_affinity(random, spec),
            Feature::Ports => spec["containers"][0]["ports"] = ports(random),
            Feature::Volumes => template.disks = Disk::some(random),
            Feature::Priorities => spec["priorityClassName"] = pick(random, &NEVER).map_or("", |(name, _)| name).into(),
            Feature::Owners => template.owned = true,
            Feature::Impossible => match random.random_range(0..4) {
                0 => spec["containers"][0]["resources"]["requests"]["cpu"] = "500".into(),
                1 => spec["nodeSelector"] = json!({"no-such": "label"}),
                2 => {
                    spec["containers"][0]["resources"] =
                        json!({"requests": {"example.com/nothing": "1"}, "limits": {"example.com/nothing": "1"}})
                }
                _ => {
                    spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchFields":
                        [{"key": "metadata.name", "operator": "In", "values": ["no-such-node"]}]}]}})
                }
            },
        }
    }

    fn node_affinity(&self, random: &mut Pcg64Mcg, spec: &mut Value) {
        if hit(random, 30) {
            spec["nodeSelector"] = json!({"disk": word(random, &["ssd", "hdd"])});
        }
        if hit(random, 50) {
            let mut terms = vec![json!({"matchExpressions": [node_expression(random)]})];
            if hit(random, 40) {
                terms.push(json!({"matchExpressions": [node_expression(random), node_expression(random)]}));
            }
            if hit(random, 15) {
                let name = node_name(random.random_range(0..self.nodes.max(1)));
                let fields = json!([{"key": "metadata.name", "operator": "NotIn", "values": [name]}]);
                terms = vec![json!({"matchFields": fields, "matchExpressions": [node_expression(random)]})];
            }
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        if hit(random, 50) {
            let preferred: Vec<Value> = (0..random.random_range(1..3))
                .map(|_| {
                    json!({
                        "weight": random.random_range(1..100), "preference": {"matchExpressions": [node_expression(random)]},
                    })
                })
                .collect();
            spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.into();
        }
    }
}

fn containers(random: &mut Pcg64Mcg) -> Value {
    let mut requests = match random.random_range(0..100) {
        0..10 => json!({}),
        10..45 => json!({"cpu": "100m", "memory": "128Mi"}),
        45..70 => json!({"cpu": "250m", "memory": "512Mi"}),
        70..85 => json!({"cpu": "700m", "memory": "1Gi"}),
        85..95 => json!({"cpu": "1500m", "memory": "3000Mi"}),
        _ => json!({"cpu": "3", "memory": "6Gi"}),
    };
    if hit(random, 10) {
        requests["ephemeral-storage"] = "2Gi".into();
    }
    let mut main = json!({"name": "main", "image": image(random.random_range(0..IMAGES))});
    if hit(random, 8) {
        requests["example.com/gadget"] = "1".into();
        main["resources"]["limits"] = json!({"example.com/gadget": "1"});
    }
    main["resources"]["requests"] = requests;
    let mut all = vec![main];
    if hit(random, 15) {
        let requests = json!({"cpu": "50m"});
        let number = random.random_range(0..IMAGES);
        all.push(json!({"name": "side", "image": image(number), "resources": {"requests": requests}}));
    }
    all.into()
}

fn node_expression(random: &mut Pcg64Mcg) -> Value {
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    match random.random_range(0..7) {
        0 => expression(ZONE, "In", &["zone-0", "zone-1"]),
        1 => expression(
            ZONE,
            "NotIn",
            &[word(random, &["zone-0", "zone-1", "zone-2", "zone-3"])],
        ),
        2 => json!({"key": ZONE, "operator": "Exists"}),
        3 => json!({"key": "tier", "operator": "In", "values": [word(random, &["gold", "silver", "bronze"])]}),
        4 => expression("cores", "Gt", &["4"]),
        5 => expression("cores", "Lt", &["8"]),
        _ => expression(RACK, "NotIn", &[word(random, &["rack-0", "rack-1", "rack-2"])]),
    }
}

fn tolerations(random: &mut Pcg64Mcg) -> Value {
    match random.random_range(0..5) {
        0 => json!([{"operator": "Exists"}]),
        1 => json!([{"key": "dedicated", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]),
        2 => json!([{"key": "busy", "operator": "Exists", "effect": "PreferNoSchedule"}]),
        3 => json!([{"key": "leaving", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]),
        _ => json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]),
    }
}

fn ports(random: &mut Pcg64Mcg) -> Value {
    let number = random.random_range(8_000..8_004);
    let mut port = json!({"containerPort": number, "hostPort": number, "protocol": word(random, &["TCP", "UDP"])});
    if hit(random, 30) {
        port["hostIP"] = word(random, &["127.0.0.1", "10.0.0.1", "0.0.0.0"]).into();
    }
    json!([port])
}
