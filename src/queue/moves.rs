//! What moves waiting pods: events, updates of their own objects, plugins that ask for them, and time.

use std::sync::Arc;

use super::in_flight::Seen;
use super::plan::{Plan, Plans};
use super::requeue::{Happened, Worth};
use super::store::{Pool, Stage};
use super::{Exit, Inner, SchedulingQueue, pod_changes};
use crate::cluster::PodInfo;
use crate::framework::{ActionType, Activate, ClusterEvent, EventObject, EventResource, Profiles};
use crate::ids::PodUid;
use crate::telemetry::EventLabel;

/// Which waiting pods an event is offered to; absent: all.
pub type Restrict<'a> = Option<&'a dyn Fn(&PodInfo) -> bool>;

impl SchedulingQueue {
    /// Something happened in the cluster, and what is known of the cluster contains it already: pods that it may help
    /// become active or wait for their backoff only. Kept for pods in flight. O(groups of alike pods), and O(log n) for
    /// each pod that moves.
    pub fn on_event(&self, event: ClusterEvent, object: &EventObject, restrict: Restrict<'_>) {
        let mut inner = self.locked();
        let plan = inner.plan(event);
        if !plan.is_wanted() {
            return;
        }
        self.offer(&mut inner, &plan, object, restrict);
        inner.keep_for_in_flight(&plan, object, None, &self.metrics);
    }

    fn offer(&self, inner: &mut Inner, plan: &Plan, object: &EventObject, restrict: Restrict<'_>) {
        let happened = Happened {
            plan,
            object,
            only: None,
        };
        let mut moving: Vec<(u32, Worth)> = Vec::new();
        for group in inner.store.groups() {
            let pod_of = |slot: &u32| inner.store.waiting(*slot).map(|(_, queued)| queued);
            let Some(first) = group.first().and_then(pod_of) else {
                continue;
            };
            let for_all = happened
                .is_by_class(first)
                .then(|| happened.worth(first, self.asking()));
            if for_all == Some(Worth::Skip) {
                continue;
            }
            for slot in group {
                let Some(queued) = pod_of(slot).filter(|queued| restrict.is_none_or(|passes| passes(&queued.pod)))
                else {
                    continue;
                };
                let worth = for_all.unwrap_or_else(|| happened.worth(queued, self.asking()));
                if worth != Worth::Skip {
                    moving.push((*slot, worth));
                }
            }
        }
        for (slot, worth) in moving {
            self.requeue(inner, slot, worth, plan);
        }
    }

    /// Moves a pod that waits for an event or is gated to where it is worth being.
    fn requeue(&self, inner: &mut Inner, slot: u32, worth: Worth, plan: &Plan) {
        let now = self.clock.now();
        let mut pool = Pool::Active;
        if let Some(Stage::Waiting(_, queued)) = inner.store.stage_mut(slot) {
            // Only the end of the backoff is noted here; neither pool is ordered by it.
            pool = self.pool_for(queued, worth, now);
        }
        self.relocate(inner, slot, plan.label, pool);
    }

    /// A pod's nomination went that its status never told of: other pods of its priority and below may find room.
    pub fn claim_ended(&self, pod: &Arc<PodInfo>) {
        let uid = pod.uid;
        self.tell_claim_ended(&mut self.locked(), pod, &move |other: &PodInfo| other.uid != uid);
    }

    /// A pod's nomination went: pods of its priority and below may find room.
    pub(super) fn nomination_ended(&self, inner: &mut Inner, pod: &Arc<PodInfo>) {
        self.tell_claim_ended(inner, pod, &|_: &PodInfo| true);
    }

    fn tell_claim_ended(&self, inner: &mut Inner, pod: &Arc<PodInfo>, concerns: &dyn Fn(&PodInfo) -> bool) {
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        let object = EventObject::Pod {
            old: Some(Arc::clone(pod)),
            new: None,
        };
        let plan = inner.plan(event);
        if !plan.is_wanted() {
            return;
        }
        let priority = pod.priority();
        let lower = move |other: &PodInfo| other.priority() <= priority && concerns(other);
        self.offer(inner, &plan, &object, Some(&lower));
        inner.keep_for_in_flight(&plan, &object, None, &self.metrics);
    }

