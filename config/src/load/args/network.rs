//! Args of the plugins that know the network.

use crate::decode::item;
use crate::error::FieldError;
use crate::load::check::Cx;
use crate::names::qualified_name_error;
use crate::plugin_args::{
    Aggregation, FigureMeaning, LatencyEntry, LatencySource, LatencySourceKind, TopologyAwareArgs,
};
use crate::wire::{WireLatencySource, WireMatrix, WireTopologyAwareArgs};

/// One hour: what is longer is no latency.
const MAX_LATENCY_MS: f64 = 3_600_000.0;
/// Places at most in one matrix.
const MAX_PLACES: usize = 4096;
/// Figures at most in args: 4,096 places have 16 million, which do not belong here.
const MAX_ENTRIES: usize = 100_000;
const REGION: &str = "topology.kubernetes.io/region";

/// `TopologyAwareArgs`.
pub(super) fn topology_aware(wire: WireTopologyAwareArgs, path: &str, cx: &mut Cx<'_>) -> TopologyAwareArgs {
    let defaults = TopologyAwareArgs::default();
    let mut number = |field: &str, value: Option<i64>, default: i64, (low, high): (u32, u32)| {
        value.map_or(default, |value| {
            let detail = format!("must be from {low} to {high}");
            i64::from(cx.ranged(&format!("{path}.{field}"), value, (low, high), &detail))
        })
    };
    let latency_threshold_ms = number(
        "latencyThresholdMs",
        wire.latency_threshold_ms,
        defaults.latency_threshold_ms,
        (0, 3_600_000),
    );
    let score_divisor = number(
        "scoreDivisor",
        wire.score_divisor,
        defaults.score_divisor,
        (1, 1_000_000),
    );
    let aggregation = chosen(
        &format!("{path}.aggregation"),
        wire.aggregation.as_deref(),
        (defaults.aggregation, &Aggregation::NAMES),
        Aggregation::parse,
        cx,
    );
    let missing_figures = chosen(
        &format!("{path}.missingFigures"),
        wire.missing_figures.as_deref(),
        (defaults.missing_figures, &["Unreachable", "Neutral"]),
        FigureMeaning::parse,
        cx,
    );
    TopologyAwareArgs {
        latency_threshold_ms,
        score_divisor,
        aggregation,
        missing_figures,
        stretch_scores: wire.stretch_scores.unwrap_or(defaults.stretch_scores),
        count_callers: wire.count_callers.unwrap_or(defaults.count_callers),
        sources: sources(wire.sources.unwrap_or_default(), &format!("{path}.sources"), cx),
    }
}

/// A value of a closed set.
fn chosen<T>(
    path: &str,
    text: Option<&str>,
    (default, names): (T, &[&str]),
    parse: impl Fn(&str) -> Option<T>,
    cx: &mut Cx<'_>,
) -> T {
    let Some(text) = text else { return default };
    parse(text).unwrap_or_else(|| {
        cx.push(FieldError::not_supported(path, text, names));
        default
    })
}

fn sources(list: Vec<WireLatencySource>, path: &str, cx: &mut Cx<'_>) -> Vec<LatencySource> {
    let mut sources: Vec<LatencySource> = Vec::new();
    for (index, wire) in list.into_iter().enumerate() {
        let path = item(path, index);
        let Some(source) = source(wire, index, &path, cx) else {
            continue;
        };
        if sources.iter().any(|other| other.name == source.name) {
            cx.push(FieldError::duplicate(format!("{path}.name"), &source.name, ""));
        }
        sources.push(source);
    }
    sources
}

fn source(wire: WireLatencySource, index: usize, path: &str, cx: &mut Cx<'_>) -> Option<LatencySource> {
    let level = wire.level.unwrap_or_else(|| REGION.to_owned());
    if let Some(detail) = qualified_name_error(&level) {
        cx.invalid(&format!("{path}.level"), &level, detail);
    }
    let Some(matrix) = wire.matrix else {
        cx.push(FieldError::required(format!("{path}.matrix"), "figures"));
        return None;
    };
    Some(LatencySource {
        name: wire.name.unwrap_or_else(|| format!("matrix-{index}")),
        level,
        mirrored: wire.mirrored.unwrap_or(false),
        kind: matrix_kind(matrix, path, cx)?,
    })
}

fn matrix_kind(wire: WireMatrix, path: &str, cx: &mut Cx<'_>) -> Option<LatencySourceKind> {
    let path = format!("{path}.matrix.figures");
    let list = wire.figures.unwrap_or_default();
    if list.is_empty() {
        cx.push(FieldError::required(&path, "a list of {from, to, ms}"));
    }
    if list.len() > MAX_ENTRIES {
        let detail = format!("at most {MAX_ENTRIES}: use a wider level");
        cx.invalid(&path, &format!("{} figures", list.len()), detail);
        return None;
    }
    let mut entries: Vec<LatencyEntry> = Vec::with_capacity(list.len());
    for (index, wire) in list.into_iter().enumerate() {
        let path = item(&path, index);
        let text = |field: &str, text: Option<String>, cx: &mut Cx<'_>| {
            let text = text.unwrap_or_default();
            if text.is_empty() {
                cx.push(FieldError::required(format!("{path}.{field}"), "the name of a place"));
            }
            text
        };
        let (from, to) = (text("from", wire.from, cx), text("to", wire.to, cx));
        let ms = wire.ms.unwrap_or(f64::NAN);
        if !(0.0..=MAX_LATENCY_MS).contains(&ms) {
            let detail = "must be a number of milliseconds from 0 to 3600000";
            cx.invalid(&format!("{path}.ms"), &ms.to_string(), detail);
        }
        entries.push(LatencyEntry { from, to, ms });
    }
    twice(&entries, &path, cx);
    let places: std::collections::BTreeSet<&str> =
        entries.iter().flat_map(|entry| [&*entry.from, &*entry.to]).collect();
    if places.len() > MAX_PLACES {
        let detail = format!("at most {MAX_PLACES} places: use a wider level, such as regions instead of racks");
        cx.invalid(&path, &format!("{} places", places.len()), detail);
    }
    Some(LatencySourceKind::Matrix(entries))
}

fn twice(entries: &[LatencyEntry], path: &str, cx: &mut Cx<'_>) {
    let mut seen = std::collections::BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let before = seen.insert((&entry.from, &entry.to), entry.ms);
        if before.is_some_and(|before| (before - entry.ms).abs() > f64::EPSILON) {
            let value = format!("from {} to {}", entry.from, entry.to);
            cx.push(FieldError::duplicate(item(path, index), &value, "with another figure"));
        }
    }
}
