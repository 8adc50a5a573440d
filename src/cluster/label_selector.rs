//! Compiled label selectors: `matchLabels` and `matchExpressions` together.
//!
//! Source: `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go` (`LabelSelectorAsSelector`), Kubernetes 1.36.

use crate::cluster::{Labels, RawRequirement, Requirement, RequirementOp, SelectorError};
use crate::ids::Symbol;

/// A label selector. Absent and empty differ: absent matches nothing, empty matches everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LabelSelector {
    /// Matches nothing: it was absent.
    Nothing,
    /// All of these must hold; none: matches everything.
    All(Box<[Requirement]>),
}

impl LabelSelector {
    /// Compiles a selector that is present.
    ///
    /// # Errors
    /// The first requirement that is wrong.
    pub fn compile(labels: &[(&str, &str)], expressions: &[RawRequirement<'_>]) -> Result<Self, SelectorError> {
        let of_labels = labels
            .iter()
            .map(|(key, value)| Requirement::compile(key, "In", &[value]));
        let of_expressions = expressions.iter().map(|(key, operator, values)| match *operator {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => Requirement::compile(key, operator, values),
            other => Err(SelectorError(
                format!("{other:?} is not a valid label selector operator").into(),
            )),
        });
        of_labels.chain(of_expressions).collect::<Result<_, _>>().map(Self::All)
    }

    /// Whether it was present and has no requirement, so that it matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// The label keys that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = Symbol> {
        let requirements: &[Requirement] = match self {
            Self::Nothing => &[],
            Self::All(requirements) => requirements,
        };
        requirements.iter().map(|requirement| requirement.key)
    }

    /// The key and the values of its first `In` requirement: only labels with one of them can satisfy it. `None`: it has
    /// no such requirement.
    #[must_use]
    pub fn values_in(&self) -> Option<(Symbol, &[Symbol])> {
        let Self::All(requirements) = self else { return None };
        requirements.iter().find_map(|requirement| match &requirement.op {
            RequirementOp::In(values) => Some((requirement.key, &**values)),
            _ => None,
        })
    }

    /// Whether `labels` satisfy it.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    #[test]
    fn absent_matches_nothing_and_empty_everything() {
        let empty = LabelSelector::compile(&[], &[]).unwrap();
        assert!(empty.is_everything() && empty.matches(&labels(&[])));
        assert!(!LabelSelector::Nothing.matches(&labels(&[])) && !LabelSelector::Nothing.is_everything());
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let selector = LabelSelector::compile(
            &[("app", "a")],
            &[("tier", "NotIn", vec!["x"]), ("on", "Exists", vec![])],
        )
        .unwrap();
        assert!(selector.matches(&labels(&[("app", "a"), ("on", "")])));
        assert!(!selector.matches(&labels(&[("app", "a")])));
        assert!(!selector.matches(&labels(&[("app", "a"), ("on", ""), ("tier", "x")])));
    }

    #[test]
    fn wrong_requirements_are_refused() {
        assert!(LabelSelector::compile(&[], &[("a", "Gt", vec!["1"])]).is_err());
        assert!(LabelSelector::compile(&[("a b", "x")], &[]).is_err());
        assert!(LabelSelector::compile(&[], &[("a", "In", vec![])]).is_err());
    }
}