    /// The object of a pod in the queue changed.
    pub(super) fn update_known(&self, inner: &mut Inner, old: Option<&Arc<PodInfo>>, new: &Arc<PodInfo>) {
        let Some(slot) = inner.store.find(new.uid) else { return };
        let label = self.labels.add;
        match inner.store.stage_mut(slot) {
            Some(Stage::Binding { pod }) => *pod = Arc::clone(new),
            Some(Stage::InFlight { pod, .. }) => {
                let known = std::mem::replace(pod, Arc::clone(new));
                self.keep_own_changes(inner, old.unwrap_or(&known), new);
            }
            Some(Stage::Waiting(pool, queued)) => {
                let before = old.cloned().unwrap_or_else(|| Arc::clone(&queued.pod));
                let parked = matches!(pool, Pool::Unschedulable | Pool::Gated);
                inner.transition(slot, label, &self.metrics, |stage| match stage {
                    Stage::Waiting(pool, mut queued) => {
                        queued.pod = Arc::clone(new);
                        Stage::Waiting(pool, queued)
                    }
                    other => other,
                });
                if parked {
                    self.offer_own_changes(inner, slot, &before, new);
                }
            }
            Some(Stage::Moving) | None => {}
        }
    }

    fn keep_own_changes(&self, inner: &mut Inner, old: &Arc<PodInfo>, new: &Arc<PodInfo>) {
        let object = own_change(old, new);
        for event in pod_changes(old, new, EventResource::UnschedulablePod) {
            let plan = inner.plan(event);
            if plan.is_wanted() {
                inner.keep_for_in_flight(&plan, &object, Some(new.uid), &self.metrics);
            }
        }
    }

    fn offer_own_changes(&self, inner: &mut Inner, slot: u32, old: &Arc<PodInfo>, new: &Arc<PodInfo>) {
        let object = own_change(old, new);
        for event in pod_changes(old, new, EventResource::UnschedulablePod) {
            let plan = inner.plan(event);
            let happened = Happened {
                plan: &plan,
                object: &object,
                only: Some(new.uid),
            };
            let worth = match inner.store.waiting(slot) {
                Some((_, queued)) => happened.worth(queued, self.asking()),
                None => return,
            };
            if worth != Worth::Skip {
                self.requeue(inner, slot, worth, &plan);
                return;
            }
        }
    }

    /// Moves pods whose backoff is over to the active pool; call it once a second.
    pub fn flush_backoff(&self) {
        let mut inner = self.locked();
        let until = self.clock.now().floor_to_second();
        while let Some(slot) = inner.store.expired_before(until) {
            self.release(&mut inner, slot, self.labels.backoff_complete);
        }
    }

    /// Makes a pod in backoff active; PreEnqueue plugins were asked before.
    fn release(&self, inner: &mut Inner, slot: u32, label: EventLabel) {
        inner.transition(slot, label, &self.metrics, |stage| match stage {
            Stage::Waiting(_, queued) => Stage::Waiting(Pool::Active, queued),
            other => other,
        });
        self.wake(Pool::Active);
    }

    /// Moves pods that have waited for an event for too long; call it every 30 s.
    pub fn flush_unschedulable(&self) {
        let mut inner = self.locked();
        let now = self.clock.now();
        let plan = inner.plan(ClusterEvent::UNSCHEDULABLE_TIMEOUT);
        let slots = inner.store.unschedulable_slots();
        let late = |slot: &u32| {
            let waiting = inner.store.waiting(*slot);
            waiting.is_some_and(|(_, queued)| now.since(queued.timestamp) > self.config.max_in_unschedulable)
        };
        let late: Vec<u32> = slots.filter(late).collect();
        for slot in late {
            if let Some(Stage::Waiting(_, queued)) = inner.store.stage_mut(slot) {
                queued.flushed = true;
            }
            self.requeue(&mut inner, slot, Worth::AfterBackoff, &plan);
        }
    }

