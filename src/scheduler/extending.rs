//! Where extenders meet the workers: cycles that are put aside, the tasks that ask, and the way back to a worker.
//!
//! A worker [enters](Extending::enter) every pod that it pops. One that no extender is interested in goes on at once;
//! any other needs a lane, and waits here for it without a place in the binding pool. A cycle that comes to a question
//! is [put aside](Extending::ask): a task asks, and a worker [takes it up](Extending::take) again.
//!
//! Does not: decide.
//!
//! Threads: any; tasks run on the runtime.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Nanos;
use crate::cluster::Cluster;
use crate::extender::{
    Answer, Consultation, Extenders, Lanes, Permit, Question, Ready, VictimsAnswer, VictimsQuestion,
};
use crate::queue::{QueuedPodInfo, SchedulingQueue};
use crate::telemetry::Metrics;

/// A cycle that was put aside.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) queued: QueuedPodInfo,
    pub(super) started: Nanos,
    pub(super) consultation: Consultation,
}

/// What an attempt remembers in which extenders have a say.
#[derive(Debug)]
pub(super) struct Consulting {
    pub(super) consultation: Consultation,
    /// The right to ask; taken when it is needed by who has a say about victims alone.
    permit: Option<Permit<Parked>>,
}

/// What becomes of a pod that was popped.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made a pod and moved at once; a box would allocate"
)]
pub(super) enum Entered {
    /// It can be decided about.
    Goes(QueuedPodInfo, Option<Consulting>),
    /// It waits for a lane.
    Waits,
}

/// What is to be asked.
#[derive(Debug)]
pub(super) enum Asking {
    Nodes(Question),
    Victims(VictimsQuestion),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Extending {
    pub(super) extenders: Arc<Extenders>,
    lanes: Arc<Lanes<Parked>>,
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    stopping: CancellationToken,
    runtime: Handle,
}

impl Extending {
    /// For so many pods a group of extenders at a time. Must be called inside a tokio runtime.
    pub(super) fn new(
        extenders: Arc<Extenders>,
        concurrency: usize,
        cluster: &Arc<Cluster>,
        queue: &Arc<SchedulingQueue>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        let woken = Arc::clone(queue);
        Arc::new(Self {
            extenders,
            lanes: Lanes::new(concurrency, Box::new(move || woken.wake_one())),
            cluster: Arc::clone(cluster),
            metrics: Arc::clone(metrics),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            runtime: Handle::current(),
        })
    }

    /// The next cycle that is to be taken up.
    pub(super) fn take(&self) -> Option<Ready<Parked>> {
        if self.extenders.is_empty() {
            return None;
        }
        self.lanes.take()
    }

    /// Lets a pod in: with what its attempt needs if an extender has a say about it.
    pub(super) fn enter(&self, queued: QueuedPodInfo, started: Nanos) -> Entered {
        let Some(interest) = self.extenders.interest(&queued.pod) else {
            return Entered::Goes(queued, None);
        };
        let consultation = Consultation::new(interest);
        if !consultation.interest().decides() {
            let permit = None;
            return Entered::Goes(queued, Some(Consulting { consultation, permit }));
        }
        let parked = Parked {
            queued,
            started,
            consultation,
        };
        match self.request(parked) {
            Some(ready) => {
                let (queued, _, consulting) = ready.into_parts();
                Entered::Goes(queued, Some(consulting))
            }
            None => Entered::Waits,
        }
    }

    fn request(&self, parked: Parked) -> Option<Ready<Parked>> {
        let group = parked.consultation.interest().clone();
        self.lanes.enter(&group, parked.queued.pod.priority(), parked)
    }

    /// Puts a cycle aside until its question is answered. One that has no lane yet waits for it, and comes to its
    /// question anew.
    pub(super) fn ask(self: &Arc<Self>, queued: QueuedPodInfo, started: Nanos, consulting: Consulting, asking: Asking) {
        let Consulting { consultation, permit } = consulting;
        let parked = Parked {
            queued,
            started,
            consultation,
        };
        let ready = match permit {
            Some(permit) => Some(Ready { value: parked, permit }),
            None => self.request(parked),
        };
        let Some(ready) = ready else { return };
        let this = Arc::clone(self);
        let task = async move {
            if let Some(answered) = this.stopping.run_until_cancelled(this.answered(ready, asking)).await {
                this.lanes.resume(answered);
            }
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    async fn answered(&self, mut ready: Ready<Parked>, asking: Asking) -> Ready<Parked> {
        const BROKE_OFF: &str = "asking the extenders panicked";
        let consultation = &mut ready.value.consultation;
        match asking {
            Asking::Nodes(question) => {
                let asked = AssertUnwindSafe(self.extenders.decide(&question)).catch_unwind().await;
                let answer = asked.unwrap_or_else(|_panic| {
                    self.metrics.panicked();
                    Answer::failed(BROKE_OFF)
                });
                consultation.answered(answer);
            }
            Asking::Victims(question) => {
                let asked = self.extenders.choose_victims(&question, &*self.cluster);
                let answer = AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|_panic| {
                    self.metrics.panicked();
                    VictimsAnswer::failed(BROKE_OFF)
                });
                consultation.victims_answered(answer);
            }
        }
        ready
    }

    /// Ends all questions and lets go of all cycles that were put aside: nothing is reserved for any of them.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.lanes.close();
    }
}

/// What a worker needs of a cycle that it takes up.
pub(super) trait IntoParts {
    fn into_parts(self) -> (QueuedPodInfo, Nanos, Consulting);
}

impl IntoParts for Ready<Parked> {
    fn into_parts(self) -> (QueuedPodInfo, Nanos, Consulting) {
        let Self { value, permit } = self;
        let consulting = Consulting {
            consultation: value.consultation,
            permit: Some(permit),
        };
        (value.queued, value.started, consulting)
    }
}
