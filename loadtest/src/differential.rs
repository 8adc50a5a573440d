//! Random differential test: one generated cluster on a real API server, the real kube-scheduler and Supercargo's binary
//! in turn, pod by pod.
//!
//! For each pod kube-scheduler decides first; its log tells every score. The pod is withdrawn, whatever was bound for it
//! is taken back, and the same pod is created again for Supercargo, which runs as its own process with one worker, so
//! that both decide on the same state. What Supercargo has bound stays and is the state for the next pod; pods that are
//! refused go. Beside that every decision is evaluated from scratch in this process, on the objects as the server holds
//! them, and compared score by score. Pods that evict others come last, apart from the rest: there the evicted are put
//! back between the turns.
//!
//! A pod about which they differ gets its turns once more, since somebody may have decided before a change had reached
//! it. That is no excuse for an answer that is wrong now and then: the report has every such pod with what differed, and
//! more than a few of them fail the run.
//!
//! kube-scheduler runs with `percentageOfNodesToScore: 100`, all candidates of a preemption looked at, and
//! `OpportunisticBatching` off (it would reuse an earlier pod's scores and log none). Nodes are plain objects; there are
//! no controllers: this module plays the part of the volume controller and of a provisioner.
//!
//! Does not: test several workers or timing, nor claims for devices.
//!
//! Children in reading order: `setup`, `cluster`, `pods`, `terms`, `volumes` (what is generated), `state` (the API server
//! and a mirror of it), `podview`, `peerlog` (what schedulers say), `turn`, `judge`, `changes`, `preempt`, `events`,
//! `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::controlplane::ControlPlane;
use crate::parity::{DIFFERENTIAL, Decision, Record, evaluate};
use crate::process::{random_bytes, write_private};
use crate::schedulers::Scheduler;

mod changes;
mod cluster;
mod events;
mod judge;
mod peerlog;
mod pods;
mod podview;
mod preempt;
mod report;
mod setup;
mod state;
mod terms;
mod turn;
mod volumes;

use judge::{Answer, disagreements, recorded};
use peerlog::{PeerLog, Scores};
use pods::Pods;
use podview::PodView;
use state::{Key, NODES, PODS, State};
use turn::Candidate;
use volumes::Attached;

pub use pods::Feature;
pub use report::{Coverage, DifferentialReport, Disagreement};

/// Names in `spec.schedulerName`.
const PEER: &str = "default-scheduler";
const OURS: &str = "supercargo";
/// After changes of anything but pods: each kind comes to a scheduler on a watch of its own, in no order with others.
const SETTLE: Duration = Duration::from_millis(120);
/// Before a pod about which the schedulers disagreed gets its turns again.
const LONG_SETTLE: Duration = Duration::from_millis(800);
/// Times that a pod gets its turns before a disagreement counts.
const TAKES: usize = 2;
/// Decisions between two changes of the cluster.
const CHANGE_EVERY: usize = 20;
/// Pods a node that are kept; beyond that a third of all are deleted.
const PODS_PER_NODE: usize = 9;
/// Every so many pods the progress is told.
const TELL_EVERY: usize = 100;
/// One in so many pods makes room for itself.
const PREEMPTOR_SHARE: usize = 20;

/// What to compare.
#[derive(Debug, Clone, Args)]
pub struct DifferentialArgs {
    /// Pods to be decided by both schedulers.
    #[arg(long, default_value_t = 2_000)]
    pub pods: usize,
    /// Nodes at the start.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(2..=1_000))]
    pub nodes: u16,
    /// Makes a run repeatable [default: a new one].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Pods that make room for themselves, of those [default: one in twenty].
    #[arg(long)]
    pub preemptors: Option<usize>,
    /// Only these features of pods [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Feature>,
    /// Supercargo's binary [default: the one beside this program].
    #[arg(long)]
    pub scheduler_bin: Option<PathBuf>,
    /// Where records of disagreements go [default: differential-SEED].
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Keep the control plane's and the schedulers' logs in this folder.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// End at the first disagreement.
    #[arg(long)]
    pub fail_fast: bool,
}

impl DifferentialArgs {
    /// So many pods on so many nodes from a seed.
    #[must_use]
    pub fn new(pods: usize, nodes: u16, seed: u64) -> Self {
        Self {
            pods,
            nodes,
            seed: Some(seed),
            preemptors: None,
            only: Vec::new(),
            scheduler_bin: None,
            out: None,
            keep: None,
            fail_fast: false,
        }
    }
}

