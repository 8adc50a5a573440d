//! What a scrape says after binds.

use super::kit::*;
use crate::framework::Status;
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
        ["Bind Actor 1", "PostBind Actor 1", "PreBindPreFlight Actor 1"]
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
