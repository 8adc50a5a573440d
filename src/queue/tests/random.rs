//! Random sequences of calls against a plain list of what should be where.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use proptest::prelude::*;

use super::kit::*;
use crate::framework::Activate;
use crate::queue::{Exit, QueuedPodInfo, Requeued};
use crate::telemetry::QueueKind;

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Gated(u8),
    Ungate(u8),
    Delete(u8),
    Assigned(u8),
    Pop,
    Reject(u8),
    Fail(u8),
    Done(u8),
    Bound(u8),
    Event(bool),
    Activate(u8),
    Tick(u16),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0_u8..12;
    let step = prop_oneof![
        4 => id.clone().prop_map(Step::Add),
        1 => id.clone().prop_map(Step::Gated),
        1 => id.clone().prop_map(Step::Ungate),
        1 => id.clone().prop_map(Step::Delete),
        1 => id.clone().prop_map(Step::Assigned),
        6 => Just(Step::Pop),
        3 => id.clone().prop_map(Step::Reject),
        1 => id.clone().prop_map(Step::Fail),
        2 => id.clone().prop_map(Step::Done),
        1 => id.clone().prop_map(Step::Bound),
        2 => any::<bool>().prop_map(Step::Event),
        1 => id.prop_map(Step::Activate),
        2 => (0_u16..4000).prop_map(Step::Tick),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Where the oracle believes a pod to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Believed {
    Waiting,
    Out,
}

#[derive(Default)]
struct Oracle {
    pods: BTreeMap<u8, Believed>,
    out: BTreeMap<u8, QueuedPodInfo>,
}

fn name(id: u8) -> String {
    format!("pod-{id}")
}

fn make(id: u8) -> Arc<crate::cluster::PodInfo> {
    with_priority(&name(id), i32::from(id % 3))
}

impl Oracle {
    fn run(&mut self, kit: &Kit, step: &Step) {
        let queue = &kit.queue;
        match *step {
            Step::Add(id) => {
                queue.add(&make(id));
                self.pods.entry(id).or_insert(Believed::Waiting);
            }
            Step::Gated(id) => {
                if let Entry::Vacant(free) = self.pods.entry(id) {
                    queue.add(&gated(&name(id)));
                    free.insert(Believed::Waiting);
                }
            }
            Step::Ungate(id) => {
                queue.update(Some(&gated(&name(id))), &make(id));
                self.pods.entry(id).or_insert(Believed::Waiting);
            }
            Step::Delete(id) => {
                queue.delete(make(id).uid);
                self.pods.remove(&id);
            }
            Step::Assigned(id) => {
                queue.assigned(make(id).uid);
                self.pods.remove(&id);
            }
            Step::Pop => self.pop(kit),
            Step::Reject(id) => self.back(kit, id, &["A"]),
            Step::Fail(id) => self.back(kit, id, &[]),
            Step::Done(id) => {
                if let Some(queued) = self.out.get(&id) {
                    assert_eq!(queue.done(queued), self.pods.get(&id) == Some(&Believed::Out));
                }
            }
            Step::Bound(id) => {
                if let Some(queued) = self.out.remove(&id) {
                    let known = self.pods.get(&id) == Some(&Believed::Out);
                    assert_eq!(queue.leave(&queued, Exit::Bound), known);
                    if known {
                        self.pods.remove(&id);
                    }
                }
            }
            Step::Event(add) => kit.event(if add { NODE_ADD } else { NODE_LABEL }),
            Step::Activate(id) => queue.activate(&[make(id).uid]),
            Step::Tick(millis) => {
                kit.advance_millis(u64::from(millis));
                queue.flush_backoff();
            }
            Step::Sweep => {
                kit.advance_millis(301_000);
                queue.flush_unschedulable();
            }
        }
    }

    fn pop(&mut self, kit: &Kit) {
        let Some(queued) = kit.queue.try_pop() else { return };
        let id: u8 = queued.pod.name.trim_start_matches("pod-").parse().unwrap();
        assert_eq!(
            self.pods.get(&id),
            Some(&Believed::Waiting),
            "pod {id} was given out twice"
        );
        assert!(queued.pod.gates.is_empty(), "a gated pod was given out");
        self.pods.insert(id, Believed::Out);
        self.out.insert(id, queued);
    }

    fn back(&mut self, kit: &Kit, id: u8, by: &[&str]) {
        let Some(queued) = self.out.remove(&id) else { return };
        let requeued = kit.back(queued, by);
        match self.pods.get(&id) {
            Some(Believed::Out) => {
                assert!(!matches!(requeued, Requeued::Gone | Requeued::AlreadyQueued));
                self.pods.insert(id, Believed::Waiting);
            }
            Some(Believed::Waiting) => assert_eq!(requeued, Requeued::AlreadyQueued),
            None => assert_eq!(requeued, Requeued::Gone),
        }
    }

    fn compare(&self, kit: &Kit) {
        let waiting = self
            .pods
            .values()
            .filter(|believed| **believed == Believed::Waiting)
            .count();
        assert_eq!(kit.counts().iter().sum::<usize>(), waiting);
        assert_eq!(kit.queue.pods_out(), self.pods.len() - waiting);
        let gauges = QueueKind::ALL
            .iter()
            .map(|kind| usize::try_from(kit.metrics.pending_pods(*kind)).unwrap());
        assert_eq!(gauges.collect::<Vec<_>>(), kit.counts());
        if kit.queue.pods_out() == 0 {
            assert_eq!(kit.queue.events_kept(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..Default::default() })]
    #[test]
    fn no_pod_is_lost_or_given_out_twice(steps in steps(), by_class in any::<bool>()) {
        let kit = Kit::with(Options { by_class, ..Default::default() });
        let mut oracle = Oracle::default();
        for step in &steps {
            oracle.run(&kit, step);
            oracle.compare(&kit);
        }
        // Whatever happened, everything that waits without a gate is given out in the end.
        for _ in 0..3 {
            kit.advance_millis(400_000);
            kit.queue.flush_unschedulable();
            kit.queue.flush_backoff();
        }
        let gated = kit.counts()[3];
        let mut left = kit.counts().iter().sum::<usize>() - gated;
        while left > 0 {
            oracle.pop(&kit);
            left -= 1;
        }
        prop_assert_eq!(kit.counts(), [0, 0, 0, gated]);
    }
}
