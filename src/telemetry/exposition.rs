//! What the page leaves out: disabled metrics, and label values beyond those that are allowed.
//!
//! Source: `component-base/metrics/opts.go` (`MetricLabelAllowList`) and `component-base/metrics/options.go`, Kubernetes
//! 1.36. Names are those on the page: a counter's ends with `_total`.
//!
//! Does not: cost anything while values are recorded; only a scrape looks here.

use super::encode::Labels;

/// What stands for every value that is not allowed.
const UNEXPECTED: &str = "unexpected";

/// The values of one label that are shown as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedValues {
    /// The metric's name.
    pub metric: String,
    /// The label's name.
    pub label: String,
    /// Its allowed values; all others are shown as `unexpected`.
    pub values: Vec<String>,
}

/// What is shown of the metrics; by default everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposition {
    /// Names of metrics that are left out.
    pub disabled: Vec<String>,
    /// Labels with allowed values. Of two entries for a label the first counts.
    pub allowed: Vec<AllowedValues>,
}

impl Exposition {
    /// Whether a metric is left out.
    pub(super) fn hides(&self, metric: &str) -> bool {
        self.disabled.iter().any(|name| name == metric)
    }

    /// Replaces values that are not allowed and adds up the samples that become one.
    pub(super) fn constrain<'a, V>(
        &self,
        metric: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, V)>,
        add: impl Fn(&mut V, V),
    ) -> Vec<(Labels<'a>, V)> {
        let rules: Vec<&AllowedValues> = self.allowed.iter().filter(|rule| rule.metric == metric).collect();
        let mut shown: Vec<(Labels<'a>, V)> = Vec::new();
        for (mut labels, value) in samples {
            labels.sort_unstable();
            for (name, text) in &mut labels {
                let rule = rules.iter().find(|rule| rule.label == *name);
                if rule.is_some_and(|rule| !rule.values.iter().any(|allowed| allowed == text)) {
                    *text = UNEXPECTED;
                }
            }
            let same = shown
                .iter_mut()
                .find(|(other, _)| !rules.is_empty() && *other == labels);
            match same {
                Some((_, sum)) => add(sum, value),
                None => shown.push((labels, value)),
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_allowed_become_one() {
        let exposition = Exposition {
            disabled: vec!["a_total".to_owned()],
            allowed: vec![AllowedValues {
                metric: "m".to_owned(),
                label: "color".to_owned(),
                values: vec!["red".to_owned()],
            }],
        };
        assert!(exposition.hides("a_total") && !exposition.hides("a"));
        let samples = || {
            [("red", 1), ("green", 2), ("blue", 4)].map(|(color, value)| (vec![("size", "s"), ("color", color)], value))
        };
        assert_eq!(
            exposition.constrain("m", samples(), |sum, value| *sum += value),
            [
                (vec![("color", "red"), ("size", "s")], 1),
                (vec![("color", "unexpected"), ("size", "s")], 6),
            ]
        );
        assert_eq!(
            exposition
                .constrain("other", samples(), |sum, value| *sum += value)
                .len(),
            3
        );
    }
}
