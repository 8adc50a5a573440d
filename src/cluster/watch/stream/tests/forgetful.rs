//! What a watch delivers when the embedded API server has forgotten the version that was reached, refuses, or does not
//! know the kind.

use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::store::{DeleteOptions, WriteTarget};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};

use super::*;
use crate::client::{ClientOptions, ClientSet, Source};
use crate::cluster::watch::{DecodedPod, PodObject};
use crate::telemetry::MetricsOptions;
use crate::testing::pod;

const SILENCE_IN_TESTS: Duration = Duration::from_millis(100);

struct Scene {
    server: ServerHandle,
    deliveries: mpsc::Receiver<String>,
    task: tokio::task::JoinHandle<()>,
}

/// All deliveries up to one.
async fn until(deliveries: &mut mpsc::Receiver<String>, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|told| told != last) {
        let next = tokio::time::timeout(Duration::from_secs(30), deliveries.recv()).await;
        let Ok(next) = next else {
            panic!("{last} does not come; so far {seen:?}")
        };
        seen.push(next.unwrap());
    }
    seen
}

pub(super) fn told(delivery: Delivery<DecodedPod>) -> String {
    let name = |object: &PodObject| object.meta().name.clone().unwrap_or_default();
    match delivery {
        Delivery::Restarted => "restarted".to_owned(),
        Delivery::Listed(pod) => format!("listed {}", name(&pod)),
        Delivery::Complete => "complete".to_owned(),
        Delivery::Applied(pod) => format!("applied {}", name(&pod)),
        Delivery::Deleted(pod) => format!("deleted {}", name(&pod)),
    }
}

impl Scene {
    /// A watch of pods, with `a` and `b` there.
    async fn new() -> Self {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        create(&server, "a");
        create(&server, "b");
        let parts = parts(&server, "Pod");
        let (sender, deliveries) = mpsc::channel(100);
        let task = tokio::spawn(watch_asking(parts, sender, told, SILENCE_IN_TESTS));
        let mut scene = Self {
            server,
            deliveries,
            task,
        };
        assert_eq!(
            scene.until("complete").await,
            ["restarted", "listed a", "listed b", "complete"]
        );
        create(&scene.server, "x");
        assert_eq!(scene.until("applied x").await, ["applied x"]);
        scene
    }

    /// All deliveries up to one.
    async fn until(&mut self, last: &str) -> Vec<String> {
        until(&mut self.deliveries, last).await
    }

    fn fault(&self, verb: &str, action: FaultAction) {
        self.server
            .faults()
            .add(FaultRule::on(verb, "pods").with(action))
            .unwrap();
    }

    /// Nobody hears of what `change` does while it is done, and then the history is gone.
    fn out_of_sight(&self, change: impl FnOnce(&ServerHandle)) {
        let away = || FaultAction::Status {
            code: 503,
            retry_after_seconds: None,
        };
        self.fault("watch", away());
        self.fault("list", away());
        self.server.faults().drop_watches("pods");
        change(&self.server);
        self.server.faults().compact("pods");
        self.server.faults().clear();
    }
}

pub(super) fn parts(server: &ServerHandle, kind: &'static str) -> WatchParts {
    let options = ClientOptions {
        source: Source::Address(server.url()),
        rate: None,
        binds_in_flight: 1,
    };
    WatchParts {
        client: ClientSet::new(&options, None).unwrap().watch,
        field_selector: None,
        status: WatchStatus::new(kind),
        metrics: Arc::new(Metrics::new(&MetricsOptions::default())),
        clock: Clock::Real,
        alarm: Alarm::default(),
    }
}

pub(super) fn create(server: &ServerHandle, name: &str) {
    server.store().insert_raw("", "pods", pod(name).json().clone()).unwrap();
}

fn delete(server: &ServerHandle, name: &str) {
    let target = WriteTarget::object(&server.store().pods().unwrap(), "default", name);
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    server.store().delete(&target, &options).unwrap();
}

#[tokio::test]
async fn a_server_that_comes_back_with_less_is_listed_anew() {
    let mut scene = Scene::new().await;
    let address = scene.server.url().trim_start_matches("http://").parse().unwrap();
    scene.server.stop().await;
    // Not at the version yet where the watch broke off; it would accept a watch from there and say nothing.
    let config = ServerConfig {
        address,
        ..ServerConfig::default()
    };
    scene.server = Server::start(config).await.unwrap();
    create(&scene.server, "c");
    assert_eq!(scene.until("complete").await, ["restarted", "listed c", "complete"]);
    create(&scene.server, "d");
    assert_eq!(scene.until("applied d").await, ["applied d"]);
    scene.task.abort();
}

