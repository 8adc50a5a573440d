//! Args of the plugins that know the network, back to the file format.

use serde_json::{Value, json};

use crate::plugin_args::{LatencySource, LatencySourceKind, TopologyAwareArgs};

pub(super) fn topology_aware(args: &TopologyAwareArgs) -> Value {
    json!({
        "latencyThresholdMs": args.latency_threshold_ms,
        "scoreDivisor": args.score_divisor,
        "aggregation": args.aggregation.as_str(),
        "missingFigures": args.missing_figures.as_str(),
        "stretchScores": args.stretch_scores,
        "countCallers": args.count_callers,
        "sources": args.sources.iter().map(source).collect::<Vec<_>>(),
    })
}

fn source(source: &LatencySource) -> Value {
    let LatencySourceKind::Matrix(entries) = &source.kind;
    let figures = entries
        .iter()
        .map(|entry| json!({"from": entry.from, "to": entry.to, "ms": entry.ms}));
    json!({
        "name": source.name,
        "level": source.level,
        "mirrored": source.mirrored,
        "matrix": {"figures": figures.collect::<Vec<_>>()},
    })
}