/// Compares, telling the progress in the log.
///
/// # Errors
/// When a part does not start, the server refuses something, or kube-scheduler decides nothing. Disagreements are in the
/// report.
pub async fn run(args: &DifferentialArgs) -> Result<DifferentialReport> {
    anyhow::ensure!(args.pods > 0, "--pods 0 compares nothing");
    let seed = match args.seed {
        Some(seed) => seed,
        None => u64::from_le_bytes(random_bytes()?.first_chunk().copied().unwrap_or_default()) >> 16,
    };
    tracing::info!(seed, pods = args.pods, nodes = args.nodes, "comparing decisions");
    let begun = Instant::now();
    let mut run = Run::start(args, seed).await?;
    let preemptors = args.preemptors.unwrap_or(args.pods / PREEMPTOR_SHARE).min(args.pods);
    for index in 0..args.pods - preemptors {
        if index % CHANGE_EVERY == CHANGE_EVERY - 1 {
            run.change().await?;
        }
        run.decide(index).await?;
        if index % TELL_EVERY == TELL_EVERY - 1 {
            run.tell(begun);
        }
        if args.fail_fast && !run.report.disagreements.is_empty() {
            break;
        }
    }
    let is_over = args.fail_fast && !run.report.disagreements.is_empty();
    if preemptors > 0 && !is_over {
        run.preemptors(preemptors).await?;
    }
    run.compare_events().await?;
    run.report.seconds = begun.elapsed().as_secs_f64();
    run.report.texts = run.texts.len();
    Ok(run.report)
}

/// A pod that stays.
#[derive(Debug)]
struct Kept {
    uid: String,
    node: String,
    attached: Attached,
}

/// A refusal by both, for the comparison of Events.
#[derive(Debug)]
struct Refusal {
    pod: String,
    peer: String,
    ours: String,
    message: String,
    /// Until its victims are gone such a pod may be refused again, each scheduler in its own time.
    is_room_made: bool,
}

/// A run in progress.
struct Run {
    args: DifferentialArgs,
    random: Pcg64Mcg,
    pods: Pods,
    view: PodView,
    log: PeerLog,
    kept: BTreeMap<Key, Kept>,
    /// The index for the next node to be added.
    spare: usize,
    refusals: Vec<Refusal>,
    texts: BTreeSet<String>,
    report: DifferentialReport,
    state: State,
    // Declared last: what depends on them is gone before they are.
    peer: Scheduler,
    ours: Scheduler,
    _plane: ControlPlane,
}

/// Both schedulers' answers about one pod, and that of the evaluation.
struct Take {
    peer: Candidate,
    ours: Candidate,
    answer: Answer,
    scores: Scores,
    expected: Decision,
    differences: Vec<String>,
}

impl Run {
    fn tell(&self, begun: Instant) {
        let DifferentialReport {
            pods, bound, refused, ..
        } = self.report;
        let (disagreements, retaken) = (self.report.disagreements.len(), self.report.retaken.len());
        let seconds = begun.elapsed().as_secs();
        tracing::info!(
            pods,
            bound,
            refused,
            retaken,
            disagreements,
            seconds,
            kept = self.kept.len(),
            "compared"
        );
    }

    /// Lets both decide about the next pod and keeps it if they bind it.
    async fn decide(&mut self, index: usize) -> Result<()> {
        let template = self.pods.next(&mut self.random);
        let mut pod = self.pods.instance(&template, &format!("pod-{index:05}"));
        let attached = Attached::create(&mut self.state, &mut self.random, &mut pod, &template.disks).await?;
        if !template.disks.is_empty() {
            tokio::time::sleep(SETTLE).await;
        }
        let mut take = self.take(&pod, &attached).await?;
        for _ in 1..TAKES {
            if take.differences.is_empty() {
                break;
            }
            let first = self.written(&take, "first-")?;
            turn::withdraw(&mut self.state, &self.view, &take.ours).await?;
            attached.reset(&mut self.state).await?;
            tokio::time::sleep(LONG_SETTLE).await;
            take = self.take(&pod, &attached).await?;
            self.report.retake(first, &take.differences);
        }
        self.report
            .count(&template.features, matches!(take.answer, Answer::Node(_)));
        self.settle_account(&take, false)?;
        self.keep(take.ours, attached).await
    }

    /// Both turns.
    async fn take(&mut self, pod: &Value, attached: &Attached) -> Result<Take> {
        self.log.skip()?;
        let peer = turn::create(&mut self.state, pod, PEER).await?;
        let evaluation = self.evaluation(&peer)?;
        let standing = turn::decision(&mut self.state, &self.view, &peer, attached).await?;
        self.peer.process.ensure_running()?;
        let name = full_name(&peer.key);
        let answer = Answer::of(standing.as_ref());
        anyhow::ensure!(answer != Answer::None, "kube-scheduler decides nothing about {name}");
        let scores = self.log.scores(&name)?;
        let expected = recorded(&answer, &scores);
        turn::withdraw(&mut self.state, &self.view, &peer).await?;
        if attached.is_late() {
            attached.reset(&mut self.state).await?;
            tokio::time::sleep(SETTLE).await;
        }
        let ours = turn::create(&mut self.state, pod, OURS).await?;
        let standing = turn::decision(&mut self.state, &self.view, &ours, attached).await?;
        self.ours.process.ensure_running()?;
        let evaluated = evaluation.await.context("the evaluation failed")?;
        let differences = disagreements(&answer, &expected, &Answer::of(standing.as_ref()), evaluated);
        Ok(Take {
            peer,
            ours,
            answer,
            scores,
            expected,
            differences,
        })
    }

