//! The reasons in a pod's condition: autoscalers make room for `Unschedulable` and for nothing else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_config::Settings;

use super::kit::*;
use crate::binding::Failure;
use crate::clock::Nanos;
use crate::framework::{Code, Diagnosis, FitError, NodeStatuses, NominatedNode, Status, WaitingPods as _};
use crate::ids::Symbol;
use crate::sync::Mutex;
use crate::testing::{PodBuilder, pod};

/// What befalls the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    FitsNowhere,
    NoNodes,
    CycleBroke,
    RejectedByOne,
    RejectedAtPermit,
    PermitTimedOut,
    WaitsAtPermit,
    PreBindSaysNo,
    PreBindBroke,
    PreBindTimedOut,
    BindRefused,
    BindBroke,
    BindUnanswered,
    DeletedBeforeItsTurn,
    DeletedAtPermit,
    GoneBeforeItsBind,
    Bound,
}

const ALL: [(Fate, Option<&str>); 17] = [
    (Fate::FitsNowhere, Some("Unschedulable")),
    (Fate::NoNodes, Some("Unschedulable")),
    (Fate::CycleBroke, Some("SchedulerError")),
    (Fate::RejectedByOne, Some("Unschedulable")),
    (Fate::RejectedAtPermit, Some("Unschedulable")),
    (Fate::PermitTimedOut, Some("Unschedulable")),
    (Fate::WaitsAtPermit, None),
    (Fate::PreBindSaysNo, Some("Unschedulable")),
    (Fate::PreBindBroke, Some("SchedulerError")),
    (Fate::PreBindTimedOut, Some("SchedulerError")),
    (Fate::BindRefused, Some("SchedulerError")),
    (Fate::BindBroke, Some("SchedulerError")),
    (Fate::BindUnanswered, Some("SchedulerError")),
    (Fate::DeletedBeforeItsTurn, None),
    (Fate::DeletedAtPermit, None),
    (Fate::GoneBeforeItsBind, None),
    (Fate::Bound, None),
];

fn no_fit() -> Failure {
    let mut diagnosis = Diagnosis::default();
    let status = Status::unschedulable("no room".to_owned());
    diagnosis.blame(&status);
    diagnosis.statuses = NodeStatuses {
        explicit: Vec::new(),
        absent: status,
    };
    Failure::Unschedulable(Box::new(FitError {
        node_count: 2,
        diagnosis,
        post_filter_message: String::new(),
    }))
}

impl Kit {
    fn fail_next(&self, failure: Failure) {
        let queued = self.queue.try_pop().unwrap();
        self.failures.fail(queued, Nanos(0), failure, NominatedNode::Clear);
    }

    /// Lets it happen to the pod that was created last.
    async fn befall(&self, fate: Fate, pod: &PodBuilder) {
        let uid = pod.build().uid;
        match fate {
            Fate::FitsNowhere => self.fail_next(no_fit()),
            Fate::NoNodes => self.fail_next(Failure::NoNodes),
            Fate::CycleBroke => self.fail_next(Failure::Error("a plugin panicked".to_owned())),
            Fate::RejectedByOne => {
                let status = Status::unschedulable("not this one".to_owned());
                self.fail_next(Failure::rejected_by_one(status));
            }
            Fate::RejectedAtPermit => {
                self.submit(&[("Actor", 600)]);
                assert!(self.pool.reject(uid, Symbol::new("Actor"), "no"));
            }
            Fate::PermitTimedOut => self.submit(&[("Actor", 0)]),
            Fate::WaitsAtPermit => self.submit(&[("Actor", 600)]),
            Fate::PreBindSaysNo => {
                *self.script.pre_bind.lock() = Some(Status::new(Code::Unschedulable, "no".to_owned()));
                self.submit(&[]);
            }
            Fate::PreBindBroke => {
                *self.script.pre_bind.lock() = Some(Status::error("broken"));
                self.submit(&[]);
            }
            Fate::PreBindTimedOut => {
                *self.script.work.lock() = Some(Arc::new(Work {
                    requests: Vec::new(),
                    timeout: Duration::from_millis(5),
                    done: AtomicBool::new(false),
                    applied: Mutex::default(),
                }));
                self.submit(&[]);
            }
            Fate::BindRefused => {
                self.refuse_bind(403, None, 1);
                self.submit(&[]);
            }
            Fate::BindBroke => {
                self.fault("create", "pods/binding", FaultAction::ResetBefore, 1000);
                self.submit(&[]);
            }
            Fate::BindUnanswered => {
                let slow = FaultRule::on("create", "pods/binding")
                    .with(FaultAction::ResetBefore)
                    .delayed(Duration::from_secs(600));
                self.server.faults().add(slow).unwrap();
                self.submit(&[]);
            }
            Fate::DeletedBeforeItsTurn => {
                let queued = self.queue.try_pop().unwrap();
                self.failures.skip_deleting(&queued);
            }
            Fate::DeletedAtPermit => {
                self.submit(&[("Actor", 600)]);
                self.pool.pod_removed(&pod.build());
            }
            Fate::GoneBeforeItsBind => {
                let gone = FaultAction::Status {
                    code: 404,
                    retry_after_seconds: None,
                };
                self.fault("create", "pods/binding", gone, 1);
                self.submit(&[]);
            }
            Fate::Bound => self.submit(&[]),
        }
        if fate != Fate::WaitsAtPermit {
            self.settled().await;
        }
        self.failures.status.idle().await;
    }

    fn scheduled_condition(&self, name: &str) -> Value {
        let pod = self.pod(name);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == "PodScheduled");
        found.unwrap_or_default()
    }
}

const SINCE: &str = "2001-01-01T10:00:00Z";

/// A condition that stands there before.
fn before(status: &str, reason: &str) -> Value {
    json!([{
        "type": "PodScheduled",
        "status": status,
        "reason": reason,
        "message": "as before",
        "lastTransitionTime": SINCE,
    }])
}

#[tokio::test]
async fn every_end_of_an_attempt_has_its_reason_and_only_a_new_status_has_a_new_time() {
    let known = [
        None,
        Some(before("False", "SchedulingGated")),
        Some(before("False", "SchedulerError")),
        Some(before("Unknown", "Forgotten")),
    ];
    for (fate, reason) in ALL {
        // Three of these pass while a bind gets no answer.
        let millis = if fate == Fate::BindUnanswered { 20 } else { 60_000 };
        let kit = Kit::with(Settings {
            bind_deadline: Duration::from_millis(millis),
            ..settings()
        })
        .await;
        for (number, known) in known.iter().enumerate() {
            let mut pod = pod(&format!("p{number}"));
            if let Some(known) = known {
                pod = pod.field(&["status", "conditions"], known.clone());
            }
            kit.create(&pod);
            kit.befall(fate, &pod).await;
            let condition = kit.scheduled_condition(&format!("p{number}"));
            judge(fate, reason, known.as_ref(), &condition);
        }
    }
}

fn judge(fate: Fate, reason: Option<&str>, known: Option<&Value>, condition: &Value) {
    let what = format!("{fate:?} after {known:?}");
    let Some(reason) = reason else {
        if fate != Fate::Bound {
            let unchanged = known.map_or(Value::Null, |known| known[0].clone());
            assert_eq!(*condition, unchanged, "{what}");
        }
        return;
    };
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&"False".into(), &reason.into()),
        "{what}"
    );
    let was_false = known.is_some_and(|known| known[0]["status"] == "False");
    let time = condition["lastTransitionTime"].as_str().unwrap_or_default();
    assert_eq!((time == SINCE, time.is_empty()), (was_false, false), "{what}: {time}");
}
