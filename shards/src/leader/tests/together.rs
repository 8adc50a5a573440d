//! Never two leaders, whatever fails and when.

use proptest::prelude::*;

use super::*;

/// One disturbance of a run.
#[derive(Debug, Clone)]
enum Disturbance {
    /// Calls of one replica fail this way from now on.
    Fault(usize, Fault),
    /// The next call of one replica fails this way.
    Once(usize, Fault),
    /// A replica dies without a word and a new one starts in its place.
    Kill(usize),
    /// A replica ends in order and a new one starts in its place.
    Stop(usize),
    /// Somebody deletes the Lease.
    Delete,
}

const REPLICAS: usize = 3;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        2 => Just(Fault::Hang),
        2 => Just(Fault::ApplyAndHang),
        1 => Just(Fault::Error),
        1 => Just(Fault::Conflict),
    ]
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        4 => (0..REPLICAS, fault()).prop_map(|(replica, fault)| Disturbance::Fault(replica, fault)),
        3 => (0..REPLICAS, fault()).prop_map(|(replica, fault)| Disturbance::Once(replica, fault)),
        1 => (0..REPLICAS).prop_map(Disturbance::Kill),
        1 => (0..REPLICAS).prop_map(Disturbance::Stop),
    ]
}

async fn apply(store: &Store, processes: &mut [Process], generation: &mut usize, disturbance: &Disturbance) {
    match *disturbance {
        Disturbance::Fault(index, fault) => processes[index].replica.set(fault),
        Disturbance::Once(index, fault) => processes[index].replica.set_once(fault),
        Disturbance::Delete => store.delete(),
        Disturbance::Kill(index) => {
            processes[index].task.abort();
            *generation += 1;
            processes[index] = start(store, &format!("{index}-{generation}"));
        }
        Disturbance::Stop(index) => {
            processes[index].cancel.cancel();
            // A release over a connection that hangs ends with its own deadlines.
            drop((&mut processes[index].task).await);
            *generation += 1;
            processes[index] = start(store, &format!("{index}-{generation}"));
        }
    }
}

fn acting(processes: &[Process]) -> usize {
    processes.iter().filter(|process| process.fence.may_act()).count()
}

async fn run(disturbances: Vec<(u64, Disturbance)>) {
    let store = Store::default();
    let mut generation = 0;
    let mut processes: Vec<Process> = (0..REPLICAS).map(|index| start(&store, &index.to_string())).collect();
    for (pause_millis, disturbance) in disturbances {
        let until = Instant::now() + Duration::from_millis(pause_millis);
        while Instant::now() < until {
            sleep(Duration::from_millis(40)).await;
            assert!(acting(&processes) <= 1, "two leaders");
        }
        apply(&store, &mut processes, &mut generation, &disturbance).await;
        assert!(acting(&processes) <= 1, "two leaders after {disturbance:?}");
    }
    // Whatever happened: with new processes and no faults, somebody leads within a term and a little.
    for (index, process) in processes.iter_mut().enumerate() {
        process.replica.set(Fault::None);
        if process.task.is_finished() {
            generation += 1;
            *process = start(&store, &format!("{index}-{generation}"));
        }
    }
    sleep(Duration::from_secs(40)).await;
    for process in &processes {
        let state = process.state.borrow().clone();
        assert!(!matches!(state, LeaderState::Stopped), "{state:?}");
    }
    assert_eq!(acting(&processes), 1, "nobody leads: {:?}", store.spec());
}

fn run_paused(disturbances: Vec<(u64, Disturbance)>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run(disturbances));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_two_leaders(disturbances in prop::collection::vec((0_u64..12_000, disturbance()), 1..20)) {
        run_paused(disturbances);
    }

    /// Deletions too, while every process has seen the Lease (a process that starts in the gap takes what is free).
    #[test]
    fn never_two_leaders_when_the_lease_is_deleted(
        disturbances in prop::collection::vec(
            (1_000_u64..12_000, prop_oneof![
                (0..REPLICAS, fault()).prop_map(|(replica, fault)| Disturbance::Once(replica, fault)),
                Just(Disturbance::Delete),
            ]),
            1..12,
        )
    ) {
        run_paused(disturbances);
    }
}
