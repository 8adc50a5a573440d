//! Compiled node selectors.
//!
//! Source: `staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity` and
//! `staging/src/k8s.io/apimachinery/pkg/labels/selector.go`, Kubernetes 1.36.

use crate::cluster::Labels;
use crate::ids::Symbol;

/// Why a selector's requirement cannot be used.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub Box<str>);

/// What a requirement asks of a key's value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RequirementOp {
    /// Present, and one of these.
    In(Box<[Symbol]>),
    /// Absent, or none of these.
    NotIn(Box<[Symbol]>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, a whole number, and greater.
    Gt(i64),
    /// Present, a whole number, and less.
    Lt(i64),
}

/// One requirement on labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Requirement {
    /// The label's key.
    pub key: Symbol,
    /// What is asked of it.
    pub op: RequirementOp,
}

impl Requirement {
    /// Checks and compiles one requirement as the API writes it.
    ///
    /// # Errors
    /// The operator is unknown, the number of values does not suit it, or a key or value is no label key or value.
    pub fn compile<S: AsRef<str>>(key: &str, operator: &str, values: &[S]) -> Result<Self, SelectorError> {
        let count = |fits: bool, what: &str| if fits { Ok(()) } else { Err(SelectorError(what.into())) };
        let symbols = || values.iter().map(|v| Symbol::new(v.as_ref())).collect::<Box<[_]>>();
        check_key(key)?;
        let op = match operator {
            "In" | "NotIn" => {
                count(
                    !values.is_empty(),
                    "for 'in', 'notin' operators, values set can't be empty",
                )?;
                if operator == "In" {
                    RequirementOp::In(symbols())
                } else {
                    RequirementOp::NotIn(symbols())
                }
            }
            "Exists" | "DoesNotExist" => {
                count(
                    values.is_empty(),
                    "values set must be empty for exists and does not exist",
                )?;
                if operator == "Exists" {
                    RequirementOp::Exists
                } else {
                    RequirementOp::DoesNotExist
                }
            }
            "Gt" | "Lt" => {
                let number = match values {
                    [one] => one.as_ref().parse::<i64>().ok(),
                    _ => None,
                };
                count(
                    values.len() == 1,
                    "for 'Gt', 'Lt' operators, exactly one value is required",
                )?;
                let Some(number) = number else {
                    return Err(SelectorError(
                        "for 'Gt', 'Lt' operators, the value must be an integer".into(),
                    ));
                };
                if operator == "Gt" {
                    RequirementOp::Gt(number)
                } else {
                    RequirementOp::Lt(number)
                }
            }
            other => {
                return Err(SelectorError(
                    format!("{other:?} is not a valid label selector operator").into(),
                ));
            }
        };
        for value in values {
            check_value(key, value.as_ref())?;
        }
        Ok(Self {
            key: Symbol::new(key),
            op,
        })
    }

    /// Whether `labels` satisfy it.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(self.key))
    }

    fn matches_value(&self, value: Option<Symbol>) -> bool {
        let number = || value.and_then(|v| v.as_str().parse::<i64>().ok());
        match &self.op {
            RequirementOp::In(values) => value.is_some_and(|v| values.contains(&v)),
            RequirementOp::NotIn(values) => value.is_none_or(|v| !values.contains(&v)),
            RequirementOp::Exists => value.is_some(),
            RequirementOp::DoesNotExist => value.is_none(),
            RequirementOp::Gt(than) => number().is_some_and(|n| n > *than),
            RequirementOp::Lt(than) => number().is_some_and(|n| n < *than),
        }
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|p| {
        !p.is_empty()
            && p.len() <= 253
            && p.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                    && !part.starts_with('-')
                    && !part.ends_with('-')
            })
    });
    if prefix_fits && !name.is_empty() && is_label_text(name) {
        Ok(())
    } else {
        Err(SelectorError(
            format!("key: Invalid value: {key:?}: is no label key").into(),
        ))
    }
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_label_text(value) {
        Ok(())
    } else {
        Err(SelectorError(
            format!("values[0][{key}]: Invalid value: {value:?}: is no label value").into(),
        ))
    }
}

fn is_label_text(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
}

/// A requirement on `metadata.name`: the only field that nodes offer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FieldRequirement {
    /// False for any other field, which compares as the empty text.
    is_name: bool,
    value: Symbol,
    equal: bool,
}

