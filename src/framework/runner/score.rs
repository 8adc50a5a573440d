//! PreScore, Score and NormalizeScore over a list of nodes: the full evaluation.

use std::time::Duration;

use super::commit::code_of;
use crate::cluster::{ClusterView, PodInfo};
use crate::framework::{Code, CycleState, NormalizeScore, Profile, Score, ScorePlugin, Status};
use crate::ids::{NodeIdx, Symbol};
use crate::telemetry::ExtensionPoint;

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
        self.timed(
            ExtensionPoint::PreScore,
            self.pre_score.len(),
            || self.pre_score_plugins(cluster, state, pod, feasible),
            code_of,
        )
    }

    fn pre_score_plugins(
        &self,
        cluster: &ClusterView<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        feasible: &[NodeIdx],
    ) -> Result<(), Status> {
        let mut laps = self.plugin_stopwatch(state);
        for preparing in &self.pre_score {
            let Some(pre_score) = preparing.plugin.pre_score() else {
                continue;
            };
            let status = pre_score.pre_score_pod(cluster, state, pod, feasible);
            laps.plugin(preparing.plugin.name(), ExtensionPoint::PreScore, status.code);
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
        let scoring = Scoring {
            profile: self,
            cluster,
            state,
            pod,
        };
        let mut watch = self.stopwatch();
        let mut normalizing = Duration::ZERO;
        let run = scoring.run(feasible, &mut normalizing);
        let code = code_of(&run);
        watch.point(ExtensionPoint::Score, code);
        watch.record(ExtensionPoint::ScoreExtensionNormalize, code, normalizing);
        run
    }
}

impl Profile {
    /// The scorers whose position is a bit of `among`, with their positions.
    pub(crate) fn scorers(&self, among: u64) -> impl Iterator<Item = (usize, &ScorePlugin, &dyn Score)> {
        let plugins = self.score.iter().enumerate();
        let asked = plugins.filter(move |(position, _)| among >> position & 1 == 1);
        asked.filter_map(|(position, scorer)| Some((position, scorer, scorer.plugin.score()?)))
    }
}

/// What the scores of one pod are computed from.
struct Scoring<'a> {
    profile: &'a Profile,
    cluster: &'a ClusterView<'a>,
    state: &'a CycleState,
    pod: &'a PodInfo,
}

impl Scoring<'_> {
    /// Scores by plugin and in sum; adds what normalising takes to `normalizing`.
    fn run(&self, feasible: &[NodeIdx], normalizing: &mut Duration) -> Result<ScoreRun, Status> {
        let mut run = ScoreRun {
            nodes: feasible.to_vec(),
            plugins: Vec::new(),
            totals: vec![0; feasible.len()],
        };
        for (position, scorer) in self.profile.score.iter().enumerate() {
            if self.state.is_score_skipped(position) {
                continue;
            }
            let Some(score) = scorer.plugin.score() else { continue };
            let raw = self.raw(scorer, score, feasible)?;
            let mut weighted = raw.clone();
            if let Some(normalizer) = score.normalizer() {
                let mut watch = self.profile.stopwatch();
                let normalized = self.normalize(scorer, normalizer, &mut weighted);
                *normalizing += watch.lap();
                normalized?;
            }
            for (total, value) in run.totals.iter_mut().zip(&mut weighted) {
                check_range(scorer.plugin.name(), *value)?;
                *value *= scorer.weight;
                *total += *value;
            }
            run.plugins.push(PluginScores {
                plugin: scorer.plugin.name(),
                normalizes: score.normalizer().is_some(),
                raw,
                weighted,
            });
        }
        Ok(run)
    }

    fn raw(&self, scorer: &ScorePlugin, score: &dyn Score, feasible: &[NodeIdx]) -> Result<Vec<i64>, Status> {
        let mut laps = self.profile.plugin_stopwatch(self.state);
        let nodes = feasible.iter().filter_map(|idx| self.cluster.nodes.get(*idx));
        let raw = nodes
            .map(|node| score.score_node(self.cluster, self.state, self.pod, node))
            .collect::<Result<Vec<_>, _>>();
        let name = scorer.plugin.name();
        laps.plugin_calls(name, ExtensionPoint::Score, code_of(&raw), feasible.len());
        raw.map_err(|status| score_error(name, &status))
    }

    fn normalize(
        &self,
        scorer: &ScorePlugin,
        normalizer: &dyn NormalizeScore,
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let mut laps = self.profile.plugin_stopwatch(self.state);
        let status = normalizer.normalize(self.state, self.pod, scores);
        laps.plugin(
            scorer.plugin.name(),
            ExtensionPoint::ScoreExtensionNormalize,
            status.code,
        );
        if status.code == Code::Success {
            return Ok(());
        }
        Err(Status::error(format!(
            "running Normalize on Score plugins: {}",
            status.message()
        )))
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