    /// Evaluates a pod from scratch on the mirrored state, beside the schedulers.
    fn evaluation(&self, candidate: &Candidate) -> Result<JoinHandle<Result<Decision>>> {
        let objects = self.state.objects(&candidate.key)?;
        let pod = serde_json::value::to_raw_value(&candidate.object)?;
        Ok(tokio::task::spawn_blocking(move || {
            evaluate(&Record::of_one(DIFFERENTIAL, objects, pod))
        }))
    }

    /// Counts a decision, and writes down a disagreement.
    fn settle_account(&mut self, take: &Take, is_room_made: bool) -> Result<()> {
        self.report.scores += take.scores.totals.len();
        self.report.scores += take.scores.by_plugin.values().map(BTreeMap::len).sum::<usize>();
        self.report.ties += usize::from(take.expected.winners.as_ref().is_some_and(|winners| winners.len() > 1));
        if let Answer::Refused { message, .. } = &take.answer {
            self.texts.insert(message.clone());
            if take.differences.is_empty() {
                self.refusals.push(Refusal {
                    pod: full_name(&take.peer.key),
                    peer: take.peer.uid.clone(),
                    ours: take.ours.uid.clone(),
                    message: message.clone(),
                    is_room_made,
                });
            }
        }
        if take.differences.is_empty() {
            return Ok(());
        }
        let disagreement = self.written(take, "")?;
        self.report.disagreements.push(disagreement);
        Ok(())
    }

    /// Writes a difference down as a record, whose file name begins with `prefix`.
    fn written(&self, take: &Take, prefix: &str) -> Result<Disagreement> {
        let Take {
            peer: candidate,
            expected,
            differences,
            ..
        } = take;
        let pod = full_name(&candidate.key);
        let default = || PathBuf::from(format!("differential-{}", self.report.seed));
        let folder = self.args.out.clone().unwrap_or_else(default);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join(format!("{prefix}{}.jsonl", candidate.key.1));
        let record = json!({
            "name": candidate.key.1, "theme": DIFFERENTIAL, "note": differences.join("; "), "config": null,
            "objects": self.state.objects(&candidate.key)?, "pod": candidate.object, "expect": expected,
        });
        write_private(&file, &format!("{record}\n"))?;
        let file = file.display().to_string();
        tracing::error!(pod, file, "{prefix}disagreement\n{}", report::readable(differences));
        Ok(Disagreement {
            pod,
            differences: differences.clone(),
            file,
        })
    }

    /// Keeps a pod that is bound, as the server now holds it, or takes it away with its claims.
    async fn keep(&mut self, pod: Candidate, attached: Attached) -> Result<()> {
        let object = self.state.refresh(PODS, &pod.key).await?.context("a pod is gone")?;
        let Some(node) = object["spec"]["nodeName"].as_str() else {
            turn::withdraw(&mut self.state, &self.view, &pod).await?;
            return attached.delete(&mut self.state).await;
        };
        if attached.is_late() {
            attached.mirror(&mut self.state).await?;
        }
        let kept = Kept {
            uid: pod.uid,
            node: node.to_owned(),
            attached,
        };
        self.kept.insert(pod.key, kept);
        Ok(())
    }

    async fn change(&mut self) -> Result<()> {
        let nodes = self.state.count(NODES);
        if self.kept.len() > nodes * PODS_PER_NODE {
            let chosen: Vec<Key> = self
                .kept
                .keys()
                .filter(|_| self.random.random_range(0..3) == 0)
                .cloned()
                .collect();
            tracing::debug!(pods = chosen.len(), "deleting");
            for key in chosen {
                self.delete(&key).await?;
            }
        } else if let Some(key) = self
            .kept
            .keys()
            .nth(self.random.random_range(0..self.kept.len().max(1)))
            .cloned()
        {
            self.delete(&key).await?;
        }
        let busy: BTreeSet<&str> = self.kept.values().map(|kept| kept.node.as_str()).collect();
        let is_busy = |name: &str| busy.contains(name);
        let what = changes::change(&mut self.state, &mut self.random, &mut self.spare, is_busy).await?;
        tracing::debug!(what, "changed");
        self.report.changes += 1;
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    /// Deletes a pod that was kept.
    async fn delete(&mut self, key: &Key) -> Result<()> {
        if let Some(kept) = self.kept.remove(key) {
            let pod = Candidate {
                key: key.clone(),
                uid: kept.uid,
                object: Value::Null,
            };
            turn::withdraw(&mut self.state, &self.view, &pod).await?;
            kept.attached.delete(&mut self.state).await?;
        }
        Ok(())
    }
}

fn full_name((namespace, name): &Key) -> String {
    format!("{namespace}/{name}")
}