/// One term of a node selector: all of its requirements must hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeSelectorTerm {
    requirements: Result<TermRequirements, SelectorError>,
    names: Option<Box<[Symbol]>>,
    empty: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TermRequirements {
    expressions: Box<[Requirement]>,
    fields: Box<[FieldRequirement]>,
}

/// One requirement as the API writes it: key, operator, values.
pub type RawRequirement<'a> = (&'a str, &'a str, Vec<&'a str>);

impl NodeSelectorTerm {
    /// Compiles a term. A requirement that is wrong makes the term match nothing; [`Self::error`] tells it.
    #[must_use]
    pub fn compile(expressions: &[RawRequirement<'_>], fields: &[RawRequirement<'_>]) -> Self {
        let requirements = (|| {
            let expressions = expressions
                .iter()
                .map(|(key, op, values)| Requirement::compile(key, op, values))
                .collect::<Result<_, _>>()?;
            let fields = fields.iter().map(compile_field).collect::<Result<_, _>>()?;
            Ok(TermRequirements { expressions, fields })
        })();
        Self {
            requirements,
            names: named_nodes(fields),
            empty: expressions.is_empty() && fields.is_empty(),
        }
    }

    /// Whether the term has no requirement at all: it then matches nothing and constrains nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.empty
    }

    /// What is wrong with it, if something is.
    #[must_use]
    pub fn error(&self) -> Option<&SelectorError> {
        self.requirements.as_ref().err()
    }

    /// The node names to which its `metadata.name In` requirements narrow it; `None`: it has none of them.
    #[must_use]
    pub fn names(&self) -> Option<&[Symbol]> {
        self.names.as_deref()
    }

    /// The values of its first `In` requirement on the label `key`: only nodes with one of them can satisfy it. `None`:
    /// it has no such requirement. A term that matches nothing narrows to no value.
    #[must_use]
    pub fn values_in(&self, key: Symbol) -> Option<&[Symbol]> {
        let Ok(requirements) = &self.requirements else {
            return Some(&[]);
        };
        if self.empty {
            return Some(&[]);
        }
        let mut expressions = requirements.expressions.iter();
        expressions.find_map(|requirement| match &requirement.op {
            RequirementOp::In(values) if requirement.key == key => Some(&**values),
            _ => None,
        })
    }

    /// Whether the node called `name` with `labels` satisfies it.
    #[must_use]
    pub fn matches(&self, name: Symbol, labels: &Labels) -> bool {
        let Ok(requirements) = &self.requirements else {
            return false;
        };
        let field = |f: &FieldRequirement| {
            let is = if f.is_name {
                f.value == name
            } else {
                f.value.as_str().is_empty()
            };
            is == f.equal
        };
        !self.empty
            && requirements.fields.iter().all(field)
            && requirements
                .expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

fn compile_field((key, operator, values): &RawRequirement<'_>) -> Result<FieldRequirement, SelectorError> {
    let equal = match *operator {
        "In" => true,
        "NotIn" => false,
        other => {
            return Err(SelectorError(
                format!("{other:?} is not a valid node field selector operator").into(),
            ));
        }
    };
    let [value] = values.as_slice() else {
        return Err(SelectorError("a node field selector takes exactly one value".into()));
    };
    Ok(FieldRequirement {
        is_name: *key == "metadata.name",
        value: Symbol::new(value),
        equal,
    })
}

/// Intersection of the values of all `metadata.name In` requirements, valid or not.
fn named_nodes(fields: &[RawRequirement<'_>]) -> Option<Box<[Symbol]>> {
    let mut names: Option<Vec<Symbol>> = None;
    for (_, _, values) in fields
        .iter()
        .filter(|(key, op, _)| *key == "metadata.name" && *op == "In")
    {
        let these: Vec<Symbol> = values.iter().map(|v| Symbol::new(v)).collect();
        names = Some(match names {
            None => these,
            Some(before) => before.into_iter().filter(|name| these.contains(name)).collect(),
        });
    }
    names.map(Into::into)
}

/// A preferred term and its weight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PreferredTerm {
    /// 1 to 100.
    pub weight: i32,
    /// What is preferred.
    pub term: NodeSelectorTerm,
}