    /// Swaps the profiles, after a reload. Waiting pods go over to the profile of their scheduler's name; those that
    /// have none leave, and are returned. Pods of names that are new must be added by the caller. O(pods · log pods).
    pub fn replace_profiles(&self, profiles: Arc<Profiles>) -> Vec<PodUid> {
        let mut inner = self.locked();
        let waiting = inner.store.waiting_slots();
        let mut lifted = Vec::with_capacity(waiting.len());
        for slot in waiting {
            inner.transition(slot, self.labels.add, &self.metrics, |stage| {
                lifted.push((slot, stage));
                Stage::Moving
            });
        }
        inner.plans = Arc::new(Plans::new(profiles, Arc::clone(&self.metrics)));
        inner.store.in_flight.lose_all(&self.metrics);
        let mut left = Vec::new();
        for (slot, stage) in lifted {
            let Stage::Waiting(pool, mut queued) = stage else {
                continue;
            };
            let Some(profile) = inner.plans.profiles.get(queued.profile.name).cloned() else {
                left.push(queued.pod.uid);
                inner.leave(slot, Exit::HandedOver, &self.metrics);
                continue;
            };
            queued.profile = profile;
            let label = self.labels.activate;
            match pool {
                // Other plugins may gate it, or may not have rejected it.
                Pool::Gated | Pool::Unschedulable | Pool::Active => {
                    self.place(&mut inner, slot, label, queued, Pool::Active);
                }
                Pool::Backoff | Pool::ErrorBackoff => {
                    inner.transition(slot, label, &self.metrics, |_| Stage::Waiting(pool, queued));
                }
            }
        }
        left
    }

    fn activate_one(&self, inner: &mut Inner, uid: PodUid) {
        let Some(slot) = inner.store.find(uid) else { return };
        let label = self.labels.activate;
        match inner.store.stage(slot) {
            Some(Stage::Waiting(Pool::Unschedulable | Pool::Gated, _)) => {
                self.relocate(inner, slot, label, Pool::Active);
            }
            Some(Stage::Waiting(Pool::Backoff | Pool::ErrorBackoff, _)) => {
                self.release(inner, slot, label);
            }
            Some(Stage::InFlight { .. }) => {
                let plan = inner.plan(ClusterEvent::FORCE_ACTIVATE);
                let seen = Seen {
                    plan,
                    object: EventObject::None,
                    only: Some(uid),
                };
                inner.store.in_flight.record(seen, &self.metrics);
            }
            _ => {}
        }
    }
}

impl Activate for SchedulingQueue {
    fn activate(&self, pods: &[PodUid]) {
        let mut inner = self.locked();
        for uid in pods {
            self.activate_one(&mut inner, *uid);
        }
    }

    fn ungate(&self, pod: PodUid) {
        let mut inner = self.locked();
        let Some(slot) = inner.store.find(pod) else { return };
        if !matches!(inner.store.stage(slot), Some(Stage::Waiting(Pool::Gated, _))) {
            return;
        }
        let now = self.clock.now();
        let mut pool = Pool::Active;
        if let Some(Stage::Waiting(_, queued)) = inner.store.stage_mut(slot) {
            // The plugin that held it back is among those that rejected it, and says no more.
            pool = self.pool_for(queued, Worth::AfterBackoff, now);
        }
        self.relocate(&mut inner, slot, self.labels.activate, pool);
    }
}

fn own_change(old: &Arc<PodInfo>, new: &Arc<PodInfo>) -> EventObject {
    EventObject::Pod {
        old: Some(Arc::clone(old)),
        new: Some(Arc::clone(new)),
    }
}
