//! Pods with rules, and whether a decision keeps them, told from the rules' meaning alone.

use crate::testing::{PodBuilder, pod};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Pods with this label value.
#[derive(Clone, Debug)]
struct Those {
    label: String,
    value: String,
}

/// A topology key and the pods that it is about.
#[derive(Clone, Debug)]
struct Rule {
    key: &'static str,
    pods: Those,
}

/// A pod as a test wants it.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) name: String,
    labels: Vec<(String, String)>,
    apart: Vec<Rule>,
    near: Vec<Rule>,
    spread: Vec<(usize, Rule)>,
    host: Option<&'static str>,
}

pub(super) fn want(name: &str) -> Want {
    Want {
        name: name.to_owned(),
        labels: Vec::new(),
        apart: Vec::new(),
        near: Vec::new(),
        spread: Vec::new(),
        host: None,
    }
}

fn rule(key: &'static str, label: &str, value: &str) -> Rule {
    let (label, value) = (label.to_owned(), value.to_owned());
    Rule {
        key,
        pods: Those { label, value },
    }
}

impl Want {
    pub(super) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Required anti-affinity.
    pub(super) fn apart(mut self, key: &'static str, label: &str, value: &str) -> Self {
        self.apart.push(rule(key, label, value));
        self
    }

    /// Required affinity.
    pub(super) fn near(mut self, key: &'static str, label: &str, value: &str) -> Self {
        self.near.push(rule(key, label, value));
        self
    }

    /// Spreading with `DoNotSchedule`.
    pub(super) fn spread(mut self, skew: usize, key: &'static str, label: &str, value: &str) -> Self {
        self.spread.push((skew, rule(key, label, value)));
        self
    }

    pub(super) const fn only_on(mut self, host: &'static str) -> Self {
        self.host = Some(host);
        self
    }

    pub(super) fn build(&self) -> PodBuilder {
        let mut built = pod(&self.name);
        for (key, value) in &self.labels {
            built = built.label(key, value);
        }
        for Rule { key, pods } in &self.apart {
            built = built.anti_affinity(key, &[(&pods.label, &pods.value)]);
        }
        for Rule { key, pods } in &self.near {
            built = built.pod_affinity(key, &[(&pods.label, &pods.value)]);
        }
        for (skew, Rule { key, pods }) in &self.spread {
            let skew = i32::try_from(*skew).unwrap();
            built = built.spread(skew, key, "DoNotSchedule", &[(&pods.label, &pods.value)]);
        }
        self.host
            .into_iter()
            .fold(built, |built, host| built.node_selector(HOST, host))
    }

    fn is_of(&self, those: &Those) -> bool {
        self.labels
            .iter()
            .any(|(key, value)| *key == those.label && *value == those.value)
    }
}

/// The shape of the cluster: node `n` is in zone `n % zones`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) zones: usize,
    pub(super) nodes: usize,
}

impl Shape {
    fn domain(self, key: &str, node: usize) -> usize {
        if key == ZONE { node % self.zones } else { node }
    }

    fn domains(self, key: &str) -> usize {
        if key == ZONE {
            self.zones.min(self.nodes)
        } else {
            self.nodes
        }
    }

    /// What keeps `pod` off `node` while `placed` are where they are.
    pub(super) fn objection(self, pod: &Want, node: usize, placed: &[(&Want, usize)]) -> Option<String> {
        let together = |key: &str, other: usize| self.domain(key, node) == self.domain(key, other);
        for (other, at) in placed {
            let shunned = pod
                .apart
                .iter()
                .any(|rule| other.is_of(&rule.pods) && together(rule.key, *at));
            let shuns = other
                .apart
                .iter()
                .any(|rule| pod.is_of(&rule.pods) && together(rule.key, *at));
            if shunned || shuns {
                return Some(format!("{} is too near on n{at}", other.name));
            }
        }
        let friends: Vec<_> = placed
            .iter()
            .filter(|(other, _)| pod.near.iter().all(|rule| other.is_of(&rule.pods)))
            .collect();
        let is_near = |rule: &Rule| friends.iter().any(|(_, at)| together(rule.key, *at));
        let starts_group = friends.is_empty() && pod.near.iter().all(|rule| pod.is_of(&rule.pods));
        if !pod.near.iter().all(is_near) && !starts_group {
            return Some("none of its friends is near".to_owned());
        }
        for (skew, rule) in &pod.spread {
            let mut counts = vec![0_usize; self.domains(rule.key)];
            for (_, at) in placed.iter().filter(|(other, _)| other.is_of(&rule.pods)) {
                counts[self.domain(rule.key, *at)] += 1;
            }
            let least = counts.iter().min().copied().unwrap_or(0);
            let here = counts[self.domain(rule.key, node)] + usize::from(pod.is_of(&rule.pods));
            if here - least > *skew {
                return Some(format!("{here} here and {least} elsewhere by {}", rule.key));
            }
        }
        None
    }
}
