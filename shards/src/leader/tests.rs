//! Elections against a small API server in memory, in paused time.

mod clash;
mod server;
mod together;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use server::{Fault, Replica, Store};

/// A process that takes part in the election.
struct Process {
    replica: Replica,
    fence: Fence,
    state: watch::Receiver<LeaderState>,
    cancel: CancellationToken,
    slow_renewals: Arc<AtomicU64>,
    task: JoinHandle<Outcome>,
}

fn config(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "kube-scheduler".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn start(store: &Store, identity: &str) -> Process {
    let (client, replica) = store.client();
    let mut elector = LeaderElector::new(client, config(identity)).unwrap();
    // A failing run can be repeated.
    elector.chance = StdRng::seed_from_u64(identity.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte)));
    let cancel = CancellationToken::new();
    Process {
        replica,
        fence: elector.fence(),
        state: elector.subscribe(),
        slow_renewals: elector.slow_renewals(),
        task: tokio::spawn(elector.run(cancel.clone())),
        cancel,
    }
}

async fn leads(process: &mut Process) {
    process
        .state
        .wait_for(|state| matches!(state, LeaderState::Leading { .. }))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_waits() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let mut second = start(&store, "b");
    second
        .state
        .wait_for(|state| matches!(state, LeaderState::Standby { holder: Some(holder), .. } if holder == "a"))
        .await
        .unwrap();
    sleep(Duration::from_secs(600)).await;
    assert!(first.fence.may_act());
    assert!(!second.fence.may_act());
    let spec = store.spec().unwrap();
    assert_eq!(spec.lease_transitions, Some(0));
    assert!(spec.renew_time > spec.acquire_time);
    assert_eq!(first.slow_renewals.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_within_the_lease_duration_plus_two_seconds() {
    for pause in [0, 700, 1_400, 1_999] {
        let store = Store::default();
        let mut first = start(&store, "a");
        leads(&mut first).await;
        let mut second = start(&store, "b");
        sleep(Duration::from_millis(8_000 + pause)).await;
        first.task.abort();
        let killed = Instant::now();
        leads(&mut second).await;
        let taken = killed.elapsed();
        assert!(taken <= Duration::from_secs(17), "{taken:?} after {pause} ms");
        assert_eq!(store.spec().unwrap().lease_transitions, Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_hang_stops_before_anybody_may_start() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let mut second = start(&store, "b");
    sleep(Duration::from_secs(31)).await;
    let hang = Instant::now();
    first.replica.set(Fault::Hang);
    let outcome = (&mut first.task).await.unwrap();
    assert_eq!(outcome, Outcome::Lost(LossReason::RenewDeadline));
    assert!(!first.fence.may_act());
    assert!(hang.elapsed() <= Duration::from_secs(10), "{:?}", hang.elapsed());
    assert!(!second.fence.may_act());
    leads(&mut second).await;
    assert!(hang.elapsed() > Duration::from_secs(12), "{:?}", hang.elapsed());
    assert_eq!(
        *first.state.borrow(),
        LeaderState::Lost {
            reason: LossReason::RenewDeadline
        }
    );
}

#[tokio::test(start_paused = true)]
async fn one_hanging_renewal_costs_nothing() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    first.replica.set_once(Fault::Hang);
    sleep(Duration::from_secs(30)).await;
    assert!(first.fence.may_act());
    assert_eq!(first.slow_renewals.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_frees_the_lease_at_once() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let mut second = start(&store, "b");
    sleep(Duration::from_secs(5)).await;
    first.cancel.cancel();
    let asked = Instant::now();
    assert_eq!(first.task.await.unwrap(), Outcome::Stopped { released: true });
    assert!(!first.fence.may_act());
    leads(&mut second).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!(store.spec().unwrap().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_release_follows_a_renewal_that_was_cut_off() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    // The next renewal is written, but its answer never comes; the cancellation cuts it off.
    first.replica.set_once(Fault::ApplyAndHang);
    sleep(Duration::from_secs(3)).await;
    first.cancel.cancel();
    assert_eq!(first.task.await.unwrap(), Outcome::Stopped { released: true });
    assert_eq!(store.spec().unwrap().holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_cancelled_leaves_the_lease_alone() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let second = start(&store, "b");
    sleep(Duration::from_secs(5)).await;
    second.cancel.cancel();
    assert_eq!(second.task.await.unwrap(), Outcome::Stopped { released: false });
    assert_eq!(store.spec().unwrap().holder_identity.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_an_edit_is_noticed_at_the_next_renewal() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    store.edit(|spec| spec.holder_identity = Some("somebody".to_owned()));
    let edited = Instant::now();
    assert_eq!(
        first.task.await.unwrap(),
        Outcome::Lost(LossReason::Taken("somebody".to_owned()))
    );
    assert!(edited.elapsed() <= Duration::from_secs(3));
    assert!(!first.fence.may_act());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_leader_and_nobody_else() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let second = start(&store, "b");
    sleep(Duration::from_secs(5)).await;
    store.delete();
    for _ in 0..300 {
        sleep(Duration::from_millis(50)).await;
        assert!(!second.fence.may_act());
    }
    assert!(first.fence.may_act());
    assert_eq!(store.spec().unwrap().holder_identity.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_at_a_renewal_is_read_and_repeated() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    first.replica.set_once(Fault::Conflict);
    sleep(Duration::from_secs(20)).await;
    assert!(first.fence.may_act());
    assert_eq!(first.slow_renewals.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn two_that_create_at_once_have_one_winner() {
    let store = Store::default();
    let mut processes = [start(&store, "a"), start(&store, "b")];
    sleep(Duration::from_secs(10)).await;
    assert_eq!(processes.iter().filter(|process| process.fence.may_act()).count(), 1);
    let leader = processes.iter().position(|process| process.fence.may_act()).unwrap();
    leads(&mut processes[leader]).await;
}

#[tokio::test(start_paused = true)]
async fn the_term_of_another_lasts_as_its_record_says() {
    let store = Store::default();
    store.put(|spec| {
        spec.holder_identity = Some("gone".to_owned());
        spec.lease_duration_seconds = Some(1);
        spec.lease_transitions = Some(8);
    });
    let started = Instant::now();
    let mut process = start(&store, "a");
    leads(&mut process).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(store.spec().unwrap().lease_transitions, Some(9));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_comes_back_is_read_before_anybody_acts() {
    let store = Store::default();
    let mut first = start(&store, "a");
    leads(&mut first).await;
    let mut second = start(&store, "b");
    sleep(Duration::from_secs(20)).await;
    // The standby alone is cut off for a minute while the leader goes on.
    second.replica.set(Fault::Error);
    sleep(Duration::from_secs(60)).await;
    second.replica.set(Fault::None);
    for _ in 0..200 {
        sleep(Duration::from_millis(50)).await;
        assert!(!second.fence.may_act());
    }
    first.task.abort();
    leads(&mut second).await;
}
