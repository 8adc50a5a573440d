//! Large lists: a page is asked for when the one before it is taken, and a list that breaks is begun anew.

use super::forgetful::{create, parts, told};
use super::*;
use supercargo_apiserver::faults::{FaultAction, FaultRule};
use supercargo_apiserver::{Server, ServerConfig};

const PODS: usize = 1_800;

#[tokio::test]
async fn pages_come_one_at_a_time_and_a_broken_list_is_begun_anew() {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    for number in 0..PODS {
        create(&server, &format!("p{number:05}"));
    }
    // Does nothing but count.
    let counting = FaultRule::on("list", "pods").times(1_000);
    let counter = server.faults().add(counting).unwrap();
    let asked = || {
        let rules = server.faults().rules();
        let (_, rule) = rules.into_iter().find(|(id, _)| *id == counter).unwrap();
        1_000 - rule.remaining.unwrap()
    };
    let (sender, mut deliveries) = mpsc::channel(1);
    let task = tokio::spawn(watch(parts(&server, "Pod"), sender, told));
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(30), deliveries.recv()).await;
        next.unwrap().unwrap()
    };
    assert_eq!(next().await, "restarted");
    for number in 0..600 {
        assert_eq!(next().await, format!("listed p{number:05}"));
    }
    assert_eq!(asked(), 2, "pages of {PAGE_SIZE}, none ahead of need");
    let broken = FaultAction::Status {
        code: 500,
        retry_after_seconds: None,
    };
    let rule = FaultRule::on("list", "pods").with(broken).times(1);
    server.faults().add(rule).unwrap();
    for number in 600..1_000 {
        assert_eq!(next().await, format!("listed p{number:05}"));
    }
    assert_eq!(next().await, "restarted", "without a word that it was complete");
    for number in 0..PODS {
        assert_eq!(next().await, format!("listed p{number:05}"));
    }
    assert_eq!(next().await, "complete");
    create(&server, "z");
    assert_eq!(next().await, "applied z");
    task.abort();
}
