//! The start of a run: a control plane with the generated cluster in it, and both schedulers as processes.
//!
//! Does not: decide or compare anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use super::cluster::cluster;
use super::peerlog::PeerLog;
use super::pods::{Feature, Owner, Pods};
use super::podview::PodView;
use super::report::DifferentialReport;
use super::state::{CONTROLLERS, NODES, REPLICA_SETS, STATEFUL_SETS, State, VOLUMES, key};
use super::volumes::create_volume;
use super::{DifferentialArgs, OURS, PEER, Run};
use crate::client::ApiClient;
use crate::controlplane::credentials::User;
use crate::controlplane::{ControlPlane, Options};
use crate::process::write_private;
use crate::schedulers::{SchedulerLaunch, kube_scheduler, supercargo};

impl Run {
    pub(super) async fn start(args: &DifferentialArgs, seed: u64) -> Result<Self> {
        let options = Options {
            unlimited: true,
            dir: args.keep.clone(),
            ..Options::default()
        };
        let plane = ControlPlane::start(&options).await?;
        let mut state = State::new(ApiClient::new(plane.endpoint())?);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let nodes = usize::from(args.nodes);
        for (kind, body) in cluster(&mut random, nodes) {
            if kind == VOLUMES {
                create_volume(&mut state, &body, "Available").await?;
                continue;
            }
            state.create(kind, &body).await?;
            if body.get("status").is_some() && kind != NODES {
                state
                    .patch(kind, &key(&body), "status", &json!({"status": body["status"]}))
                    .await?;
            }
        }
        let features = match args.only.as_slice() {
            [] => <Feature as clap::ValueEnum>::value_variants(),
            some => some,
        };
        let pods = Pods::new(&mut random, features, owners(&state), nodes);
        let view = PodView::start(ApiClient::new(plane.endpoint())?).await?;
        let kubeconfig = plane.kubeconfig(User::Scheduler);
        let dir = plane.dir().to_owned();
        let (theirs, own) = (launch(&dir, PEER, args)?, launch(&dir, OURS, args)?);
        let started = tokio::task::spawn_blocking(move || {
            let peer = kube_scheduler(&theirs, &kubeconfig, &dir, "kube-scheduler")?;
            let ours = supercargo(&own, &kubeconfig, &dir, "supercargo")?;
            Ok::<_, anyhow::Error>((peer, ours))
        });
        let (peer, ours) = started.await.context("the starting task failed")??;
        Ok(Self {
            log: PeerLog::new(peer.process.log()),
            report: DifferentialReport {
                seed,
                nodes,
                ..DifferentialReport::default()
            },
            args: args.clone(),
            random,
            pods,
            view,
            kept: BTreeMap::new(),
            spare: nodes,
            refusals: Vec::new(),
            texts: BTreeSet::new(),
            state,
            peer,
            ours,
            _plane: plane,
        })
    }
}

/// The controllers by namespace and app, as references of their pods.
fn owners(state: &State) -> BTreeMap<(String, String), Owner> {
    let mut owners = BTreeMap::new();
    for kind in [REPLICA_SETS, STATEFUL_SETS, CONTROLLERS] {
        for ((namespace, name), object) in state.all(kind) {
            let Some((_, app)) = name.rsplit_once('-') else {
                continue;
            };
            let reference = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "name": name,
                "uid": object["metadata"]["uid"], "controller": true,
            });
            owners.insert((namespace.clone(), format!("app-{app}")), Owner(reference));
        }
    }
    owners
}

/// The same configuration for both but for the name of the profile.
fn launch(dir: &Path, profile: &str, args: &DifferentialArgs) -> Result<SchedulerLaunch> {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": profile, "pluginConfig": [
            {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}},
        ]}],
    });
    let own = json!({"apiVersion": "supercargo.io/v1alpha1", "kind": "SupercargoConfiguration", "workers": 1});
    let file = dir.join(format!("{profile}-given.yaml"));
    write_private(&file, &format!("{config}\n---\n{own}\n"))?;
    let extra = [
        "-v=2",
        "--vmodule=schedule_one=10",
        "--feature-gates=OpportunisticBatching=false",
    ];
    Ok(SchedulerLaunch {
        binary: args.scheduler_bin.clone(),
        config: Some(file),
        extra_args: if profile == PEER {
            extra.map(str::to_owned).to_vec()
        } else {
            Vec::new()
        },
        ..SchedulerLaunch::default()
    })
}
