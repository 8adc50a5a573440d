//! Differences between what was recorded and what came out, one line each.

use serde::Serialize;
use serde_json::Value;

/// A member that is absent.
const ABSENT: &str = "(absent)";

/// Every leaf in which both differ: its path, the recorded value, ours.
pub(crate) fn differences<T: Serialize>(path: &str, expected: &T, actual: &T) -> Vec<String> {
    let mut found = Vec::new();
    match (serde_json::to_value(expected), serde_json::to_value(actual)) {
        (Ok(expected), Ok(actual)) => compare(path, Some(&expected), Some(&actual), &mut found),
        (expected, actual) => {
            let errors = [expected.err(), actual.err()].into_iter().flatten();
            found.extend(errors.map(|error| format!("{path}: {error}")));
        }
    }
    found
}

fn compare(path: &str, expected: Option<&Value>, actual: Option<&Value>, found: &mut Vec<String>) {
    if expected == actual {
        return;
    }
    if let (Some(Value::Object(expected)), Some(Value::Object(actual))) = (expected, actual)
        && !expected.contains_key("code")
    {
        let mut names: Vec<&String> = expected.keys().chain(actual.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let inner = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            compare(&inner, expected.get(name), actual.get(name), found);
        }
        return;
    }
    let text = |value: Option<&Value>| value.map_or_else(|| ABSENT.to_owned(), Value::to_string);
    found.push(format!(
        "{path}\n      kube-scheduler {}\n      supercargo     {}",
        text(expected),
        text(actual)
    ));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let expected = json!({"a": {"x": 1, "y": 2}, "b": [1], "v": {"code": "Success"}});
        assert!(differences("", &expected, &expected).is_empty());
        let actual = json!({"a": {"x": 1, "y": 3}, "c": 0, "v": {"code": "Skip"}});
        let found = differences("step", &expected, &actual);
        let paths: Vec<_> = found.iter().map(|line| line.lines().next().unwrap()).collect();
        assert_eq!(paths, ["step.a.y", "step.b", "step.c", "step.v"]);
        assert!(found[1].ends_with("supercargo     (absent)"));
    }
}
