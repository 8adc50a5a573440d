//! Label and field selectors: parsed once a request, matched against stored objects.
//!
//! Source: apimachinery `labels/selector.go` and `fields/selector.go` for the grammar.
//!
//! Does not: know how a list or a watch uses the answer.

use serde_json::Value;

use super::kinds::Kind;
use super::object::{Index, Object};
use crate::error::ApiError;
use crate::meta;

/// Most requirements in one selector.
const MAX_REQUIREMENTS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelTest {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

/// A parsed label selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<(String, LabelTest)>,
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.
    ///
    /// # Errors
    /// 400 when the text does not follow that grammar.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            if requirements.len() == MAX_REQUIREMENTS {
                return Err(ApiError::bad_request("label selector has too many requirements"));
            }
            let parsed = parse_label_requirement(part)
                .ok_or_else(|| ApiError::bad_request(format!("unable to parse requirement: {part:?}")))?;
            requirements.push(parsed);
        }
        Ok(Self { requirements })
    }

    /// A selector from a `metav1.LabelSelector` object (matchLabels and matchExpressions).
    ///
    /// `None` when the object is absent: it then selects nothing.
    #[must_use]
    pub fn from_object(selector: Option<&Value>) -> Option<Self> {
        let selector = selector?.as_object()?;
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                requirements.push((
                    key.clone(),
                    LabelTest::In(vec![value.as_str().unwrap_or_default().to_owned()]),
                ));
            }
        }
        for expression in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let key = meta::text(expression, &["key"]).unwrap_or_default().to_owned();
            let values: Vec<String> = expression
                .get("values")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect();
            let test = match meta::text(expression, &["operator"])? {
                "In" => LabelTest::In(values),
                "NotIn" => LabelTest::NotIn(values),
                "Exists" => LabelTest::Exists,
                "DoesNotExist" => LabelTest::Absent,
                _ => return None,
            };
            requirements.push((key, test));
        }
        Some(Self { requirements })
    }

    /// Whether it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's labels match.
    #[must_use]
    pub fn matches(&self, index: &Index) -> bool {
        self.requirements.iter().all(|(key, test)| {
            let value = index.label(key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match test {
                LabelTest::In(values) => value.is_some_and(|value| values.iter().any(|other| other == value)),
                LabelTest::NotIn(values) => value.is_none_or(|value| values.iter().all(|other| other != value)),
                LabelTest::Exists => value.is_some(),
                LabelTest::Absent => value.is_none(),
                LabelTest::Greater(bound) => number().is_some_and(|value| value > *bound),
                LabelTest::Less(bound) => number().is_some_and(|value| value < *bound),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts
}

fn parse_label_requirement(part: &str) -> Option<(String, LabelTest)> {
    let key_ok = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
    };
    if let Some(key) = part.strip_prefix('!') {
        let key = key.trim();
        return key_ok(key).then(|| (key.to_owned(), LabelTest::Absent));
    }
    if let Some(body) = part.strip_suffix(')') {
        let (head, values) = body.split_once('(')?;
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let test = match operator {
            "in" => LabelTest::In(values),
            "notin" => LabelTest::NotIn(values),
            _ => return None,
        };
        return (key_ok(key) && words.next().is_none()).then(|| (key.to_owned(), test));
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let (key, values) = (key.trim(), vec![value.trim().to_owned()]);
            let test = if negated {
                LabelTest::NotIn(values)
            } else {
                LabelTest::In(values)
            };
            return key_ok(key).then(|| (key.to_owned(), test));
        }
    }
    for operator in ['>', '<'] {
        if let Some((key, value)) = part.split_once(operator) {
            let bound = value.trim().parse().ok()?;
            let test = if operator == '>' {
                LabelTest::Greater(bound)
            } else {
                LabelTest::Less(bound)
            };
            return key_ok(key.trim()).then(|| (key.trim().to_owned(), test));
        }
    }
    key_ok(part).then(|| (part.to_owned(), LabelTest::Exists))
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTest {
    /// The path as the client wrote it, split at dots, in storage form.
    path: Vec<String>,
    value: String,
    negated: bool,
}

/// A parsed field selector; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    tests: Vec<FieldTest>,
}

impl FieldSelector {
    /// Parses `path=value,path!=value` for a kind.
    ///
    /// # Errors
    /// 400 when the text is malformed or names a field that the kind does not offer to selectors.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, ApiError> {
        let mut tests = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            if tests.len() == MAX_REQUIREMENTS {
                return Err(ApiError::bad_request("field selector has too many requirements"));
            }
            let found = [("!=", true), ("==", false), ("=", false)]
                .into_iter()
                .find_map(|(operator, negated)| Some((part.split_once(operator)?, negated)));
            let Some(((path, value), negated)) = found else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{part}'; can't understand '{part}'"
                )));
            };
            let path = kind
                .selectable_field(path.trim())
                .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {}", path.trim())))?;
            let path = path.split('.').map(str::to_owned).collect();
            tests.push(FieldTest {
                path,
                value: value.trim().to_owned(),
                negated,
            });
        }
        Ok(Self { tests })
    }

    /// Whether it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The name that `metadata.name=` asks for, if it does: a list then needs no scan.
    #[must_use]
    pub fn exact_name(&self) -> Option<&str> {
        self.tests
            .iter()
            .find(|test| !test.negated && test.path.iter().map(String::as_str).eq(["metadata", "name"]))
            .map(|test| test.value.as_str())
    }

    /// Whether an object matches. Indexed fields cost nothing; others parse the object once.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        let mut parsed: Option<Value> = None;
        self.tests.iter().all(|test| {
            let path: Vec<&str> = test.path.iter().map(String::as_str).collect();
            let equal = match path.as_slice() {
                ["metadata", "name"] => object.name() == test.value,
                ["metadata", "namespace"] => object.namespace() == test.value,
                ["spec", "nodeName"] => *object.index.node_name == *test.value,
                ["spec", "schedulerName"] => *object.index.scheduler_name == *test.value,
                ["status", "phase"] => object.index.phase == test.value,
                other => field_text(parsed.get_or_insert_with(|| object.value()), other) == test.value,
            };
            equal != test.negated
        })
    }
}

fn field_text(object: &Value, path: &[&str]) -> String {
    match meta::get(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        // Absent booleans and counts compare as their zero value.
        _ => match path.last() {
            Some(&("unschedulable" | "hostNetwork")) => "false".to_owned(),
            Some(&("replicas" | "successful")) => "0".to_owned(),
            _ => String::new(),
        },
    }
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    /// Labels.
    pub labels: LabelSelector,
    /// Fields.
    pub fields: FieldSelector,
}

impl Selectors {
    /// Whether both match everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object matches both.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(&object.index) && self.fields.matches(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(labels: &[(&str, &str)]) -> Index {
        Index {
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..Index::default()
        }
    }

    #[test]
    fn label_selectors_follow_the_grammar() {
        let labels = index(&[("app", "web"), ("n", "7"), ("tier", "front")]);
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (db, web)", true),
            ("app notin (db)", true),
            ("missing notin (db)", true),
            ("app,!missing", true),
            ("!app", false),
            ("n>6,n<8", true),
            ("n>7", false),
            ("app in (db),n=7", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for text in ["a b", "in (x)", "a in x", "=b", "a>x", "a(b)"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn label_selector_objects_select_nothing_when_absent() {
        assert!(LabelSelector::from_object(None).is_none());
        let selector = serde_json::json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
        assert!(
            LabelSelector::from_object(Some(&selector))
                .unwrap()
                .matches(&index(&[("app", "web")]))
        );
    }
}
