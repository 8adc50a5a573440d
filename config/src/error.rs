//! What was wrong in a configuration, and where.
//!
//! The wording of kinds follows `apimachinery/pkg/util/validation/field`; lines and hints are ours.

use std::fmt;

/// One error of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path of the field, such as `profiles[0].plugins.score.enabled[1].name`; empty for the whole document.
    pub path: String,
    /// Line of the field or of its nearest parent in the file, from 1; `None` without a file.
    pub line: Option<u32>,
    /// What is wrong.
    pub kind: FieldErrorKind,
}

/// Kinds of errors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FieldErrorKind {
    /// The text is not YAML.
    #[error("{0}")]
    Syntax(String),
    /// A field that does not exist.
    #[error("unknown field{hint}")]
    UnknownField {
        /// Which fields exist, with its punctuation.
        hint: String,
    },
    /// A key that stands twice in one mapping.
    #[error("duplicate key, first given on line {first_line}")]
    DuplicateKey {
        /// Line of the first one.
        first_line: u32,
    },
    /// A value of another type.
    #[error("Invalid type: expected {expected}, got {got}")]
    Type {
        /// What is read here.
        expected: &'static str,
        /// What stands there.
        got: String,
    },
    /// A value is missing.
    #[error("Required value{}", with_colon(.0))]
    Required(String),
    /// A value is not allowed.
    #[error("Invalid value: {value}: {detail}")]
    Invalid {
        /// The value as written.
        value: String,
        /// Why, and what would be right.
        detail: String,
    },
    /// A value that has to be unique is not.
    #[error("Duplicate value: {value}{}", with_colon(.detail))]
    Duplicate {
        /// The value.
        value: String,
        /// What it collides with; may be empty.
        detail: String,
    },
    /// A value is none of a fixed set.
    #[error("Unsupported value: {value}: supported values: {supported}")]
    NotSupported {
        /// The value.
        value: String,
        /// The set, quoted.
        supported: String,
    },
    /// A field that may not be set here.
    #[error("Forbidden: {0}")]
    Forbidden(String),
}

/// A detail after a colon, or nothing.
fn with_colon(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(": {detail}")
    }
}

impl FieldError {
    /// `Required value`.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required(detail.into()))
    }

    /// `Invalid value`; the value is shown as JSON would show it.
    pub fn invalid(path: impl Into<String>, value: impl Shown, detail: impl Into<String>) -> Self {
        Self::new(
            path,
            FieldErrorKind::Invalid {
                value: value.shown(),
                detail: detail.into(),
            },
        )
    }

    /// `Duplicate value`.
    pub fn duplicate(path: impl Into<String>, value: impl Shown, detail: impl Into<String>) -> Self {
        Self::new(
            path,
            FieldErrorKind::Duplicate {
                value: value.shown(),
                detail: detail.into(),
            },
        )
    }

    /// `Unsupported value`.
    pub fn not_supported(path: impl Into<String>, value: impl Shown, supported: &[&str]) -> Self {
        let supported = supported
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", ");
        Self::new(
            path,
            FieldErrorKind::NotSupported {
                value: value.shown(),
                supported,
            },
        )
    }

    /// `Forbidden`.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden(detail.into()))
    }

    /// An error without a line.
    pub fn new(path: impl Into<String>, kind: FieldErrorKind) -> Self {
        Self {
            path: path.into(),
            line: None,
            kind,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.kind.fmt(f)
    }
}

/// How a value is shown in an error: texts quoted, numbers plain.
pub trait Shown {
    /// The shown form, at most a few hundred characters.
    fn shown(self) -> String;
}

impl Shown for &str {
    fn shown(self) -> String {
        // A value from a file has no bound of its own.
        let mut text: String = self.chars().take(200).collect();
        if text.len() < self.len() {
            text.push('…');
        }
        format!("{text:?}")
    }
}

impl Shown for &String {
    fn shown(self) -> String {
        self.as_str().shown()
    }
}

impl Shown for crate::duration::GoDuration {
    fn shown(self) -> String {
        format!("{:?}", self.to_string())
    }
}

macro_rules! shown_by_display {
    ($($number:ty),*) => { $(impl Shown for $number { fn shown(self) -> String { self.to_string() } })* };
}
shown_by_display!(i32, i64, u32, u64, usize, f32, f64, bool);

/// All errors of a file, in file order where lines are known.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigErrors {
    /// Path of the file or another name for the text.
    pub source: String,
    /// The errors; not empty.
    pub errors: Vec<FieldError>,
}

impl ConfigErrors {
    /// Errors without a line come last, otherwise the order is by line; equal ones stand once.
    pub fn new(source: impl Into<String>, mut errors: Vec<FieldError>) -> Self {
        errors.sort_by_key(|error| error.line.unwrap_or(u32::MAX));
        errors.dedup();
        Self {
            source: source.into(),
            errors,
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.errors.len() == 1 { "error" } else { "errors" };
        write!(f, "{}: {} {noun}", self.source, self.errors.len())?;
        for error in &self.errors {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
