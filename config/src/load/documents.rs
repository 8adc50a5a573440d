//! Tells the documents of a text apart.

use crate::error::{FieldError, FieldErrorKind};
use crate::tree::{Node, Scalar, parse};
use crate::{settings, types};

/// What a file is meant to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A `KubeSchedulerConfiguration`, and perhaps settings.
    Configuration,
    /// Settings only.
    Settings,
}

/// The documents of a text by what they are.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) configuration: Option<Node>,
    pub(super) settings: Option<Node>,
}

impl Documents {
    /// Reads a text. A document of an unknown kind or version is taken for what it most likely means, so that its other
    /// errors are shown too.
    pub(super) fn read(text: &str, wanted: Kind) -> (Self, Vec<FieldError>) {
        let (nodes, mut errors) = parse(text);
        let mut documents = Self::default();
        for node in nodes {
            let is_settings = is_settings(&node).unwrap_or(wanted == Kind::Settings);
            let (slot, kind, version) = if is_settings {
                (&mut documents.settings, settings::KIND, settings::API_VERSION)
            } else {
                (&mut documents.configuration, types::KIND, types::API_VERSION)
            };
            if wanted == Kind::Settings && !is_settings {
                let detail = format!("a settings file holds a {} only", settings::KIND);
                errors.push(at(&node, "kind", FieldErrorKind::Forbidden(detail)));
                continue;
            }
            if slot.is_some() {
                let detail = format!("a file holds one {kind} at most");
                errors.push(at(&node, "kind", FieldErrorKind::Forbidden(detail)));
                continue;
            }
            check_value(&node, "kind", kind, &mut errors);
            check_value(&node, "apiVersion", version, &mut errors);
            *slot = Some(node);
        }
        let (missing, kind) = match wanted {
            Kind::Configuration => (documents.configuration.is_none(), types::KIND),
            Kind::Settings => (documents.settings.is_none(), settings::KIND),
        };
        if missing && errors.is_empty() {
            errors.push(FieldError::new(
                "",
                FieldErrorKind::Syntax(format!("holds no {kind} document")),
            ));
        }
        (documents, errors)
    }
}

/// Whether a document means to be settings; `None` when it does not say.
fn is_settings(node: &Node) -> Option<bool> {
    match scalar(node, "kind") {
        Some(kind) if kind == settings::KIND => Some(true),
        Some(kind) if kind == types::KIND => Some(false),
        _ => scalar(node, "apiVersion").map(|version| version.starts_with("supercargo.io/")),
    }
}

/// Whether every document of a text means to be settings, and there is one.
pub(super) fn holds_settings_only(text: &str) -> bool {
    let (nodes, _) = parse(text);
    !nodes.is_empty() && nodes.iter().all(|node| is_settings(node) == Some(true))
}

fn at(node: &Node, field: &str, kind: FieldErrorKind) -> FieldError {
    FieldError {
        path: field.to_owned(),
        line: Some(node.line_of(field)),
        kind,
    }
}

fn scalar<'a>(node: &'a Node, field: &str) -> Option<&'a str> {
    match node.get(field)?.node.scalar() {
        Some(Scalar::Text(text)) => Some(text),
        _ => None,
    }
}

/// Checks `kind` or `apiVersion`; a value of another type is the decoder's to report.
fn check_value(node: &Node, field: &str, wanted: &str, errors: &mut Vec<FieldError>) {
    match scalar(node, field) {
        Some(value) if value == wanted => {}
        Some(value) => errors.push(FieldError {
            line: Some(node.line_of(field)),
            ..FieldError::not_supported(field, value, &[wanted])
        }),
        None if node.get(field).is_none_or(|entry| entry.node.is_null()) => {
            errors.push(at(
                node,
                field,
                FieldErrorKind::Required(format!("should be {wanted:?}")),
            ));
        }
        None => {}
    }
}
