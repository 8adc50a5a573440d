//! PreBind: what must be done before the bind.
//!
//! Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreBindPreFlights`, `RunPreBindPlugins`), Kubernetes 1.36.

use futures::future::join_all;

use super::pool::BindingPool;
use crate::binding::{BindTask, Failure};
use crate::framework::{Code, Status};
use crate::ids::Symbol;

impl BindingPool {
    /// Positions of the PreBind plugins that will act.
    pub(super) fn pre_flight(&self, task: &BindTask) -> Result<Vec<usize>, Status> {
        let mut acting = Vec::new();
        for (position, plugin) in task.queued.profile.pre_bind_plugins().iter().enumerate() {
            let Some(pre_bind) = plugin.pre_bind() else { continue };
            let status = pre_bind.pre_bind_pre_flight(&task.state, &task.queued.pod, task.node);
            match status.code {
                Code::Success => acting.push(position),
                Code::Skip => {}
                _ => {
                    let (name, text) = (plugin.name(), status.message());
                    return Err(Status::error(format!(
                        "running PreBindPreFlight plugin {name:?}: {text}"
                    )));
                }
            }
        }
        Ok(acting)
    }

    /// Runs them: neighbours that allow it at the same time, the others one after another; the first failure ends it.
    pub(super) async fn prepare(&self, task: &BindTask, acting: &[usize]) -> Result<(), Failure> {
        if acting.is_empty() {
            return Ok(());
        }
        let profile = std::sync::Arc::clone(&task.queued.profile);
        let plugins = profile.pre_bind_plugins();
        let mut group = Vec::new();
        for (position, plugin) in plugins.iter().enumerate() {
            let Some(pre_bind) = plugin.pre_bind() else { continue };
            let parallel = pre_bind.allow_parallel();
            if !parallel {
                run_group(&mut group).await?;
            }
            if acting.contains(&position) {
                group.push((
                    plugin.name(),
                    pre_bind.pre_bind_pod(&task.state, &task.queued.pod, task.node),
                ));
            }
            if !parallel {
                run_group(&mut group).await?;
            }
        }
        run_group(&mut group).await
    }
}

type Running = (Symbol, futures::future::BoxFuture<'static, Status>);

async fn run_group(group: &mut Vec<Running>) -> Result<(), Failure> {
    let (names, futures): (Vec<_>, Vec<_>) = std::mem::take(group).into_iter().unzip();
    for (name, status) in names.into_iter().zip(join_all(futures).await) {
        if status.is_rejected() {
            return Err(Failure::Refused(status.message()));
        }
        if !status.is_success() {
            return Err(Failure::Error(format!(
                "running PreBind plugin {name:?}: {}",
                status.message()
            )));
        }
    }
    Ok(())
}
