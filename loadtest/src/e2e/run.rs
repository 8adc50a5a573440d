//! Runs scenarios, one at a time where they share a control plane.
//!
//! Does not: contain scenarios.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use parking_lot::Mutex;

use super::world::{Backend, Server, World};
use crate::controlplane::{ControlPlane, Options};

/// The longest that a whole scenario may take.
const SCENARIO_LIMIT: Duration = Duration::from_secs(240);

/// The control plane that all real scenarios of a process share, one after another.
static PLANE: Mutex<Option<ControlPlane>> = Mutex::new(None);

/// Runs one scenario on a backend; panics with its error and the schedulers' logs.
///
/// # Panics
/// When the scenario fails or takes too long.
pub fn run<F>(backend: Backend, name: &str, scenario: F)
where
    F: AsyncFnOnce(&mut World) -> Result<()>,
{
    let mut plane = (backend == Backend::Real).then(|| PLANE.lock());
    conclude(&format!("{name} on {backend:?}"), async {
        let mut world = World::create(backend, plane.as_mut().and_then(|slot| slot.take())).await?;
        play(&mut world, scenario).await?;
        // A failed scenario's control plane is not used again.
        if let (Some(slot), Server::Real(used)) = (plane.as_mut(), world.server) {
            **slot = Some(*used);
        }
        Ok(())
    });
}

/// Runs one scenario on a real control plane of its own with kube-controller-manager; panics as [`run`] does.
///
/// # Panics
/// When the scenario fails or takes too long.
pub fn run_with_controllers<F>(name: &str, scenario: F)
where
    F: AsyncFnOnce(&mut World) -> Result<()>,
{
    // As all real scenarios, one after another.
    let _turn = PLANE.lock();
    conclude(&format!("{name} with controllers"), async {
        let options = Options {
            controller_manager: true,
            ..Options::default()
        };
        let plane = ControlPlane::start(&options).await?;
        let mut world = World::create(Backend::Real, Some(plane)).await?;
        world.has_controllers = true;
        play(&mut world, scenario).await
    });
}

/// Runs to the end; panics with the error, if there is one.
fn conclude(what: &str, work: impl Future<Output = Result<()>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = runtime
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(work));
    if let Err(error) = outcome {
        #[expect(clippy::panic, reason = "a failed scenario fails its test")]
        {
            panic!("{what}: {error:#}");
        }
    }
}

async fn play<F>(world: &mut World, scenario: F) -> Result<()>
where
    F: AsyncFnOnce(&mut World) -> Result<()>,
{
    let ended = tokio::time::timeout(SCENARIO_LIMIT, scenario(world)).await;
    let outcome = ended.unwrap_or_else(|_| bail!("not over after {SCENARIO_LIMIT:?}"));
    outcome.map_err(|error| anyhow!("{error:#}\n{}", world.logs()))
}
