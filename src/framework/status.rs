//! What an extension point answers.
//!
//! Source of codes and their effects: `staging/src/k8s.io/kube-scheduler/framework/interface.go`, Kubernetes 1.36.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ids::Symbol;

/// The kind of answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Code {
    /// Yes.
    #[default]
    Success,
    /// Something failed inside: aborts the cycle; the pod is retried after a backoff of its own.
    Error,
    /// No; preemption may help on this node.
    Unschedulable,
    /// No, and preemption cannot help on this node.
    UnschedulableAndUnresolvable,
    /// Permit only: wait.
    Wait,
    /// The plugin has nothing to do for this pod.
    Skip,
    /// No; when the plugin's hint queues the pod again, it skips its backoff.
    Pending,
}

impl Code {
    /// Whether the pod was rejected.
    #[must_use]
    pub const fn is_rejected(self) -> bool {
        matches!(
            self,
            Self::Unschedulable | Self::UnschedulableAndUnresolvable | Self::Pending
        )
    }

    /// The name, as metrics and recorded decisions spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Pending => "Pending",
        }
    }
}

/// One reason of a status. Texts that recur are symbols, so that a filter allocates nothing per node; texts with names
/// in them are kept as text, so that they do not stay for ever.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// A text of a closed set.
    Known(Symbol),
    /// Any other text.
    Text(Arc<str>),
}

impl Reason {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(symbol) => symbol.as_str(),
            Self::Text(text) => text,
        }
    }
}

impl From<Symbol> for Reason {
    fn from(symbol: Symbol) -> Self {
        Self::Known(symbol)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// An answer: a code, reasons and the plugin that gave them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Status {
    /// The kind.
    pub code: Code,
    /// Why; empty for success.
    pub reasons: SmallVec<[Reason; 1]>,
    /// Who said so; filled in by the framework.
    pub plugin: Option<Symbol>,
}

impl Status {
    /// Yes.
    pub const SUCCESS: Self = Self {
        code: Code::Success,
        reasons: SmallVec::new_const(),
        plugin: None,
    };
    /// Nothing to do.
    pub const SKIP: Self = Self {
        code: Code::Skip,
        reasons: SmallVec::new_const(),
        plugin: None,
    };

    /// An answer with one reason.
    #[must_use]
    pub fn new(code: Code, reason: impl Into<Reason>) -> Self {
        Self {
            code,
            reasons: SmallVec::from_iter([reason.into()]),
            plugin: None,
        }
    }

    /// No; preemption may help.
    #[must_use]
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// No, and preemption cannot help.
    #[must_use]
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// Something failed.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Code::Error, text.into())
    }

    /// Whether it says yes.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self.code, Code::Success)
    }

    /// Whether it says that there is nothing to do.
    #[must_use]
    pub const fn is_skip(&self) -> bool {
        matches!(self.code, Code::Skip)
    }

    /// Whether it says no.
    #[must_use]
    pub const fn is_rejected(&self) -> bool {
        self.code.is_rejected()
    }

    /// The same, said by `plugin`.
    #[must_use]
    pub fn by(mut self, plugin: Symbol) -> Self {
        self.plugin = Some(plugin);
        self
    }

    /// All reasons, joined with `, `.
    #[must_use]
    pub fn message(&self) -> String {
        let texts: Vec<&str> = self.reasons.iter().map(Reason::as_str).collect();
        texts.join(", ")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message())
    }
}
