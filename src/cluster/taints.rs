//! Taints and tolerations.

use crate::ids::Symbol;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods prefer other nodes.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
    /// A word that the API does not define; has no effect.
    Other(Symbol),
}

impl Effect {
    /// From its spelling in the API.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Other(Symbol::new(other)),
        }
    }

    /// Whether it keeps new pods off a node.
    #[must_use]
    pub const fn forbids(self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }
}

/// A node's taint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Taint {
    /// Its key.
    pub key: Symbol,
    /// Its value; empty when left out.
    pub value: Symbol,
    /// Its effect.
    pub effect: Effect,
}

impl Taint {
    /// Whether one of them tolerates it.
    #[must_use]
    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

/// How a toleration compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TolerationOp {
    /// Values are equal; also when left out.
    Equal,
    /// Any value.
    Exists,
    /// `Lt` and `Gt` (whose feature gate is off) and unknown words: never tolerates.
    Never,
}

/// A pod's toleration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Toleration {
    /// Any key when absent.
    pub key: Option<Symbol>,
    /// The comparison.
    pub op: TolerationOp,
    /// The value; empty when left out.
    pub value: Symbol,
    /// Any effect when absent.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether it tolerates `taint`.
    ///
    /// Source: `staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go`, Kubernetes 1.36.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && match self.op {
                TolerationOp::Equal => self.value == taint.value,
                TolerationOp::Exists => true,
                TolerationOp::Never => false,
            }
    }
}

/// The first taint that keeps new pods off the node and that no toleration tolerates.
#[must_use]
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints
        .iter()
        .filter(|taint| taint.effect.forbids())
        .find(|taint| !taint.is_tolerated_by(tolerations))
}
