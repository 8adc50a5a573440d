//! PreBind: what must be done before the bind.
//!
//! Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreBindPreFlights`, `RunPreBindPlugins`), Kubernetes 1.36.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};

use super::pool::BindingPool;
use crate::binding::{BindTask, Failure, Slot};
use crate::framework::{Code, PreBindAction, PreBindFailure, PreBindWork, Status};
use crate::ids::Symbol;
use crate::sync::Mutex;
use crate::telemetry::ExtensionPoint;

impl BindingPool {
    /// Positions of the PreBind plugins that will act.
    pub(super) fn pre_flight(&self, task: &BindTask) -> Result<Vec<usize>, Status> {
        let profile = &task.queued.profile;
        profile.timed(
            ExtensionPoint::PreBindPreFlight,
            profile.pre_bind_plugins().len(),
            || acting(task),
            |outcome| match outcome {
                Ok(acting) if acting.is_empty() => Code::Skip,
                Ok(_) => Code::Success,
                Err(status) => status.code,
            },
        )
    }

    /// Runs them: neighbours that allow it at the same time, the others one after another; the first failure ends it.
    /// The slot is given up before a wait for what comes of a request.
    pub(super) async fn prepare(
        &self,
        task: &BindTask,
        acting: &[usize],
        slot: &Mutex<Option<Slot>>,
    ) -> Result<(), Failure> {
        let mut watch = task.queued.profile.point_stopwatch(acting.len());
        let prepared = self.run_pre_binds(task, acting, slot).await;
        watch.point(ExtensionPoint::PreBind, code_of(&prepared));
        prepared
    }

    async fn run_pre_binds(
        &self,
        task: &BindTask,
        acting: &[usize],
        slot: &Mutex<Option<Slot>>,
    ) -> Result<(), Failure> {
        if acting.is_empty() {
            return Ok(());
        }
        let mut group = Vec::new();
        for (position, plugin) in task.queued.profile.pre_bind_plugins().iter().enumerate() {
            let Some(pre_bind) = plugin.pre_bind() else { continue };
            let parallel = pre_bind.allow_parallel();
            if !parallel {
                run_group(&mut group).await?;
            }
            if acting.contains(&position) {
                let action: BoxFuture<'_, Status> =
                    match pre_bind.pre_bind_pod(&task.state, &task.queued.pod, task.node) {
                        PreBindAction::Future(future) => future,
                        PreBindAction::Work(work) => Box::pin(self.work(task, work, slot)),
                    };
                group.push(timed(task, plugin.name(), action));
            }
            if !parallel {
                run_group(&mut group).await?;
            }
        }
        run_group(&mut group).await
    }

    /// Performs the requests and waits for what comes of them.
    async fn work(&self, task: &BindTask, work: Arc<dyn PreBindWork>, slot: &Mutex<Option<Slot>>) -> Status {
        for (position, request) in work.requests().iter().enumerate() {
            match self.apply_request(task, request).await {
                Ok(resource_version) => work.applied(position, &resource_version),
                Err(text) => return work.failed(PreBindFailure::Refused(text)),
            }
        }
        drop(slot.lock().take());
        let wait = tokio::time::timeout(work.timeout(), self.wait_for_volumes(task, &*work));
        let ended = tokio::select! {
            biased;
            ended = wait => ended,
            () = self.closing.cancelled() => Ok(Err("the scheduler is shutting down".to_owned())),
        };
        match ended {
            Ok(Ok(())) => Status::SUCCESS,
            Ok(Err(text)) => work.failed(PreBindFailure::Hopeless(text)),
            Err(_elapsed) => work.failed(PreBindFailure::TimedOut),
        }
    }
}

fn acting(task: &BindTask) -> Result<Vec<usize>, Status> {
    let profile = &task.queued.profile;
    let mut laps = profile.plugin_stopwatch(&task.state);
    let mut acting = Vec::new();
    for (position, plugin) in profile.pre_bind_plugins().iter().enumerate() {
        let Some(pre_bind) = plugin.pre_bind() else { continue };
        let status = pre_bind.pre_bind_pre_flight(&task.state, &task.queued.pod, task.node);
        laps.plugin(plugin.name(), ExtensionPoint::PreBindPreFlight, status.code);
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

type Running<'t> = BoxFuture<'t, (Symbol, Status)>;

/// One plugin's work with its name, timed in a sampled cycle.
fn timed<'t>(task: &'t BindTask, name: Symbol, future: BoxFuture<'t, Status>) -> Running<'t> {
    Box::pin(async move {
        let mut laps = task.queued.profile.plugin_stopwatch(&task.state);
        let status = future.await;
        laps.plugin(name, ExtensionPoint::PreBind, status.code);
        (name, status)
    })
}

async fn run_group(group: &mut Vec<Running<'_>>) -> Result<(), Failure> {
    for (name, status) in join_all(std::mem::take(group)).await {
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

const fn code_of(outcome: &Result<(), Failure>) -> Code {
    match outcome {
        Ok(()) => Code::Success,
        Err(Failure::Error(_)) => Code::Error,
        Err(_) => Code::Unschedulable,
    }
}