/// What the watch of nodes has seen is older than where the server is when it comes back: only the watch of pods can know.
#[tokio::test]
async fn what_one_watch_finds_out_all_watches_act_on() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    let insert_node = |server: &ServerHandle, name: &str| {
        let json = crate::testing::node(name).json().clone();
        server.store().insert_raw("", "nodes", json).unwrap();
    };
    insert_node(&server, "old");
    for number in 0..30 {
        create(&server, &format!("p{number}"));
    }
    let of_pods = parts(&server, "Pod");
    let of_nodes = WatchParts {
        status: WatchStatus::new("Node"),
        ..of_pods.clone()
    };
    let (pods, mut pod_deliveries) = mpsc::channel(1000);
    let (nodes, mut node_deliveries) = mpsc::channel(1000);
    let tasks = [
        tokio::spawn(watch_asking(of_pods, pods, told, SILENCE_IN_TESTS)),
        tokio::spawn(watch_asking(of_nodes, nodes, node_told, Duration::from_secs(600))),
    ];
    until(&mut pod_deliveries, "complete").await;
    assert_eq!(
        until(&mut node_deliveries, "complete").await,
        ["restarted", "listed old", "complete"]
    );
    let address = server.url().trim_start_matches("http://").parse().unwrap();
    server.stop().await;
    let config = ServerConfig {
        address,
        ..ServerConfig::default()
    };
    let server = Server::start(config).await.unwrap();
    for number in 0..10 {
        create(&server, &format!("q{number}"));
    }
    insert_node(&server, "new");
    assert_eq!(
        until(&mut node_deliveries, "complete").await,
        ["restarted", "listed new", "complete"]
    );
    for task in tasks {
        task.abort();
    }
}

fn node_told(delivery: Delivery<crate::cluster::NodeSpec>) -> String {
    let name = |object: &Object<crate::cluster::NodeSpec>| object.meta().name.clone().unwrap_or_default();
    match delivery {
        Delivery::Restarted => "restarted".to_owned(),
        Delivery::Listed(node) => format!("listed {}", name(&node)),
        Delivery::Complete => "complete".to_owned(),
        Delivery::Applied(node) => format!("applied {}", name(&node)),
        Delivery::Deleted(node) => format!("deleted {}", name(&node)),
    }
}

#[tokio::test]
async fn a_broken_connection_or_silence_alone_leads_to_no_new_list() {
    let mut scene = Scene::new().await;
    scene.server.faults().drop_watches("pods");
    tokio::time::sleep(3 * SILENCE_IN_TESTS).await;
    create(&scene.server, "c");
    assert_eq!(scene.until("applied c").await, ["applied c"]);
    scene.task.abort();
}

#[tokio::test]
async fn a_list_shows_what_was_missed_when_the_history_is_gone() {
    let mut scene = Scene::new().await;
    scene.out_of_sight(|server| {
        delete(server, "a");
        create(server, "c");
    });
    let seen = scene.until("complete").await;
    assert_eq!(seen, ["restarted", "listed b", "listed c", "listed x", "complete"]);
    create(&scene.server, "d");
    assert_eq!(scene.until("applied d").await, ["applied d"], "each once");
    scene.task.abort();
}

#[tokio::test]
async fn a_refusal_by_status_is_as_good_as_one_inside_the_watch() {
    for action in [
        FaultAction::Expired,
        FaultAction::Status {
            code: 410,
            retry_after_seconds: None,
        },
    ] {
        let mut scene = Scene::new().await;
        let rule = FaultRule::on("watch", "pods").with(action).times(1);
        scene.server.faults().add(rule).unwrap();
        scene.server.faults().drop_watches("pods");
        let seen = scene.until("complete").await;
        assert_eq!(seen, ["restarted", "listed a", "listed b", "listed x", "complete"]);
        scene.task.abort();
    }
}

/// Refuses to list or watch pods; how often it has can be asked.
struct Refusal<'a> {
    server: &'a ServerHandle,
    id: u64,
}

const MANY: u64 = 1_000_000;

