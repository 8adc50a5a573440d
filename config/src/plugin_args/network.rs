//! Args of the plugins that know the network.

/// How several latencies become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// Their mean by traffic.
    #[default]
    Mean,
    /// The greatest.
    Max,
}

impl Aggregation {
    /// All, as files spell them.
    pub const NAMES: [&'static str; 2] = ["Mean", "Max"];

    /// As files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "Mean",
            Self::Max => "Max",
        }
    }

    /// From its spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Mean, Self::Max].into_iter().find(|value| value.as_str() == text)
    }
}

/// What it means that there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureMeaning {
    /// The place cannot be reached.
    Unreachable,
    /// It does not count, neither for nor against a node.
    Neutral,
}

impl FigureMeaning {
    /// As files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::Neutral => "Neutral",
        }
    }

    /// From its spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Unreachable, Self::Neutral]
            .into_iter()
            .find(|value| value.as_str() == text)
    }
}

/// A latency in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyEntry {
    /// The place that sends.
    pub from: String,
    /// The place that receives.
    pub to: String,
    /// Milliseconds, from 0 to one hour.
    pub ms: f64,
}

/// Where figures come from.
#[derive(Debug, Clone, PartialEq)]
pub enum LatencySourceKind {
    /// From the args themselves; they do not age.
    Matrix(Vec<LatencyEntry>),
}

/// A source of latencies.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySource {
    /// What it is called in metrics and messages; unique.
    pub name: String,
    /// The label key whose values are the places.
    pub level: String,
    /// Whether a way that has no figure has that of the way back.
    pub mirrored: bool,
    /// Where they come from.
    pub kind: LatencySourceKind,
}

/// Args of `TopologyAware`.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyAwareArgs {
    /// Nodes that are further from a pod's partners are rejected, milliseconds; 0: none is.
    pub latency_threshold_ms: i64,
    /// Milliseconds that cost a point.
    pub score_divisor: i64,
    /// How the latencies to several pods become one.
    pub aggregation: Aggregation,
    /// What a missing figure means.
    pub missing_figures: FigureMeaning,
    /// Whether scores are stretched so that the nearest feasible node has 100 and the furthest 0.
    pub stretch_scores: bool,
    /// Whether the score counts those who call the pod too.
    pub count_callers: bool,
    /// Sources, the first with a figure wins.
    pub sources: Vec<LatencySource>,
}

impl Default for TopologyAwareArgs {
    fn default() -> Self {
        Self {
            latency_threshold_ms: 50,
            score_divisor: 10,
            aggregation: Aggregation::default(),
            missing_figures: FigureMeaning::Unreachable,
            stretch_scores: false,
            count_callers: true,
            sources: Vec::new(),
        }
    }
}
