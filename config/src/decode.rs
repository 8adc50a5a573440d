//! From tree to wire types: strict, and every error at once.
//!
//! A decoder never stops at an error: it notes it and gives `None` for the field, so that one run shows all of them.
//!
//! Does not: default or check values.

use crate::duration::GoDuration;
use crate::error::{FieldError, FieldErrorKind};
use crate::tree::{Entry, Node, Scalar, Value};

/// Collects errors with their lines.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) list: Vec<FieldError>,
}

impl Errors {
    pub(crate) fn push(&mut self, error: FieldError) {
        self.list.push(error);
    }

    fn at(&mut self, line: u32, path: &str, kind: FieldErrorKind) {
        let line = (line > 0).then_some(line);
        self.list.push(FieldError {
            path: path.to_owned(),
            line,
            kind,
        });
    }

    fn wrong_type(&mut self, node: &Node, path: &str, expected: &'static str) {
        self.at(
            node.line,
            path,
            FieldErrorKind::Type {
                expected,
                got: node.describe(),
            },
        );
    }
}

/// A type that can be read from a node. Null has been dealt with by the caller: it counts as absent.
pub(crate) trait Decode: Sized {
    /// Reads, or notes what is wrong.
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self>;
}

/// Path of a field below another path.
pub(crate) fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Path of an item of a list.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

impl Decode for bool {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        if let Some(Scalar::Bool(value)) = node.scalar() {
            return Some(value);
        }
        errors.wrong_type(node, path, "a boolean (true or false)");
        None
    }
}

impl Decode for String {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        if let Some(Scalar::Text(text)) = node.scalar() {
            return Some(text.to_owned());
        }
        errors.wrong_type(node, path, "a string (put it in quotes)");
        None
    }
}

/// An integer; floats without a fraction count, as they do after kube-scheduler's YAML to JSON step.
fn integer(node: &Node) -> Option<i128> {
    match node.scalar() {
        Some(Scalar::Int(value)) => Some(value),
        #[expect(clippy::cast_possible_truncation, reason = "the value is whole and below 2^53")]
        Some(Scalar::Float(value)) if value.fract() == 0.0 && value.abs() < 9e15 => Some(value as i128),
        _ => None,
    }
}

macro_rules! decode_integer {
    ($($number:ty => $name:literal),*) => { $(
        impl Decode for $number {
            fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
                let Some(value) = integer(node) else {
                    errors.wrong_type(node, path, "an integer");
                    return None;
                };
                let converted = <$number>::try_from(value).ok();
                if converted.is_none() {
                    let detail = format!("does not fit into {}", $name);
                    let kind = FieldErrorKind::Invalid { value: value.to_string(), detail };
                    errors.at(node.line, path, kind);
                }
                converted
            }
        }
    )* };
}
decode_integer!(i32 => "32 bits", i64 => "64 bits", u64 => "64 bits without sign");

impl Decode for f64 {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        let value = match node.scalar() {
            Some(Scalar::Float(value)) => Some(value),
            Some(Scalar::Int(value)) => value.to_string().parse().ok(),
            _ => None,
        };
        if value.is_none() {
            errors.wrong_type(node, path, "a number");
        }
        value
    }
}

impl Decode for GoDuration {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        let Some(Scalar::Text(text)) = node.scalar() else {
            errors.wrong_type(node, path, "a duration string such as 15s or 1m30s");
            return None;
        };
        match Self::parse(text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                let kind = FieldErrorKind::Invalid {
                    value: format!("{text:?}"),
                    detail: error.to_string(),
                };
                errors.at(node.line, path, kind);
                None
            }
        }
    }
}

/// A JSON value without a type of its own.
impl Decode for serde_json::Value {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        duplicates(node, path, errors);
        Some(node.to_json())
    }
}

/// A node kept for later, when its type is known.
impl Decode for Node {
    fn decode(node: &Node, _: &str, _: &mut Errors) -> Option<Self> {
        Some(node.clone())
    }
}