impl<'a> Refusal<'a> {
    fn of(server: &'a ServerHandle, verb: &str, code: u16) -> Self {
        let action = FaultAction::Status {
            code,
            retry_after_seconds: None,
        };
        let rule = FaultRule::on(verb, "pods").with(action).times(MANY);
        let id = server.faults().add(rule).unwrap();
        Self { server, id }
    }

    fn count(&self) -> u64 {
        let rules = self.server.faults().rules();
        let rule = rules.iter().find(|(id, _)| *id == self.id);
        MANY - rule.and_then(|(_, rule)| rule.remaining).unwrap()
    }

    async fn reaches(&self, count: u64) {
        let reached = async {
            while self.count() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
    }
}

/// Log lines of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The log, and what has to be held while it is written. The second dispatcher is there because with one alone,
    /// whichever thread meets a log line first decides for all whether anybody wants it.
    fn begin() -> (Self, (tracing::subscriber::DefaultGuard, tracing::Dispatch)) {
        let second = tracing::Dispatch::new(tracing_subscriber::registry());
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .finish();
        (log, (tracing::subscriber::set_default(subscriber), second))
    }

    /// Warnings of ours that a watch does not deliver.
    fn complaints(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let ours = |line: &&str| line.contains("a watch does not deliver");
        text.lines().filter(ours).map(str::to_owned).collect()
    }
}

/// A watch whose lists are refused for a while.
async fn refused(code: u16) {
    let (log, _in_use) = Log::begin();
    let server = Server::start(ServerConfig::default()).await.unwrap();
    let refusal = Refusal::of(&server, "list", code);
    let clock = crate::clock::ManualClock::default();
    let parts = WatchParts {
        clock: Clock::Manual(clock.clone()),
        ..parts(&server, "Pod")
    };
    let (status, metrics) = (Arc::clone(&parts.status), Arc::clone(&parts.metrics));
    let (sender, mut deliveries) = mpsc::channel(100);
    let begun = Clock::Real.now();
    let task = tokio::spawn(watch(parts, sender, told));
    refusal.reaches(3).await;
    let trouble = status.trouble().unwrap();
    assert!(
        !status.is_synced() && trouble.contains("refused on purpose"),
        "{trouble}"
    );
    let complaints = log.complaints();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(
        complaints[0].contains(&trouble) && complaints[0].contains("Pod"),
        "{complaints:?}"
    );
    clock.advance(SAY_AGAIN);
    refusal.reaches(4).await;
    // After 200, 400 and 800 ms.
    let taken = Clock::Real.now().since(begun);
    assert!(taken >= Duration::from_millis(1400), "{taken:?}");
    server.faults().clear();
    let recovered = tokio::time::timeout(Duration::from_secs(30), deliveries.recv());
    assert_eq!(
        recovered.await.unwrap().as_deref(),
        Some("restarted"),
        "no list began before"
    );
    assert_eq!(deliveries.recv().await.as_deref(), Some("complete"));
    assert_eq!((status.trouble(), log.complaints().len()), (None, 2));
    let relists = "supercargo_watch_relists_total{kind=\"Pod\"} 1\n";
    assert!(metrics.exposition().contains(relists), "one list was given");
    task.abort();
}

#[tokio::test]
async fn a_right_that_is_missing_is_told_once_a_minute_and_asked_for_less_and_less_often() {
    refused(403).await;
}

#[tokio::test]
async fn a_server_that_is_not_well_is_told_of_once_a_minute_and_asked_less_and_less_often() {
    refused(500).await;
}

#[tokio::test]
async fn a_kind_that_the_server_does_not_have_is_an_empty_list() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    server.faults().hide("policy", "poddisruptionbudgets").unwrap();
    let (sender, mut deliveries) = mpsc::channel(100);
    let wrap = |delivery: Delivery<crate::cluster::Budget>| match delivery {
        Delivery::Restarted => "restarted",
        Delivery::Complete => "complete",
        Delivery::Listed(_) | Delivery::Applied(_) | Delivery::Deleted(_) => "object",
    };
    let task = tokio::spawn(watch(parts(&server, "PodDisruptionBudget"), sender, wrap));
    let seen = async {
        let mut seen = Vec::new();
        while seen.last() != Some(&"complete") {
            seen.push(deliveries.recv().await.unwrap());
        }
        seen
    };
    let seen = tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap();
    assert_eq!(seen.iter().filter(|told| **told == "object").count(), 0);
    task.abort();
}
