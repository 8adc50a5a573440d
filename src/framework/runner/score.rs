//! PreScore, Score and NormalizeScore over a list of nodes: the full evaluation.

use crate::cluster::{ClusterView, PodInfo};
use crate::framework::{CycleState, Profile, Status};
use crate::ids::{NodeIdx, Symbol};

/// The highest score of one plugin.
const MAX_NODE_SCORE: i64 = 100;

/// Scores of all feasible nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScoreRun {
    /// `[node]`: the feasible nodes.
    pub nodes: Vec<NodeIdx>,
    /// `[plugin]`: what each plugin that was not skipped gave.
    pub plugins: Vec<PluginScores>,
    /// `[node]`: sums of weighted scores.
    pub totals: Vec<i64>,
}

/// What one plugin gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginScores {
    /// The plugin.
    pub plugin: Symbol,
    /// Whether it normalises.
    pub normalizes: bool,
    /// `[node]`: before normalisation.
    pub raw: Vec<i64>,
    /// `[node]`: normalised, times the weight.
    pub weighted: Vec<i64>,
}

impl Profile {
    /// Runs PreScore; a skip leaves the plugin's score out.
    ///
    /// # Errors
    /// A plugin failed.
    pub fn run_pre_score(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        feasible: &[NodeIdx],
    ) -> Result<(), Status> {
        for preparing in &self.pre_score {
            let Some(pre_score) = preparing.plugin.pre_score() else {
                continue;
            };
            let status = pre_score.pre_score_pod(cluster, state, pod, feasible);
            if status.is_skip() {
                if let Some(position) = preparing.follows {
                    state.skip_score(position);
                }
            } else if !status.is_success() {
                let name = preparing.plugin.name();
                return Err(Status::error(format!(
                    "running PreScore plugin {name:?}: {}",
                    status.message()
                )));
            }
        }
        Ok(())
    }

    /// Scores every node of `feasible`.
    ///
    /// # Errors
    /// A plugin failed, or gave a score outside 0 to 100.
    pub fn run_score(
        &self,
        cluster: &ClusterView<'_>,
        state: &CycleState,
        pod: &PodInfo,
        feasible: &[NodeIdx],
    ) -> Result<ScoreRun, Status> {
        let mut run = ScoreRun {
            nodes: feasible.to_vec(),
            plugins: Vec::new(),
            totals: vec![0; feasible.len()],
        };
        for (position, scorer) in self.score.iter().enumerate() {
            if state.is_score_skipped(position) {
                continue;
            }
            let Some(score) = scorer.plugin.score() else { continue };
            let name = scorer.plugin.name();
            let nodes = feasible.iter().filter_map(|idx| cluster.nodes.get(*idx));
            let raw = nodes
                .map(|node| score.score_node(cluster, state, pod, node))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|status| score_error(name, &status))?;
            let mut weighted = raw.clone();
            if let Some(normalizer) = score.normalizer() {
                let status = normalizer.normalize(state, pod, &mut weighted);
                if !status.is_success() {
                    return Err(Status::error(format!(
                        "running Normalize on Score plugins: {}",
                        status.message()
                    )));
                }
            }
            for (total, value) in run.totals.iter_mut().zip(&mut weighted) {
                check_range(name, *value)?;
                *value *= scorer.weight;
                *total += *value;
            }
            run.plugins.push(PluginScores {
                plugin: name,
                normalizes: score.normalizer().is_some(),
                raw,
                weighted,
            });
        }
        Ok(run)
    }
}

/// The failure of one plugin's score.
pub(crate) fn score_error(plugin: Symbol, status: &Status) -> Status {
    Status::error(format!(
        "running Score plugins: plugin {plugin:?} failed with: {}",
        status.message()
    ))
}

/// Checks a normalised score.
///
/// # Errors
/// It lies outside 0 to 100.
pub(crate) fn check_range(plugin: Symbol, score: i64) -> Result<(), Status> {
    if (0..=MAX_NODE_SCORE).contains(&score) {
        return Ok(());
    }
    Err(Status::error(format!(
        "applying score defaultWeights on Score plugins: plugin {plugin:?} returns an invalid score {score}, it should in \
         the range of [0, 100] after normalizing"
    )))
}