impl<T: Decode + Default> Decode for Vec<T> {
    fn decode(node: &Node, path: &str, errors: &mut Errors) -> Option<Self> {
        let Value::List(items) = &node.value else {
            errors.wrong_type(node, path, "a list");
            return None;
        };
        let mut values = Self::with_capacity(items.len());
        for (index, node) in items.iter().enumerate() {
            // A null or broken item keeps its place, so that paths of later items stay right.
            let value = if node.is_null() {
                None
            } else {
                T::decode(node, &item(path, index), errors)
            };
            values.push(value.unwrap_or_default());
        }
        Some(values)
    }
}

/// Notes keys that repeat anywhere below.
fn duplicates(node: &Node, path: &str, errors: &mut Errors) {
    match &node.value {
        Value::Scalar { .. } => {}
        Value::List(items) => {
            for (index, node) in items.iter().enumerate() {
                duplicates(node, &item(path, index), errors);
            }
        }
        Value::Map(entries) => {
            repeated_keys(entries, path, errors);
            for entry in entries {
                duplicates(&entry.node, &child(path, &entry.key), errors);
            }
        }
    }
}

fn repeated_keys(entries: &[Entry], path: &str, errors: &mut Errors) {
    for (index, entry) in entries.iter().enumerate() {
        let first = entries.iter().take(index).find(|earlier| earlier.key == entry.key);
        if let Some(first) = first {
            let kind = FieldErrorKind::DuplicateKey { first_line: first.line };
            errors.at(entry.line, &child(path, &entry.key), kind);
        }
    }
}

/// Checks that a node is a mapping with known keys only, each once. `None` when it is no mapping.
pub(crate) fn check_fields(node: &Node, path: &str, known: &[&str], errors: &mut Errors) -> Option<()> {
    let Value::Map(entries) = &node.value else {
        errors.wrong_type(node, path, "a mapping");
        return None;
    };
    repeated_keys(entries, path, errors);
    for entry in entries {
        if !known.contains(&entry.key.as_str()) {
            let kind = FieldErrorKind::UnknownField {
                hint: hint(&entry.key, known),
            };
            errors.at(entry.line, &child(path, &entry.key), kind);
        }
    }
    Some(())
}

/// The value of one field, or `None` when it is absent, null or wrong (noted).
pub(crate) fn field<T: Decode>(node: &Node, path: &str, key: &str, errors: &mut Errors) -> Option<T> {
    let entry = node.get(key)?;
    if entry.node.is_null() {
        return None;
    }
    T::decode(&entry.node, &child(path, key), errors)
}

/// What an unknown key may have meant, or what there is.
pub(crate) fn hint(key: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|name| (distance(&key.to_lowercase(), &name.to_lowercase()), name))
        .min();
    match nearest {
        Some((distance, name)) if distance <= 2.max(name.len() / 4) => format!("; did you mean {name:?}?"),
        _ if known.is_empty() => String::new(),
        _ => format!("; known here: {}", known.join(", ")),
    }
}

/// Levenshtein distance of two short texts, in characters. O(a × b).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(100).enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        if let Some(first) = row.first_mut() {
            *first = previous;
        }
        for (right, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = *cell;
            previous = substituted.min(diagonal + 1).min(previous + 1);
            *cell = previous;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Declares a wire type: a struct of optional fields with its strict decoder.
macro_rules! wire {
    ($(#[$meta:meta])* $name:ident { $($field:ident : $kind:ty = $key:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(crate) struct $name {
            $(pub(crate) $field: Option<$kind>,)*
        }

        impl $crate::decode::Decode for $name {
            fn decode(node: &$crate::tree::Node, path: &str, errors: &mut $crate::decode::Errors) -> Option<Self> {
                $crate::decode::check_fields(node, path, &[$($key),*], errors)?;
                Some(Self { $($field: $crate::decode::field(node, path, $key, errors),)* })
            }
        }
    };
}
pub(crate) use wire;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_nearest_field() {
        let known = ["name", "weight", "percentageOfNodesToScore"];
        assert_eq!(hint("Weight", &known), "; did you mean \"weight\"?");
        assert_eq!(
            hint("percentageOfNodesToScores", &known),
            "; did you mean \"percentageOfNodesToScore\"?"
        );
        assert_eq!(
            hint("colour", &known),
            "; known here: name, weight, percentageOfNodesToScore"
        );
        assert_eq!(
            (distance("kitten", "sitting"), distance("", "ab"), distance("ab", "")),
            (3, 2, 2)
        );
    }
}
