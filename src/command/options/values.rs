//! Values as Go's flag library spells them, with every error kept.

use std::time::Duration;

use supercargo_config::duration::GoDuration;
use supercargo_config::gates::GateError;

/// Go's `strconv.ParseBool`.
pub(super) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The texts of gate errors, each with its flag.
pub(super) fn gates(errors: &[GateError]) -> Vec<String> {
    errors.iter().map(|error| format!("--feature-gates: {error}")).collect()
}

/// Reads values and keeps what is wrong and what is worth a warning.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Reader {
    /// Notes that a flag's value cannot be taken.
    pub(super) fn refuse(&mut self, flag: &str, value: &str, detail: &str) {
        self.errors.push(format!("{flag}: invalid value {value:?}: {detail}"));
    }

    /// Notes something that is accepted but may surprise.
    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// A boolean, if given and right.
    pub(super) fn bool(&mut self, flag: &str, value: Option<&String>) -> Option<bool> {
        let text = value?;
        let parsed = go_bool(text);
        if parsed.is_none() {
            self.refuse(flag, text, "should be true or false");
        }
        parsed
    }

    /// A duration as Go writes it, if given and right.
    pub(super) fn go_duration(&mut self, flag: &str, value: Option<&String>) -> Option<GoDuration> {
        let text = value?;
        match GoDuration::parse(text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.refuse(flag, text, &error.to_string());
                None
            }
        }
    }

    /// A duration that is not negative, or the default.
    pub(super) fn duration(&mut self, flag: &str, value: Option<&String>, default: Duration) -> Duration {
        let Some(duration) = self.go_duration(flag, value) else {
            return default;
        };
        duration.to_std().unwrap_or_else(|| {
            self.refuse(flag, &duration.to_string(), "must not be negative");
            default
        })
    }

    /// A value by its `FromStr`, if given and right; `expected` says what would be right.
    pub(super) fn parsed<T: std::str::FromStr>(
        &mut self,
        flag: &str,
        value: Option<&String>,
        expected: &str,
    ) -> Option<T> {
        let text = value?;
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.refuse(flag, text, expected);
        }
        parsed
    }
}

/// The items of a repeatable flag whose values are separated by commas; empty ones are left out.
pub(super) fn list(values: &[String]) -> Vec<String> {
    let items = values.iter().flat_map(|value| value.split(','));
    items
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// As [`list`], with a default when the flag is not given. Given empty (`--flag=`), the list is empty.
pub(super) fn list_or(values: &[String], default: &[&str]) -> Vec<String> {
    match values {
        [] => default.iter().map(|item| (*item).to_owned()).collect(),
        given => list(given),
    }
}

/// A text, unless it is empty or not given.
pub(super) fn text(value: Option<&String>) -> Option<String> {
    value.filter(|text| !text.is_empty()).cloned()
}
