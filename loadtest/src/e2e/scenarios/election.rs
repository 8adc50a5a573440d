//! Leader election: one schedules, one stands by.
//!
//! Does not: run where election is off (all other scenarios).

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::e2e::objects::{node, pod};
use crate::e2e::wait::{eventually, health};
use crate::e2e::world::{Start, World};
use crate::schedulers::Scheduler;

/// Shorter than the defaults, so that the test is too.
const CONFIG: &str = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                      kind: KubeSchedulerConfiguration\n\
                      leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n";
/// From the leader's death to the standby's first bind: the lease runs out, and 2 s.
const TAKE_OVER: Duration = Duration::from_secs(6);

/// SIGTERM ends a scheduler within seconds, with success; its Lease is free at once.
///
/// # Errors
/// When it does not end, fails, or keeps the Lease.
pub async fn sigterm_drains_and_releases_the_lease(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    let mut scheduler = leader(world).await?;
    for index in 0..20 {
        world.add_pod(pod(&format!("p{index}"))).await?;
    }
    let status = scheduler.process.terminate(Duration::from_secs(30)).await?;
    if !world.upstream {
        ensure!(status.success(), "it ended with {status}");
    }
    let holder = world.lease_holder().await?;
    ensure!(holder.is_none(), "{holder:?} still holds the lease");
    let _next = leader(world).await?;
    for index in 0..20 {
        world.bound(&format!("p{index}")).await?;
    }
    Ok(())
}

/// A standby schedules soon after the leader was killed, and not before.
///
/// # Errors
/// When it is late, or schedules while it stands by.
pub async fn killed_leader_is_followed(world: &mut World) -> Result<()> {
    world.add_node(node("n1")).await?;
    let mut first = leader(world).await?;
    let start = Start {
        name: "standby",
        config: Some(CONFIG),
        leader_elect: true,
        ..Start::default()
    };
    let mut standby = world.start(&start).await?;
    world.ready(&mut standby).await?;
    let holder = world.lease_holder().await?.context("nobody holds the lease")?;
    if !world.upstream {
        let told = format!("info: standby, the leader is {holder} since ");
        let says_so = async || {
            let (_, text) = health(&standby, "/readyz?verbose").await?;
            Ok(text.contains(&told).then_some(()))
        };
        let seen = eventually(says_so).await;
        seen.context("a standby does not say for whom it waits")?;
    }
    world.add_pod(pod("before")).await?;
    world.bound("before").await?;
    ensure!(
        world.lease_holder().await?.as_deref() == Some(holder.as_str()),
        "the lease changed hands"
    );
    first.process.kill()?;
    let killed = Instant::now();
    world.add_pod(pod("after")).await?;
    world.bound("after").await?;
    let took = killed.elapsed();
    ensure!(took <= TAKE_OVER, "the standby's first bind came after {took:?}");
    let next = world.lease_holder().await?.context("nobody holds the lease")?;
    ensure!(next != holder, "the lease is still the dead leader's");
    standby.process.ensure_running()
}

/// Starts a scheduler with election and waits until it leads.
async fn leader(world: &World) -> Result<Scheduler> {
    let start = Start {
        name: "leader",
        config: Some(CONFIG),
        leader_elect: true,
        ..Start::default()
    };
    let mut scheduler = world.start(&start).await?;
    world.ready(&mut scheduler).await?;
    eventually(async || world.lease_holder().await)
        .await
        .context("nobody takes the lease")?;
    Ok(scheduler)
}
