//! From the configuration to what is known of the network at the start.
//!
//! Does not: follow sources that change; a matrix in the args does not.

use std::sync::Arc;

use supercargo_config::plugin_args::{LatencySource, LatencySourceKind};
use supercargo_config::{Configuration, PluginArgs};

use crate::cluster::Network;
use crate::ids::Symbol;
use crate::topology::{LatencyError, LatencyRow, LatencyTable, Source};

/// A source's figures are no latencies.
#[derive(Debug, thiserror::Error)]
#[error("the latencies of source {source_name:?} cannot be used: {errors}")]
pub struct SourceError {
    source_name: String,
    errors: String,
}

impl SourceError {
    fn new(source: &LatencySource, errors: &[LatencyError]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self {
            source_name: source.name.clone(),
            errors: texts.join("; "),
        }
    }
}

/// Takes in the sources of all profiles, in the order of the configuration.
///
/// # Errors
/// A source's figures are no latencies.
pub(super) fn take_sources(configuration: &Configuration, network: &Network) -> Result<(), SourceError> {
    let args = configuration.profiles.iter().flat_map(|profile| &profile.plugin_config);
    let sources = args.filter_map(|entry| match &entry.args {
        PluginArgs::TopologyAware(args) => Some(&args.sources),
        _ => None,
    });
    for (rank, source) in sources.flatten().enumerate() {
        network.set_source(compile(source, rank).map_err(|errors| SourceError::new(source, &errors))?);
    }
    Ok(())
}

fn compile(source: &LatencySource, rank: usize) -> Result<Source, Vec<LatencyError>> {
    let LatencySourceKind::Matrix(entries) = &source.kind;
    let rows: Vec<LatencyRow> = entries
        .iter()
        .map(|entry| LatencyRow {
            from: Symbol::new(&entry.from),
            to: Symbol::new(&entry.to),
            millis: entry.ms,
        })
        .collect();
    let table = LatencyTable::new(&rows, source.mirrored)?;
    Ok(Source {
        name: Symbol::new(&source.name),
        rank: u8::try_from(rank).unwrap_or(u8::MAX),
        tables: vec![(Symbol::new(&source.level), Arc::new(table))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NetworkLevels;
    use crate::topology::{Latency, Step};
    use supercargo_config::{Loader, PluginCatalogue};

    struct NoLog;

    impl crate::ledger::ChangeSink for NoLog {
        fn append(&self, _: crate::ledger::Change) -> u64 {
            0
        }
    }

    #[test]
    fn the_matrix_of_the_example_is_known_from_the_start() {
        let example = include_str!("../../config/examples/network.yaml");
        let loaded = Loader::new(&PluginCatalogue::in_tree())
            .load_str("network.yaml", example)
            .unwrap();
        let network = Network::new(NetworkLevels::default(), Arc::new(NoLog));
        take_sources(&loaded.configuration, &network).unwrap();
        let level = Symbol::new("topology.kubernetes.io/region");
        let [from, to] = ["eastus", "westus"].map(|name| {
            let step = Step {
                level,
                name: Symbol::new(name),
            };
            network.topology().place(&[step]).0
        });
        let topology = network.topology();
        let between = topology.latencies().between(&topology.tree(), from, to);
        assert!(
            matches!(between, Latency::Micros(micros) if micros > 40_000),
            "{between:?}"
        );
    }
}
