//! What a scrape says after binds.

use std::time::Duration;

use super::kit::*;
use crate::framework::{ActionType, ClusterEvent, EventObject, EventResource, Status};
use crate::ids::Symbol;
use crate::queue::Rejectors;
use crate::testing::pod;

impl Kit {
    /// The counts of a family's histograms as `point status`, sorted.
    fn counts_of(&self, family: &str, labels: [&str; 2]) -> Vec<String> {
        let page = self.metrics.exposition();
        let name = format!("{family}_count{{");
        let mut counts: Vec<String> = page
            .lines()
            .filter(|line| line.starts_with(&name))
            .map(|line| {
                let label = |name: &str| {
                    let rest = line.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
                    rest.split('"').next().unwrap_or_default().to_owned()
                };
                let count = line.rsplit(' ').next().unwrap_or_default();
                format!("{} {} {count}", label(labels[0]), label(labels[1]))
            })
            .collect();
        counts.sort();
        counts
    }

    fn points(&self) -> Vec<String> {
        let family = "scheduler_framework_extension_point_duration_seconds";
        self.counts_of(family, ["extension_point", "status"])
    }
}

#[tokio::test]
async fn every_point_of_a_bind_is_recorded_once() {
    let kit = Kit::new().await;
    kit.create(&pod("p"));
    let slot = kit.pool.acquire_slot().unwrap();
    let mut task = kit.task(&[]);
    task.state.sample(true);
    kit.pool.submit(task, slot);
    kit.written().await;
    let binding = [
        "Bind Success 1",
        "PostBind Success 1",
        "PreBind Success 1",
        "PreBindPreFlight Skip 1",
        "PreEnqueue Success 1",
    ];
    assert_eq!(kit.points(), binding);
    let family = "scheduler_plugin_execution_duration_seconds";
    assert_eq!(
        kit.counts_of(family, ["extension_point", "plugin"]),
        [
            "Bind Actor 1",
            "PostBind Actor 1",
            "PreBindPreFlight Actor 1",
            "PreEnqueue Actor 1"
        ]
    );
    let page = kit.metrics.exposition();
    assert!(
        page.contains("scheduler_goroutines{operation=\"binding\"} 0\n"),
        "{page}"
    );
}

#[tokio::test]
async fn a_refusal_is_recorded_with_its_status_and_what_it_undoes() {
    let kit = Kit::new().await;
    *kit.script.pre_bind.lock() = Some(Status::unschedulable("no".to_owned()));
    kit.create(&pod("p"));
    kit.submit(&[]);
    kit.written().await;
    assert_eq!(
        kit.points(),
        [
            "PreBind Unschedulable 1",
            "PreBindPreFlight Success 1",
            "PreEnqueue Success 2",
            "Unreserve Success 1",
        ]
    );
}

/// Longer than a pod waits for an event.
const OVERDUE: Duration = Duration::from_secs(301);

impl Kit {
    /// The next attempt ends with a rejection that a pod's leaving a node would help against.
    fn reject_next(&self) {
        let queued = self.queue.try_pop().unwrap();
        self.queue
            .add_unschedulable_if_not_present(queued, Rejectors::one(Symbol::new("Actor")));
    }

    /// Nobody tells the queue of what would help; much later it looks by itself.
    fn sweep(&self) {
        self.clock.advance(OVERDUE);
        self.queue.flush_unschedulable();
    }

    /// A pod leaves a node, and the queue hears of it.
    fn room_is_freed(&self) {
        let object = EventObject::Pod {
            old: Some(pod("leaver").on("n1").build()),
            new: None,
        };
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        self.queue.on_event(event, &object, None);
    }

    async fn bind_next(&self) {
        self.submit(&[]);
        self.settled().await;
    }

    fn bound_after_a_sweep(&self) -> u64 {
        let page = self.metrics.exposition();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("scheduler_pod_scheduled_after_flush_total "));
        line.and_then(|count| count.parse().ok()).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_pod_bound_straight_after_a_sweep_tells_of_an_event_that_was_missed() {
    let kit = Kit::new().await;
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        kit.create(&pod(name));
        kit.reject_next();
        kit.sweep();
        kit.bind_next().await;
        assert_eq!(kit.bound_after_a_sweep(), number as u64 + 1);
    }
}

#[tokio::test]
async fn pods_bound_for_another_reason_than_the_sweep_are_not_counted_as_missed() {
    let kit = Kit::new().await;
    // At the first attempt.
    kit.create(&pod("first"));
    kit.bind_next().await;
    // After an event, in time.
    kit.create(&pod("woken"));
    kit.reject_next();
    kit.clock.advance(Duration::from_secs(60));
    kit.room_is_freed();
    kit.bind_next().await;
    // After an event that came when a sweep had found nothing.
    kit.create(&pod("swept-in-vain"));
    kit.reject_next();
    kit.sweep();
    kit.reject_next();
    kit.clock.advance(Duration::from_secs(60));
    kit.room_is_freed();
    kit.bind_next().await;
    // Not long enough in the queue.
    kit.create(&pod("young"));
    kit.reject_next();
    kit.clock.advance(Duration::from_secs(299));
    kit.queue.flush_unschedulable();
    assert_eq!(kit.counts(), [0, 0, 1]);
    kit.room_is_freed();
    kit.bind_next().await;
    assert_eq!((kit.bound_after_a_sweep(), kit.queue.totals().bound), (0, 4));
}
